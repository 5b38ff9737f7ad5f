//! What somebody says to an agent that takes one prompt a process.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::player::Player;
use crate::yard::{Ended, Yard};

const SCRIPT: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "leave the tests alone" }
# On a busy machine the first request of a process may be without the tools of the bridge.
reply = [{ tool_by_role = "shell", command = "true" }]
[[conversation.step]]
reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "Left alone." } }]
[[conversation.step]]
reply = [{ text = "I left them alone." }]

[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "shell", command = "until test -f go; do sleep 0.1; done" }]
[[conversation.step]]
reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "Done." } }]
[[conversation.step]]
reply = [{ text = "Done." }]
"#;

fn is_told_when_its_turn_has_ended(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let script = yard.script(SCRIPT);
    let mut child = yard.start(&[&script, "--permissions", "all", "Do it."]);
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        // OpenCode tells of a call when it has ended: what it waits for must come before.
        if line["event"] == "tools_listed" && lines.iter().all(|line: &Value| line["kind"] != "queued") {
            let said = yard.ostler(&["say", "last", "leave the tests alone"]).stdout(Stdio::piped()).output();
            let said = String::from_utf8(said.unwrap().stdout).unwrap();
            assert!(said.ends_with("will be told when its turn has ended\n"), "{said}");
            std::fs::write(yard.workspace().join("go"), "").unwrap();
        }
        lines.push(line);
    }
    let ended = Ended { code: child.wait().unwrap().code(), lines };
    ended.ends("completed", 0);
    let queued: Vec<_> = ended.with("kind", "queued").map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(queued, ["leave the tests alone"]);
    let resumed = ended.with("kind", "resumed").next().unwrap();
    assert_eq!(resumed["reason"], "somebody has something to say");
    assert_eq!(ended.outcome()["resumes"], 1);
    // The claim of the first turn does not count for the second.
    assert_eq!(ended.with("event", "completed").count(), 2);
    yard.is_empty();
}

#[test]
fn claude_on_a_terminal_is_told_when_its_turn_has_ended() {
    is_told_when_its_turn_has_ended(Player::ClaudeTerminal);
}

#[test]
fn codex_is_told_when_its_turn_has_ended() {
    is_told_when_its_turn_has_ended(Player::Codex);
}

#[test]
fn opencode_is_told_when_its_turn_has_ended() {
    is_told_when_its_turn_has_ended(Player::OpenCode);
}
