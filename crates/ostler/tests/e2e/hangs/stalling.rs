//! It says nothing, or the same again and again.

use crate::hangs::COMPLETED;
use crate::player::Player;
use crate::yard::Yard;

/// What is said of an agent that went silent.
fn stalled(after: &str, player: Player) -> String {
    let cause = match player {
        Player::Codex => "the agent has no complete message of the model since its prompt",
        _ => "the model's answer stopped in the middle of its text, after 18 characters",
    };
    format!(
        "state    stalled\n\
         detail   it was stuck: nothing was heard for {after} (rule `silence`): {cause}\n\
         watchdog stopped, Ns after the start; nothing heard for Ns\n\
         seen     record at Ns\n\
         fired    rule `silence`\n"
    )
}

/// The model begins to answer and goes silent.
mod h02_mid_turn_stall {
    use super::*;

    fn is_resumed(player: Player) {
        let Some(yard) = Yard::of(player) else { return };
        let script = yard.script(
            r#"
            [[conversation]]
            [[conversation.step]]
            expect = { contains = "Go on where you stopped" }
            reply = [{ text = "Now it is said." }]
            [[conversation]]
            [[conversation.step]]
            reply = [{ tool_by_role = "shell", command = "echo begun" }]
            [[conversation.step]]
            reply = [{ text = "I was about to say" }, { stall = "mid_text" }]
            "#,
        );
        // Longer than an agent is silent by itself, on a machine that has much else to do.
        let ended = yard.run(&[&script, "--permissions", "all", "--silence", "10s", "Say something."]);
        ended.ends("completed", 0);
        assert_eq!(ended.outcome()["resumes"], 1);
        assert_eq!(ended.said().last(), Some(&"Now it is said."));
        let sessions: Vec<_> = ended.with("event", "started").map(|line| &line["session"]).collect();
        assert!(sessions.iter().all(|session| *session == &ended.outcome()["session"]), "{sessions:?}");
        // Not the agent's fault: it is not told that something is missing.
        assert_eq!(ended.with("kind", "spawned").count(), 2);
        let resumed: Vec<_> = ended.with("kind", "resumed").map(|line| &line["reason"]).collect();
        assert_eq!(resumed, ["it was cut off"]);
        assert_eq!(
            yard.why(),
            "state    completed\n\
             resumed  at Ns: it was cut off\n\
             watchdog absent, Ns after the start; nothing heard for Ns\n\
             seen     record at Ns\n"
        );
        yard.is_empty();
    }

    fn stalls(player: Player) {
        let Some(yard) = Yard::of(player) else { return };
        let ended =
            yard.run(&["--rehearse=stall", "--silence", "3s", "--max-resumes", "0", "Say something."]);
        ended.ends("stalled", 12);
        assert_eq!((&ended.outcome()["rule"], &ended.outcome()["resumes"]), (&"silence".into(), &0.into()));
        assert_eq!(yard.why(), stalled("3.0 s", player));
        yard.is_empty();
    }

    #[test]
    fn claude_is_resumed() {
        is_resumed(Player::ClaudeStream);
    }

    #[test]
    fn codex_is_resumed() {
        is_resumed(Player::Codex);
    }

    #[test]
    fn opencode_is_resumed() {
        is_resumed(Player::OpenCode);
    }

    #[test]
    fn claude_stalls() {
        stalls(Player::ClaudeStream);
    }

    #[test]
    fn codex_stalls() {
        stalls(Player::Codex);
    }

    #[test]
    fn an_unanswered_request_is_the_cause() {
        let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
        let script = "[[conversation]]\n[[conversation.step]]\nreply = [{ stall = \"before_headers\" }]";
        let script = yard.script(script);
        let ended = yard.run(&[&script, "--silence", "3s", "--max-resumes", "0", "Say something."]);
        ended.ends("stalled", 12);
        assert_eq!(ended.outcome()["cause"]["cause"], "request_unanswered");
        // It was written down while the run was live.
        let at = |kind: &str| ended.lines.iter().position(|line| line["kind"] == kind).unwrap();
        assert!(at("quiet") < at("stopping"), "{:#?}", ended.lines);
        yard.is_empty();
    }
}

