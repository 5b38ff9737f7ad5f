//! It is done, or gone, and something stays.

use crate::hangs::completed_by;
use crate::player::Player;
use crate::yard::Yard;

/// The result was given, and the process does not end: not by the order to end, nor by the end of its input, nor by
/// SIGINT and SIGTERM. The result counts.
#[test]
fn h01_result_seen_process_stays() {
    let stays = "[[step]]\ndo = [{ ignore_sigterm = true, sigint = true }, { say = \"Done.\" }, { result = \"success\" }, { never_exit = true }]";
    for player in [Player::ClaudeStream, Player::Codex] {
        let yard = Yard::of_fake(player, stays);
        let ended = yard.run(&["Say it."]);
        ended.ends("completed", 0);
        assert_eq!(ended.outcome()["rule"], serde_json::Value::Null, "the outcome is the result's");
        let reasons: Vec<_> = ended.with("kind", "stopping").map(|line| &line["reason"]).collect();
        assert!(!reasons.is_empty() && reasons.iter().all(|reason| *reason == "after_result"), "{reasons:?}");
        assert_eq!(yard.why(), completed_by("after_result"));
        yard.is_empty();
    }
}

/// What the agent started holds its output open. It is not waited for, and does not live on.
mod h11_descendants_hold_the_pipe {
    use super::*;

    fn holds(player: Player) {
        let Some(yard) = Yard::of(player) else { return };
        // The shell's parent is the agent: what the agent says and what this says goes into the same pipe.
        let script = yard.script(
            r#"
            [[conversation]]
            [[conversation.step]]
            reply = [{ tool_by_role = "shell", command = "setsid sleep 97531 > /proc/$PPID/fd/1 2>&1 < /dev/null & echo started" }]
            [[conversation.step]]
            reply = [{ text = "It is started." }]
            "#,
        );
        let ended = yard.run(&[&script, "--permissions", "all", "Start it."]);
        ended.ends("completed", 0);
        assert_eq!(ended.said(), ["It is started."]);
        let reasons: Vec<_> = ended.with("kind", "stopping").map(|line| &line["reason"]).collect();
        assert!(!reasons.is_empty() && reasons.iter().all(|reason| *reason == "after_exit"), "{reasons:?}");
        assert_eq!(yard.why(), completed_by("after_exit"));
        yard.is_empty();
    }

    #[test]
    fn claude() {
        holds(Player::ClaudeStream);
    }

    #[test]
    fn codex() {
        holds(Player::Codex);
    }

    #[test]
    fn fake() {
        let script = "[[step]]\ndo = [{ setsid_child = { count = 3, holds_stdout = true, ignore_sigterm = true, daemon = true } }, { say = \"It is started.\" }, { exit = 0 }]";
        let yard = Yard::of_fake(Player::Codex, script);
        let ended = yard.run(&["Start it."]);
        ended.ends("completed", 0);
        assert_eq!(yard.why(), completed_by("after_exit"));
        yard.is_empty();
    }
}
