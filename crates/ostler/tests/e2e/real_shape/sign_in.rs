//! A sign-in of the user's that jailed agents refresh. The vendor gives new tokens for each refresh token once: a token that
//! is used twice, or lost, would sign the user out.

pub(super) mod vendor;

use std::fs;
use std::process::Child;

use serde_json::{Value, json};

use super::RealShape;
use crate::player::Player;
use crate::yard::{Ended, ended};
use vendor::{Vendor, web_token};

const SCRIPT: &str = r#"
[[conversation]]
[[conversation.step]]
reply = [{ text = "Done." }]
"#;

/// In the year 2023.
const EXPIRED: u64 = 1_700_000_000;

/// Two runs at once, with tokens that have expired.
fn run_twice(shape: &RealShape) {
    let runs: Vec<Child> = (0..2).map(|_| shape.start(&["--ceiling", "2m", "Say it."])).collect();
    for run in runs {
        let ended = Ended::of(ended(run));
        ended.ends("completed", 0);
        assert_eq!(ended.outcome()["jail"]["kind"], "namespace");
    }
    shape.is_empty();
}

/// As `claude auth login` leaves it: nothing names another provider.
fn sign_in_claude(shape: &RealShape) {
    let tokens = json!({"claudeAiOauth": {
        "accessToken": "access-0", "refreshToken": "refresh-0", "expiresAt": EXPIRED * 1_000,
        "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
    }});
    fs::write(shape.at("home/.claude/settings.json"), "{}").unwrap();
    fs::write(shape.at("home/.claude/.credentials.json"), tokens.to_string()).unwrap();
}

#[test]
fn of_claude_is_refreshed_once_by_two_runs() {
    let Some(shape) = RealShape::unprivileged(Player::ClaudeStream) else { return };
    let provider = shape.play(SCRIPT);
    let vendor = Vendor::start(&provider.url);
    sign_in_claude(&shape);
    fs::write(shape.workspace().join("authority.pem"), &vendor.authority).unwrap();
    let authority = shape.workspace().join("authority.pem").display().to_string();
    let shape = shape.variable("HTTPS_PROXY", &vendor.proxy).variable("NODE_EXTRA_CA_CERTS", authority);
    run_twice(&shape);
    assert_eq!(vendor.refreshes(), ["refresh-0"]);
    let kept: Value =
        serde_json::from_slice(&fs::read(shape.at("home/.claude/.credentials.json")).unwrap()).unwrap();
    assert_eq!(kept["claudeAiOauth"]["refreshToken"], vendor.refresh_token(), "the user has the new token");
    assert_eq!(shape.names("home/.claude"), [".credentials.json", "projects", "settings.json"]);
}

/// As `codex login` leaves it, for a provider of the user's own that wants the sign-in.
fn sign_in_codex(shape: &RealShape, url: &str) {
    let tokens = json!({
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": null,
        "tokens": {"id_token": web_token(EXPIRED), "access_token": web_token(EXPIRED), "refresh_token": "refresh-0",
            "account_id": "a"},
        "last_refresh": "2026-01-01T00:00:00Z",
    });
    let config = super::codex(url) + "requires_openai_auth = true\n";
    fs::write(shape.at("home/.codex/config.toml"), config).unwrap();
    fs::write(shape.at("home/.codex/auth.json"), tokens.to_string()).unwrap();
    fs::write(shape.at("home/.codex/auth.lock"), "").unwrap();
}

/// It takes no lock: two of them use one token at once, in a jail or not. The vendor's answer to the first one is kept.
#[test]
fn of_codex_is_written_through() {
    let Some(shape) = RealShape::unprivileged(Player::Codex) else { return };
    let provider = shape.play(SCRIPT);
    let vendor = Vendor::start(&provider.url);
    sign_in_codex(&shape, &provider.url);
    let shape = shape.variable("CODEX_REFRESH_TOKEN_URL_OVERRIDE", format!("{}/oauth/token", vendor.proxy));
    run_twice(&shape);
    let kept: Value = serde_json::from_slice(&fs::read(shape.at("home/.codex/auth.json")).unwrap()).unwrap();
    assert_eq!(kept["tokens"]["refresh_token"], vendor.refresh_token(), "the user has the new token");
    assert_eq!(shape.names("home/.codex"), ["auth.json", "auth.lock", "config.toml", "sessions"]);
}
