//! What a run may use up, with the real agents: limits are checked after every model call, also within a turn.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::player::Player;
use crate::yard::{Ended, Yard, ended};

/// It never declares that it is done, and would be resumed if it were not for the budget.
const GOES_ON: &str = "[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"I think it is done.\" }]";

fn ends_there(player: Player, flag: [&str; 2], rule: &str, sentence: &str) {
    let Some(yard) = Yard::bridged(player) else { return };
    let script = yard.script(GOES_ON);
    let ended = yard.run(&[&script, flag[0], flag[1], "Do it."]);
    ended.ends("timed_out", 13);
    let outcome = ended.outcome();
    assert_eq!((&outcome["rule"], &outcome["resumes"]), (&rule.into(), &0.into()), "{outcome}");
    assert_eq!(ended.with("kind", "spawned").count(), 1, "no further turn was begun");
    let why = yard.why();
    assert!(why.starts_with(&format!("state    timed_out\ndetail   {sentence}\n")), "{why}");
    yard.is_empty();
}

#[test]
fn the_money_of_claude_is_used_up() {
    let sentence = "it used up 0.001 US dollars";
    ends_there(Player::ClaudeStream, ["--max-cost", "0.001"], "max_cost", sentence);
}

#[test]
fn the_tokens_of_claude_are_used_up() {
    ends_there(Player::ClaudeStream, ["--max-tokens", "10"], "max_tokens", "it used up 10 tokens");
}

#[test]
fn the_tokens_of_codex_are_used_up() {
    ends_there(Player::Codex, ["--max-tokens", "10"], "max_tokens", "it used up 10 tokens");
}

#[test]
fn the_tokens_of_opencode_are_used_up() {
    ends_there(Player::OpenCode, ["--max-tokens", "10"], "max_tokens", "it used up 10 tokens");
}

#[test]
fn the_turns_of_codex_are_used_up() {
    ends_there(Player::Codex, ["--max-turns", "1"], "max_turns", "it used up its one turn");
}

/// How many calls were paid for, by what the outcome says was used.
pub(crate) fn calls(ended: &Ended) -> u64 {
    let usage = &ended.outcome()["usage"];
    let (read, written) = (usage["input_tokens"].as_u64().unwrap(), usage["output_tokens"].as_u64().unwrap());
    assert_eq!(read, 50_000 * written, "{usage}");
    written
}

/// This version counts on where the session was left: what was used before is not used again.
#[test]
fn what_a_resumed_session_had_used_counts_once() {
    let Some(yard) = Yard::bridged(Player::ClaudeStream) else { return };
    let Some(newer) = Player::ClaudeTerminalNewer.binary() else { return };
    let script = yard.script(
        "[[conversation]]\n[[conversation.step]]\n\
         reply = [{ text = \"I think it is done.\" }, { usage = { input = 50000, output = 1 } }]",
    );
    let mut command = yard.ostler(&["run", "-a", "claude-headless", "--json", "--max-resumes", "1"]);
    command.env("OSTLER_CFG__AGENTS__CLAUDE_HEADLESS__PROGRAM", newer);
    let ended = Ended::of(ended(command.args([&script, "Do it."]).stdout(Stdio::piped()).spawn().unwrap()));
    ended.ends("incomplete", 11);
    assert_eq!(ended.with("kind", "spawned").count(), 2);
    assert_eq!(calls(&ended), 2, "{}", ended.outcome());
}

#[test]
fn a_limit_on_money_is_refused_where_codex_has_no_price() {
    let Some(yard) = Yard::of(Player::Codex) else { return };
    let said = yard.refused(&["--rehearse=hello", "--max-cost", "0.001", "Say something."]);
    let want = "error: --max-cost cannot be enforced: codex reports no cost\n  try: set [prices.\"MODEL\"]";
    assert!(said.starts_with(want), "{said}");
    assert!(!yard.at("ostler/runs").exists(), "nothing was started");
}

/// A price that names another model is found out before the first call.
#[test]
fn a_model_without_a_price_is_stopped_before_it_is_paid_for() {
    let Some(yard) = Yard::of(Player::Codex) else { return };
    yard.configure_also("[prices.other]\ninput = 2\noutput = 10");
    let slow =
        "[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"Slow.\", chunk = 1, gap = \"5s\" }]";
    let ended = yard.run(&[&yard.script(slow), "--max-cost", "0.001", "Say something."]);
    ended.ends("agent_failed", 10);
    let outcome = ended.outcome();
    assert!(outcome["detail"].as_str().unwrap().contains("set [prices.\"gpt-5.5\"]"), "{outcome}");
    assert_eq!(outcome["usage"], Value::Null, "{outcome}");
}

/// Rounds of 50,001 tokens, then silence. A quarter of a dollar each, at the prices that Claude Code has.
const DEAR: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "Go on where you stopped" }
reply = [{ text = "Here I am again." }, { usage = { input = 50000, output = 1 } }]
[[conversation]]
[[conversation.step]]
repeat = 2
reply = [
    { tool_by_role = "shell", command = "echo round {{round}}" },
    { usage = { input = 50000, output = 1 } },
]
[[conversation.step]]
reply = [{ stall = "before_headers" }]
"#;

