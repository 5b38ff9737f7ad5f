//! How agents end: killed when all is done, failing at once, or interrupted by whoever started the test.

use rustix::process::{Pid, Signal, kill_process};

use super::ground::{DECLARES, Ground, SUBMITS, WRITES, waits_for};
use crate::player::Player;
use crate::yard::ended;

/// It had declared completion and was saying goodbye when it was killed: completed, because what was recorded outranks
/// how a process ended.
#[test]
fn an_agent_that_is_killed_right_after_completing_has_completed() {
    let kills = r#"exec 3<&0
"$REAL" "$@" <&3 &
agent=$!
until grep -q '"kind":"complete"' "$HOME/../receipts.ndjson"; do sleep 0.1; done
kill -9 "$agent"
wait "$agent""#;
    let Some(ground) = Ground::wrapped(Player::ClaudeStream, kills) else { return };
    let stalls = r#"
    [[conversation.step]]
    reply = [{ stall = "before_headers" }]
    "#;
    let told = ground.plays(&[WRITES, SUBMITS, DECLARES, stalls]);
    told.is_green();
    told.ended("completed", 0);
}

/// The provider refuses: the run says so, and so does the test.
#[test]
fn a_provider_that_refuses_is_told_as_the_end_of_the_run() {
    let Some(ground) = Ground::of(&[Player::Codex]) else { return };
    let refuses = r#"
    [[conversation.step]]
    reply = [{ http = 401, message = "no such key" }]
    "#;
    let told = ground.plays(&[refuses]);
    assert_eq!((told.code, told.only()["verdict"].as_str()), (Some(20), Some("FAIL")), "{:#}", told.json);
    told.ended("agent_failed", 10);
    told.says("no_crash", "the run ended `agent_failed`, exit code 10: ");
}

/// The first Ctrl-C reaches the agent once, and nothing is left.
#[test]
fn ctrl_c_stops_the_agent_and_leaves_nothing() {
    let Some(ground) = Ground::of(&[Player::ClaudeStream]) else { return };
    let mut child = ground.start(&["--script", "stall"]);
    let pid = Pid::from_child(&child);
    waits_for(&mut child, "came to the bridge");
    kill_process(pid, Signal::INT).unwrap();
    let output = ended(child);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    ground.is_deserted();
    let runs = ground.asked(&["runs"]);
    assert!(runs.contains("cancelled"), "the run inside was stopped in order: {runs}");
    assert_eq!(std::fs::read_dir(ground.at("tmp")).unwrap().count(), 0);
}

/// Whoever is killed cannot clean up; what guards the run inside does.
#[test]
fn a_smoke_test_that_is_killed_leaves_no_process() {
    let Some(ground) = Ground::of(&[Player::ClaudeStream]) else { return };
    let mut child = ground.start(&["--script", "stall"]);
    waits_for(&mut child, "came to the bridge");
    child.kill().unwrap();
    child.wait().unwrap();
    ground.is_deserted();
}
