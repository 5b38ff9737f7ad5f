//! Served sessions behind a wall, which they have unless the user wants none: what is outside is not reached in any way,
//! every command runs at `edits`, and the conversation continues warm, and after it was parked.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::RealShape;
use super::network::Service;
use super::provider::Provider;
use crate::player::Player;
use crate::serve::Served;
use crate::tap::Tap;

const SECRET: &str = "the owner's secret";
const INSIDE: &str = "a file of the workspace";

/// A model that reads what is outside, writes, and then only talks.
fn script(player: Player, level: &str, shape: &RealShape, service: &Service) -> String {
    let outside = shape.at("outside/secret.txt").display().to_string();
    let window = shape.workspace().join("window").display().to_string();
    let read = match player {
        Player::Codex => json!({"tool": "exec_command", "arguments": {"cmd": format!("cat {outside}")}}),
        // It follows links in the workspace at every level.
        Player::OpenCode => json!({"tool": "read", "arguments": {"filePath": window}}),
        _ => json!({"tool": "Read", "arguments": {"file_path": outside}}),
    };
    let write = json!({"tool_by_role": "write_file", "path": "made.txt", "content": "made\n"});
    // No agent runs this by its own rules at `edits`.
    let reach = format!("curl -sS -m 20 --noproxy '*' http://127.0.0.1:{}/", service.port);
    let command = format!("sh -c 'echo made > by-command.txt'; {reach} > by-network.txt");
    let command = json!({"tool_by_role": "shell", "command": command});
    let mut steps = vec![
        json!({"expect": {"contains": "Look outside"}, "reply": [read]}),
        json!({"reply": [write]}),
        json!({"reply": [command]}),
        json!({"reply": [{"text": "Looked."}]}),
    ];
    if (player, level) == (Player::OpenCode, "deny") {
        // It offers its model nothing to write with.
        steps.drain(1..3);
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
    // Landlock alone keeps no hosts.
    let net = if wall == "namespace" { json!("provider") } else { Value::Null };
    assert_eq!((&jail["kind"], &jail["net"]), (&json!(wall), &net), "{first}");
    for made in ["made.txt", "by-command.txt"] {
        assert_eq!(shape.workspace().join(made).exists(), level == "edits", "{made}: {first}");
    }
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

/// Behind the wall that sessions have here, or behind this one.
async fn stays_inside(
    player: Player,
    engine: &'static str,
    level: &'static str,
    forced: Option<&'static str>,
) {
    // Codex finds its own sandbox only where it is installed, which that user cannot read.
    let shape = match player {
        Player::Codex => RealShape::of(player),
        _ => RealShape::unprivileged(player),
    };
    let Some(shape) = shape else { return };
    let (shape, wall) = match forced {
        Some(wall) => (shape.variable("OSTLER_FORCE_JAIL", wall), wall),
        None => (shape, "namespace"),
    };
    let secret = shape.at("outside/secret.txt");
    std::fs::create_dir(shape.at("outside")).unwrap();
    std::fs::write(&secret, SECRET).unwrap();
    std::os::unix::fs::symlink(&secret, shape.workspace().join("window")).unwrap();
    let service = Service::start();
    let provider = Provider::start(&script(player, level, &shape, &service));
    let tap = Tap::before(&provider.url).await;
    shape.configure(&tap.url);
    if player.agent().package().slot == "claude" {
        add_hook(&shape, &format!("cat {}; echo looked", secret.display()));
    }
    tokio::task::spawn_blocking(move || converse(&shape, player, engine, level, wall)).await.unwrap();
    assert!(wall == "landlock" || service.visits() == 0, "a service on this machine was reached");
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
    stays_inside(Player::ClaudeStream, "stream", "edits", None).await;
}

#[tokio::test]
async fn claude_at_deny() {
    stays_inside(Player::ClaudeStream, "stream", "deny", None).await;
}

#[tokio::test]
async fn claude_behind_landlock() {
    stays_inside(Player::ClaudeStream, "stream", "edits", Some("landlock")).await;
}

#[tokio::test]
async fn claude_on_a_terminal_at_edits() {
    stays_inside(Player::ClaudeTerminal, "terminal", "edits", None).await;
}

#[tokio::test]
async fn claude_on_a_terminal_at_deny() {
    stays_inside(Player::ClaudeTerminal, "terminal", "deny", None).await;
}

#[tokio::test]
async fn codex_at_deny() {
    stays_inside(Player::Codex, "stream", "deny", None).await;
}

#[tokio::test]
async fn codex_at_edits() {
    stays_inside(Player::Codex, "stream", "edits", None).await;
}

#[tokio::test]
async fn codex_behind_landlock() {
    stays_inside(Player::Codex, "stream", "edits", Some("landlock")).await;
}

#[tokio::test]
async fn opencode_at_deny() {
    stays_inside(Player::OpenCode, "stream", "deny", None).await;
}

#[tokio::test]
async fn opencode_at_edits() {
    stays_inside(Player::OpenCode, "stream", "edits", None).await;
}

/// Claude Code removes the state files of processes that it cannot signal. A session without one was taken for one that
/// waits, and its turn for interrupted after five seconds without a word.
#[test]
fn terminals_in_jails_do_not_end_each_others_turns() {
    let Some(shape) = RealShape::unprivileged(Player::ClaudeTerminal) else { return };
    let _provider = shape.play(
        r#"
[[conversation]]
[[conversation.step]]
expect = { matches = 'Take your time.\s*$' }
reply = [{ text = "word after word, ", repeat = 24, chunk = 10, gap = "250ms" }]
"#,
    );
    let served = shape.serve();
    let wanted =
        json!({"model": "claude", "engine": "terminal", "cwd": shape.workspace(), "permissions": "edits"});
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (text, session) = ask(&served, &create(&served, &wanted), "Take your time.");
                assert_eq!(text.trim(), "word after word, ".repeat(24).trim(), "{session}");
            });
        }
    });
    assert_eq!(served.interrupt(), Some(0));
}

