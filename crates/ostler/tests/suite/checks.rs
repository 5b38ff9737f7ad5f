//! `--check`: what the host tries itself when an agent says that it is done.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::ground::{Ended, Ground};

fn ground() -> Ground {
    Ground::new().with("PATH", "/usr/bin:/bin")
}

fn run(ground: &Ground, more: &[&str]) -> Ended {
    ground.run(&[&["run", "-a", "command:true", "--permissions", "all"], more, &["x"]].concat())
}

fn events(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_passes_is_evidence_above_all_other() {
    let ground = ground();
    let ended = run(&ground, &["--json", "--check", "echo fine", "--check", "test -d ."]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let events = events(&ended.stdout);
    let states: Vec<&str> = events
        .iter()
        .filter(|event| event["kind"] == "check")
        .map(|event| event["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["running", "ended", "running", "ended"]);
    let last = events.last().unwrap();
    assert_eq!(last["outcome"], "completed");
    assert_eq!(last["evidence"][0], json!({"fact": "`echo fine` exited with code 0", "grade": "checked"}));
    assert_eq!(last["evidence"][2]["grade"], "reported");
    let check = &last["checks"][0];
    assert_eq!((&check["command"], &check["exit_code"]), (&json!("echo fine"), &json!(0)));
    assert!(check["ms"].is_u64());
    let kept = ground.at("ostler/runs").join(last["run"].as_str().unwrap());
    let log = fs::read_to_string(kept.join(check["output"].as_str().unwrap())).unwrap();
    assert_eq!(log, "fine\n");
}

#[test]
fn what_fails_is_missing_and_told_with_its_output() {
    let ground = ground();
    let ended = run(&ground, &["--json", "--check", "echo broken >&2; exit 3", "--check", "true"]);
    assert_eq!(ended.code, Some(11), "{}", ended.stderr);
    let last = events(&ended.stdout).pop().unwrap();
    assert_eq!(last["outcome"], "incomplete");
    assert_eq!(last["missing"], json!(["the check `echo broken >&2; exit 3`, which exited with code 3"]));
    // The second was tried all the same.
    assert_eq!(last["checks"].as_array().unwrap().len(), 2);
    assert_eq!(last["checks"][0]["tail"], "broken\n");
    let told = run(&ground, &["--check", "echo broken >&2; exit 3"]);
    assert_eq!(told.code, Some(11));
    let text = told.stdout + &told.stderr;
    assert!(text.contains("✗ `echo broken >&2; exit 3` exited with code 3"), "{text}");
    assert!(text.contains("  broken\n"), "{text}");
}

#[test]
fn a_check_that_does_not_end_is_ended_with_all_it_started() {
    let ground = ground();
    let check = "setsid sleep 98612 & yes";
    let ended = run(&ground, &["--json", "--open-call", "1s", "--check", check]);
    assert_eq!(ended.code, Some(11), "{}", ended.stderr);
    let last = events(&ended.stdout).pop().unwrap();
    assert_eq!(last["checks"][0]["trouble"], "was not done within 1.0 s");
    assert_eq!((&last["survivors"], &last["checks"][0]["exit_code"]), (&json!(0), &Value::Null));
    assert!(!is_running("98612"));
}

#[test]
fn the_ceiling_binds_checks_too_and_an_agent_that_failed_is_not_checked() {
    let ground = ground();
    let ended = run(&ground, &["--json", "--ceiling", "1s", "--check", "sleep 98613", "--check", "true"]);
    assert_eq!(ended.code, Some(13), "{}", ended.stdout);
    assert_eq!(events(&ended.stdout).pop().unwrap()["rule"], "ceiling");
    // It is the run that took too long, not the check.
    let ended = run(&ground, &["--json", "--ceiling", "1s", "--check", "sleep 98616"]);
    let last = events(&ended.stdout).pop().unwrap();
    assert_eq!((ended.code, &last["rule"], &last["missing"]), (Some(13), &json!("ceiling"), &json!([])));
    let args =
        ["run", "-a", "command:false", "--permissions", "all", "--json", "--check", "touch tried", "x"];
    assert_eq!(ground.run(&args).code, Some(10));
    assert!(!ground.at("project/tried").exists());
}

#[test]
fn whoever_stops_a_run_stops_its_check() {
    let ground = ground();
    let args = ["run", "-a", "command:true", "--permissions", "all", "--json", "--check", "sleep 98614", "x"];
    let mut child = ground.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = lines.by_ref().map(Result::unwrap).find(|line| line.contains(r#""kind":"check""#));
    assert!(begun.is_some());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let last: Value = serde_json::from_str(&lines.map(Result::unwrap).last().unwrap()).unwrap();
    assert_eq!((last["outcome"].as_str(), &last["survivors"]), (Some("cancelled"), &json!(0)));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!is_running("98614"));
}

#[test]
fn a_check_sees_the_persons_environment_and_is_kept_with_the_run() {
    let ground = ground().with("MINE", "yes");
    let ended = run(&ground, &["--json", "--check", "test \"$MINE\" = yes && test -f there"]);
    assert_eq!(ended.code, Some(11), "{}", ended.stdout);
    ground.put("project/there", "");
    let again = ground.run(&["run", "--resume", "last", "--json"]);
    assert_eq!(again.code, Some(0), "{}", again.stdout);
    assert_eq!(events(&again.stdout).pop().unwrap()["evidence"][0]["grade"], "checked");
    let empty = run(&ground, &["--check", ""]);
    assert_eq!(empty.code, Some(2), "{}", empty.stderr);
}

/// Whether a process has this among its arguments.
fn is_running(argument: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    })
}
