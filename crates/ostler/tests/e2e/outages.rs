//! Outages, rate limits and crashes, with the real agents: a run pauses, resumes the same session, and ends well.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::for_every_agent;
use crate::player::Player;
use crate::yard::{Ended, Yard};

/// What the model says once the session is resumed.
const AGAIN: &str = "Here I am again.";

/// A model whose provider fails so, until the session is resumed.
fn failing(fault: &str) -> String {
    format!(
        r#"
        [[conversation]]
        [[conversation.step]]
        expect = {{ contains = "Go on where you stopped" }}
        reply = [{{ text = "{AGAIN}" }}]
        [[conversation]]
        [[conversation.step]]
        reply = [{{ {fault} }}]
        "#
    )
}

/// How long an agent may be silent that waits for its provider. A busy machine needs many times what it takes.
const SILENCE: &str = "15s";

/// Flags that keep the agents' own retries out of a test: Codex gives up at once, OpenCode is not waited for. Claude Code
/// is told by a header.
fn hurried(player: Player) -> &'static [&'static str] {
    match player {
        Player::Codex => &[
            "--agent-arg=-c",
            "--agent-arg=model_providers.rehearsal.request_max_retries=0",
            "--agent-arg=-c",
            "--agent-arg=model_providers.rehearsal.stream_max_retries=0",
        ],
        Player::OpenCode => &["--silence", SILENCE],
        _ => &[],
    }
}

/// Claude Code gives up at once, OpenCode waits for an hour: then its first wait is the one that is too long.
fn given_up(player: Player) -> &'static str {
    match player {
        Player::OpenCode => "retry_after = 3600",
        _ => r#"headers = { "x-should-retry" = "false" }"#,
    }
}

/// Plays against a provider that fails at first, and says how the run ended.
fn played(player: Player, fault: &str, flags: &[&str]) -> Option<Ended> {
    let yard = Yard::of(player)?;
    let script = yard.script(&failing(fault));
    let args = [hurried(player), flags, &[&script, "Say something."]].concat();
    let ended = yard.run(&args);
    yard.is_empty();
    Some(ended)
}

/// That the run paused for this reason, and ended well in the session that it had begun.
fn goes_on(ended: &Ended, reason: &str, resumes: u32) {
    ended.ends("completed", 0);
    let parked = ended.with("kind", "parked").next().unwrap();
    assert!(parked["reason"].as_str().unwrap().starts_with(reason) && parked["until"].is_i64(), "{parked}");
    assert_eq!(ended.outcome()["resumes"], resumes);
    assert_eq!(ended.said(), [AGAIN]);
    let sessions: Vec<&Value> = ended.with("event", "started").map(|line| &line["session"]).collect();
    assert!(!sessions.is_empty() && sessions.iter().all(|one| **one == ended.outcome()["session"]));
}

/// 503, which all agents try again by themselves for a while, and then give up.
fn outage(player: Player) {
    let fault = format!("http = 503, {}, message = \"down for a moment\"", given_up(player));
    let Some(ended) = played(player, &fault, &[]) else { return };
    goes_on(&ended, "the provider ", 1);
}

/// A rate limit without a reset time.
fn plain_429(player: Player) {
    let given_up = given_up(player);
    let fault = format!("http = 429, {given_up}, message = \"This request would exceed your rate limit\"");
    let Some(ended) = played(player, &fault, &["--wait-for-quota"]) else { return };
    goes_on(&ended, "the provider's rate limit is reached, without a reset time", 0);
}

/// Work, then silence, in which the agent is killed. The model ends when it is resumed, or when it is given the task again
/// and told what was done: that depends on whether the agent had written its session down.
const WORKS: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "Go on where you stopped" }
reply = [{ text = "Here I am again." }]
[[conversation]]
[[conversation.step]]
expect = { contains = "do not repeat it" }
reply = [{ text = "Here I am again." }]
[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "write_file", path = "piece.txt", content = "one" }]
[[conversation.step]]
reply = [{ stall = "before_headers" }]
"#;

fn lines(child: &mut Child) -> impl Iterator<Item = Value> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

/// As the kernel does when memory runs out.
fn killed(player: Player) {
    let Some(yard) = Yard::of(player) else { return };
    let script = yard.script(WORKS);
    let mut child = yard.start(&[&script, "Write the piece."]);
    let mut lines = lines(&mut child);
    let pid = lines.find_map(|line| line["pid"].as_i64()).unwrap();
    lines.find(|line| line["event"] == "tool_ended").unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let ended = Ended { lines: lines.collect(), code: child.wait().unwrap().code() };
    goes_on(&ended, "the agent was ended by signal 9", 1);
    yard.is_empty();
}

