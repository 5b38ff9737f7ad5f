//! Served sessions behind a wall: what is outside is not reached in any way, and the conversation continues warm, and
//! after it was parked.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::RealShape;
use super::provider::Provider;
use crate::player::Player;
use crate::serve::Served;
use crate::tap::Tap;

const SECRET: &str = "the owner's secret";

/// A model that reads what is outside, writes, and then only talks.
fn script(player: Player, level: &str, shape: &RealShape) -> String {
    let outside = shape.at("outside/secret.txt").display().to_string();
    let window = shape.workspace().join("window").display().to_string();
    let read = match player {
        Player::Codex => json!({"tool": "exec_command", "arguments": {"cmd": format!("cat {outside}")}}),
        // It follows links in the workspace at every level.
        Player::OpenCode => json!({"tool": "read", "arguments": {"filePath": window}}),
        _ => json!({"tool": "Read", "arguments": {"file_path": outside}}),
    };
    let write = json!({"tool_by_role": "write_file", "path": "made.txt", "content": "made\n"});
    let mut steps = vec![
        json!({"expect": {"contains": "Look outside"}, "reply": [read]}),
        json!({"reply": [write]}),
        json!({"reply": [{"text": "Looked."}]}),
    ];
    if (player, level) == (Player::OpenCode, "deny") {
        // It offers its model nothing to write with.
        steps.remove(1);
    }
    let others = [json!({"reply": [{"text": "{{prompt}}!"}]})];
    let conversations = [json!({"name": "first", "step": steps}), json!({"name": "others", "step": others})];
    json!({"v": 1, "conversation": conversations}).to_string()
}

/// A hook of the user's own, whose output Claude Code adds to the prompt: it asks nobody.
fn add_hook(shape: &RealShape, command: &str) {
    let path = shape.at("home/.claude/settings.json");
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    settings["hooks"] = json!({"UserPromptSubmit": [{"hooks": [{"type": "command", "command": command}]}]});
    std::fs::write(&path, settings.to_string()).unwrap();
}

fn create(served: &Served, session: &Value) -> String {
    let (status, body) = served.post("/api/v1/sessions", session);
    assert_eq!(status, 201, "{body}");
    let session: Value = serde_json::from_str(&body).unwrap();
    format!("/api/v1/sessions/{}", session["id"].as_str().unwrap())
}

/// What came of a prompt, and what is said of the session then.
fn ask(served: &Served, path: &str, text: &str) -> (String, Value) {
    let (status, body) = served.post(&format!("{path}/turns"), &json!({"text": text, "wait": true}));
    assert_eq!(status, 200, "{body}");
    let turn: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(turn["state"], "done", "{body}");
    let (status, session) = served.bare("GET", path);
    assert_eq!(status, 200, "{session}");
    (turn["text"].as_str().unwrap().to_owned(), serde_json::from_str(&session).unwrap())
}

fn converse(shape: &RealShape, player: Player, engine: &str, level: &str, wall: &str) {
    let served = shape.serve();
    let model = player.agent().package().slot;
    let wanted = json!({"model": model, "engine": engine, "cwd": shape.workspace(), "permissions": level});
    let path = create(&served, &wanted);
    let (text, first) = ask(&served, &path, "Look outside.");
    assert!(text.ends_with("Looked."), "{text}");
    let jail = &first["process"]["jail"];
    assert_eq!((&jail["kind"], &jail["net"]), (&json!(wall), &Value::Null), "{first}");
    assert_eq!(shape.workspace().join("made.txt").exists(), level == "edits", "{first}");
    let (text, second) = ask(&served, &path, "And now?");
    assert_eq!(text, "And now?!");
    if player.agent().package().slot == "claude" {
        assert_eq!(first["process"]["pid"], second["process"]["pid"], "it is warm");
    }
    let key = served.key().to_owned();
    assert_eq!(served.interrupt(), Some(0));
    let served = shape.serve_again(&key);
    let (text, third) = ask(&served, &path, "And after a pause?");
    assert_eq!((text.as_str(), &third["process"]["jail"]["kind"]), ("And after a pause?!", &json!(wall)));
    assert_eq!(served.interrupt(), Some(0));
    shape.is_empty();
}

