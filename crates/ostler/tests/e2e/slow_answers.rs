//! Answers that stream for longer than the limit on silence, to agents that report whole messages only: nothing but the
//! bytes that they receive shows that they work. The same scripts for runs and for turns of `ostler serve`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::player::Player;
use crate::scene::{Scene, played};
use crate::yard::{Ended, Yard};

/// Longer than an agent is silent by itself, on a machine that has much else to do.
const SILENCE: &str = "10s";

/// How long keep-alives alone count, with that.
const OPEN_CALL: &str = "17s";

/// A word every quarter of a second for 20 s, and one every two and a half for 12 s: that could be keep-alives.
const SLOW: [(&str, &str, &[&str]); 3] = [
    (
        "a paragraph",
        r#"{ text = "word after word, ", repeat = 48, chunk = 10, gap = "250ms" }"#,
        &["connection"],
    ),
    (
        "thoughts",
        r#"{ thinking = "THOUGHTS", chunk = 10, gap = "250ms" }, { text = "Thought over." }"#,
        &["connection"],
    ),
    (
        "a trickle",
        r#"{ text = "word after word, ", repeat = 3, chunk = 11, gap = "2500ms" }"#,
        &["keep_alive", "connection"],
    ),
];

/// It begins, and then come keep-alives at most.
const DEAD: [(&str, &str, Duration); 2] = [
    ("nothing", r#"{ text = "I was about to say" }, { stall = "mid_text" }"#, Duration::from_secs(10)),
    (
        "keep-alives",
        r#"{ text = "I was about to say" }, { stall = "mid_text", keep_alive = "1s" }"#,
        Duration::from_secs(17),
    ),
];

fn run(yard: &Yard, reply: &str) -> Ended {
    let reply = reply.replace("THOUGHTS", &"I wonder about that. ".repeat(40));
    let script = yard.script(&format!("[[conversation]]\n[[conversation.step]]\nreply = [{reply}]"));
    let limits = ["--silence", SILENCE, "--open-call", OPEN_CALL, "--max-resumes", "0"];
    yard.run(&[&[script.as_str()], &limits[..], &["Say something."]].concat())
}

fn survives(player: Player, name: &str, reply: &str, channels: &[&str]) {
    let Some(yard) = Yard::of(player) else { return };
    let ended = run(&yard, reply);
    assert_eq!(ended.outcome()["outcome"], "completed", "{player:?}, {name}: {:#?}", ended.lines);
    assert_eq!(ended.with("kind", "stopping").count(), 0, "{player:?}, {name}: {:#?}", ended.lines);
    let mut seen = ended.with("kind", "seen").filter_map(|line| line["channel"].as_str());
    assert!(seen.any(|channel| channels.contains(&channel)), "{player:?}, {name}: {:#?}", ended.lines);
    yard.is_empty();
}

fn is_stopped(player: Player, name: &str, reply: &str, after: Duration) {
    let Some(yard) = Yard::of(player) else { return };
    let ended = run(&yard, reply);
    ended.ends("stalled", 12);
    assert_eq!(ended.outcome()["rule"], "silence", "{player:?}, {name}");
    let detail = ended.outcome()["detail"].as_str().unwrap();
    let quiet = detail.strip_prefix("it was stuck: nothing was heard for ").unwrap();
    let quiet: f64 = quiet.split(' ').next().unwrap().parse().unwrap();
    // A sample is a second long, and a busy machine is late.
    let late = after + Duration::from_secs(4);
    assert!(quiet >= after.as_secs_f64() && quiet < late.as_secs_f64(), "{player:?}, {name}: {detail}");
    yard.is_empty();
}

/// All at once, so that the time passes once.
fn is_told_from_a_dead_one(player: Player) {
    std::thread::scope(|scope| {
        for (name, reply, channels) in SLOW {
            scope.spawn(move || survives(player, name, reply, channels));
        }
        for (name, reply, after) in DEAD {
            scope.spawn(move || is_stopped(player, name, reply, after));
        }
    });
}

/// In a run.
mod a_slow_answer_is_told_from_a_dead_one {
    use super::*;

    #[test]
    fn codex() {
        is_told_from_a_dead_one(Player::Codex);
    }

    #[test]
    fn opencode() {
        is_told_from_a_dead_one(Player::OpenCode);
    }
}

/// What the model says in turns of a server.
const SERVED: &str = r#"
v = 1
[[conversation]]
[[conversation.step]]
expect = { matches = 'never end\s*$' }
reply = [{ text = "I was about to say" }, { stall = "mid_text" }]

[[conversation]]
[[conversation.step]]
expect = { matches = 'take your time\s*$' }
reply = [{ text = "word after word, ", repeat = 36, chunk = 10, gap = "250ms" }]

[[conversation]]
[[conversation.step]]
reply = [{ text = "Hello." }]
"#;

/// A program on a terminal shows a spinner over a dead connection, which counts for twice the silence.
fn is_served(scene: &Scene) {
    let served = scene.served_under(&[("OSTLER_CFG__SERVE__SILENCE", SILENCE)]);
    let (model, header) = match scene.player {
        Player::ClaudeTerminal => ("claude", "x-ostler-engine: terminal\r\n"),
        player => (player.agent().name(), ""),
    };
    let ask = |prompt: &str| {
        let began = Instant::now();
        let body = json!({"model": model, "messages": [{"role": "user", "content": prompt}]});
        let (status, body) = served.post_with("/v1/chat/completions", header, &body);
        (status, serde_json::from_str::<Value>(&body).unwrap(), began.elapsed())
    };
    // Two of OpenCode at once cannot make the database of a new home.
    assert_eq!(ask("hello").0, 200);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (status, body, took) = ask("take your time");
            assert_eq!(status, 200, "{model}: {body}");
            let text = body["choices"][0]["message"]["content"].as_str().unwrap();
            assert_eq!(text.trim(), "word after word, ".repeat(36).trim(), "{model}");
            assert!(took > Duration::from_secs(14), "{model}: {took:?}");
        });
        scope.spawn(|| {
            let (status, body, _) = ask("never end");
            assert!(status >= 500, "{model}: {status} {body}");
            let message = body["error"]["message"].as_str().unwrap();
            assert!(message.contains("the agent's silence took longer than 10 s"), "{model}: {message}");
        });
    });
    assert_eq!(served.interrupt(), Some(0));
}

/// In a turn of `ostler serve`.
#[tokio::test]
async fn a_served_turn_survives_what_a_run_survives() {
    tokio::join!(
        played(Player::ClaudeTerminal, SERVED, is_served),
        played(Player::Codex, SERVED, is_served),
        played(Player::OpenCode, SERVED, is_served),
    );
}
