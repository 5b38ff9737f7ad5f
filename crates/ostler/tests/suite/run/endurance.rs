//! Many hostile runs, several at a time, in a mix that is the same every time: afterwards nothing is there that was not
//! there before. `bench/endurance` does the same with ten times as many.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use ostler_process::jail::Canary;
use rustix::process::Signal;

use super::hostile::{Living, tiers, wait_until};
use super::killed::Dice;
use crate::contain::watched::{Watched, leaves};

/// At a time: more than there are cores on a small machine, so that they are in each other's way.
const AT_A_TIME: usize = 4;

fn runs() -> usize {
    std::env::var("OSTLER_ENDURANCE_RUNS").map_or(20, |count| count.parse().unwrap())
}

/// What becomes of a run.
#[derive(Clone, Copy)]
struct Fate {
    name: &'static str,
    script: &'static str,
    args: &'static [&'static str],
    act: fn(&mut Living),
    /// None if Ostler is killed.
    code: Option<i32>,
}

const STUBBORN: &str = "start = [{ ignore_sigterm = true, sigint = true }]\n\
                        [[step]]\ndo = [{ say = \"begun\" }, { stall = \"forever\", deaf = true }]";
const POLITE: &str = "[[step]]\ndo = [{ say = \"begun\" }, { stall = \"forever\" }]";

fn nothing(_: &mut Living) {}

fn begun(living: &mut Living) {
    living.until(|line| line["event"] == "said");
}

const FATES: [Fate; 8] = [
    Fate {
        name: "completed",
        script: "[[step]]\ndo = [{ flood = { records = 200, bytes = 500 } }, { say = \"done\" }]",
        args: &[],
        act: nothing,
        code: Some(0),
    },
    Fate {
        name: "failed",
        script: "[[step]]\ndo = [{ stderr = \"oh\" }, { exit_without_result = 3 }]",
        args: &[],
        act: nothing,
        code: Some(10),
    },
    Fate { name: "stalled", script: STUBBORN, args: &["--silence", "1s"], act: nothing, code: Some(12) },
    Fate {
        name: "quota",
        script: "[[step]]\ndo = [{ limit_banner = true }]",
        args: &[],
        act: nothing,
        code: Some(16),
    },
    Fate {
        name: "Ctrl-C",
        script: POLITE,
        args: &[],
        act: |living| {
            begun(living);
            living.signal(Signal::INT);
        },
        code: Some(130),
    },
    Fate {
        name: "Ctrl-C twice",
        script: STUBBORN,
        args: &[],
        act: |living| {
            begun(living);
            living.signal(Signal::INT);
            living.until(|line| line["kind"] == "stopping");
            living.signal(Signal::INT);
        },
        code: Some(130),
    },
    Fate {
        name: "SIGTERM",
        script: POLITE,
        args: &[],
        act: |living| {
            begun(living);
            living.signal(Signal::TERM);
        },
        code: Some(143),
    },
    Fate {
        name: "kill -9",
        script: STUBBORN,
        args: &[],
        act: |living| {
            begun(living);
            living.signal(Signal::KILL);
        },
        code: None,
    },
];

fn live(fate: Fate, tier: &str) {
    let mut living = Living::hostile(fate.script, tier, fate.args);
    let held = living.look(tier);
    living.go();
    (fate.act)(&mut living);
    let (told, code) = living.end();
    let case = format!("{} in {tier}", fate.name);
    assert_eq!(code, fate.code, "{case}: {:?}", told.last());
    if fate.code.is_none() {
        // Its guardian ends what is left.
        assert!(held.iter().all(Watched::ends), "{case}");
        wait_until("its group is removed", || leaves(&living.run()).is_empty());
        wait_until("its guardian is gone", || held_open_below(&living.ground.at("")).is_empty());
        living.clear_dead_sockets();
        // A killed run leaves what its jail was tried on, until it is resumed or pruned.
        Canary::remove_left(&living.ground.at("ostler/runs").join(living.run()));
    } else {
        assert_eq!(told.last().unwrap()["survivors"], 0, "{case}");
    }
    living.assert_nothing_is_left(&case, &held);
    assert_eq!(held_open_below(&living.ground.at("")), [""; 0], "open after {case}");
    assert_eq!(sockets_below(&living.ground.at("")), [""; 0], "sockets after {case}");
}

/// Descriptors anywhere on this machine that are open on something below a folder.
fn held_open_below(folder: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let descriptors =
        processes.flat_map(|process| fs::read_dir(process.path().join("fd")).into_iter().flatten());
    let open = descriptors.flatten().filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    open.filter(|path| path.starts_with(folder)).map(|path| path.display().to_string()).collect()
}

fn sockets_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(sockets_below(&entry.path()));
        } else if kind.is_socket() || kind.is_fifo() {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn a_mix_of_hostile_runs_leaves_nothing() {
    let (tiers, began) = (tiers(), Instant::now());
    let mut dice = Dice(3);
    let mut roll = |sides: usize| usize::try_from(dice.roll(sides as u64)).unwrap();
    let mix: Vec<_> = (0..runs()).map(|_| (FATES[roll(FATES.len())], tiers[roll(tiers.len())])).collect();
    let waiting = Mutex::new(mix.iter());
    let next = || waiting.lock().unwrap().next().copied();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((fate, tier)) = next() {
                    live(fate, tier);
                }
            });
        }
    });
    let mut table: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (fate, tier) in &mix {
        *table.entry((fate.name, *tier)).or_default() += 1;
    }
    for ((fate, tier), count) in &table {
        eprintln!(
            "{fate:14} {tier:8} {count:4} runs, 0 processes, groups, files, descriptors and sockets left"
        );
    }
    eprintln!("{} runs, each with 55 children, {AT_A_TIME} at a time: {:?}", mix.len(), began.elapsed());
}
