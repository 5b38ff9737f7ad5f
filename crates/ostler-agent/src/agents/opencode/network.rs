//! What OpenCode reaches in the network. Facts: observed on 1.18.33.

use serde_json::Value;

use super::tenant::{read_settings, read_stored_keys, substitute};
use crate::endpoint::{Configuration, Endpoint};
use crate::network::{AgentNetwork, HostRule};

/// It asks these when it starts: its list of models, and the packages of its plugins.
const DISPENSABLE: &[&str] = &["models.opencode.ai", "models.dev", "registry.npmjs.org", "opencode.ai"];

/// A provider that it knows without settings: its name, the variable with its key, and where it is reached. A name in braces
/// is a variable: all of a cloud would be too much, because anybody can store things there.
struct KnownProvider(&'static str, &'static str, &'static [&'static str]);

const KNOWN: [KnownProvider; 14] = [
    KnownProvider("anthropic", "ANTHROPIC_API_KEY", &["api.anthropic.com", "console.anthropic.com"]),
    KnownProvider("openai", "OPENAI_API_KEY", &["api.openai.com", "auth.openai.com", "chatgpt.com"]),
    KnownProvider("opencode", "OPENCODE_API_KEY", &["opencode.ai"]),
    KnownProvider("google", "GEMINI_API_KEY", &["generativelanguage.googleapis.com"]),
    KnownProvider("google", "GOOGLE_GENERATIVE_AI_API_KEY", &["generativelanguage.googleapis.com"]),
    KnownProvider("openrouter", "OPENROUTER_API_KEY", &["openrouter.ai"]),
    KnownProvider("groq", "GROQ_API_KEY", &["api.groq.com"]),
    KnownProvider("xai", "XAI_API_KEY", &["api.x.ai"]),
    KnownProvider("deepseek", "DEEPSEEK_API_KEY", &["api.deepseek.com"]),
    KnownProvider("mistral", "MISTRAL_API_KEY", &["api.mistral.ai"]),
    KnownProvider("github-copilot", "GITHUB_TOKEN", &["*.githubcopilot.com", "api.github.com"]),
    KnownProvider("amazon-bedrock", "AWS_ACCESS_KEY_ID", &["bedrock-runtime.{AWS_REGION}.amazonaws.com"]),
    KnownProvider(
        "google-vertex",
        "GOOGLE_CLOUD_PROJECT",
        &["{GOOGLE_VERTEX_LOCATION}-aiplatform.googleapis.com"],
    ),
    KnownProvider("azure", "AZURE_API_KEY", &["{AZURE_RESOURCE_NAME}.openai.azure.com"]),
];

/// What it reaches: the providers that its settings name, and those that it has a key or a sign-in for.
pub(super) fn network(configuration: &Configuration<'_>) -> AgentNetwork {
    let mut network = AgentNetwork { dispensable: DISPENSABLE, ..AgentNetwork::default() };
    let settings = read_settings(configuration).unwrap_or_default();
    let stored = read_stored_keys(configuration);
    let project = configuration.workspace.join("opencode.json");
    let of_project = (configuration.file)(&project).ok().flatten();
    let of_project: Value = of_project.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    for providers in [&settings["provider"], &of_project["provider"]] {
        for (_, provider) in providers.as_object().into_iter().flatten() {
            let url = provider["options"]["baseURL"].as_str().or(provider["api"].as_str());
            let url = url.and_then(|url| substitute(configuration, url));
            network.endpoints.extend(url.and_then(|url| Endpoint::of_url(&url)));
        }
    }
    for KnownProvider(id, variable, hosts) in KNOWN {
        let has_key = configuration.variable(variable).is_some()
            || !stored[id].is_null()
            || !settings["provider"][id].is_null();
        if has_key {
            network.hosts.extend(hosts.iter().filter_map(|host| find_host(configuration, host)));
        }
    }
    network
}

/// A host, with the variable that its name has in it.
fn find_host(configuration: &Configuration<'_>, host: &str) -> Option<HostRule> {
    let Some((start, rest)) = host.split_once('{') else { return Some(HostRule::host(host)) };
    let (variable, end) = rest.split_once('}')?;
    Some(HostRule::host(&format!("{start}{}{end}", configuration.variable(variable)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::testing::configured;
    use crate::network::{NetAccess, NetPolicy};

    #[test]
    fn it_reaches_the_providers_that_it_has_a_key_for() {
        let own = r#"{"provider": {"own": {"options": {"baseURL": "{env:OWN_URL}"}}}}"#;
        let files = [
            ("/h/.config/opencode/opencode.jsonc", own),
            ("/h/.local/share/opencode/auth.json", r#"{"groq": {"type": "api", "key": "k"}}"#),
        ];
        let found = configured(&[("OWN_URL", "https://g.example/v1"), ("XAI_API_KEY", "k")], &files, network);
        let policy = NetPolicy::decide(&NetAccess::Provider, &found).unwrap();
        for (host, want) in
            [("g.example", true), ("api.groq.com", true), ("api.x.ai", true), ("api.mistral.ai", false)]
        {
            let endpoint = Endpoint { host: host.to_owned(), port: 443 };
            assert_eq!(policy.find_permission(&endpoint).is_some(), want, "{host}");
        }
    }
}
