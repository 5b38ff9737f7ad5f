//! A served session works in the folder that the request names: in every engine, and for a user without privileges.

use std::os::unix::fs::MetadataExt as _;

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

fn works_in_the_named_folder(shape: &RealShape, model: &str, engine: &str) {
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
    let made = shape.workspace().join("made.txt");
    assert_eq!(std::fs::read_to_string(&made).ok().as_deref(), Some("made\n"), "{body}");
    assert_eq!(std::fs::metadata(made).unwrap().uid(), shape.user_id(), "the user that Ostler runs as");
    assert_eq!(served.interrupt(), Some(0));
    shape.is_empty();
}

/// Two tests for each agent and engine.
macro_rules! for_every_engine {
    ($($name:ident: $player:expr, $model:literal, $engine:literal;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn works_in_the_folder_of_the_request() {
                let Some(shape) = RealShape::of($player) else { return };
                works_in_the_named_folder(&shape, $model, $engine);
            }

            #[test]
            fn works_in_the_folder_of_the_request_for_a_user_without_privileges() {
                let Some(shape) = RealShape::unprivileged($player) else { return };
                works_in_the_named_folder(&shape, $model, $engine);
            }
        }
    )*};
}

for_every_engine! {
    claude: Player::ClaudeStream, "claude", "stream";
    claude_on_a_terminal: Player::ClaudeTerminal, "claude", "terminal";
    codex: Player::Codex, "codex", "stream";
    opencode: Player::OpenCode, "opencode", "stream";
}
