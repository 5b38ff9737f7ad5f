//! What a run may use up, with the real agents: limits are checked after every model call, also within a turn.

use std::process::Stdio;

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
    assert!(!yard.at("runs").exists(), "nothing was started");
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
