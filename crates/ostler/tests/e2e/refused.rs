//! What a client can rely on when `ostler serve` has too much to do, or is killed, with the real agent.

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::player::Player;
use crate::scene::{DEADLINE, Scene, played};
use crate::serve::Served;

/// The model stops in the middle of a text, for longer than the test lasts.
const SCRIPT: &str = r#"
v = 1
[[conversation]]
name = "stuck"
[[conversation.step]]
expect = { contains = "stop in the middle" }
reply = [{ text = "These words are sent. These are not.", chunk = 21, gap = "10m" }]

[[conversation]]
name = "echo"
[[conversation.step]]
reply = [{ text = "{{prompt}}!" }]
"#;

const CHAT: &str = "/v1/chat/completions";

fn asked(text: &str) -> Value {
    json!({"model": "claude", "stream": false, "messages": [{"role": "user", "content": text}]})
}

/// A turn whose answer stops in the middle, and its connection.
fn stuck(served: &Served, more: &str) -> std::net::TcpStream {
    let body = json!({"model": "claude", "stream": true, "messages": [{"role": "user", "content": "stop in the middle"}]});
    served.post_open(CHAT, more, &body)
}

fn until(stream: &mut std::net::TcpStream, words: &str) -> String {
    let (mut heard, mut buffer) = (String::new(), [0; 4096]);
    while !heard.contains(words) {
        let count = stream.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "it ended before `{words}`: {heard}");
        heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    heard
}

fn named(served: &Served, name: &str, text: &str) -> (u16, String) {
    served.post_with(CHAT, &format!("x-ostler-conversation: {name}\r\n"), &asked(text))
}

fn files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

fn is_killed(scene: &Scene) {
    let served = scene.served();
    assert_eq!(named(&served, "mine", "first").0, 200);
    let mut stream = stuck(&served, "x-ostler-conversation: mine\r\n");
    let heard = until(&mut stream, "These words are sent.");
    let head = heard.to_ascii_lowercase();
    let id = head.split("x-ostler-conversation: ").nth(1).unwrap()[..32].to_owned();
    let served = scene.again(served, Signal::KILL);
    let get = |path: &str| -> Value {
        let (status, body) = served.bare("GET", &format!("/api/v1/sessions/{id}{path}"));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let error = "the server ended during this turn: the answer is incomplete";
    assert_eq!(get("")["last_error"], json!(error));
    let messages = get("/transcript")["messages"].to_string();
    assert!(
        messages.contains("stop in the middle") && messages.contains("These words are sent."),
        "{messages}"
    );
    assert!(!messages.contains("These are not"), "{messages}");
    // It goes on with what was said, the words of the turn that broke off included.
    let (status, body) = named(&served, "mine", "and now");
    assert_eq!((status, body.contains("and now!")), (200, true), "{body}");
    let told = scene.tap.conversation().pop().unwrap()["messages"].to_string();
    assert!(told.contains("first!") && told.contains("These words are sent."), "{told}");
    assert_eq!(served.interrupt(), Some(0));
}

fn is_refused(scene: &Scene) {
    // One session, and as many of one key as may wait for it.
    let served = scene.served_with(&["--max-sessions", "1"]);
    assert_eq!(named(&served, "mine", "first").0, 200);
    let mut first = stuck(&served, "");
    until(&mut first, "These words are sent.");
    let waiting: Vec<_> = (0..32).map(|_| stuck(&served, "")).collect();
    let began = Instant::now();
    loop {
        let (_, listed) = served.bare("GET", "/api/v1/sessions?limit=1");
        let listed: Value = serde_json::from_str(&listed).unwrap();
        if listed["counts"]["in_flight"] == 33 {
            break;
        }
        assert!(began.elapsed() < DEADLINE, "{listed}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let folder = served.home().join("ostler/serve/conversations");
    let before = files(&folder);
    for _ in 0..50 {
        assert_eq!(served.post(CHAT, &asked("second")).0, 429);
        assert_eq!(named(&served, "mine", "second").0, 429);
    }
    assert_eq!(files(&folder), before);
    drop((waiting, first));
    let (status, body) = loop {
        let (status, body) = named(&served, "mine", "second");
        if status != 429 {
            break (status, body);
        }
        assert!(began.elapsed() < DEADLINE, "{body}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((status, body.contains("second!")), (200, true), "{body}");
    let told = scene.tap.conversation().pop().unwrap()["messages"].to_string();
    assert!(told.contains("first!"), "{told}");
    assert_eq!(served.interrupt(), Some(0));
}

#[tokio::test]
async fn a_turn_of_the_real_agent_keeps_its_words_when_the_server_is_killed() {
    played(Player::ClaudeStream, SCRIPT, is_killed).await;
}

#[tokio::test]
async fn refusals_leave_nothing_of_the_real_agents_conversations() {
    played(Player::ClaudeStream, SCRIPT, is_refused).await;
}
