//! How OpenCode reaches the provider for a tenant. Facts: observed on 1.18.33.
//!
//! Providers whose requests carry a key in a header can be used: those that speak the API of OpenAI or Anthropic.

use std::path::PathBuf;

use jsonc_parser::{JsonValue, ParseOptions, parse_to_value};
use serde_json::{Map, Value, json};

use super::settings::VARIABLE as CONTENT;
use crate::agent::{PrivateFile, Setup, Stage, pairs};
use crate::endpoint::Configuration;
use crate::tenant::{AccessRefusal, ProviderRoute, TenantAccess};

const TITLE: &str = "OpenCode";

/// The package for providers of a user's own.
const COMPATIBLE: &str = "@ai-sdk/openai-compatible";

/// A provider that it knows without settings.
struct KnownProvider {
    id: &'static str,
    npm: &'static str,
    base_url: &'static str,
    variable: &'static str,
}

const KNOWN: [KnownProvider; 2] = [
    KnownProvider {
        id: "anthropic",
        npm: "@ai-sdk/anthropic",
        base_url: "https://api.anthropic.com/v1",
        variable: "ANTHROPIC_API_KEY",
    },
    KnownProvider {
        id: "openai",
        npm: "@ai-sdk/openai",
        base_url: "https://api.openai.com/v1",
        variable: "OPENAI_API_KEY",
    },
];

/// What is known of a model.
const MODEL_FACTS: [&str; 10] = [
    "id",
    "name",
    "family",
    "attachment",
    "reasoning",
    "temperature",
    "tool_call",
    "limit",
    "modalities",
    "cost",
];

/// What of the owner's settings a tenant's agent needs.
pub(super) fn access(configuration: &Configuration<'_>) -> Result<TenantAccess, AccessRefusal> {
    let refuse = |reason: String, helps: &str| AccessRefusal::new(TITLE, reason, helps);
    let settings = read_settings(configuration).map_err(|reason| refuse(reason, "mend it"))?;
    let stored = read_stored_keys(configuration);
    let named = settings["provider"].as_object().into_iter().flatten().map(|(id, _)| id.clone());
    let mut ids: Vec<String> = named.chain(KNOWN.iter().map(|known| known.id.to_owned())).collect();
    ids.sort();
    ids.dedup();
    let (mut routes, mut providers) = (Vec::new(), Map::new());
    for id in ids.iter().filter(|id| is_enabled(&settings, id)) {
        let Some((route, shown)) = find_route(configuration, id, &settings["provider"][id], &stored[id])
        else {
            continue;
        };
        routes.push(route);
        providers.insert(id.clone(), shown);
    }
    let model = settings["model"].as_str();
    let is_lost = |model: &str| !routes.iter().any(|route| model.split('/').next() == Some(&route.name));
    let helps = "give its provider a key in the settings of OpenCode";
    match model {
        _ if routes.is_empty() => {
            Err(refuse("no provider of its has a key that can be kept from it".to_owned(), helps))
        }
        Some(model) if is_lost(model) => Err(refuse(
            format!("the provider of its model `{model}` has no key that can be kept from it"),
            helps,
        )),
        _ => {
            let mut choices = json!({"provider": providers});
            for name in ["model", "small_model"] {
                let usable = settings[name].as_str().filter(|model| !is_lost(model));
                if let Some(model) = usable {
                    choices[name] = json!(model);
                }
            }
            Ok(TenantAccess { routes, choices })
        }
    }
}

/// The route to a provider, and the settings for it in a tenant's agent; `None` without a key or an address.
fn find_route(
    configuration: &Configuration<'_>,
    id: &str,
    settings: &Value,
    stored: &Value,
) -> Option<(ProviderRoute, Value)> {
    let known = KNOWN.iter().find(|known| known.id == id);
    let options = &settings["options"];
    let resolve = |value: &Value| substitute(configuration, value.as_str()?);
    let npm = settings["npm"].as_str().or(known.map(|known| known.npm))?;
    let is_anthropic = npm == "@ai-sdk/anthropic";
    if !is_anthropic && npm != COMPATIBLE && npm != "@ai-sdk/openai" {
        return None;
    }
    let is_plain = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let address = resolve(&options["baseURL"]).or_else(|| Some(known?.base_url.to_owned()));
    let base_url = address.filter(|_| is_plain(id) && !id.starts_with('.'))?;
    let stored_key = stored["key"].as_str().filter(|_| stored["type"] == "api").map(str::to_owned);
    let from_variable = || configuration.variable(known?.variable);
    let key = resolve(&options["apiKey"]).or(stored_key).or_else(from_variable);
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in options["headers"].as_object().into_iter().flatten() {
        headers.extend(resolve(value).map(|value| (name.to_ascii_lowercase(), value)));
    }
    match (key, is_anthropic) {
        (Some(key), true) => headers.push(("x-api-key".to_owned(), key)),
        (Some(key), false) => headers.push(("authorization".to_owned(), format!("Bearer {key}"))),
        // A provider of the user's own may need none.
        (None, _) if known.is_some() => return None,
        (None, _) => {}
    }
    let mut shown = json!({"npm": npm});
    if let Some(name) = settings.get("name") {
        shown["name"] = name.clone();
    }
    if let Some(models) = settings["models"].as_object() {
        let models = models.iter().map(|(id, model)| (id.clone(), describe_model(model)));
        shown["models"] = Value::Object(models.collect());
    }
    let route = ProviderRoute { name: id.to_owned(), base_url, headers, query: Vec::new() };
    Some((route, shown))
}

