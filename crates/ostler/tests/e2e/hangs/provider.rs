//! The provider does not want to.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::player::Player;
use crate::yard::Yard;

/// The first second of the year 2100.
const RESET: i64 = 4_102_444_800;

/// The end of what is said of an agent that ended by itself.
const OVER: &str = "\
watchdog absent, Ns after the start; nothing heard for Ns
seen     record at Ns
";

fn refused(fault: &str) -> String {
    format!("[[conversation]]\n[[conversation.step]]\nreply = [{{ {fault} }}]")
}

/// The usage limit is reached, in the words of each provider.
mod h06_quota {
    use super::*;

    fn is_told(player: Player, fault: &str, resets_at: Option<i64>, (limit, words): (&str, &str)) {
        let Some(yard) = Yard::of(player) else { return };
        let script = yard.script(&refused(fault));
        let ended = yard.run(&[&script, "Say something."]);
        ended.ends("quota", 16);
        let outcome = ended.outcome();
        assert_eq!((&outcome["resets_at"], &outcome["rule"]), (&Value::from(resets_at), &Value::Null));
        let said = format!("state    quota\ndetail   {limit}: {words}\n");
        assert_eq!(yard.why(), said + OVER);
        yard.is_empty();
    }

    const USAGE: &str = "the usage limit of the plan is reached";

    #[test]
    fn claude() {
        let fault = r#"http = 429, headers = { "x-should-retry" = "false" }, body = { type = "error", error = { type = "rate_limit_error", message = "Claude AI usage limit reached|4102444800" } }"#;
        is_told(
            Player::ClaudeStream,
            fault,
            Some(RESET),
            (USAGE, "API Error: Request rejected (429) · Claude AI usage limit reached|4102444800"),
        );
    }

    #[test]
    fn codex() {
        let fault = r#"http = 429, body = { error = { type = "usage_limit_reached", message = "The usage limit has been reached", plan_type = "plus", resets_at = 4102444800 } }"#;
        let words = "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit \
                     https://chatgpt.com/settings/usage to purchase more credits or try again at Jan 1st, 2100 12:00 AM.";
        // It cuts the seconds off: the end of the minute is meant.
        is_told(Player::Codex, fault, Some(RESET + 59), (USAGE, words));
    }

    /// With `--wait-for-quota` the run waits until the reset, without a process, and goes on in the same session.
    #[test]
    fn is_waited_for() {
        let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let reset = now + 8;
        let script = yard.script(&format!(
            r#"
            [[conversation]]
            [[conversation.step]]
            expect = {{ contains = "Go on where you stopped" }}
            reply = [{{ text = "Here I am again." }}]
            [[conversation]]
            [[conversation.step]]
            reply = [{{ http = 429, headers = {{ "x-should-retry" = "false" }}, body = {{ type = "error", error = {{ type = "rate_limit_error", message = "Claude AI usage limit reached|{reset}" }} }} }}]
            "#
        ));
        let ended = yard.run(&["--wait-for-quota", &script, "Say something."]);
        ended.ends("completed", 0);
        let kinds: Vec<&str> = ended
            .lines
            .iter()
            .filter_map(|line| line["kind"].as_str())
            .filter(|kind| ["spawned", "exited", "parked", "unparked", "resumed"].contains(kind))
            .collect();
        let want = ["spawned", "exited", "parked", "unparked", "resumed", "spawned", "exited"];
        assert_eq!(kinds, want, "nobody lives while it waits");
        let parked = ended.lines.iter().find(|line| line["kind"] == "parked").unwrap();
        assert!(parked["until"].as_u64().unwrap() > reset, "{parked}");
        assert_eq!((&ended.outcome()["rule"], &ended.outcome()["resumes"]), (&Value::Null, &0.into()));
        let why = yard.why();
        assert!(why.contains("the usage limit was reset"), "{why}");
        yard.is_empty();
    }

    /// A 429 it would try again for more than a minute, without a word.
    #[test]
    fn opencode() {
        let fault = r#"http = 402, body = { error = { code = "insufficient_quota", message = "You exceeded your current quota." } }"#;
        let credit = "the account's quota is used up";
        is_told(Player::OpenCode, fault, None, (credit, "You exceeded your current quota."));
    }

