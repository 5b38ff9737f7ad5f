//! Whoever reads `ostler run --json`, however slowly: every line arrives, and the agent is not held up.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::hostile::wait_until;
use super::{ground, script};

/// More lines than any pipe or queue holds.
const LINES: usize = 30_000;

fn talkative(ground: &crate::ground::Ground, then: &str) -> String {
    script(ground, &format!("i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done; {then}"))
}

#[test]
fn a_reader_that_sleeps_for_the_whole_run_gets_every_line() {
    let ground = ground();
    let agent = talkative(&ground, "echo end");
    let mut command = ground.command(&["run", "-a", &agent, "--permissions", "all", "--json", "x"]);
    let mut ostler = command.stdout(Stdio::piped()).spawn().unwrap();
    // The run itself is over before anything is read.
    let is_over = || {
        let runs = std::fs::read_dir(ground.at("ostler/runs")).into_iter().flatten().flatten();
        runs.map(|run| run.path().join("outcome.json")).any(|outcome| outcome.exists())
    };
    wait_until("the run is over", is_over);
    let lines: Vec<Value> = BufReader::new(ostler.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    assert_eq!(ostler.wait().unwrap().code(), Some(0));
    assert!(lines.iter().zip(1_u64..).all(|(line, seq)| line["seq"] == seq), "no line is missing");
    assert_eq!(lines.iter().filter(|line| line["event"] == "said").count(), LINES + 1);
    assert_eq!(lines.last().unwrap()["outcome"], "completed");
}

#[test]
fn a_reader_that_never_reads_keeps_neither_the_run_nor_its_end() {
    let ground = ground();
    let agent = talkative(&ground, "exit 3");
    let mut command = ground.command(&["run", "-a", &agent, "--permissions", "all", "--json", "x"]);
    let mut ostler = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (unread, mut said) = (ostler.stdout.take().unwrap(), String::new());
    ostler.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(ostler.wait().unwrap().code(), Some(10), "{said}");
    assert!(said.contains("the journal has all of it"), "{said}");
    drop(unread);
    let events = ground.run(&["runs", "events", "last"]).stdout;
    assert_eq!(events.lines().filter(|line| line.contains("\"said\"")).count(), LINES);
}

#[test]
fn a_reader_that_went_away_does_not_change_the_outcome() {
    let ground = ground();
    let agent = talkative(&ground, "exit 3");
    let mut command = ground.command(&["run", "-a", &agent, "--permissions", "all", "--json", "x"]);
    let mut ostler = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(ostler.stdout.take());
    assert_eq!(ostler.wait().unwrap().code(), Some(10));
}

#[test]
fn output_that_cannot_be_written_is_told_and_does_not_change_the_outcome() {
    let ground = ground();
    let agent = talkative(&ground, "exit 3");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command: Command = ground.command(&["run", "-a", &agent, "--permissions", "all", "--json", "x"]);
    let output = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(10), "{said}");
    assert!(said.contains("could not write the output"), "{said}");
    assert!(ground.run(&["runs"]).stdout.contains("agent_failed"));
}