/// The settings of a model in a tenant's agent. Its headers and options may contain a secret, and its address would bypass the
/// proxy.
fn describe_model(model: &Value) -> Value {
    let facts = MODEL_FACTS.iter().filter_map(|name| Some(((*name).to_owned(), model.get(*name)?.clone())));
    Value::Object(facts.collect())
}

fn is_enabled(settings: &Value, id: &str) -> bool {
    let lists = |name: &str| settings[name].as_array().map(|ids| ids.iter().any(|one| one == id));
    lists("enabled_providers").unwrap_or(true) && !lists("disabled_providers").unwrap_or(false)
}

/// `{env:NAME}` and `{file:path}` are replaced by what they name.
pub(super) fn substitute(configuration: &Configuration<'_>, text: &str) -> Option<String> {
    let inner = |kind: &str| text.trim().strip_prefix('{')?.strip_prefix(kind)?.strip_suffix('}');
    if let Some(name) = inner("env:") {
        return configuration.variable(name);
    }
    if let Some(path) = inner("file:") {
        let path = match path.strip_prefix("~/") {
            Some(below) => configuration.home()?.join(below),
            None => PathBuf::from(path),
        };
        return (configuration.file)(&path).ok()?.map(|text| text.trim().to_owned());
    }
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// What `opencode auth login` stored.
pub(super) fn read_stored_keys(configuration: &Configuration<'_>) -> Value {
    let data = configuration.variable("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or_else(|| Some(configuration.home()?.join(".local/share")));
    let text = data.and_then(|data| (configuration.file)(&data.join("opencode/auth.json")).ok()?);
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The user's settings: later files are laid over earlier ones. Those of projects do not count.
pub(super) fn read_settings(configuration: &Configuration<'_>) -> Result<Value, String> {
    let config = configuration.variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(configuration.home()?.join(".config"))).unwrap_or_default();
    let own =
        ["config.json", "opencode.json", "opencode.jsonc"].map(|name| config.join("opencode").join(name));
    let named = configuration.variable("OPENCODE_CONFIG").map(PathBuf::from);
    let mut settings = json!({});
    for path in own.into_iter().chain(named) {
        let text = (configuration.file)(&path).map_err(|_| format!("{} cannot be read", path.display()))?;
        if let Some(text) = text {
            let found = parse(&text).ok_or_else(|| format!("{} cannot be read", path.display()))?;
            merge(&mut settings, found);
        }
    }
    if let Some(text) = configuration.variable(CONTENT) {
        merge(&mut settings, parse(&text).ok_or_else(|| format!("{CONTENT} cannot be read"))?);
    }
    Ok(settings)
}

fn parse(text: &str) -> Option<Value> {
    match parse_to_value(text, &ParseOptions::default()).ok()? {
        Some(value) => to_json(value),
        None => Some(json!({})),
    }
}

fn to_json(value: JsonValue<'_>) -> Option<Value> {
    Some(match value {
        JsonValue::Null => Value::Null,
        JsonValue::Boolean(is_so) => json!(is_so),
        JsonValue::String(text) => json!(text),
        JsonValue::Number(text) => serde_json::from_str(text).ok()?,
        JsonValue::Array(array) => Value::Array(array.into_iter().map(to_json).collect::<Option<_>>()?),
        JsonValue::Object(object) => {
            let pairs = object.into_iter().map(|(name, value)| Some((name.to_string(), to_json(value)?)));
            Value::Object(pairs.collect::<Option<_>>()?)
        }
    })
}

fn merge(settings: &mut Value, more: Value) {
    match (settings, more) {
        (Value::Object(settings), Value::Object(more)) => {
            for (name, value) in more {
                merge(settings.entry(name).or_insert(Value::Null), value);
            }
        }
        (settings, more) => *settings = more,
    }
}

/// What a tenant's agent is started with.
pub(super) fn setup(stage: &Stage, access: &TenantAccess) -> Setup {
    let config = stage.home.join("opencode.json");
    let one = || "1".to_owned();
    Setup {
        env: pairs([
            ("HOME", stage.home.display().to_string()),
            ("TMPDIR", stage.temporary().display().to_string()),
            ("OPENCODE_CONFIG", config.display().to_string()),
            ("OPENCODE_DISABLE_MODELS_FETCH", one()),
            ("OPENCODE_DISABLE_AUTOUPDATE", one()),
            ("OPENCODE_PURE", one()),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", one()),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", one()),
            ("npm_config_offline", "true".to_owned()),
        ]),
        folders: vec![stage.temporary()],
        files: vec![PrivateFile { path: config, content: settings(stage, access).to_string() }],
    }
}

fn settings(stage: &Stage, access: &TenantAccess) -> Value {
    let mut settings = access.choices.clone();
    let ids: Vec<&String> = access.routes.iter().map(|route| &route.name).collect();
    for id in &ids {
        let options = json!({"baseURL": format!("{}/{id}", stage.url), "apiKey": stage.key});
        settings["provider"][id.as_str()]["options"] = options;
    }
    settings["enabled_providers"] = json!(ids);
    settings["autoupdate"] = json!(false);
    settings["share"] = json!("disabled");
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::testing::configured;

    fn access_with(
        variables: &[(&str, &str)],
        files: &[(&str, &str)],
    ) -> Result<TenantAccess, AccessRefusal> {
        configured(variables, files, access)
    }

    const OWN: &str = r#"{
        // mine
        "model": "own/big", "small_model": "gone/small",
        "provider": {"own": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "https://g/v1", "apiKey": "{env:OWN_KEY}", "headers": {"X-Team": "blue"}},
            "models": {"big": {
                "name": "big", "headers": {"X-Key": "sk-1"}, "options": {"apiKey": "sk-1"}, "provider": {"api": "https://sk-1"}
            }},
        }},
    }"#;

    #[test]
    fn the_key_stays_outside_and_the_models_come_along() {
        let file = ("/h/.config/opencode/opencode.jsonc", OWN);
        let found = access_with(&[("OWN_KEY", "sk-1")], &[file]).unwrap();
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let [route] = &found.routes[..] else { panic!("{found:?}") };
        assert_eq!((route.name.as_str(), route.base_url.as_str()), ("own", "https://g/v1"));
        assert_eq!(route.headers, [text("x-team", "blue"), text("authorization", "Bearer sk-1")]);
        let setup =
            setup(&Stage { key: "placeholder".to_owned(), ..Stage::new("http://p/opencode", "/t") }, &found);
        let config: Value = serde_json::from_str(&setup.files[0].content).unwrap();
        assert_eq!(
            config,
            json!({
                "autoupdate": false, "share": "disabled", "enabled_providers": ["own"], "model": "own/big",
                "provider": {"own": {
                    "npm": COMPATIBLE, "models": {"big": {"name": "big"}},
                    "options": {"baseURL": "http://p/opencode/own", "apiKey": "placeholder"},
                }},
            })
        );
        assert!(!format!("{setup:?}").contains("sk-1"));
    }

    #[test]
    fn keys_come_from_settings_the_stored_ones_and_variables() {
        let auth = ("/h/.local/share/opencode/auth.json", r#"{"anthropic": {"type": "api", "key": "sk-2"}}"#);
        let stored = access_with(&[("OPENAI_API_KEY", "sk-3")], &[auth]).unwrap();
        let heads: Vec<_> = stored.routes.iter().map(|route| (&*route.name, &*route.headers[0].1)).collect();
        assert_eq!(heads, [("anthropic", "sk-2"), ("openai", "Bearer sk-3")]);
        let only = r#"{"enabled_providers": ["openai"]}"#;
        let content = ("OPENCODE_CONFIG_CONTENT", only);
        let enabled = access_with(&[("OPENAI_API_KEY", "sk-3"), content], &[auth]).unwrap();
        assert_eq!(enabled.routes.len(), 1);
    }

    #[test]
    fn without_a_key_tenants_are_refused_with_what_helps() {
        let oauth =
            ("/h/.local/share/opencode/auth.json", r#"{"anthropic": {"type": "oauth", "refresh": "r"}}"#);
        let file = |text| ("/h/.config/opencode/opencode.json", text);
        let other = r#"{"model": "google/x", "provider": {"google": {"options": {"apiKey": "k"}}}}"#;
        for (files, want) in [
            (vec![oauth], "no provider"),
            (vec![file("not json {")], "cannot be read"),
            (vec![file("UNREADABLE")], "cannot be read"),
            (
                vec![
                    file(other),
                    ("/h/.local/share/opencode/auth.json", r#"{"openai": {"type": "api", "key": "k"}}"#),
                ],
                "google/x",
            ),
        ] {
            let refusal = access_with(&[], &files).unwrap_err();
            assert!(
                refusal.reason.contains(want) && refusal.hint.contains("keys new --owner"),
                "{refusal:?}"
            );
        }
    }
}