    /// A rate limit of an API key, with the time of its reset.
    #[test]
    fn is_told_from_a_rate_limit() {
        let fault = r#"http = 429, headers = { "x-should-retry" = "false" }, body = { type = "error", error = { type = "rate_limit_error", message = "This request would exceed your account's rate limit." } }"#;
        let words =
            "API Error: Request rejected (429) · This request would exceed your account's rate limit.";
        is_told(Player::ClaudeStream, fault, None, ("the provider's rate limit is reached", words));
    }
}

/// A key that is not taken is told in seconds, with what to do.
mod h07_bad_key {
    use super::*;

    /// Most requests that are made with a key that was rejected.
    const TRIES: usize = 3;

    fn is_told(player: Player, detail: &str, hint: &str, end: &str) {
        let Some(yard) = Yard::of(player) else { return };
        let script = yard.script(&refused("http = 401, message = \"no such key\""));
        let ended = yard.run(&[&script, "Say something."]);
        ended.ends("agent_failed", 10);
        let outcome = ended.outcome();
        assert_eq!((&outcome["class"], &outcome["rule"]), (&"auth".into(), &Value::Null));
        let asked = yard.requests(&ended).iter().filter(|request| request["status"] == 401).count();
        assert!((1..=TRIES).contains(&asked), "{asked} requests");
        // The port is another each time.
        let detail = match detail.split_once("PORT") {
            None => detail.to_owned(),
            Some((before, _)) => {
                let told = outcome["detail"].as_str().unwrap().split_once(before).unwrap().1;
                let port: String = told.chars().take_while(char::is_ascii_digit).collect();
                detail.replace("PORT", &port)
            }
        };
        let said =
            format!("state    agent_failed\ndetail   the agent failed (auth): {detail}\ntry      {hint}\n");
        assert_eq!(yard.why(), said + &end.replace("DETAIL", &detail));
        yard.is_empty();
    }

    /// Claude Code and Codex would go on trying with the same key.
    const STOPPED: &str = "\
watchdog stopped, Ns after the start; nothing heard for Ns
seen     record at Ns
stopped  DETAIL
";

    #[test]
    fn claude() {
        let hint = "sign in with `claude auth login`, or check the key that it uses";
        is_told(Player::ClaudeStream, "authentication_failed (401)", hint, STOPPED);
    }

    #[test]
    fn codex() {
        let detail =
            "unexpected status 401 Unauthorized: no such key, url: http://127.0.0.1:PORT/v1/responses";
        let hint = "sign in with `codex login`, or check the key that it uses";
        is_told(Player::Codex, detail, hint, STOPPED);
    }

    #[test]
    fn opencode() {
        let hint = "sign in with `opencode auth login`, or check the key that it uses";
        is_told(Player::OpenCode, "no such key", hint, OVER);
    }
}

/// A provider that fails again and again, and an agent that announces when it tries again.
mod retries {
    use super::*;

    /// They are the agent's own time: a run with a ceiling of 70 s once went on for as long as it was told to wait.
    #[test]
    fn do_not_defer_the_ceiling() {
        let is_stopped = |status: u16| {
            let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
            let script = yard.script(&refused(&format!("http = {status}, retry_after = 50")));
            // A wait, which a retry is not, would end too, and by its own name.
            let limits = ["--silence", "6s", "--ceiling", "9s", "--max-wait", "20s"];
            let ended = yard.run(&[&limits[..], &[&script, "Say something."]].concat());
            ended.ends("timed_out", 13);
            assert_eq!(ended.outcome()["rule"], "ceiling");
            assert_eq!(ended.with("blocked", "retrying").count(), 1, "{:#?}", ended.lines);
            assert_eq!(ended.with("kind", "parked").count(), 0, "{:#?}", ended.lines);
            let took = ended.outcome()["ms"].as_u64().unwrap();
            assert!((9_000..40_000).contains(&took), "{took} ms");
            yard.is_empty();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| is_stopped(500));
            is_stopped(529);
        });
    }

    /// A wait that the agent announced is no stall.
    #[test]
    fn are_not_silence() {
        let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
        let fault = "http = 529, retry_after = 9, times = 1 }, { text = \"Here I am.\"";
        let script = yard.script(&refused(fault));
        let ended = yard.run(&[&script, "--silence", "6s", "--max-resumes", "0", "Say something."]);
        ended.ends("completed", 0);
        assert_eq!(ended.with("blocked", "retrying").count(), 1, "{:#?}", ended.lines);
        yard.is_empty();
    }
}
