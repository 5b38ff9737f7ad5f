//! What Codex reaches in the network. Facts: observed on 0.166.0.

use toml::Value;

use super::provider::{self, DEFAULT, WITH_A_KEY, WITH_A_LOGIN};
use crate::endpoint::{Configuration, Endpoint};
use crate::network::{AgentNetwork, HostRule};

/// Where a login refreshes its tokens. It asks the second one also where it works with a key.
const SIGN_IN: [&str; 2] = ["auth.openai.com", "chatgpt.com"];

/// Names another address for the refresh of tokens.
const REFRESH: &str = "CODEX_REFRESH_TOKEN_URL_OVERRIDE";

/// It asks these when it starts: telemetry, plugins and updates.
const DISPENSABLE: &[&str] = &["ab.chatgpt.com", "github.com", "api.github.com"];

/// What it reaches, as it is configured.
pub(super) fn network(configuration: &Configuration<'_>) -> AgentNetwork {
    let mut network = AgentNetwork { dispensable: DISPENSABLE, ..AgentNetwork::default() };
    let settings = provider::settings(configuration).map(|(settings, _)| settings).unwrap_or_default();
    let text = |name: &str| settings.get(name).and_then(Value::as_str);
    let name = text("model_provider").unwrap_or(DEFAULT);
    let own = settings.get("model_providers").and_then(|all| all.get(name));
    let needs_sign_in =
        own.is_none_or(|own| own.get("requires_openai_auth").and_then(Value::as_bool) == Some(true));
    if needs_sign_in {
        network.hosts.extend(SIGN_IN.map(HostRule::host));
    }
    let own = own.and_then(|own| own.get("base_url")).and_then(Value::as_str);
    let urls = match own {
        Some(url) => vec![url],
        None => {
            vec![
                text("openai_base_url").unwrap_or(WITH_A_KEY),
                text("chatgpt_base_url").unwrap_or(WITH_A_LOGIN),
            ]
        }
    };
    let elsewhere = configuration.variable(REFRESH);
    let urls = urls.into_iter().chain(elsewhere.as_deref().filter(|_| needs_sign_in));
    network.endpoints = urls.filter_map(Endpoint::of_url).collect();
    // Its table of providers on this machine.
    let local = match name {
        "ollama" => Some(11434),
        "lmstudio" => Some(1234),
        _ => None,
    };
    network.endpoints.extend(local.map(|port| Endpoint { host: "localhost".to_owned(), port }));
    network
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::testing::configured;

    fn endpoints(config: &str) -> Vec<String> {
        let files = [("/h/.codex/config.toml", config)];
        configured(&[], &files, network).endpoints.iter().map(Endpoint::to_string).collect()
    }

    #[test]
    fn it_reaches_the_provider_that_is_configured() {
        assert_eq!(endpoints(""), ["api.openai.com:443", "chatgpt.com:443"]);
        let own = "model_provider = \"own\"\n[model_providers.own]\nbase_url = \"http://127.0.0.1:99/v1\"";
        assert_eq!(endpoints(own), ["127.0.0.1:99"]);
        assert_eq!(endpoints("openai_base_url = \"https://g.example/v1\"")[0], "g.example:443");
    }
}