for_every_agent!(outage, plain_429, killed);

mod on_a_terminal {
    use crate::player::Player;

    #[test]
    fn outage() {
        super::outage(Player::ClaudeTerminal);
    }

    #[test]
    fn plain_429() {
        super::plain_429(Player::ClaudeTerminal);
    }

    #[test]
    fn killed() {
        super::killed(Player::ClaudeTerminal);
    }
}

/// Codex is told to wait for two hours and says so once; OpenCode waits without a record. Neither is stuck.
fn is_named(player: Player) {
    let fault = "http = 429, retry_after = 7200, message = \"Rate limit reached for requests\"";
    let Some(yard) = Yard::of(player) else { return };
    let script = yard.script(&failing(fault));
    let ended = yard.run(&["--silence", SILENCE, &script, "Say something."]);
    ended.ends("quota", 16);
    let retried = ended.with("blocked", "retrying").next().unwrap();
    assert_eq!(retried["class"], "quota", "{retried}");
    yard.is_empty();
}

#[test]
fn a_long_retry_after_is_a_rate_limit_and_not_a_stall_codex() {
    is_named(Player::Codex);
}

#[test]
fn a_long_retry_after_is_a_rate_limit_and_not_a_stall_opencode() {
    is_named(Player::OpenCode);
}

/// Killed before it said anything: nothing was done, so it is given its task again.
#[test]
fn an_agent_that_is_killed_at_its_start_is_given_its_task_again() {
    let once =
        r#"case "$*" in *--version*) ;; *) [ -e "$0.once" ] || { touch "$0.once"; kill -9 $$; } ;; esac"#;
    let Some(yard) = Yard::behind(Player::Codex, once) else { return };
    let ended = yard.run(&["--rehearse=echo", "Say this."]);
    ended.ends("completed", 0);
    assert_eq!(
        (&ended.outcome()["resumes"], ended.said().join("\n").contains("Say this.")),
        (&1.into(), true)
    );
    yard.is_empty();
}

/// A provider that stays away: as often as allowed, then the failure has its name and a way on.
#[test]
fn an_outage_that_lasts_is_told_by_its_name_with_the_way_on() {
    let Some(ended) = played_to_the_end(&["--max-resumes", "1"]) else { return };
    ended.ends("agent_failed", 10);
    let outcome = ended.outcome();
    assert_eq!((&outcome["class"], &outcome["resumes"]), (&"overloaded".into(), &1.into()));
    let hint = format!("`ostler run --resume {}`", outcome["run"].as_str().unwrap());
    assert!(outcome["hint"].as_str().unwrap().contains(&hint), "{outcome}");
    assert_eq!(ended.with("kind", "spawned").count(), 2);
}

fn played_to_the_end(flags: &[&str]) -> Option<Ended> {
    let yard = Yard::of(Player::Codex)?;
    let fault = "http = 503, message = \"down\"";
    let script = yard.script(&format!("[[conversation]]\n[[conversation.step]]\nreply = [{{ {fault} }}]"));
    Some(yard.run(&[hurried(Player::Codex), flags, &[&script, "Say something."]].concat()))
}

/// A pause is no reason to wait: Ctrl-C and `ostler stop` end it at once.
#[test]
fn a_pause_is_ended_by_ctrl_c_and_by_ostler_stop() {
    let script = "[[step]]\ndo = [{ result = \"api_error\", message = \"API Error: 500\", status = 500 }]";
    for (by, code) in [("interrupt", 130), ("client", 143)] {
        let yard = Yard::of_fake(Player::ClaudeStream, script);
        let mut command = yard.ostler(&["run", "-a", "claude-headless", "--json", "Say something."]);
        command.env("OSTLER_CFG__RUN__RESUME_PAUSE", "1h").stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = lines(&mut child);
        let parked = lines.find(|line| line["kind"] == "parked").unwrap();
        assert!(parked["reason"].as_str().unwrap().starts_with("the provider failed: "), "{parked}");
        match by {
            "interrupt" => kill_process(Pid::from_child(&child), Signal::INT).unwrap(),
            _ => assert!(yard.ostler(&["stop", "last"]).status().unwrap().success()),
        }
        let ended = Ended { lines: lines.collect(), code: child.wait().unwrap().code() };
        ended.ends("cancelled", code);
        yard.is_empty();
    }
}