async fn stays_inside(player: Player, engine: &'static str, level: &'static str, wall: &'static str) {
    // Codex finds its own sandbox only where it is installed, which that user cannot read.
    let shape = match player {
        Player::Codex => RealShape::of(player),
        _ => RealShape::unprivileged(player),
    };
    let Some(shape) = shape else { return };
    let shape = shape.variable("OSTLER_FORCE_JAIL", wall);
    let secret = shape.at("outside/secret.txt");
    std::fs::create_dir(shape.at("outside")).unwrap();
    std::fs::write(&secret, SECRET).unwrap();
    std::os::unix::fs::symlink(&secret, shape.workspace().join("window")).unwrap();
    let provider = Provider::start(&script(player, level, &shape));
    let tap = Tap::before(&provider.url).await;
    shape.configure(&tap.url);
    if player.agent().package().slot == "claude" {
        add_hook(&shape, &format!("cat {}; echo looked", secret.display()));
    }
    tokio::task::spawn_blocking(move || converse(&shape, player, engine, level, wall)).await.unwrap();
    let asked = tap.conversation();
    let last = asked.last().unwrap().to_string();
    assert!(last.contains("Look outside.") && last.contains("And after a pause?"), "{last}");
    assert!(asked.iter().all(|asked| !asked.to_string().contains(SECRET)), "{asked:#?}");
    if player.agent().package().slot == "claude" {
        assert!(last.contains("looked"), "the hook ran: {last}");
    }
}

#[tokio::test]
async fn claude_at_edits() {
    stays_inside(Player::ClaudeStream, "stream", "edits", "namespace").await;
}

#[tokio::test]
async fn claude_at_deny() {
    stays_inside(Player::ClaudeStream, "stream", "deny", "namespace").await;
}

#[tokio::test]
async fn claude_behind_landlock() {
    stays_inside(Player::ClaudeStream, "stream", "edits", "landlock").await;
}

#[tokio::test]
async fn claude_on_a_terminal_at_edits() {
    stays_inside(Player::ClaudeTerminal, "terminal", "edits", "namespace").await;
}

#[tokio::test]
async fn codex_at_deny() {
    stays_inside(Player::Codex, "stream", "deny", "namespace").await;
}

#[tokio::test]
async fn opencode_at_deny() {
    stays_inside(Player::OpenCode, "stream", "deny", "namespace").await;
}

/// A session without a directory works in one that Ostler makes for it in its own folder, and sees nothing else in there.
#[tokio::test]
async fn a_session_sees_its_own_workspace_and_nothing_else_of_ostler() {
    let Some(shape) = RealShape::unprivileged(Player::ClaudeStream) else { return };
    let shape = shape.variable("OSTLER_FORCE_JAIL", "namespace");
    let provider = Provider::start(&script(Player::ClaudeStream, "edits", &shape));
    let tap = Tap::before(&provider.url).await;
    shape.configure(&tap.url);
    add_hook(&shape, "find $OSTLER_HOME -maxdepth 3; echo looked");
    tokio::task::spawn_blocking(move || {
        let served = shape.serve();
        let wanted = json!({"model": "claude", "permissions": "edits"});
        let (first, second) = (create(&served, &wanted), create(&served, &wanted));
        ask(&served, &first, "Hello.");
        ask(&served, &second, "Look outside.");
        let made = std::fs::read_dir(shape.at("ostler/serve/workspaces")).unwrap().flatten();
        assert_eq!(made.filter(|folder| folder.path().join("made.txt").exists()).count(), 1);
        assert_eq!(served.interrupt(), Some(0));
    })
    .await
    .unwrap();
    let asked = tap.conversation().pop().unwrap().to_string();
    assert!(asked.contains("looked"), "the hook ran: {asked}");
    let seen: BTreeSet<&str> =
        asked.split("serve/workspaces/").skip(1).map(|rest| rest.get(..36).unwrap()).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
    for hidden in ["keys.json", "serve/conversations", "serve/parked", "config.toml"] {
        assert!(!asked.contains(hidden), "{hidden}: {asked}");
    }
}

#[tokio::test]
async fn a_workspace_that_cannot_be_jailed_is_refused_with_the_reason() {
    let Some(shape) = RealShape::unprivileged(Player::ClaudeStream) else { return };
    let shape = shape.in_folder("home/.ssh").variable("OSTLER_FORCE_JAIL", "namespace");
    let _provider = shape.play(&script(Player::ClaudeStream, "edits", &shape));
    tokio::task::spawn_blocking(move || {
        let served = shape.serve();
        let path =
            create(&served, &json!({"model": "claude", "cwd": shape.workspace(), "permissions": "edits"}));
        let (status, body) = served.post(&format!("{path}/turns"), &json!({"text": "Hello.", "wait": true}));
        assert!(body.contains("cannot be jailed"), "{status} {body}");
        assert_eq!(served.interrupt(), Some(0));
    })
    .await
    .unwrap();
}
