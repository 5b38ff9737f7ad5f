//! What a run may use up, with the real agents: limits are checked after every model call, also within a turn.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

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

/// A scripted provider of its own, which an agent knows from its user's settings: nothing of this is a rehearsal to the
/// run.
struct Provider {
    served: Child,
    url: String,
}

impl Provider {
    fn of(yard: &Yard, script: &str) -> Self {
        yard.script(script);
        let script = yard.at("script.toml").display().to_string();
        let mut command = yard.ostler(&["rehearse", "--script", &script, "--json"]);
        let mut served = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(served.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let first: Value = serde_json::from_str(&line).unwrap();
        Self { served, url: first["url"].as_str().unwrap().to_owned() }
    }

    /// Runs the agent with a home that is the user's own, whose settings name this provider.
    fn run(&self, yard: &Yard, player: Player, args: &[&str]) -> Ended {
        let home = yard.at("own-home");
        std::fs::create_dir_all(home.join(".codex")).unwrap();
        let codex = format!(
            "model = \"gpt-5.5\"\nmodel_provider = \"own\"\nanalytics.enabled = false\n\
             features = {{ plugins = false, apps = false, remote_plugin = false }}\n\
             [model_providers.own]\nname = \"own\"\nbase_url = \"{}/v1\"\nenv_key = \"OWN_KEY\"\n",
            self.url
        );
        std::fs::write(home.join(".codex/config.toml"), codex).unwrap();
        let mut command =
            yard.ostler(&["run", "-a", player.agent().name(), "--json", "--permissions", "all"]);
        command.args(args).arg("Do it.").env("HOME", &home).env("OWN_KEY", "dummy");
        command.env("ANTHROPIC_BASE_URL", &self.url).env("ANTHROPIC_API_KEY", "dummy").env("IS_SANDBOX", "1");
        for quiet in ["DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"]
        {
            command.env(quiet, "1");
        }
        Ended::of(ended(command.stdout(Stdio::piped()).spawn().unwrap()))
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.served.kill();
        let _ = self.served.wait();
    }
}

/// How many calls were paid for, by what the outcome says was used.
fn calls(ended: &Ended) -> u64 {
    let usage = &ended.outcome()["usage"];
    let (read, written) = (usage["input_tokens"].as_u64().unwrap(), usage["output_tokens"].as_u64().unwrap());
    assert_eq!(read, 50_000 * written, "{usage}");
    written
}

/// How many calls may be paid for until the agent is stopped after the first of 41: a scripted model answers at once, and
/// the agent goes on while it is being stopped.
const SOON: u64 = 10;

fn stops_within_the_turn(player: Player, prices: &str, flag: [&str; 2], rule: &str, most: u64) {
    let Some(yard) = Yard::of(player) else { return };
    yard.configure_also(prices);
    let ended = Provider::of(&yard, FORTY).run(&yard, player, &flag);
    ended.ends("timed_out", 13);
    assert_eq!(ended.outcome()["rule"], rule, "{}", ended.outcome());
    assert!((1..=most).contains(&calls(&ended)), "{}", ended.outcome());
    yard.is_empty();
}

#[test]
fn tokens_stop_claude_in_the_middle_of_a_turn() {
    stops_within_the_turn(Player::ClaudeStream, "", ["--max-tokens", "3000"], "max_tokens", SOON);
}

/// It stops itself.
#[test]
fn money_stops_claude_in_the_middle_of_a_turn() {
    stops_within_the_turn(Player::ClaudeStream, "", ["--max-cost", "0.01"], "max_cost", 1);
}

#[test]
fn tokens_stop_codex_in_the_middle_of_a_turn() {
    stops_within_the_turn(Player::Codex, "", ["--max-tokens", "3000"], "max_tokens", SOON);
}

#[test]
fn money_stops_codex_in_the_middle_of_a_turn() {
    let prices = "[prices.\"gpt-5.5\"]\ninput = 2\noutput = 10";
    stops_within_the_turn(Player::Codex, prices, ["--max-cost", "0.01"], "max_cost", SOON);
}

#[test]
fn money_stops_claude_on_a_terminal_in_the_middle_of_a_turn() {
    let Some(yard) = Yard::of(Player::ClaudeTerminal) else { return };
    yard.configure_also("[prices.\"claude-opus-4-8\"]\ninput = 5\noutput = 25");
    let script = yard.script(FORTY);
    let ended = yard.run(&[&script, "--permissions", "all", "--max-cost", "0.01", "Do it."]);
    ended.ends("timed_out", 13);
    assert_eq!(ended.outcome()["rule"], "max_cost", "{}", ended.outcome());
    assert!((1..=SOON).contains(&calls(&ended)), "{}", ended.outcome());
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
