//! Ostler itself is killed, which it cannot notice: its guardian ends the run, and the journal is readable. Or the
//! guardian is, which Ostler notices and tells.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::hostile::{Living, PLAIN, in_every_tier, stage, wait_until};
use crate::contain::watched::{Watched, leaves, marked};
use crate::ground::Ground;

const STUBBORN: &str = "start = [{ ignore_sigterm = true, sigint = true }]\n\
                        [[step]]\ndo = [{ say = \"begun\" }, { stall = \"forever\", deaf = true }]";

/// Everything that descends from a process.
fn descendants(pid: u32) -> Vec<Watched> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let mut all = Vec::new();
    for child in children.collect::<String>().split_whitespace().map(|pid| pid.parse().unwrap()) {
        all.extend(Watched::hold_if_alive(child));
        all.extend(descendants(child));
    }
    all
}

/// What a run that was killed must leave: a journal that tells, and no process.
fn assert_abandoned(ground: &Ground, case: &str, because: &[&str]) {
    let list: Value = serde_json::from_str(&ground.run(&["runs", "--json"]).stdout).unwrap();
    let states: Vec<_> = list.as_array().unwrap().iter().map(|run| &run["state"]).collect();
    assert_eq!(states, ["abandoned"], "{case}");
    let why = ground.run(&["runs", "why", "last"]);
    assert_eq!(why.code, Some(0), "{case}: {}", why.stderr);
    let told = ["state    abandoned", "Ostler ended before the run had an outcome"];
    for want in told.iter().chain(because) {
        assert!(why.stdout.contains(want), "{case}: {}", why.stdout);
    }
    // Nobody watches it any more.
    assert!(!why.stdout.contains("next "), "{case}: {}", why.stdout);
}

/// Every line of the events but the last can be read, and none is missing. Answers how many there are.
pub(super) fn assert_readable(ground: &Ground, case: &str) -> u64 {
    let folder = fs::read_dir(ground.at("ostler/runs")).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(folder.join("events.ndjson")).unwrap();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // Nothing, or what is torn.
    lines.pop();
    for (line, seq) in lines.iter().zip(1_u64..) {
        let event: Value = serde_json::from_slice(line).unwrap();
        assert_eq!((&event["v"], &event["seq"]), (&1.into(), &seq.into()), "{case}");
    }
    lines.len() as u64
}

fn killed_when(case: &str, because: &[&str], reach: impl Fn(&mut Living) + Sync) {
    in_every_tier(|tier| {
        let mut living = Living::hostile(STUBBORN, tier, &[]);
        let mut held = living.look(tier);
        reach(&mut living);
        held.extend(descendants(living.process.id()));
        living.process.kill().unwrap();
        living.process.wait().unwrap();
        let case = format!("{case} in {tier}");
        assert!(held.iter().all(Watched::ends), "{case}");
        let run = living.run();
        wait_until("its group is removed", || leaves(&run).is_empty());
        living.clear_dead_sockets();
        living.assert_nothing_is_left(&case, &held);
        assert_abandoned(&living.ground, &case, because);
        assert_readable(&living.ground, &case);
    });
}

#[test]
fn ostler_killed_before_the_agent_said_anything_leaves_nothing() {
    killed_when("before the first event", &["watchdog starting"], |_| ());
}

#[test]
fn ostler_killed_in_the_middle_of_a_turn_leaves_nothing() {
    killed_when("in a turn", &["seen     record at", "watchdog working"], |living| {
        living.go();
        living.until(|line| line["event"] == "said");
    });
}

#[test]
fn ostler_killed_while_it_stops_the_agent_leaves_nothing() {
    killed_when("on the ladder", &["while it stopped the agent (cancelled)"], |living| {
        living.go();
        living.until(|line| line["event"] == "said");
        living.signal(Signal::INT);
        living.until(|line| line["rung"] == "interrupt");
    });
}

/// The guardian of a run, by the name that it has among processes.
fn guardian(ostler: u32) -> Watched {
    let is_guardian = |process: &Watched| {
        let name = fs::read_to_string(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
        let words = fs::read_to_string(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        name.trim() == "agent-guardian" && words.contains("__guard")
    };
    descendants(ostler).into_iter().find(is_guardian).unwrap()
}

#[test]
fn a_guardian_that_is_ended_by_hand_is_told_as_such_and_nothing_is_left() {
    for signal in [Signal::KILL, Signal::TERM] {
        in_every_tier(|tier| {
            let mut living = Living::hostile(STUBBORN, tier, &[]);
            let held = living.look(tier);
            living.go();
            living.until(|line| line["event"] == "said");
            guardian(living.process.id()).signal(signal);
            let (told, code) = living.end();
            let last = told.last().unwrap();
            let case = format!("{signal:?} in {tier}");
            assert_eq!((&last["outcome"], code), (&"agent_failed".into(), Some(10)), "{case}: {last}");
            assert_eq!(last["class"], "crashed", "{case}");
            assert!(last["detail"].as_str().unwrap().contains("its guardian was ended"), "{case}: {last}");
            // Where the kernel keeps no account, nobody but the guardian could have found all.
            let is_known = tier != "sweep" || signal == Signal::TERM;
            assert_eq!(last["survivors"], if is_known { 0.into() } else { Value::Null }, "{case}");
            assert!(held.iter().all(Watched::ends), "{case}");
            let warned = told.iter().any(|line| {
                line["kind"] == "warn" && line["text"].as_str().unwrap().starts_with("its guardian was")
            });
            assert!(warned, "{case}: {told:#?}");
            living.assert_nothing_is_left(&case, &held);
        });
    }
}

/// How many moments are tried; `bench/endurance` tries more.
fn moments() -> u64 {
    std::env::var("OSTLER_ENDURANCE_MOMENTS").map_or(20, |count| count.parse().unwrap())
}

/// Not chance: the same numbers in every run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX; its upper bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[test]
fn ostler_killed_at_any_moment_leaves_a_journal_that_can_be_read() {
    let (mut dice, mut made, mut events) = (Dice(7), 0, 0);
    for moment in 0..moments() {
        let flood = "[[step]]\ndo = [{ flood = { records = 1000000, bytes = 3000 } }]";
        let ground = stage(PLAIN, flood);
        let mut ostler = ground.command(&["run", "-a", "claude-headless", "--json", "x"]);
        let mut ostler = ostler.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The moment is what is tested: nothing is waited for.
        thread::sleep(Duration::from_micros(dice.roll(1_000_000)));
        let held = descendants(ostler.id());
        ostler.kill().unwrap();
        ostler.wait().unwrap();
        assert!(held.iter().all(Watched::ends), "moment {moment}");
        let Some(run) = fs::read_dir(ground.at("ostler/runs")).ok().and_then(|mut runs| runs.next()) else {
            continue;
        };
        let run = run.unwrap().file_name().into_string().unwrap();
        wait_until("nothing is left", || marked(&run).is_empty() && leaves(&run).is_empty());
        if ground.at("ostler/runs").join(&run).join("run.json").exists() {
            made += 1;
            assert_abandoned(&ground, &format!("moment {moment}"), &[]);
            events += assert_readable(&ground, &format!("moment {moment}"));
        }
    }
    eprintln!("killed at {} moments: {made} runs had begun, {events} events, all readable", moments());
    assert!(made > 0 && events > 0, "no moment was late enough");
}
