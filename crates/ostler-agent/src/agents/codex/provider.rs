//! Where Codex reaches its provider. Facts: observed on 0.166.0.
//!
//! Its settings name the provider; `OPENAI_BASE_URL` is not used, and neither is what a project's settings say of it. A
//! proxy is chosen by the scheme of the address, and used for addresses on this machine too.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::codex_home;
use crate::endpoint::{Configuration, Endpoint, Provider, Proxy};

/// The provider that is there without settings.
pub(super) const DEFAULT: &str = "openai";

/// Its addresses: with a key, and behind a login. Its credentials decide which of the two it uses.
pub(super) const WITH_A_KEY: &str = "https://api.openai.com";
pub(super) const WITH_A_LOGIN: &str = "https://chatgpt.com";

/// Arguments that choose a provider in a way that is not followed here.
const OTHER_PROVIDERS: [&str; 2] = ["--oss", "--local-provider"];

/// What an administrator sets. If it says something about providers, which of both counts is not known.
const MANAGED: [&str; 2] = ["/etc/codex/managed_config.toml", "/etc/codex/config.toml"];

/// Keys that say something about providers.
const KEYS: [&str; 5] =
    ["model_provider", "model_providers", "openai_base_url", "chatgpt_base_url", "profile"];

/// Its settings, and what they are configured in, unless that is not known.
pub(super) fn settings(configuration: &Configuration<'_>) -> Option<(Table, String)> {
    if configuration.has_flag(&OTHER_PROVIDERS) {
        return None;
    }
    let own = codex_home(configuration)?;
    for path in MANAGED.into_iter().map(PathBuf::from).chain([own.join("managed_config.toml")]) {
        let managed = read(configuration, &path)?;
        if KEYS.iter().any(|key| managed.contains_key(*key)) {
            return None;
        }
    }
    let file = own.join("config.toml");
    let mut settings = read(configuration, &file)?;
    // A profile of this kind lies in the same file, and newer versions refuse it.
    if settings.contains_key("profile") {
        return None;
    }
    let mut configured_in = file;
    for profile in values(configuration.args, &["-p", "--profile"]) {
        configured_in = own.join(format!("{profile}.config.toml"));
        merge(&mut settings, read(configuration, &configured_in)?);
    }
    let mut configured_in = configured_in.display().to_string();
    for entry in values(configuration.args, &["-c", "--config"]) {
        let entry = override_of(entry)?;
        if KEYS.iter().any(|key| entry.contains_key(*key)) {
            configured_in = "the arguments of the agent".to_owned();
        }
        merge(&mut settings, entry);
    }
    Some((settings, configured_in))
}

/// Its provider, unless that is not known.
pub(super) fn provider(configuration: &Configuration<'_>) -> Option<Provider> {
    let (settings, configured_in) = settings(configuration)?;
    let name = match settings.get("model_provider") {
        None => DEFAULT,
        Some(name) => name.as_str()?,
    };
    let known = settings.get("model_providers").and_then(|all| all.get(name));
    let named = match (known, name) {
        (Some(known), _) => Some(known.get("base_url")?.as_str()?),
        (None, DEFAULT) => match settings.get("openai_base_url") {
            Some(url) => Some(url.as_str()?),
            None => None,
        },
        // Others that it knows by itself have an address for each region, or are programs on this machine.
        (None, _) => return None,
    };
    if let Some(url) = named {
        return lead(configuration, url, format!("model provider `{name}` in {configured_in}"));
    }
    let behind_login = match settings.get("chatgpt_base_url") {
        Some(url) => url.as_str()?,
        None => WITH_A_LOGIN,
    };
    let urls = match configuration.variable("CODEX_API_KEY") {
        Some(_) => vec![WITH_A_KEY],
        None => vec![WITH_A_KEY, behind_login],
    };
    let all = urls.into_iter().map(|url| lead(configuration, url, "the default of Codex".to_owned()));
    let all: Vec<Provider> = all.collect::<Option<_>>()?;
    all.into_iter().reduce(Provider::or)
}

/// What is connected to, to reach an address.
fn lead(configuration: &Configuration<'_>, url: &str, configured_by: String) -> Option<Provider> {
    let names = match url.split_once("://")?.0 {
        "http" => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
        "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => return None,
    };
    let variable = |name: &str| Some((configuration.variable(name)?, format!("the variable {name}")));
    let exempt = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| configuration.variable(name));
    let proxy = Proxy { named: names.into_iter().find_map(variable), exempt: exempt.unwrap_or_default() };
    proxy.lead(Endpoint::of_url(url)?, configured_by)
}

/// The settings in a file; none if there is no file. None if they cannot be read.
fn read(configuration: &Configuration<'_>, path: &Path) -> Option<Table> {
    match (configuration.file)(path).ok()? {
        Some(text) => text.parse().ok(),
        None => Some(Table::new()),
    }
}

/// The values of an option that may be given several times: `-c x`, `-cx`, `--config x`, `--config=x`.
fn values<'a>(args: &'a [String], [short, long]: &[&str; 2]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        let long_value = arg.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
        let short_value = arg.strip_prefix(short).filter(|rest| !rest.is_empty() && !arg.starts_with("--"));
        if arg == *short || arg == *long {
            found.extend(args.next());
        } else if let Some(value) = long_value.or(short_value) {
            found.push(value.strip_prefix('=').unwrap_or(value));
        }
    }
    found
}

