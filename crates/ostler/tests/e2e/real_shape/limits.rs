//! Limits on tokens and cost stop every agent in the middle of a turn, after the model call that reaches them.

use std::process::Stdio;

use super::RealShape;
use crate::budgets::calls;
use crate::player::Player;
use crate::yard::{Ended, ended};

/// One prompt, 40 rounds of tool calls, 50,001 tokens each.
const FORTY: &str = r#"
[[conversation]]
[[conversation.step]]
repeat = 40
reply = [
    { tool_by_role = "shell", command = "echo round {{round}}" },
    { usage = { input = 50000, output = 1 } },
]
[[conversation.step]]
reply = [{ text = "All done." }, { usage = { input = 50000, output = 1 } }]
"#;

/// How many of the 41 calls may be paid for when the first one reaches the limit: a scripted model answers at once, and
/// the agent continues while Ostler stops it.
const SOON: u64 = 10;

fn stops_in_the_middle_of_a_turn(shape: &RealShape, limit: [&str; 2], rule: &str, most: u64) {
    let ended = shape.run(&["--permissions", "all", limit[0], limit[1], "Do it."], FORTY);
    ended.ends("timed_out", 13);
    assert_eq!(ended.outcome()["rule"], rule, "{}", ended.outcome());
    assert!((1..=most).contains(&calls(&ended)), "{}", ended.outcome());
    shape.is_empty();
}

fn tokens_stop(player: Player) {
    let Some(shape) = RealShape::unprivileged(player) else { return };
    stops_in_the_middle_of_a_turn(&shape, ["--max-tokens", "3000"], "max_tokens", SOON);
}

fn cost_stops(player: Player, prices: &str, most: u64) {
    let Some(shape) = RealShape::of(player) else { return };
    let shape = shape.variable("ANTHROPIC_MODEL", "claude-opus-4-8").configured(prices);
    stops_in_the_middle_of_a_turn(&shape, ["--max-cost", "0.01"], "max_cost", most);
}

#[test]
fn tokens_stop_claude() {
    tokens_stop(Player::ClaudeStream);
}

/// Claude Code is given the limit, and stops itself.
#[test]
fn cost_stops_claude() {
    cost_stops(Player::ClaudeStream, "", 1);
}

#[test]
fn tokens_stop_claude_on_a_terminal() {
    tokens_stop(Player::ClaudeTerminal);
}

#[test]
fn cost_stops_claude_on_a_terminal() {
    cost_stops(Player::ClaudeTerminal, "[prices.\"claude-opus-4-8\"]\ninput = 5\noutput = 25\n", SOON);
}

#[test]
fn tokens_stop_codex() {
    tokens_stop(Player::Codex);
}

#[test]
fn cost_stops_codex() {
    cost_stops(Player::Codex, "[prices.\"gpt-5.5\"]\ninput = 2\noutput = 10\n", SOON);
}

#[test]
fn tokens_stop_opencode() {
    tokens_stop(Player::OpenCode);
}

#[test]
fn cost_stops_opencode() {
    cost_stops(Player::OpenCode, "[prices.\"own/scripted\"]\ninput = 2\noutput = 10\n", SOON);
}

fn run_with_sonnet(shape: &RealShape, max_cost: &str) -> Ended {
    let _provider = shape.play(FORTY);
    let mut command = shape.ostler(&["run", "-a", "claude/sonnet", "--json", "--permissions", "all"]);
    command.arg("--cwd").arg(shape.workspace()).args(["--max-cost", max_cost, "Do it."]);
    Ended::of(ended(command.stdout(Stdio::piped()).spawn().unwrap()))
}

/// A price of `sonnet` is one for the model that Claude Code calls so.
#[test]
fn an_alias_has_the_price_of_its_name() {
    let Some(shape) = RealShape::of(Player::ClaudeTerminal) else { return };
    let shape = shape.configured("[prices.sonnet]\ninput = 5\noutput = 25\n");
    let ended = run_with_sonnet(&shape, "0.01");
    ended.ends("timed_out", 13);
    assert_eq!(ended.outcome()["rule"], "max_cost", "{}", ended.outcome());
    shape.is_empty();
}

/// And not for another model that is used in its place.
#[test]
fn a_model_that_was_not_requested_is_not_charged_at_the_price_of_the_requested_one() {
    let Some(shape) = RealShape::of(Player::ClaudeTerminal) else { return };
    let shape = shape.variable("ANTHROPIC_DEFAULT_SONNET_MODEL", "claude-haiku-4-5");
    let shape = shape.configured("[prices.sonnet]\ninput = 5\noutput = 25\n");
    let ended = run_with_sonnet(&shape, "5");
    ended.ends("agent_failed", 10);
    let outcome = ended.outcome();
    assert!(outcome["detail"].as_str().unwrap().contains("set [prices.\"claude-haiku-4-5\"]"), "{outcome}");
    assert!(calls(&ended) <= SOON, "{outcome}");
    shape.is_empty();
}
