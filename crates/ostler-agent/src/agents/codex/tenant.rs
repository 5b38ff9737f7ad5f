//! How Codex reaches the provider for a tenant. Facts: observed on 0.166.0.

use serde_json::{Value as Json, json};
use toml::{Table, Value};

use super::provider::{self, DEFAULT, WITH_A_KEY};
use super::{REHEARSED_MODEL, codex_home};
use crate::agent::{PrivateFile, Setup, Stage, pairs};
use crate::endpoint::Configuration;
use crate::tenant::{AccessRefusal, ProviderRoute, TenantAccess};

const TITLE: &str = "Codex";

/// The provider in a tenant's settings.
const NAME: &str = "provider";

/// The variable with the placeholder.
const KEY: &str = "PROVIDER_KEY";

/// Which model it uses, and how: no secret is in them.
const CHOICES: [&str; 6] = [
    "model",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_verbosity",
    "model_context_window",
    "model_max_output_tokens",
];

/// How patient it is with the provider.
const PROVIDER_CHOICES: [&str; 4] =
    ["wire_api", "request_max_retries", "stream_max_retries", "stream_idle_timeout_ms"];

/// What of the owner's settings a tenant's agent needs.
pub(super) fn access(configuration: &Configuration<'_>) -> Result<TenantAccess, AccessRefusal> {
    let refuse = |reason: String, helps: &str| AccessRefusal::new(TITLE, reason, helps);
    let (settings, _) = provider::settings(configuration)
        .ok_or_else(|| refuse("its settings cannot be read".to_owned(), "mend them"))?;
    let name = settings.get("model_provider").and_then(Value::as_str).unwrap_or(DEFAULT);
    let known = settings.get("model_providers").and_then(|all| all.get(name)).and_then(Value::as_table);
    let route = match known {
        Some(known) => own_route(configuration, known)
            .map_err(|reason| refuse(format!("model provider `{name}`: {reason}"), "set it"))?,
        None if name == DEFAULT => {
            let key = configuration.variable("CODEX_API_KEY").or_else(|| stored_key(configuration));
            let key = key.ok_or_else(|| {
                let reason = "there is no API key, and a sign-in cannot be shared".to_owned();
                refuse(reason, "set CODEX_API_KEY where `ostler serve` is started")
            })?;
            let url = settings.get("openai_base_url").and_then(Value::as_str);
            let base_url = url.map_or_else(|| format!("{WITH_A_KEY}/v1"), str::to_owned);
            route(base_url, vec![bearer(&key)], Vec::new())
        }
        None => {
            let reason = format!("the address of its model provider `{name}` is not known");
            return Err(refuse(reason, "name a base_url for it in [model_providers]"));
        }
    };
    let chosen = |table: &Table, names: &[&str]| -> Json {
        let found = names.iter().filter_map(|name| Some(((*name).to_owned(), to_json(table.get(*name)?)?)));
        Json::Object(found.collect())
    };
    let provider = known.map_or_else(|| json!({}), |known| chosen(known, &PROVIDER_CHOICES));
    let choices = json!({"top": chosen(&settings, &CHOICES), "provider": provider});
    Ok(TenantAccess { routes: vec![route], choices })
}

