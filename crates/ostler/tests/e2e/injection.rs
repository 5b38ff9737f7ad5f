//! A session that knows a conversation which it did not live through: written as the agent's own record, and proven by
//! what the model is then told. Headless and in the terminal, with every version.

use std::process::Stdio;

use ostler_agent::agent::{Agent as _, Session, Stdin, Task};
use ostler_agent::agents::{Claude, ClaudeTerminal};
use ostler_agent::canonical::read;
use ostler_agent::event::{AgentEvent, TurnOutcome};
use ostler_agent::history::History;
use ostler_process::contain::Survivors;
use ostler_process::seeding::Seeded;
use ostler_process::terminal::session::Happening;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::bare::{DEADLINE, Ground, programs};

const SCRIPT: &str = "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"Noted.\" }]";

const ASKED: &str = "And what was it called?";

/// A conversation with all that can be in one: words on both sides, a call and its result, an empty text, and words to
/// itself that nobody could prove.
fn conversation() -> Value {
    json!([
        {"role": "user", "content": "!remember: the dog is called Bello"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "kennel"}]},
        {"role": "assistant", "content": "It has a kennel."},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": ASKED}]},
    ])
}

/// What the model was told, without what the agent adds of its own.
fn told(request: &Value) -> Vec<Value> {
    let is_own = |text: &str| text.starts_with("<system-reminder>");
    let mut told = Vec::new();
    for message in request["messages"].as_array().unwrap() {
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            blocks => blocks.as_array().unwrap().clone(),
        };
        let mut blocks: Vec<Value> =
            blocks.into_iter().filter(|block| !block["text"].as_str().is_some_and(is_own)).collect();
        for block in &mut blocks {
            block.as_object_mut().unwrap().remove("cache_control");
        }
        if message["role"] != "system" && !blocks.is_empty() {
            told.push(json!({"role": message["role"], "content": blocks}));
        }
    }
    told
}

fn want() -> Vec<Value> {
    let text = |text: &str| json!({"type": "text", "text": text});
    vec![
        json!({"role": "user", "content": [text("!remember: the dog is called Bello")]}),
        json!({"role": "assistant", "content": [text("I look."),
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "kennel",
            "is_error": false}]}),
        json!({"role": "assistant", "content": [text("It has a kennel.")]}),
        json!({"role": "user", "content": [text(ASKED)]}),
    ]
}

fn history() -> History {
    History::of(read(conversation().as_array().unwrap()).unwrap()).unwrap()
}

/// The record goes on behind what was written, in the same file.
fn is_gone_on_with(seeded: &Seeded, before: &[u8]) {
    let after = std::fs::read(&seeded.path).unwrap();
    assert!(after.starts_with(before) && after.len() > before.len(), "{}", seeded.path.display());
    assert_eq!(before.len() as u64, seeded.length);
}

#[tokio::test]
async fn headless_it_knows_what_was_said_before() {
    for program in programs() {
        let ground = Ground::of(&Claude, SCRIPT).await;
        let (history, session) = (history(), uuid::Uuid::new_v4().to_string());
        let seeded = ground.seed(&Claude, &session, &history);
        let before = std::fs::read(&seeded.path).unwrap();
        let (prompt, workspace) = (history.prompt().unwrap(), ground.workspace());
        let private = ground.folder.path().join("private");
        let task = Task { session: Session::Resumed(&session), ..Task::new(&prompt, &workspace, &private) };
        let launch = Claude.launch(&task).unwrap();
        let mut child = Command::new(&program)
            .args(&launch.args)
            .env_clear()
            .envs(ground.env.iter().cloned())
            .envs(launch.env.iter().cloned())
            .current_dir(&workspace)
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(ground.folder.path().join("stdout")).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let Stdin::Spoken(lines) = &launch.stdin else { panic!("it listens") };
        let mut stdin = child.stdin.take().unwrap();
        for line in lines {
            stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }
        // It finishes its turn and exits.
        drop(stdin);
        let status = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{}: {status}", program.display());
        let requests = ground.tap.conversation();
        assert_eq!(requests.first().map(told), Some(want()), "{}", program.display());
        is_gone_on_with(&seeded, &before);
        ground.strike().await;
    }
}

/// Two turns of a live session: each tells what is new, and the model is told all.
#[tokio::test]
async fn in_the_terminal_it_knows_what_was_said_before() {
    for program in programs() {
        let ground = Ground::of(&ClaudeTerminal, SCRIPT).await;
        let (history, id) = (history(), uuid::Uuid::new_v4().to_string());
        let seeded = ground.seed(&ClaudeTerminal, &id, &history);
        let before = std::fs::read(&seeded.path).unwrap();
        let mut session = ground.opened(&program, Session::Resumed(&id)).await;
        for (turn, prompt) in [history.prompt().unwrap(), "Thank you.".to_owned()].iter().enumerate() {
            let mut stream = tokio::time::timeout(DEADLINE, session.ask(prompt)).await.unwrap().unwrap();
            let mut told_of = Vec::new();
            while let Some(happening) = tokio::time::timeout(DEADLINE, stream.next()).await.unwrap() {
                told_of.push(happening);
            }
            let asked: Vec<_> = told_of.iter().filter_map(asked).collect();
            assert_eq!(asked, [prompt.as_str()], "{}: {told_of:#?}", program.display());
            let done = TurnOutcome::Done { text: "Noted.".to_owned() };
            assert_eq!(told_of.last(), Some(&Happening::Event(AgentEvent::TurnEnded(done))));
            let text = |text: &str| json!([{"type": "text", "text": text}]);
            let mut want = want();
            if turn == 1 {
                want.push(json!({"role": "assistant", "content": text("Noted.")}));
                want.push(json!({"role": "user", "content": text(prompt)}));
            }
            let requests = ground.tap.conversation();
            assert_eq!(requests.last().map(told), Some(want), "{}", program.display());
        }
        let closed = tokio::time::timeout(DEADLINE, session.close()).await.unwrap().unwrap();
        assert_eq!(closed.survivors, Survivors(0));
        is_gone_on_with(&seeded, &before);
        ground.strike().await;
    }
}

/// Where an agent takes no record, the conversation is in the first prompt: that arrives as it is, and nothing is seeded.
#[tokio::test]
async fn in_the_terminal_a_conversation_can_be_told_in_the_first_prompt() {
    for program in programs() {
        let ground = Ground::of(&ClaudeTerminal, SCRIPT).await;
        let (preamble, id) = (history().preamble().unwrap(), uuid::Uuid::new_v4().to_string());
        let mut session = ground.opened(&program, Session::Minted(&id)).await;
        let mut stream = tokio::time::timeout(DEADLINE, session.ask(&preamble)).await.unwrap().unwrap();
        while tokio::time::timeout(DEADLINE, stream.next()).await.unwrap().is_some() {}
        let requests = ground.tap.conversation();
        let want = json!({"role": "user", "content": [{"type": "text", "text": preamble}]});
        assert_eq!(requests.iter().map(told).collect::<Vec<_>>(), [[want]], "{}", program.display());
        let closed = tokio::time::timeout(DEADLINE, session.close()).await.unwrap().unwrap();
        assert_eq!(closed.survivors, Survivors(0));
        ground.strike().await;
    }
}

fn asked(happening: &Happening) -> Option<&str> {
    match happening {
        Happening::Event(AgentEvent::Asked { text }) => Some(text),
        Happening::Event(_) | Happening::Blocked { .. } => None,
    }
}