/// What a hook reads in a served session at `edits`, as the model receives it, and the wall of the session. The hook reads a
/// file outside the workspace, and one that is in it.
async fn look_around(shape: RealShape, args: &'static [&'static str]) -> (String, Value) {
    let files = [shape.at("outside/secret.txt"), shape.workspace().join("inside.txt")];
    std::fs::create_dir(shape.at("outside")).unwrap();
    std::fs::write(&files[0], SECRET).unwrap();
    std::fs::write(&files[1], INSIDE).unwrap();
    let provider = Provider::start(&script(Player::ClaudeStream, "edits", &shape, &Service::start()));
    let tap = Tap::before(&provider.url).await;
    shape.configure(&tap.url);
    add_hook(&shape, &format!("cat {} {}; echo looked", files[0].display(), files[1].display()));
    let play = move || {
        let served = shape.serve_with(args);
        let wanted = json!({"model": "claude", "cwd": shape.workspace(), "permissions": "edits"});
        let (_, session) = ask(&served, &create(&served, &wanted), "Hello.");
        assert_eq!(served.interrupt(), Some(0));
        session["process"]["jail"].clone()
    };
    let jail = tokio::task::spawn_blocking(play).await.unwrap();
    let asked = tap.conversation().pop().unwrap().to_string();
    assert!(asked.contains("looked"), "the hook ran: {asked}");
    (asked, jail)
}

#[tokio::test]
async fn without_a_jail_the_agent_reaches_what_is_outside() {
    let Some(shape) = RealShape::unprivileged(Player::ClaudeStream) else { return };
    let (asked, jail) = look_around(shape, &["--no-jail"]).await;
    assert_eq!(jail, Value::Null);
    assert!(asked.contains(SECRET) && asked.contains(INSIDE), "{asked}");
}

#[tokio::test]
async fn the_configuration_opens_and_hides_directories() {
    let Some(shape) = RealShape::unprivileged(Player::ClaudeStream) else { return };
    let (read, hide) = (shape.at("outside"), shape.workspace().join("inside.txt"));
    let shape = shape.configured(&format!("[jail]\nread = [{read:?}]\nhide = [{hide:?}]\n"));
    let (asked, jail) = look_around(shape, &[]).await;
    assert_eq!(jail["kind"], "namespace");
    assert!(asked.contains(SECRET) && !asked.contains(INSIDE), "{asked}");
}

/// Here no wall can be tried, because there is no directory for the attempt.
#[test]
fn without_a_wall_sessions_are_refused_with_what_helps() {
    let Some(shape) = RealShape::unprivileged(Player::ClaudeStream) else { return };
    let shape = shape.variable("TMPDIR", "/there/is/none");
    let _provider = shape.play(&script(Player::ClaudeStream, "edits", &shape, &Service::start()));
    let served = shape.serve();
    let turn = |model: &str, engine: &str, level: &str| {
        let wanted =
            json!({"model": model, "engine": engine, "cwd": shape.workspace(), "permissions": level});
        let path = create(&served, &wanted);
        served.post(&format!("{path}/turns"), &json!({"text": "Hello.", "wait": true}))
    };
    for (engine, level) in [("stream", "deny"), ("stream", "edits"), ("terminal", "edits")] {
        let (status, body) = turn("claude", engine, level);
        let is_refused = body.contains("need a jail") && body.contains("--no-jail");
        assert!(status == 502 && is_refused, "{engine} {level}: {status} {body}");
    }
    let (status, body) = turn("claude", "stream", "all");
    assert_eq!(status, 200, "what needs no wall is served: {body}");
    assert_eq!(served.interrupt(), Some(0));
}

/// A session without a directory works in one that Ostler makes for it in its own folder, and sees nothing else in there.
#[tokio::test]
async fn a_session_sees_its_own_workspace_and_nothing_else_of_ostler() {
    let Some(shape) = RealShape::unprivileged(Player::ClaudeStream) else { return };
    let provider = Provider::start(&script(Player::ClaudeStream, "edits", &shape, &Service::start()));
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
    let shape = shape.in_folder("home/.ssh");
    let _provider = shape.play(&script(Player::ClaudeStream, "edits", &shape, &Service::start()));
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
