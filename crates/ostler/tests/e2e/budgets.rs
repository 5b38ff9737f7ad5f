//! What a run may use up, with the real agents. They tell what they used when a turn is over: no further one is begun.

use serde_json::Value;

use crate::player::Player;
use crate::yard::Yard;

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

/// A limit that cannot be kept is not believed in.
#[test]
fn that_codex_does_not_tell_its_costs_is_told() {
    let Some(yard) = Yard::of(Player::Codex) else { return };
    let ended = yard.run(&["--rehearse=hello", "--max-cost", "0.001", "Say something."]);
    ended.ends("completed", 0);
    let is_told =
        |line: &Value| line["text"] == "the limit on costs was not kept: the agent does not tell them";
    assert_eq!(ended.with("kind", "warn").filter(|line| is_told(line)).count(), 1, "{:#?}", ended.lines);
}
