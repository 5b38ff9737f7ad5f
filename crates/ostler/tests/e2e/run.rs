//! `ostler run` with the real agents: the outcome is true, the files are there, and nothing is left.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::for_every_agent;
use crate::player::Player;
use crate::yard::{Ended, Yard};

fn completes(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let ended = yard.run(&["--rehearse=tools", "--permissions", "all", "Write the file."]);
    ended.ends("completed", 0);
    let written = std::fs::read_to_string(yard.workspace().join("rehearsal.txt")).unwrap();
    assert_eq!(written, "Written in a rehearsal.\n");
    let outcome = ended.outcome();
    assert_eq!((&outcome["turns"], &outcome["resumes"]), (&1.into(), &0.into()));
    assert_eq!(outcome["agent_version"], player.agent().package().verified);
    let evidence: Vec<_> = outcome["evidence"].as_array().unwrap().iter().map(|one| &one["grade"]).collect();
    assert_eq!(evidence, ["wire", "reported"], "the bridge saw it, and the agent says so");
    assert!(outcome["session"].is_string() && outcome["usage"]["input_tokens"].is_u64(), "{outcome}");
    // Numbered without gaps, and nothing that is new to us.
    let numbers: Vec<u64> = ended.lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(ended.lines.iter().all(|line| line["event"] != "unknown"), "{:#?}", ended.lines);
    let count = |event: &str| ended.lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!((count("tool_started"), count("tool_ended")), (4, 4));

    let journal = Path::new(outcome["journal"].as_str().unwrap());
    assert!(std::fs::metadata(journal.join("requests.ndjson")).unwrap().len() > 0);
    let events = yard.ostler(&["runs", "events", "last"]).output().unwrap().stdout;
    assert_eq!(events.iter().filter(|byte| **byte == b'\n').count(), ended.lines.len());
    let raw = yard.ostler(&["runs", "raw", "last"]).output().unwrap().stdout;
    assert_eq!(raw, std::fs::read(journal.join("raw/stdout")).unwrap());
    yard.is_empty();
}

/// The first command of the README, as it stands but for the agent, which is here already.
fn writes_a_todo_list(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let args = ["run", "-a", player.agent().name(), "--rehearse=todo", "Write a tiny todo list"];
    let output = yard.ostler(&args).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("✓ completed: the task is done ("), "{told}");
    assert_eq!(
        told.lines().filter(|line| line.starts_with('✓')).count(),
        6,
        "four calls, the claim and the end: {told}"
    );
    assert!(!told.contains('✗') && !told.contains("asked for permission"), "{told}");
    let page = std::fs::read_to_string(yard.workspace().join("todo.html")).unwrap();
    assert!(page.contains("☐") && page.ends_with("</script>\n"), "the same for every agent: {page}");
    assert!(yard.workspace().join("todo.js").is_file());
    yard.is_empty();
}

fn stalls(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let ended = yard.run(&["--rehearse=stall", "--silence", "3s", "--max-resumes", "0", "Say something."]);
    ended.ends("stalled", 12);
    assert_eq!(ended.outcome()["rule"], "silence");
    let why = yard.ostler(&["runs", "why", "last"]).output().unwrap().stdout;
    let why = String::from_utf8(why).unwrap();
    assert!(why.contains("fired    rule `silence`"), "{why}");
    yard.is_empty();
}

fn is_cancelled(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let mut child = yard.start(&["--rehearse=stall", "Say something."]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line.contains("\"event\":\"started\"")));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    let ended = Ended { code: child.wait().unwrap().code(), lines };
    ended.ends("cancelled", 130);
    yard.is_empty();
}

/// Killed without a chance to clean up: the agent goes all the same, and the run is shown as abandoned.
fn does_not_outlive_ostler(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let mut child = yard.start(&["--rehearse=stall", "Say something."]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line.contains("\"event\":\"started\"")));
    child.kill().unwrap();
    child.wait().unwrap();
    yard.is_deserted();
    let runs = yard.ostler(&["runs", "--json"]).output().unwrap().stdout;
    assert_eq!(serde_json::from_slice::<Value>(&runs).unwrap()[0]["state"], "abandoned");
}

for_every_agent!(completes, writes_a_todo_list, stalls, is_cancelled, does_not_outlive_ostler);

/// The call that reaches the limit may be the one that completes the task: what is done stays done.
#[test]
fn a_last_call_that_exceeds_the_limit_is_reported() {
    let Some(yard) = Yard::of(Player::Codex) else { return };
    let ended = yard.run(&["--rehearse=hello", "--max-tokens", "10", "Say something."]);
    ended.ends("completed", 0);
    let warned = |line: &Value| {
        line["text"].as_str().is_some_and(|text| text.contains("exceeded the limit of 10 tokens"))
    };
    assert!(ended.lines.iter().any(warned), "{:#?}", ended.lines);
}

/// A key that is not taken is told in seconds, with what the provider said.
#[test]
fn a_rejected_key_is_a_failure_of_its_own_kind() {
    let Some(yard) = Yard::of(Player::Codex) else { return };
    let script = yard.script(
        "[[conversation]]\n[[conversation.step]]\nreply = [{ http = 401, message = \"no such key\" }]",
    );
    let ended = yard.run(&[&script, "Say something."]);
    ended.ends("agent_failed", 10);
    let detail = ended.outcome()["detail"].as_str().unwrap();
    assert!(detail.contains("(auth)") && detail.contains("no such key"), "{detail}");
}

/// What it may not do by itself Claude asks without a jail, and a denied question does not end the turn.
#[test]
fn a_question_is_answered_by_policy() {
    let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
    let outside = yard.at("outside.txt");
    let script = yard.script(&format!(
        r#"
        [[conversation]]
        [[conversation.step]]
        reply = [{{ tool_by_role = "write_file", path = "{}", content = "no" }}]
        [[conversation.step]]
        reply = [{{ text = "I could not write it." }}]
        "#,
        outside.display()
    ));
    let ended = yard.run(&[&script, "--no-jail", "Write outside."]);
    ended.ends("completed", 0);
    assert!(ended.lines.iter().any(|line| line["blocked"] == "permission"), "{:#?}", ended.lines);
    assert!(!outside.exists());
}
