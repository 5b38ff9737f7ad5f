//! What somebody says to an agent that takes one prompt a process.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::for_every_agent;
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

/// The program's first start, which is killed before it reads anything, once the test allows it.
const DIES_AT_FIRST: &str = r#"
case "$*" in
*--version*) ;;
*) [ -e "$0.once" ] || { touch "$0.once"; until [ -e "$0.go" ]; do sleep 0.05; done; kill -9 $$; } ;;
esac"#;

/// Words that were given to an agent which died before it had a session reach the next one, once.
fn is_told_after_a_crash(player: Player) {
    let Some(yard) = Yard::behind(player, DIES_AT_FIRST) else { return };
    let mut child = yard.start(&["--rehearse=echo", "Say this."]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    lines.find(|line| line["kind"] == "spawned").unwrap();
    let said = yard.ostler(&["say", "last", "and mind the commas"]).stdout(Stdio::piped()).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    std::fs::write(yard.at("behind.go"), "").unwrap();
    let ended = Ended { lines: lines.collect(), code: child.wait().unwrap().code() };
    ended.ends("completed", 0);
    assert_eq!(ended.with("kind", "spawned").count(), 1, "it was started once more");
    let answer = ended.said().join("\n");
    assert!(answer.contains("Say this."), "{answer}");
    assert_eq!(answer.matches("and mind the commas").count(), 1, "{answer}");
    yard.is_empty();
}

for_every_agent!(is_told_after_a_crash);

#[test]
fn claude_on_a_terminal_is_told_after_a_crash() {
    is_told_after_a_crash(Player::ClaudeTerminal);
}

/// The second start, which resumes the session with the words, is killed before it reads them.
const DIES_WHEN_RESUMED: &str = r#"
case "$*" in
*--version*) ;;
*) if [ -e "$0.first" ] && ! [ -e "$0.second" ]; then touch "$0.second"; kill -9 $$; fi; touch "$0.first" ;;
esac"#;

#[test]
fn words_for_a_session_are_not_lost_with_the_process_that_was_to_take_them() {
    let Some(yard) = Yard::behind(Player::Codex, DIES_WHEN_RESUMED) else { return };
    let script = yard.script(
        r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "leave the tests alone" }
reply = [{ text = "I left them alone." }]
[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "shell", command = "until test -f go; do sleep 0.1; done" }]
[[conversation.step]]
reply = [{ text = "Done." }]
"#,
    );
    let mut child = yard.start(&[&script, "--permissions", "all", "Do it."]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    lines.find(|line| line["event"] == "tool_started").unwrap();
    let said = yard.ostler(&["say", "last", "leave the tests alone"]).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    std::fs::write(yard.workspace().join("go"), "").unwrap();
    let ended = Ended { lines: lines.collect(), code: child.wait().unwrap().code() };
    ended.ends("completed", 0);
    assert_eq!(ended.with("kind", "spawned").count(), 2, "{:#?}", ended.lines);
    assert_eq!(ended.said(), ["Done.", "I left them alone."]);
    yard.is_empty();
}
