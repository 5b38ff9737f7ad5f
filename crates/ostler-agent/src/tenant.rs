//! How the agent of a tenant reaches the provider without the owner's key: it gets a placeholder, and a proxy outside its
//! jail adds the key. Each agent's file knows where its key is and how the agent is pointed at the proxy.

mod request;

use std::fmt;

use serde_json::Value;

pub use request::{RequestFault, check_body};

/// What the agents of tenants need to reach the provider of the owner.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantAccess {
    /// Where the proxy leads. Never empty.
    pub routes: Vec<ProviderRoute>,
    /// What of the owner's settings holds for tenants too: models, and what the agent must know of the provider. Without
    /// a secret. In a rehearsal there is none.
    pub choices: Value,
}

/// One provider that the proxy leads to.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderRoute {
    /// A word in the path of the proxy's address.
    pub name: String,
    /// The provider's address, as the owner has it.
    pub base_url: String,
    /// What the proxy adds to each request: the owner's key.
    pub headers: Vec<(String, String)>,
    /// What the proxy adds to the query of each request.
    pub query: Vec<(String, String)>,
}

/// Secrets are not printed.
impl fmt::Debug for ProviderRoute {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let route = format_args!("{} to {} with {headers:?}", self.name, self.base_url);
        out.debug_tuple("ProviderRoute").field(&route).finish()
    }
}

/// Why tenants cannot use an agent, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("keys of tenants cannot use {agent}: {reason}")]
pub struct AccessRefusal {
    /// The agent, as people know it.
    pub agent: &'static str,
    /// What is missing.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

/// What helps wherever a tenant's key does not.
const OWNER_KEY: &str = "make a key with `ostler keys new --owner`, whose agent uses your sign-in";

impl AccessRefusal {
    /// With what helps besides a key of the owner.
    pub(crate) fn new(agent: &'static str, reason: impl Into<String>, helps: &str) -> Self {
        let hint = if helps.is_empty() { OWNER_KEY.to_owned() } else { format!("{helps}, or {OWNER_KEY}") };
        Self { agent, reason: reason.into(), hint }
    }
}

/// The name of the only route of a rehearsal.
const REHEARSAL: &str = "rehearsal";

impl TenantAccess {
    /// To a scripted model, which takes any key.
    pub fn rehearsed(url: &str) -> Self {
        let (headers, query) = (Vec::new(), Vec::new());
        let route = ProviderRoute { name: REHEARSAL.to_owned(), base_url: url.to_owned(), headers, query };
        Self { routes: vec![route], choices: Value::Null }
    }

    /// Whether the model is scripted.
    pub fn is_rehearsed(&self) -> bool {
        self.choices.is_null()
    }

    /// The address of the first route behind a proxy at `url`.
    pub fn first_url(&self, url: &str) -> String {
        let name = self.routes.first().map_or(REHEARSAL, |route| route.name.as_str());
        format!("{url}/{name}")
    }
}

/// What may be asked of a provider with the owner's key: answers of models, and which models there are. Not files, batches,
/// stored answers or the account, which belong to the owner.
const ASKED: [&str; 7] = [
    "/messages",
    "/messages/count_tokens",
    "/responses",
    "/responses/compact",
    "/chat/completions",
    "/completions",
    "/embeddings",
];

/// Headers that a tenant's agent may send to a provider: how its request is written, and what the provider's clients say of
/// themselves. None of them chooses an account, a project or a sign-in.
const HEADERS: [&str; 15] = [
    "accept",
    "accept-encoding",
    "content-type",
    "user-agent",
    "anthropic-version",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "openai-beta",
    "originator",
    "session-id",
    "session_id",
    "thread-id",
    "version",
    "x-app",
    "x-client-request-id",
];

/// How further ones begin.
const HEADER_PREFIXES: [&str; 3] = ["x-stainless-", "x-claude-code-", "x-codex-"];

/// Headers of answers that name the owner's account.
const ACCOUNT_HEADERS: [&str; 4] =
    ["anthropic-organization-id", "openai-organization", "openai-project", "set-cookie"];

/// Whether a header of a tenant's request reaches the provider: `name` in lower case.
pub fn is_forwarded(name: &str) -> bool {
    HEADERS.contains(&name) || HEADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a header of an answer names the owner's account: `name` in lower case.
pub fn is_of_account(name: &str) -> bool {
    ACCOUNT_HEADERS.contains(&name)
}

/// The list of models, and what is below it.
const MODELS: &str = "/models";

/// Whether a tenant may ask this of a provider: `path` is what follows the provider's address.
pub fn is_permitted(method: &str, path: &str) -> bool {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    // What a provider makes of such a path is not known here.
    if ["..", "//", "/.", "%", "\\", ";", "?", "#"].iter().any(|odd| path.contains(odd)) {
        return false;
    }
    let is_model = || path.strip_prefix(MODELS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match method {
        "POST" => ASKED.contains(&path),
        "GET" => is_model(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_and_models_are_asked_for() {
        let table = [
            ("POST", "/v1/messages", true),
            ("POST", "/v1/messages/count_tokens", true),
            ("POST", "/responses", true),
            ("POST", "/chat/completions", true),
            ("GET", "/v1/models", true),
            ("GET", "/models/gpt-5.5", true),
            ("GET", "/modelsx", false),
            ("POST", "/v1/models", false),
            ("GET", "/v1/messages", false),
            ("GET", "/v1/responses/resp_1", false),
            ("POST", "/v1/messages/batches", false),
            ("GET", "/v1/files", false),
            ("DELETE", "/v1/models/x", false),
            ("GET", "/v1/models/../files", false),
            ("GET", "/v1/models/%2e%2e/files", false),
            ("GET", "/v1/models/./x", false),
            ("GET", "/v1/models/x;y", false),
            ("POST", "/v1/v1/messages", false),
            ("POST", "/v1/messages/", false),
            ("CONNECT", "/v1/messages", false),
            ("POST", "/v1//messages", false),
            ("GET", "/v1/organizations/users", false),
            ("POST", "", false),
        ];
        for (method, path, want) in table {
            assert_eq!(is_permitted(method, path), want, "{method} {path}");
        }
    }

    #[test]
    fn no_header_chooses_an_account_or_a_sign_in() {
        for (name, want) in [
            ("content-type", true),
            ("anthropic-beta", true),
            ("x-stainless-lang", true),
            ("authorization", false),
            ("x-api-key", false),
            ("api-key", false),
            ("cookie", false),
            ("openai-organization", false),
            ("openai-project", false),
            ("chatgpt-account-id", false),
            ("connection", false),
            ("upgrade", false),
            ("content-encoding", false),
            ("x-http-method-override", false),
        ] {
            assert_eq!(is_forwarded(name), want, "{name}");
        }
    }

    #[test]
    fn the_owners_key_is_not_printed() {
        let route = ProviderRoute {
            name: "anthropic".to_owned(),
            base_url: "https://api".to_owned(),
            headers: vec![("x-api-key".to_owned(), "sk-secret".to_owned())],
            query: Vec::new(),
        };
        let printed = format!("{route:?}");
        assert!(printed.contains("x-api-key") && !printed.contains("sk-secret"), "{printed}");
    }
}
