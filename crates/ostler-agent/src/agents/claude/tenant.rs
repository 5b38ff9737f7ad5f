//! How Claude Code reaches the provider for a tenant. Facts: observed on 2.1.197 and 2.1.325.

use serde_json::{Value, json};

use super::provider::{DEFAULT, OTHER_CLOUDS, Settings};
use super::rehearsed;
use crate::agent::{Setup, Stage};
use crate::endpoint::Configuration;
use crate::tenant::{AccessRefusal, ProviderRoute, TenantAccess};

const TITLE: &str = "Claude Code";

const ROUTE: &str = "anthropic";

/// Which models it uses, and how: no secret is in them.
const CHOICES: [&str; 11] = [
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_BETAS",
    "API_TIMEOUT_MS",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "DISABLE_PROMPT_CACHING",
    "MAX_THINKING_TOKENS",
];

/// Keeps it from reading files, directories and pictures that a prompt mentions with `@`.
const NO_MENTIONS: &str = "CLAUDE_CODE_DISABLE_ATTACHMENTS";

/// What of the owner's settings a tenant's agent needs.
pub(super) fn access(configuration: &Configuration<'_>) -> Result<TenantAccess, AccessRefusal> {
    let refuse = |reason: String, helps: &str| AccessRefusal::new(TITLE, reason, helps);
    let settings = Settings::read(configuration)
        .ok_or_else(|| refuse("its settings cannot be read".to_owned(), "mend them"))?;
    let value = |name: &str| settings.variable(name).map(|(value, _)| value);
    if let Some(cloud) = OTHER_CLOUDS.into_iter().find(|name| value(name).is_some()) {
        let reason =
            format!("{cloud} is set, and the requests of other clouds are signed by the agent itself");
        return Err(refuse(reason, ""));
    }
    let mut headers = Vec::new();
    headers.extend(value("ANTHROPIC_API_KEY").map(|key| ("x-api-key".to_owned(), key)));
    let token = value("ANTHROPIC_AUTH_TOKEN");
    headers.extend(token.map(|token| ("authorization".to_owned(), format!("Bearer {token}"))));
    if headers.is_empty() {
        let reason = "there is no API key, and a sign-in cannot be shared".to_owned();
        return Err(refuse(reason, "set ANTHROPIC_API_KEY where `ostler serve` is started"));
    }
    headers.extend(value("ANTHROPIC_CUSTOM_HEADERS").iter().flat_map(|lines| custom_headers(lines)));
    let base_url = value("ANTHROPIC_BASE_URL").unwrap_or_else(|| DEFAULT.to_owned());
    let mut choices = serde_json::Map::new();
    choices.extend(settings.find("model").map(|model| ("ANTHROPIC_MODEL".to_owned(), model)));
    for name in CHOICES {
        choices.extend(value(name).map(|value| (name.to_owned(), json!(value))));
    }
    let route = ProviderRoute { name: ROUTE.to_owned(), base_url, headers, query: Vec::new() };
    Ok(TenantAccess { routes: vec![route], choices: Value::Object(choices) })
}

/// `Name: value`, a line each.
fn custom_headers(lines: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = lines.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
}

/// What a tenant's agent is started with.
pub(super) fn setup(stage: &Stage, access: &TenantAccess) -> Setup {
    let stage = Stage { url: access.first_url(&stage.url), ..stage.clone() };
    let mut setup = rehearsed(&stage);
    let choices = access.choices.as_object().into_iter().flatten();
    setup.env.extend(choices.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))));
    setup.env.push((NO_MENTIONS.to_owned(), "1".to_owned()));
    setup
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

    #[test]
    fn the_key_stays_outside_and_the_models_come_along() {
        let found = access_with(
            &[("ANTHROPIC_API_KEY", "sk-1"), ("ANTHROPIC_SMALL_FAST_MODEL", "small")],
            &[(
                "/h/.claude/settings.json",
                r#"{"model": "opus", "env": {"ANTHROPIC_BASE_URL": "https://g", "ANTHROPIC_CUSTOM_HEADERS": "X-Team: blue\nbad"}}"#,
            )],
        )
        .unwrap();
        let [route] = &found.routes[..] else { panic!("{found:?}") };
        assert_eq!(route.base_url, "https://g");
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(route.headers, [text("x-api-key", "sk-1"), text("x-team", "blue")]);
        let stage = Stage { key: "placeholder".to_owned(), ..Stage::new("http://127.0.0.1:1/claude", "/t") };
        let setup = setup(&stage, &found);
        let value =
            |name: &str| setup.env.iter().rev().find(|(known, _)| known == name).map(|(_, v)| v.as_str());
        assert_eq!(value("ANTHROPIC_BASE_URL"), Some("http://127.0.0.1:1/claude/anthropic"));
        assert_eq!(value("ANTHROPIC_API_KEY"), Some("placeholder"));
        assert_eq!(
            (value("ANTHROPIC_MODEL"), value("ANTHROPIC_SMALL_FAST_MODEL")),
            (Some("opus"), Some("small"))
        );
        assert_eq!(value(NO_MENTIONS), Some("1"));
        assert!(!format!("{setup:?}").contains("sk-1"), "{setup:?}");
    }

    #[test]
    fn without_a_key_tenants_are_refused_with_what_helps() {
        let table: [(&[(&str, &str)], &str); 3] = [
            (&[], "no API key"),
            (&[("CLAUDE_CODE_OAUTH_TOKEN", "t")], "no API key"),
            (&[("ANTHROPIC_API_KEY", "k"), ("CLAUDE_CODE_USE_BEDROCK", "1")], "CLAUDE_CODE_USE_BEDROCK"),
        ];
        for (variables, want) in table {
            let refusal = access_with(variables, &[]).unwrap_err();
            assert!(
                refusal.reason.contains(want) && refusal.hint.contains("keys new --owner"),
                "{refusal:?}"
            );
        }
        let token = access_with(&[("ANTHROPIC_AUTH_TOKEN", "t")], &[]).unwrap();
        assert_eq!(token.routes[0].headers, [("authorization".to_owned(), "Bearer t".to_owned())]);
    }
}
