//! A served session of the real Claude Code acts only in a turn: timers, wake-ups and background work are not offered to
//! the model, calls of them are errors of the tool, and the session goes on in the same process.

use serde_json::{Value, json};

use crate::player::Player;
use crate::scene::{Scene, played};
use crate::serve::Served;

/// Tools that act after the turn that calls them.
const LATER: [&str; 8] = [
    "CronCreate",
    "CronDelete",
    "CronList",
    "ScheduleWakeup",
    "Monitor",
    "RemoteTrigger",
    "Workflow",
    "SendMessage",
];

/// A model that tries each of them.
const TRIES: &str = r#"
v = 1
[[conversation]]
[[conversation.step]]
expect = { contains = "remind me" }
reply = [{ tool = "CronCreate", arguments = { cron = "* * * * *", prompt = "And now?", recurring = false } }]
[[conversation.step]]
expect = { result_contains = "No such tool available: CronCreate" }
reply = [{ text = "I cannot." }]

[[conversation]]
[[conversation.step]]
expect = { contains = "in the background" }
reply = [{ tool = "Bash", arguments = { command = "sleep 1; touch later", description = "x", run_in_background = true } }]
[[conversation.step]]
expect = { result_contains = "run_in_background" }
reply = [{ text = "I cannot." }]

[[conversation]]
[[conversation.step]]
reply = [{ text = "Heard." }]
"#;

fn asked(served: &Served, engine: &str, talk: &mut Vec<Value>, prompt: &str, want: &str) {
    talk.push(json!({"role": "user", "content": prompt}));
    let body = json!({"model": "claude", "messages": talk});
    let engine = format!("x-ostler-engine: {engine}\r\n");
    let (status, body) = served.post_with("/v1/chat/completions", &engine, &body);
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["choices"][0]["message"]["content"], want, "{body}");
    talk.push(body["choices"][0]["message"].clone());
}

fn process(served: &Served) -> (Value, Value) {
    let (_, body) = served.bare("GET", "/api/v1/sessions");
    let body: Value = serde_json::from_str(&body).unwrap();
    let process = &body["sessions"][0]["process"];
    (process["pid"].clone(), process["turns"].clone())
}

fn acts_only_in_a_turn(scene: &Scene, engine: &str) {
    let served = scene.served();
    let mut talk = Vec::new();
    asked(&served, engine, &mut talk, "remind me", "I cannot.");
    let (pid, _) = process(&served);
    asked(&served, engine, &mut talk, "do it in the background", "I cannot.");
    asked(&served, engine, &mut talk, "hello", "Heard.");
    assert_eq!(process(&served), (pid, json!(3)), "one process for all turns");
    let requests = scene.tap.conversation();
    let tools = requests[0]["tools"].as_array().unwrap();
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        assert!(!LATER.contains(&name), "{name} is offered");
        assert_eq!(tool["input_schema"]["properties"]["run_in_background"], Value::Null, "{name}");
    }
    // Newer versions offer some by name only, in a message.
    let told = requests[0]["messages"].to_string();
    for name in LATER {
        assert!(!told.contains(&format!("\\n{name}\\n")), "{name} is offered: {told}");
    }
    assert_eq!(requests.len(), 5, "three turns, and nothing of its own");
    assert_eq!(served.interrupt(), Some(0));
}

macro_rules! for_every_engine {
    ($($name:ident: $player:ident, $engine:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            played(Player::$player, TRIES, |scene| acts_only_in_a_turn(scene, $engine)).await;
        }
    )*};
}
for_every_engine! {
    over_pipes: ClaudeTerminal, "stream";
    over_pipes_newer: ClaudeTerminalNewer, "stream";
    on_a_terminal: ClaudeTerminal, "terminal";
    on_a_terminal_newer: ClaudeTerminalNewer, "terminal";
}