/// Longer than any limit on silence here, by far.
const LONG: u32 = 90;

/// How each agent is asked to run a command that long. Claude Code would move it to the background after two minutes
/// unless told otherwise. Codex looks away after half a minute, whatever it is told, so it is asked to look again.
fn long_work(player: Player) -> String {
    match player {
        Player::Codex => format!(
            r#"
            [[conversation.step]]
            reply = [{{ tool_by_role = "shell", command = "sleep {LONG}; echo slept > slept.txt" }}]
            [[conversation.step]]
            repeat = 3
            reply = [{{ tool = "exec_command", arguments = {{ cmd = "until test -s slept.txt; do sleep 1; done", yield_time_ms = 300000 }} }}]
            [[conversation.step]]
            reply = [{{ tool_by_role = "shell", command = "cat slept.txt" }}]
            "#
        ),
        _ => format!(
            r#"
            [[conversation.step]]
            reply = [{{ tool = "Bash", arguments = {{ command = "sleep {LONG}; echo slept", timeout = 300000 }} }}]
            "#
        ),
    }
}

/// A command that prints nothing for a minute and a half is work; a model that says nothing for ten seconds is not.
#[test]
fn h08_long_honest_tool_is_left_alone() {
    let left_alone = |player| {
        let Some(yard) = Yard::of(player) else { return };
        let script = yard.script(&format!(
            r#"
            [[conversation]]
            {}
            [[conversation.step]]
            expect = {{ result_contains = "slept" }}
            reply = [{{ text = "It took its time." }}]
            "#,
            long_work(player)
        ));
        let ended = yard.run(&[&script, "--permissions", "all", "--silence", "10s", "Take your time."]);
        ended.ends("completed", 0);
        assert_eq!((ended.said(), &ended.outcome()["resumes"]), (vec!["It took its time."], &0.into()));
        assert_eq!(ended.with("kind", "stopping").count(), 0);
        let took = ended.outcome()["ms"].as_u64();
        assert!(took.is_some_and(|took| took > u64::from(LONG) * 1_000), "{took:?}");
        assert_eq!(yard.why(), COMPLETED);
        yard.is_empty();
    };
    let is_found = |player| {
        let Some(yard) = Yard::of(player) else { return };
        let ended =
            yard.run(&["--rehearse=stall", "--silence", "10s", "--max-resumes", "0", "Say something."]);
        ended.ends("stalled", 12);
        assert_eq!(ended.outcome()["rule"], "silence");
        assert_eq!(yard.why(), stalled("10.0 s", player));
        yard.is_empty();
    };
    // All at once, so that the long time passes once.
    std::thread::scope(|scope| {
        scope.spawn(|| left_alone(Player::ClaudeStream));
        scope.spawn(|| left_alone(Player::Codex));
        is_found(Player::ClaudeStream);
        is_found(Player::Codex);
    });
}

/// The same call with the same result, again and again.
mod h09_thrash {
    use super::*;

    fn thrashes(player: Player) {
        let Some(yard) = Yard::of(player) else { return };
        let script = yard.script(
            r#"
            [[conversation]]
            [[conversation.step]]
            repeat = 40
            reply = [{ tool_by_role = "shell", command = "echo the same" }]
            [[conversation.step]]
            reply = [{ text = "Enough." }]
            "#,
        );
        let ended = yard.run(&[&script, "--permissions", "all", "Look again."]);
        ended.ends("stalled", 12);
        assert_eq!(ended.outcome()["rule"], "loop");
        // Five within a minute are enough.
        assert_eq!(
            ended.with("event", "tool_ended").filter(|line| line["result"]["failed"] == false).count(),
            5
        );
        assert_eq!(
            yard.why(),
            "state    stalled\n\
             detail   it went in circles: the same call came again and again with the same result (rule `loop`)\n\
             watchdog stopped, Ns after the start; nothing heard for Ns\n\
             seen     record at Ns\n\
             fired    rule `loop`\n"
        );
        yard.is_empty();
    }

    #[test]
    fn claude() {
        thrashes(Player::ClaudeStream);
    }

    #[test]
    fn codex() {
        thrashes(Player::Codex);
    }

    #[test]
    fn opencode() {
        thrashes(Player::OpenCode);
    }
}
