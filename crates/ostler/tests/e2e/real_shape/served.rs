//! A served session works in the folder that the request names, in every engine.

use serde_json::{Value, json};

use super::RealShape;
use crate::player::Player;

const WRITES: &str = r#"
[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "write_file", path = "made.txt", content = "made\n" }]
[[conversation.step]]
reply = [{ text = "Done." }]
"#;

fn works_in_the_named_folder(player: Player, model: &str, engine: &str) {
    let Some(shape) = RealShape::of(player) else { return };
    let _provider = shape.play(WRITES);
    let served = shape.serve();
    let session = json!({"model": model, "engine": engine, "cwd": shape.workspace(), "permissions": "edits"});
    let (status, body) = served.post("/api/v1/sessions", &session);
    assert_eq!(status, 201, "{body}");
    let session: Value = serde_json::from_str(&body).unwrap();
    let turns = format!("/api/v1/sessions/{}/turns", session["id"].as_str().unwrap());
    let (status, body) = served.post(&turns, &json!({"text": "Write it.", "wait": true}));
    assert_eq!(status, 200, "{body}");
    assert_eq!(shape.names("caller"), [""; 0], "the directory that Ostler was started in");
    let made = std::fs::read_to_string(shape.workspace().join("made.txt"));
    assert_eq!(made.ok().as_deref(), Some("made\n"), "{body}");
    assert_eq!(served.interrupt(), Some(0));
    shape.is_empty();
}

#[test]
fn claude() {
    works_in_the_named_folder(Player::ClaudeStream, "claude", "stream");
}

#[test]
fn claude_on_a_terminal() {
    works_in_the_named_folder(Player::ClaudeTerminal, "claude", "terminal");
}

#[test]
fn codex() {
    works_in_the_named_folder(Player::Codex, "codex", "stream");
}

#[test]
fn opencode() {
    works_in_the_named_folder(Player::OpenCode, "opencode", "stream");
}
