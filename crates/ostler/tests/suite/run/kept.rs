//! Runs that are kept: followed as they go, and removed when they are old.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::hostile::wait_until;
use super::{ground, script};
use crate::ground::{Ground, ended};

fn start(ground: &Ground, agent: &str) -> std::process::Child {
    let args = ["run", "-a", agent, "--permissions", "all", "--quiet", "x"];
    ground.command(&args).stdout(Stdio::null()).spawn().unwrap()
}

fn journal(ground: &Ground) -> String {
    let runs = fs::read_dir(ground.at("ostler/runs")).into_iter().flatten().flatten();
    runs.map(|run| fs::read_to_string(run.path().join("events.ndjson")).unwrap_or_default()).collect()
}

#[test]
fn events_are_followed_to_the_outcome() {
    let ground = ground();
    let agent = script(&ground, "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second");
    let mut run = start(&ground, &agent);
    wait_until("the run has begun", || journal(&ground).contains("first"));
    let follow =
        ground.command(&["runs", "events", "last", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    ground.put("project/go", "");
    assert_eq!(run.wait().unwrap().code(), Some(0));
    let told = ended(follow);
    assert_eq!((told.status.code(), String::from_utf8(told.stdout).unwrap()), (Some(0), journal(&ground)));
    // A run that is over is printed, and that is all.
    let again = ground.run(&["runs", "events", "last", "--follow"]);
    assert_eq!((again.code, again.stdout), (Some(0), journal(&ground)));
}

#[test]
fn following_a_run_whose_owner_is_killed_ends() {
    let ground = ground();
    let sleep = super::long_sleep(98_764);
    let agent = script(&ground, &format!("echo first; {sleep}"));
    let mut run = start(&ground, &agent);
    wait_until("the run has begun", || journal(&ground).contains("first"));
    let follow =
        ground.command(&["runs", "events", "last", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    let told = ended(follow);
    assert_eq!((told.status.code(), String::from_utf8(told.stdout).unwrap()), (Some(0), journal(&ground)));
    wait_until("the guardian has ended it", || super::living(&sleep).is_empty());
}

/// As if the run had been left alone for so long.
fn age(ground: &Ground, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    for run in fs::read_dir(ground.at("ostler/runs")).unwrap().flatten() {
        let files = fs::read_dir(run.path()).unwrap().flatten().filter(|entry| entry.path().is_file());
        files.for_each(|file| File::open(file.path()).unwrap().set_modified(then).unwrap());
    }
}

#[test]
fn old_runs_are_removed_and_those_under_way_are_not() {
    let ground = ground();
    ground.run(&["run", "-a", "command:true", "--permissions", "all", "--quiet", "x"]);
    let agent = script(&ground, "echo first; while [ ! -e go ]; do sleep 0.05; done");
    let mut live = start(&ground, &agent);
    wait_until("the run has begun", || journal(&ground).contains("first"));
    age(&ground, 31);
    ground.run(&["run", "-a", "command:true", "--permissions", "all", "--quiet", "x"]);
    let listed = || -> Vec<Value> {
        let list: Value = serde_json::from_str(&ground.run(&["runs", "--json"]).stdout).unwrap();
        let mut states: Vec<Value> =
            list.as_array().unwrap().iter().map(|run| run["state"].clone()).collect();
        // Newest first, but the clock of a machine may be set back.
        states.sort_by_key(ToString::to_string);
        states
    };
    assert_eq!(listed(), ["completed", "completed", "live"]);

    let dry = ground.run(&["runs", "prune", "--older-than", "30d", "--dry-run"]);
    assert!(
        dry.stdout.contains("completed") && dry.stdout.contains("Would remove 1 run, "),
        "{}",
        dry.stdout
    );
    assert_eq!(listed().len(), 3);
    let pruned = ground.run(&["runs", "prune", "--older-than", "30d", "--json"]);
    let pruned: Value = serde_json::from_str(&pruned.stdout).unwrap();
    assert_eq!((&pruned["dry_run"], &pruned["runs"][0]["state"]), (&false.into(), &"completed".into()));
    assert!(pruned["bytes"].as_u64().unwrap() > 0 && pruned["runs"].as_array().unwrap().len() == 1);
    assert_eq!(listed(), ["completed", "live"]);
    ground.put("project/go", "");
    assert_eq!(live.wait().unwrap().code(), Some(0));
    let none = ground.run(&["runs", "prune", "--older-than", "30d"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), "Removed 0 runs, 0 bytes.\n"));
    let bare = ground.run(&["runs", "prune"]);
    assert_eq!(bare.code, Some(2));
    assert!(bare.stderr.contains("--older-than"), "{}", bare.stderr);
}

#[test]
fn two_runs_in_one_folder_are_both_warned() {
    let ground = ground();
    let agent = script(&ground, "while [ ! -e go ]; do echo on; sleep 0.05; done");
    let warned = || journal(&ground).matches("another run works in this folder").count();
    let mut one = start(&ground, &agent);
    wait_until("the run has begun", || journal(&ground).contains("said"));
    assert_eq!(warned(), 0);
    let mut other = start(&ground, &agent);
    wait_until("both are warned", || warned() == 2);
    ground.put("project/go", "");
    assert_eq!((one.wait().unwrap().code(), other.wait().unwrap().code()), (Some(0), Some(0)));
    assert_eq!(warned(), 2, "once each");
    let alone = ground.run(&["run", "-a", "command:true", "--permissions", "all", "--json", "x"]);
    assert!(!alone.stdout.contains("another run"), "{}", alone.stdout);
}