/// `key.below=value`, where the value is TOML, or else a text.
fn override_of(entry: &str) -> Option<Table> {
    let (key, value) = entry.split_once('=')?;
    let quoted = Value::String(value.trim().to_owned());
    let documents = [format!("{key} = {value}"), format!("{key} = {quoted}")];
    documents.iter().find_map(|document| document.parse().ok())
}

fn merge(settings: &mut Table, more: Table) {
    for (key, value) in more {
        match (settings.get_mut(&key), value) {
            (Some(Value::Table(known)), Value::Table(more)) => merge(known, more),
            (_, value) => drop(settings.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::endpoint::testing::{Case, check};

    const TWO: &str = r#"
        model_provider = "mine"
        [model_providers.mine]
        base_url = "http://127.0.0.1:1/v1"
        [model_providers.other]
        base_url = "https://gateway.example/v1"
        [model_providers.nowhere]
        name = "nowhere"
    "#;

    #[test]
    fn the_provider_is_the_one_that_it_is_configured_for() {
        let own = |text: &'static str| vec![("/h/.codex/config.toml", text)];
        check(
            "codex",
            &[
                Case {
                    want: "api.openai.com:443 or chatgpt.com:443 (the default of Codex)",
                    ..Case::default()
                },
                Case {
                    variables: vec![("CODEX_API_KEY", "k")],
                    want: "api.openai.com:443 (the default of Codex)",
                    ..Case::default()
                },
                Case {
                    variables: vec![("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"), ("CODEX_API_KEY", "k")],
                    want: "api.openai.com:443 (the default of Codex)",
                    ..Case::default()
                },
                Case {
                    files: own(TWO),
                    want: "127.0.0.1:1 (model provider `mine` in /h/.codex/config.toml)",
                    ..Case::default()
                },
                Case {
                    variables: vec![("CODEX_HOME", "/other")],
                    files: vec![own("")[0], ("/other/config.toml", TWO)],
                    want: "127.0.0.1:1 (model provider `mine` in /other/config.toml)",
                    ..Case::default()
                },
                Case {
                    files: own(TWO),
                    args: vec!["-c", "model_provider=other"],
                    want: "gateway.example:443 (model provider `other` in the arguments of the agent)",
                    ..Case::default()
                },
                Case {
                    files: own(TWO),
                    args: vec!["--config=model_providers.mine.base_url=\"http://h:2\""],
                    want: "h:2 (model provider `mine` in the arguments of the agent)",
                    ..Case::default()
                },
                Case {
                    files: vec![own(TWO)[0], ("/h/.codex/p.config.toml", "model_provider = \"other\"")],
                    args: vec!["-p", "p"],
                    want: "gateway.example:443 (model provider `other` in /h/.codex/p.config.toml)",
                    ..Case::default()
                },
                Case {
                    files: own("openai_base_url = \"https://gateway/v1\""),
                    want: "gateway:443 (model provider `openai` in /h/.codex/config.toml)",
                    ..Case::default()
                },
                Case { files: own("model_provider = \"ollama\""), want: "", ..Case::default() },
                Case {
                    files: own(TWO),
                    args: vec!["-c", "model_provider=nowhere"],
                    want: "",
                    ..Case::default()
                },
                Case { files: own(TWO), args: vec!["--oss"], want: "", ..Case::default() },
                Case { files: own("profile = \"x\""), want: "", ..Case::default() },
                Case { files: own("not toml"), want: "", ..Case::default() },
                Case { files: own("UNREADABLE"), want: "", ..Case::default() },
                Case {
                    files: vec![("/etc/codex/managed_config.toml", "model_provider = \"x\"")],
                    want: "",
                    ..Case::default()
                },
            ],
        );
    }

    #[test]
    fn the_proxy_is_chosen_by_the_scheme() {
        let file = || vec![("/h/.codex/config.toml", TWO)];
        let direct = "127.0.0.1:1 (model provider `mine` in /h/.codex/config.toml)";
        check(
            "codex",
            &[
                Case {
                    variables: vec![("HTTPS_PROXY", "http://p:1")],
                    files: file(),
                    want: direct,
                    ..Case::default()
                },
                Case {
                    variables: vec![("HTTP_PROXY", "http://p:1")],
                    files: file(),
                    want: "p:1 (the proxy of the variable HTTP_PROXY)",
                    ..Case::default()
                },
                Case {
                    variables: vec![("ALL_PROXY", "http://p:1")],
                    files: file(),
                    want: "p:1 (the proxy of the variable ALL_PROXY)",
                    ..Case::default()
                },
                Case {
                    variables: vec![("HTTP_PROXY", "http://p:1"), ("NO_PROXY", "localhost,127.0.0.1")],
                    files: file(),
                    want: direct,
                    ..Case::default()
                },
                Case {
                    variables: vec![("HTTPS_PROXY", "http://p:1")],
                    want: "p:1 (the proxy of the variable HTTPS_PROXY)",
                    ..Case::default()
                },
            ],
        );
    }
}
