//! Near the end of its time an agent is told so, with every answer of the bridge.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;

use super::{after, call, declare, says};
use crate::player::Player;
use crate::yard::{Ended, Yard};

/// Its last tenth is long enough for two calls on a busy machine.
const CEILING: &str = "80s";

/// The agent waits in a command until the run says that its time is nearly over. What it is told before has no notice,
/// what it is told then has one, and that is in time.
#[test]
fn an_agent_near_the_ceiling_is_told_to_wrap_up_and_does() {
    let Some(yard) = Yard::bridged(Player::ClaudeStream) else { return };
    let wait = "[[conversation.step]]\nreply = [{ tool = \"Bash\", arguments = { command = \"until test -e late; do \
                sleep 0.1; done\", timeout = 300000 } }]\n";
    let script = yard.script(&format!(
        "[[conversation]]\n{}{wait}{}{}{}",
        call("report_progress", "text = \"early\""),
        call("report_progress", "text = \"late\""),
        after("Wrap up now", &declare()),
        says("Done in time."),
    ));
    let mut child = yard.start(&[&script, "--permissions", "all", "--ceiling", CEILING, "Take your time."]);
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = line["text"].as_str().unwrap_or_default();
        if line["kind"] == "warn" && text.contains("are left of the time it may take") {
            std::fs::write(yard.workspace().join("late"), "").unwrap();
        }
        lines.push(line);
    }
    let ended = Ended { code: child.wait().unwrap().code(), lines };
    ended.ends("completed", 0);
    assert_eq!(ended.outcome()["rule"], Value::Null, "it was in time");
    let told: Vec<bool> = ended
        .with("event", "tool_ended")
        .map(|line| line["result"]["text"].as_str().unwrap().contains("Notice: less than"))
        .collect();
    assert_eq!(told, [false, false, true, true], "early, the wait, late, and the claim");
    yard.is_empty();
}
