//! A system prompt reaches Codex by a profile of Ostler's: the user's own settings, instructions and profile stay in
//! force, and nothing of it is left.

use std::path::Path;

use serde_json::json;

use super::RealShape;
use crate::player::Player;

const SAYS: &str = "[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"Done.\" }]\n";

/// What Codex wrote down of its sessions.
fn recorded(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |path: &Path| match path.is_dir() {
        true => recorded(path),
        false => std::fs::read_to_string(path).unwrap_or_default(),
    };
    entries.map(|entry| read(&entry.path())).collect()
}

#[test]
fn the_users_own_settings_stay_in_force() {
    let Some(shape) = RealShape::of(Player::Codex) else { return };
    let _provider = shape.play(SAYS);
    let config = shape.at("home/.codex/config.toml");
    let own =
        format!("developer_instructions = \"Own words.\"\n{}", std::fs::read_to_string(&config).unwrap());
    std::fs::write(&config, &own).unwrap();
    std::fs::write(shape.at("home/.codex/work.config.toml"), "model_reasoning_effort = \"low\"\n").unwrap();
    std::fs::write(shape.at("system"), "Words for this run.").unwrap();
    let system = shape.at("system").display().to_string();
    let args =
        ["--permissions=deny", "--system-prompt-file", &system, "--agent-arg=--profile=work", "Do it."];
    let ended = crate::yard::Ended::of(crate::yard::ended(shape.start(&args)));
    ended.ends("completed", 0);
    let recorded = recorded(&shape.at("home/.codex/sessions"));
    assert!(recorded.contains("Own words.\\n\\nWords for this run."), "{recorded}");
    assert!(recorded.contains("\"effort\":\"low\""), "the user's profile counts: {recorded}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), own);
    let left = shape.names("home/.codex");
    assert!(!left.iter().any(|name| name.starts_with("ostler-")), "{left:?}");
    shape.is_empty();
}

/// A trusted project's instructions would take the place of the client's without a word.
#[test]
fn a_system_prompt_that_a_project_overrules_is_refused() {
    let Some(shape) = RealShape::of(Player::Codex) else { return };
    let _provider = shape.play(SAYS);
    std::fs::create_dir(shape.workspace().join(".codex")).unwrap();
    let project = "developer_instructions = \"Of the project.\"\n";
    std::fs::write(shape.workspace().join(".codex/config.toml"), project).unwrap();
    let served = shape.serve();
    let began = |system: Option<&str>| {
        let opening = json!({"model": "codex", "cwd": shape.workspace(), "system": system});
        let (status, body) = served.post("/api/v1/sessions", &opening);
        assert_eq!(status, 201, "{body}");
        let session: serde_json::Value = serde_json::from_str(&body).unwrap();
        let turns = format!("/api/v1/sessions/{}/turns", session["id"].as_str().unwrap());
        served.post(&turns, &json!({"text": "Do it.", "wait": true}))
    };
    let (status, body) = began(Some("Of the client."));
    assert_eq!(status, 200, "those of a project that is not trusted do not count: {body}");
    let trusted = shape.ostler(&["trust", "--yes"]).arg(shape.workspace()).output().unwrap();
    assert!(trusted.status.success());
    let (status, body) = began(Some("Of the client."));
    assert!(status == 400 && body.contains(".codex/config.toml"), "{status}: {body}");
    let (status, body) = began(None);
    assert_eq!(status, 200, "{body}");
    assert_eq!(served.interrupt(), Some(0));
    shape.is_empty();
}
