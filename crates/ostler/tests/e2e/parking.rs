//! Conversations outlive the server, with the real agent: they go on in their own sessions, which know more than the
//! program that talks to them was ever told.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::player::Player;
use crate::scene::{DEADLINE, Scene, played};
use crate::serve::Served;

const SCRIPT: &str = r#"
v = 1
[[conversation]]
name = "look"
[[conversation.step]]
expect = { contains = "look around" }
reply = [{ text = "I look." }, { tool_by_role = "shell", command = "echo rehearsal" }]
[[conversation.step]]
reply = [{ text = "Seen by {{prompt}}." }]

[[conversation]]
name = "echo"
[[conversation.step]]
reply = [{ text = "{{prompt}}!" }]
"#;

/// How often a text is in the agent's own records.
fn recorded(folder: &Path, text: &str) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let entries = entries.filter_map(Result::ok).map(|entry| entry.path());
    let count = |path: std::path::PathBuf| match path.is_dir() {
        true => recorded(&path, text),
        false => std::fs::read_to_string(path).map_or(0, |content| usize::from(content.contains(text))),
    };
    entries.map(count).sum()
}

fn asked(served: &Served, talk: &[Value]) -> String {
    let (status, body) = served.post("/v1/chat/completions", &json!({"model": "claude", "messages": talk}));
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    body["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

/// Whether a request to the model has the call that nobody but the agent knows of, and this text.
fn has_cycle(request: &Value, text: &str) -> bool {
    let told = request["messages"].to_string();
    told.contains("\"tool_use\"") && told.contains("\"tool_result\"") && told.contains(text)
}

fn outlived(scene: &Scene, signal: Signal) {
    let projects = scene.home.path().join(".claude/projects");
    let served = scene.served();
    let talks: Vec<[Value; 2]> = (0..3)
        .map(|number| {
            let prompt = json!({"role": "user", "content": format!("look around {number}")});
            let answer = asked(&served, std::slice::from_ref(&prompt));
            assert_eq!(answer, format!("I look.\n\nSeen by look around {number}."));
            [prompt, json!({"role": "assistant", "content": answer})]
        })
        .collect();
    // The agent writes its record a moment after its answer.
    let began = Instant::now();
    while recorded(&projects, "Seen by look around") < 3 {
        assert!(began.elapsed() < DEADLINE, "the agent has no record");
        std::thread::sleep(Duration::from_millis(20));
    }
    let served = scene.again(served, signal);
    let parked = served.home().join("ostler/serve/parked");
    assert_eq!(std::fs::read_dir(&parked).unwrap().count(), 4, "three sessions and a lock");
    for (number, talk) in talks.iter().enumerate() {
        let prompt = format!("and now {number}?");
        let on = [&talk[..], &[json!({"role": "user", "content": prompt})]].concat();
        assert_eq!(asked(&served, &on), format!("{prompt}!"));
        let request = scene.tap.conversation().pop().unwrap();
        assert!(has_cycle(&request, &prompt), "{signal:?}, {number}: {request}");
    }
    assert_eq!(served.interrupt(), Some(0));
}

/// Asks in a conversation, by this engine.
fn asked_by(served: &Served, engine: &str, talk: &mut Vec<Value>, prompt: &str) {
    talk.push(json!({"role": "user", "content": prompt}));
    let question = json!({"model": "claude", "messages": talk});
    let by = format!("x-ostler-engine: {engine}\r\n");
    let (status, body) = served.post_with("/v1/chat/completions", &by, &question);
    assert_eq!(status, 200, "{engine}: {body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    talk.push(json!({"role": "assistant", "content": body["choices"][0]["message"]["content"]}));
}

/// From pipes to a terminal, where a person could sit down, and back: one session of the agent, which knows what it did.
#[tokio::test]
async fn a_conversation_is_handed_from_one_engine_to_the_other() {
    played(Player::ClaudeTerminal, SCRIPT, |scene| {
        let served = scene.served();
        let mut talk = Vec::new();
        asked_by(&served, "stream", &mut talk, "look around");
        for engine in ["terminal", "stream", "terminal"] {
            let prompt = format!("and now by {engine}");
            asked_by(&served, engine, &mut talk, &prompt);
            let request = scene.tap.conversation().pop().unwrap();
            assert!(has_cycle(&request, &prompt), "{engine}: {request}");
        }
        let (_, listed) = served.bare("GET", "/api/v1/sessions");
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed["counts"]["idle"], 1, "{listed}");
        assert_eq!(served.interrupt(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn conversations_go_on_after_the_server_was_ended() {
    played(Player::ClaudeStream, SCRIPT, |scene| outlived(scene, Signal::TERM)).await;
}

#[tokio::test]
async fn conversations_go_on_after_the_server_was_killed() {
    played(Player::ClaudeStream, SCRIPT, |scene| outlived(scene, Signal::KILL)).await;
}