fn to_json(value: &Value) -> Option<Json> {
    match value {
        Value::String(text) => Some(json!(text)),
        Value::Integer(number) => Some(json!(number)),
        Value::Boolean(is_so) => Some(json!(is_so)),
        Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

fn bearer(key: &str) -> (String, String) {
    ("authorization".to_owned(), format!("Bearer {key}"))
}

fn route(base_url: String, headers: Vec<(String, String)>, query: Vec<(String, String)>) -> ProviderRoute {
    ProviderRoute { name: NAME.to_owned(), base_url, headers, query }
}

/// A provider of the user's own. One that names no key needs none.
fn own_route(configuration: &Configuration<'_>, known: &Table) -> Result<ProviderRoute, String> {
    let text = |name: &str| known.get(name).and_then(Value::as_str);
    let base_url = text("base_url").ok_or("it has no base_url")?.to_owned();
    let mut headers = Vec::new();
    if let Some(name) = text("env_key") {
        let key = configuration.variable(name).ok_or_else(|| format!("the variable {name} is not set"))?;
        headers.push(bearer(&key));
    }
    headers.extend(text("experimental_bearer_token").map(bearer));
    let pairs_of = |name: &str| -> Vec<(String, String)> {
        let table = known.get(name).and_then(Value::as_table).into_iter().flatten();
        table.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    };
    headers.extend(pairs_of("http_headers"));
    let from_variables = pairs_of("env_http_headers").into_iter();
    headers.extend(
        from_variables.filter_map(|(name, variable)| Some((name, configuration.variable(&variable)?))),
    );
    if known.get("requires_openai_auth").and_then(Value::as_bool) == Some(true) && headers.is_empty() {
        let key = stored_key(configuration).ok_or("it needs a sign-in, which cannot be shared")?;
        headers.push(bearer(&key));
    }
    Ok(route(base_url, headers, pairs_of("query_params")))
}

/// The key that `codex login --with-api-key` stored.
fn stored_key(configuration: &Configuration<'_>) -> Option<String> {
    let path = codex_home(configuration)?.join("auth.json");
    let stored: Json = serde_json::from_str(&(configuration.file)(&path).ok()??).ok()?;
    stored["OPENAI_API_KEY"].as_str().filter(|key| !key.is_empty()).map(str::to_owned)
}

/// What a tenant's agent is started with.
pub(super) fn setup(stage: &Stage, access: &TenantAccess) -> Setup {
    let home = stage.home.join(".codex");
    let config = settings(&access.first_url(&stage.url), &access.choices);
    Setup {
        env: pairs([
            ("HOME", stage.home.display().to_string()),
            ("TMPDIR", stage.temporary().display().to_string()),
            ("CODEX_HOME", home.display().to_string()),
            (KEY, stage.key.clone()),
        ]),
        folders: vec![stage.temporary()],
        files: vec![PrivateFile { path: home.join("config.toml"), content: config }],
    }
}

fn settings(url: &str, choices: &Json) -> String {
    let mut top = json!({"model": REHEARSED_MODEL});
    let mut provider = json!({"name": NAME, "base_url": url, "env_key": KEY});
    for (table, name) in [(&mut top, "top"), (&mut provider, "provider")] {
        for (key, value) in choices[name].as_object().into_iter().flatten() {
            table[key] = value.clone();
        }
    }
    top["model_provider"] = json!(NAME);
    top["analytics"] = json!({"enabled": false});
    top["features"] = json!({"unbounded_connection_retries": false, "plugins": false, "apps": false, "remote_plugin": false});
    top["model_providers"] = json!({NAME: provider});
    toml::to_string(&top).unwrap_or_default()
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

    const OWN: &str = r#"
        model = "gpt-5.5"
        model_reasoning_effort = "high"
        model_provider = "own"
        [model_providers.own]
        base_url = "https://g/v1"
        env_key = "OWN_KEY"
        request_max_retries = 2
        http_headers = { "x-team" = "blue" }
        query_params = { "api-version" = "1" }
    "#;

    #[test]
    fn the_key_stays_outside_and_the_model_comes_along() {
        let found = access_with(&[("OWN_KEY", "sk-1")], &[("/h/.codex/config.toml", OWN)]).unwrap();
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found.routes[0].base_url, "https://g/v1");
        assert_eq!(found.routes[0].headers, [text("authorization", "Bearer sk-1"), text("x-team", "blue")]);
        assert_eq!(found.routes[0].query, [text("api-version", "1")]);
        let setup =
            setup(&Stage { key: "placeholder".to_owned(), ..Stage::new("http://p/codex", "/t") }, &found);
        assert!(setup.env.contains(&text(KEY, "placeholder")));
        let config: Table = setup.files[0].content.parse().unwrap();
        assert_eq!(config["model_reasoning_effort"].as_str(), Some("high"));
        let provider = &config["model_providers"][NAME];
        assert_eq!(provider["base_url"].as_str(), Some("http://p/codex/provider"));
        assert_eq!(
            (provider["env_key"].as_str(), provider["request_max_retries"].as_integer()),
            (Some(KEY), Some(2))
        );
        let all = format!("{setup:?}");
        assert!(!all.contains("sk-1") && !all.contains("blue"), "{all}");
    }

    #[test]
    fn the_default_provider_needs_a_key() {
        let auth = |text| [("/h/.codex/auth.json", text)];
        let stored = access_with(&[], &auth(r#"{"OPENAI_API_KEY": "sk-2"}"#)).unwrap();
        assert_eq!(stored.routes[0].base_url, "https://api.openai.com/v1");
        assert_eq!(stored.routes[0].headers, [bearer("sk-2")]);
        let set = access_with(&[("CODEX_API_KEY", "sk-3")], &[]).unwrap();
        assert_eq!(set.routes[0].headers, [bearer("sk-3")]);
        for text in [r#"{"OPENAI_API_KEY": null, "tokens": {"access_token": "t"}}"#, "{}"] {
            let refusal = access_with(&[], &auth(text)).unwrap_err();
            assert!(
                refusal.reason.contains("sign-in") && refusal.hint.contains("CODEX_API_KEY"),
                "{refusal:?}"
            );
        }
        let missing = access_with(&[], &[("/h/.codex/config.toml", OWN)]).unwrap_err();
        assert!(missing.reason.contains("OWN_KEY is not set"), "{missing:?}");
        let unknown =
            access_with(&[], &[("/h/.codex/config.toml", "model_provider = \"ollama\"")]).unwrap_err();
        assert!(unknown.reason.contains("`ollama` is not known"), "{unknown:?}");
    }
}
