//! The ways besides its standard output in which an agent shows life, with the fake agent.

use std::path::PathBuf;

use serde_json::Value;

use crate::ground::{Ended, Ground};

/// A ground on which `claude-headless` is the fake agent with this script.
pub(crate) fn ground(script: &str) -> Ground {
    let agent = PathBuf::from(env!("CARGO_BIN_EXE_ostler")).with_file_name("ostler-fake-agent");
    assert!(agent.exists(), "build it first: cargo build -p ostler-rehearsal");
    let ground = Ground::new();
    ground.put("script.toml", &format!("v = 1\n{script}"));
    // It is asked for its version in an empty environment, so a variable of ours would not reach it.
    let agent = format!("OSTLER_FAKE_DIALECT=claude exec {} \"$@\"", agent.display());
    let program = ground.script("bin/claude", &agent);
    let config = format!("[agents.claude-headless]\nprogram = {:?}\n", program.display().to_string());
    ground.put("ostler/config.toml", &config);
    let (script, state, settings) = (ground.at("script.toml"), ground.at("state"), ground.at("home/.claude"));
    ground
        .with("PATH", "/usr/bin:/bin")
        .with("OSTLER_FAKE_SCRIPT", script)
        .with("OSTLER_FAKE_STATE", state)
        .with("CLAUDE_CONFIG_DIR", settings)
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn run(ground: &Ground, args: &[&str]) -> (Ended, Vec<Value>) {
    let mut all = vec!["run", "-a", "claude-headless", "--json"];
    all.extend_from_slice(args);
    let ended = ground.run(&all);
    let lines = lines(&ended);
    (ended, lines)
}

fn said(lines: &[Value]) -> Vec<&str> {
    let whole = |line: &&Value| line["event"] == "said" && line["part"] == "whole";
    lines.iter().filter(whole).map(|line| line["text"].as_str().unwrap()).collect()
}

/// claude-code #17248: the standard output stops in mid-turn, the session goes on.
#[test]
fn h3_a_session_that_goes_on_without_its_output_is_read_from_its_transcript() {
    let ground = ground(
        r#"
        [[step]]
        do = [
          { say = "Begun." },
          { tool = "Bash", arguments = { command = "one" }, output = "1", for = "10ms" },
          { drop_stdout_keep_transcript = true },
          { tool = "Bash", arguments = { command = "two" }, output = "2", for = "2s" },
          { tool = "Bash", arguments = { command = "three" }, output = "3", for = "2s" },
          { tool = "Bash", arguments = { command = "four" }, output = "4", for = "2s" },
          { say = "All done." },
        ]
        "#,
    );
    let limits = ["--silence", "4s", "--open-call", "4s", "--max-resumes", "0"];
    let (ended, lines) = run(&ground, &[&limits[..], &["go"]].concat());
    let last = lines.last().unwrap();
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!((&last["outcome"], &last["rule"]), (&"completed".into(), &Value::Null));
    assert_eq!(last["evidence"][0]["grade"], "transcript", "{last}");
    assert_eq!((&last["turns"], &last["survivors"]), (&1.into(), &0.into()));
    assert_eq!(said(&lines), ["Begun.", "All done."], "nothing is told twice");
    let calls = lines.iter().filter(|line| line["event"] == "tool_started");
    let commands: Vec<&str> = calls.map(|line| line["input"]["command"].as_str().unwrap()).collect();
    assert_eq!(commands, ["one", "two", "three", "four"]);
    assert!(lines.iter().any(|line| line["channel"] == "transcript"), "{}", ended.stdout);
    let why = ground.run(&["runs", "why", "last"]).stdout;
    assert!(why.contains("seen     transcript at") && !why.contains("fired"), "{why}");
}

#[test]
fn a_session_whose_transcript_does_not_grow_is_stuck() {
    let ground = ground(
        r#"
        [[step]]
        do = [{ say = "Begun." }, { drop_stdout_keep_transcript = true }, { stall = "forever" }]
        "#,
    );
    let (ended, lines) = run(&ground, &["--silence", "2s", "--max-resumes", "0", "go"]);
    let last = lines.last().unwrap();
    assert_eq!((ended.code, &last["rule"]), (Some(12), &"silence".into()), "{}", ended.stdout);
    assert_eq!(last["outcome"], "stalled");
    let why = ground.run(&["runs", "why", "last"]).stdout;
    assert!(why.contains("fired    rule `silence`"), "{why}");
}

/// Real agents have been seen to exit while the last of their output was on its way into the pipe.
#[test]
fn an_end_that_was_only_written_down_is_found_after_the_exit() {
    let ground = ground(
        r#"
        [[step]]
        do = [{ say = "Begun." }, { drop_stdout_keep_transcript = true }, { say = "All done." }, { exit = 0 }]
        "#,
    );
    let (ended, lines) = run(&ground, &["--max-resumes", "0", "go"]);
    let last = lines.last().unwrap();
    assert_eq!((ended.code, &last["outcome"]), (Some(0), &"completed".into()), "{}", ended.stdout);
    assert_eq!(last["evidence"][0]["grade"], "transcript", "{last}");
}
