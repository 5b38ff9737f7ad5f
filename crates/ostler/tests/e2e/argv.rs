//! Arguments of processes, which every user of the machine can read: no prompt, system prompt, history, key or token is
//! in any of them, whatever the agent, the engine and the command. `/proc` is watched from before the first process to
//! after the last.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use crate::for_every_agent;
use crate::player::Player;
use crate::scene::{Scene, played};
use crate::yard::Yard;

/// How often all processes are looked at. A turn takes seconds.
const LOOK: Duration = Duration::from_millis(5);

/// The key of a rehearsed agent.
const KEY: &str = ostler_agent::agent::DUMMY_KEY;

/// Looks at the arguments of all processes until it is asked what it saw.
struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<BTreeSet<String>>,
}

impl Watch {
    fn begin() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                for process in fs::read_dir("/proc").unwrap().flatten() {
                    let args = fs::read(process.path().join("cmdline")).unwrap_or_default();
                    if !args.is_empty() {
                        seen.insert(String::from_utf8_lossy(&args).replace('\0', " "));
                    }
                }
                std::thread::sleep(LOOK);
            }
            seen
        });
        Self { is_over, thread }
    }

    /// Fails if one of these was among the arguments of a process, or if the agent was not seen at all.
    fn saw_none_of(self, secrets: &[&str], program: &Path) {
        self.is_over.store(true, Ordering::Relaxed);
        let seen = self.thread.join().unwrap();
        let program = program.display().to_string();
        assert!(seen.iter().any(|args| args.contains(&program)), "the agent was not seen: {seen:#?}");
        for secret in secrets {
            let told = seen.iter().find(|args| args.contains(secret));
            assert_eq!(told, None, "`{secret}` is readable by everybody");
        }
    }
}

/// Words that no other test has.
fn marker(what: &str) -> String {
    format!("{what}-{}", uuid::Uuid::new_v4())
}

/// Text files below a folder, and the environments of processes, that name a token of the bridge.
fn tokens(folder: &Path) -> BTreeSet<String> {
    let mut texts = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.components().any(|part| part.as_os_str() == "private") {
                texts.push(fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    let here = folder.display().to_string();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let environ = fs::read(process.path().join("environ")).unwrap_or_default();
        let environ = String::from_utf8_lossy(&environ).into_owned();
        texts.extend(environ.contains(&here).then_some(environ));
    }
    let word = |text: &str| -> String {
        text.chars().take_while(|letter| letter.is_ascii_alphanumeric() || "-_".contains(*letter)).collect()
    };
    let named = |text: &String, name: &str| -> Vec<String> { text.split(name).skip(1).map(word).collect() };
    let all =
        texts.iter().flat_map(|text| [named(text, "Bearer "), named(text, "OSTLER_BRIDGE_TOKEN=")].concat());
    all.filter(|token| token.len() > 8).collect()
}

/// A run that is resumed once, with a bridge: each prompt, the system prompt and the token reach the agent.
fn of_a_run(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let program = player.binary().unwrap();
    let (prompt, system) = (marker("prompt"), marker("system"));
    let script = yard.script(
        r#"
        [[conversation]]
        [[conversation.step]]
        expect = { contains = "Still missing" }
        reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "Done." } }]
        [[conversation.step]]
        reply = [{ text = "Done." }]
        [[conversation]]
        [[conversation.step]]
        reply = [{ tool_by_role = "shell", command = "touch asked; until test -f on; do sleep 0.02; done" }]
        [[conversation.step]]
        reply = [{ text = "I think so." }]
        "#,
    );
    fs::write(yard.at("prompt"), &prompt).unwrap();
    fs::write(yard.at("system"), &system).unwrap();
    let file = |name: &str| yard.at(name).display().to_string();
    let watch = Watch::begin();
    let child = yard.start(&[
        &script,
        "--permissions=all",
        "--prompt-file",
        &file("prompt"),
        "--system-prompt-file",
        &file("system"),
    ]);
    let asked = yard.workspace().join("asked");
    while !asked.exists() {
        std::thread::sleep(LOOK);
    }
    let tokens = tokens(&yard.at(""));
    fs::write(yard.workspace().join("on"), "").unwrap();
    let ended = crate::yard::Ended::of(crate::yard::ended(child));
    ended.ends("completed", 0);
    assert_eq!(ended.outcome()["resumes"], 1);
    assert!(!tokens.is_empty(), "the token of the bridge was not found");
    let secrets = [prompt.as_str(), &system, "Still missing", KEY];
    watch.saw_none_of(
        &[&secrets[..], &tokens.iter().map(String::as_str).collect::<Vec<_>>()].concat(),
        &program,
    );
    let journal = PathBuf::from(ended.outcome()["journal"].as_str().unwrap());
    assert_eq!(links(&journal), [""; 0], "nothing is left in the agent's own folder");
    yard.is_empty();
}

/// Names of links that are left below a folder.
fn links(folder: &Path) -> Vec<String> {
    let mut left = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_symlink() && entry.file_name().to_string_lossy().starts_with("ostler-") {
                left.push(entry.path().display().to_string());
            }
        }
    }
    left
}

for_every_agent!(of_a_run);

#[test]
fn of_a_run_on_a_terminal() {
    of_a_run(Player::ClaudeTerminal);
}

const HEARD: &str = "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"Heard.\" }]";

/// A conversation that happened elsewhere and goes on here, twice: told, and then in the session that knows it.
fn of_a_conversation(scene: &Scene, model: &str, engine: &str) {
    let program = scene.player.binary().unwrap();
    let [system, before, answered, prompt, again] =
        ["system", "before", "answered", "prompt", "again"].map(marker);
    let watch = Watch::begin();
    let served = scene.served();
    let mut talk = vec![
        json!({"role": "system", "content": system}),
        json!({"role": "user", "content": before}),
        json!({"role": "assistant", "content": answered}),
    ];
    let engine = format!("x-ostler-engine: {engine}\r\n");
    for text in [&prompt, &again] {
        talk.push(json!({"role": "user", "content": text}));
        let body = json!({"model": model, "messages": talk});
        let (status, body) = served.post_with("/v1/chat/completions", &engine, &body);
        assert_eq!(status, 200, "{body}");
        talk.push(json!({"role": "assistant", "content": "Heard."}));
        let told = scene.tap.conversation().pop().unwrap().to_string();
        for known in [&system, &before, &answered, text] {
            assert!(told.contains(known.as_str()), "the model is not told {known}: {told}");
        }
    }
    let key = served.key().to_owned();
    assert_eq!(served.interrupt(), Some(0));
    watch.saw_none_of(&[&system, &before, &answered, &prompt, &again, &key, KEY], &program);
    assert_eq!(links(scene.home.path()), [""; 0], "nothing is left in the agent's own folder");
}

#[tokio::test]
async fn of_a_conversation_with_claude() {
    played(Player::ClaudeStream, HEARD, |scene| of_a_conversation(scene, "claude", "stream")).await;
}

#[tokio::test]
async fn of_a_conversation_with_claude_on_a_terminal() {
    played(Player::ClaudeTerminal, HEARD, |scene| of_a_conversation(scene, "claude", "terminal")).await;
}

#[tokio::test]
async fn of_a_conversation_with_codex() {
    played(Player::Codex, HEARD, |scene| of_a_conversation(scene, "codex", "stream")).await;
}

#[tokio::test]
async fn of_a_conversation_with_opencode() {
    played(Player::OpenCode, HEARD, |scene| of_a_conversation(scene, "opencode", "stream")).await;
}
