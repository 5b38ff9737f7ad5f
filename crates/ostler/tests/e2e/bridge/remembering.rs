//! Memory at the bridge: what an agent keeps in one run is found by an agent in the next.

use super::{after, call, declare};
use crate::player::Player;
use crate::yard::Yard;

fn finds_in_one_run_what_was_kept_in_another(player: Player) {
    let Some(yard) = Yard::bridged(player) else { return };
    let keep = call("memory_remember", "text = \"The retry limit is seven tries\"");
    let script = yard.script(&format!("[[conversation]]\n{keep}{}", after("m1", &declare())));
    let granted = ["--capabilities", "memory"];
    yard.run(&[&script, granted[0], granted[1], "Keep it."]).ends("completed", 0);
    let search = call("memory_search", "query = \"how many retries\"");
    let script = yard.script(&format!("[[conversation]]\n{search}{}", after("seven tries", &declare())));
    let ended = yard.run(&[&script, granted[0], granted[1], "Find it."]);
    ended.ends("completed", 0);
    let called: Vec<&str> = ended.with("event", "called").filter_map(|line| line["tool"].as_str()).collect();
    assert_eq!(called, ["memory_search", "declare_complete"]);
}

#[test]
fn claude() {
    finds_in_one_run_what_was_kept_in_another(Player::ClaudeStream);
}

#[test]
fn codex() {
    finds_in_one_run_what_was_kept_in_another(Player::Codex);
}

#[test]
fn opencode() {
    finds_in_one_run_what_was_kept_in_another(Player::OpenCode);
}