/// An answer that never ends, in the first call: nothing is known of its price.
const FIRST_CALL: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "Go on where you stopped" }
reply = [{ text = "Here I am again." }]
[[conversation]]
[[conversation.step]]
reply = [{ text = "I was about to say" }, { stall = "mid_text" }]
"#;

/// Kills the agent as the kernel does when memory runs out, once a line fits, and plays the run to its end.
fn killed_once(mut child: Child, is_time: impl Fn(&Value) -> bool) -> Ended {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let pid = lines.find_map(|line| line["pid"].as_i64()).unwrap();
    let is_time = |line: &Value| {
        assert_ne!(line["kind"], "stopping", "the time to kill it never came");
        is_time(line)
    };
    lines.find(is_time).unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    Ended { lines: lines.collect(), code: child.wait().unwrap().code() }
}

/// Whether the agent answers, and its session is on disk: one that is not begins anew.
fn is_answering() -> impl Fn(&Value) -> bool {
    let (answers, is_kept) = (Cell::new(false), Cell::new(false));
    move |line| {
        answers.set(answers.get() || line["part"] == "delta");
        is_kept.set(is_kept.get() || (line["kind"] == "seen" && line["channel"] == "transcript"));
        answers.get() && is_kept.get()
    }
}

/// What the next process of the agent was allowed to spend.
fn allowed(ended: &Ended) -> f64 {
    let command = ended.with("kind", "spawned").next().unwrap()["command"].as_str().unwrap().to_owned();
    let after = command.split_once("--max-budget-usd ").unwrap_or_else(|| panic!("{command}")).1;
    after.split(' ').next().unwrap().parse().unwrap()
}

/// A crashed process reports no result. What it cost is in its transcript.
#[test]
fn a_killed_claude_is_resumed_with_what_is_left_of_its_money() {
    for player in [Player::ClaudeStream, Player::ClaudeTerminalNewer] {
        let (Some(yard), Some(binary)) = (Yard::of(Player::ClaudeStream), player.binary()) else { return };
        let script = yard.script(DEAR);
        let mut command = yard.ostler(&["run", "-a", "claude-headless", "--json", "--permissions", "all"]);
        command.args([&script, "--max-cost", "1", "--silence", "30s", "Do it."]);
        command.env("OSTLER_CFG__AGENTS__CLAUDE_HEADLESS__PROGRAM", binary);
        let ended = killed_once(command.stdout(Stdio::piped()).spawn().unwrap(), |line| {
            line["event"] == "spent_so_far" && line["cost_usd"].as_f64().is_some_and(|cost| cost > 0.35)
        });
        ended.ends("completed", 0);
        let cost = ended.outcome()["cost_usd"].as_f64().unwrap();
        let one = cost / 3.0;
        assert!((0.19..0.26).contains(&one), "three calls were paid for: {cost}");
        let left = allowed(&ended);
        assert!((left - (1.0 - 2.0 * one)).abs() < 1e-6, "{left} were left after two calls of {one}");
        yard.is_empty();
    }
}

/// What may be spent is not handed out again.
#[test]
fn a_claude_that_is_killed_before_its_cost_is_known_is_not_resumed() {
    let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
    let script = yard.script(FIRST_CALL);
    let ended = killed_once(yard.start(&[&script, "--max-cost", "1", "Do it."]), is_answering());
    ended.ends("agent_failed", 10);
    let outcome = ended.outcome();
    assert_eq!((&outcome["class"], &outcome["resumes"]), (&"crashed".into(), &0.into()), "{outcome}");
    let detail = outcome["detail"].as_str().unwrap();
    assert!(detail.contains("not resumed: 1 US dollars of --max-cost may be spent"), "{detail}");
    assert!(detail.contains("set [prices.\"claude-"), "{detail}");
    assert_eq!(outcome["cost_usd"], Value::Null, "{outcome}");
    let run = outcome["run"].as_str().unwrap().to_owned();
    let refused = yard.ostler(&["run", "--resume", &run]).stderr(Stdio::piped()).output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && words.contains("may have used up"), "{words}");
    // A higher limit allows more.
    let mut more = yard.ostler(&["run", "--json", "--resume", &run, "--max-cost", "1.5"]);
    let resumed = Ended::of(crate::yard::ended(more.stdout(Stdio::piped()).spawn().unwrap()));
    resumed.ends("completed", 0);
    assert!((allowed(&resumed) - 0.5).abs() < 1e-9);
    yard.is_empty();
}

#[test]
fn a_price_makes_the_cost_of_a_killed_claude_known() {
    let Some(yard) = Yard::of(Player::ClaudeStream) else { return };
    yard.configure_also("[prices.\"claude-opus-4-8\"]\ninput = 5\noutput = 25");
    let script = yard.script(FIRST_CALL);
    let ended = killed_once(yard.start(&[&script, "--max-cost", "1", "Do it."]), is_answering());
    ended.ends("completed", 0);
    let left = allowed(&ended);
    assert!(left > 0.5 && left < 1.0, "{left}");
    yard.is_empty();
}
