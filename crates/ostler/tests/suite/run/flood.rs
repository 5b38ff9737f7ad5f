//! As much as an agent can write: every byte and every event is kept, and Ostler needs no more memory for it.
//! `bench/endurance` does it with a million events and more than a gigabyte.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::hostile::{stage, wait_until};
use crate::ground::Ground;

/// What Ostler itself may have had in memory at most, in kB. In a debug build 32 MB of it are pages of its program.
const MOST_MEMORY: u64 = 44 * 1024;

/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(5);

/// The fake agent, and a copy of all that it says.
const COPIED: &str = "case \"$1\" in --version) echo '2.1.197 (Claude Code)'; exit;; esac\n\
                      \"$FAKE_AGENT\" \"$@\" | tee \"$COPY\"";

fn records() -> u64 {
    std::env::var("OSTLER_ENDURANCE_EVENTS").map_or(10_000, |count| count.parse().unwrap())
}

/// The highest that the memory of a process ever was, in kB.
fn peak(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn folder(ground: &Ground) -> PathBuf {
    fs::read_dir(ground.at("ostler/runs")).unwrap().next().unwrap().unwrap().path()
}

/// Whether two files have the same bytes, however long they are.
fn are_equal(left: &Path, right: &Path) -> bool {
    let mut files = [left, right].map(|path| BufReader::new(File::open(path).unwrap()));
    let [left, right] = &mut files;
    let is_same = left.get_ref().metadata().unwrap().len() == right.get_ref().metadata().unwrap().len();
    is_same && left.bytes().map(|byte| byte.unwrap()).eq(right.bytes().map(|byte| byte.unwrap()))
}

/// Counts the lines, each of which must have the next number; and those that are said.
fn counted(lines: impl Read) -> (u64, u64) {
    let (mut all, mut said, mut line) = (0, 0, Vec::new());
    let mut lines = BufReader::new(lines);
    while lines.read_until(b'\n', &mut line).unwrap() > 0 {
        all += 1;
        // Quicker than to read all of it: these come first.
        assert!(line.starts_with(format!("{{\"v\":1,\"seq\":{all},").as_bytes()), "line {all}");
        assert!(line.ends_with(b"}\n"), "line {all}");
        said += u64::from(line.windows(15).take(80).any(|part| part == b"\"event\":\"said\","));
        line.clear();
    }
    (all, said)
}

/// Runs a command of Ostler to its end, throws its output away, and answers its exit code, time and memory.
fn measured(ground: &Ground, args: &[&str]) -> (Option<i32>, Duration, u64) {
    let began = Instant::now();
    let mut process = ground.command(args).stdout(Stdio::null()).spawn().unwrap();
    let (mut most, mut ended) = (0, None);
    wait_until("it ends", || {
        most = peak(process.id()).unwrap_or(0).max(most);
        ended = process.try_wait().unwrap();
        ended.is_some()
    });
    (ended.unwrap().code(), began.elapsed(), most)
}

#[test]
fn every_byte_and_every_event_of_a_flood_is_kept_in_little_memory() {
    let records = records();
    let script = format!("[[step]]\ndo = [{{ flood = {{ records = {records}, bytes = 700 }} }}]");
    let ground = stage(COPIED, &script);
    let copy = ground.at("project/copy");
    let ground = ground.with("COPY", &copy);
    let began = Instant::now();
    let mut ostler = ground.command(&["run", "-a", "claude-headless", "--json", "x"]);
    let mut ostler = ostler.stdout(Stdio::piped()).spawn().unwrap();
    let pid = ostler.id();
    // The kernel remembers the highest: the last look before its end is enough.
    let looking = thread::spawn(move || {
        let mut most = 0;
        while let Some(memory) = peak(pid) {
            most = memory;
            thread::sleep(LOOK);
        }
        most
    });
    let (printed, said) = counted(ostler.stdout.take().unwrap());
    let memory = looking.join().unwrap();
    assert_eq!(ostler.wait().unwrap().code(), Some(0));
    let took = began.elapsed();

    let folder = folder(&ground);
    assert_eq!(said, records);
    assert_eq!(counted(File::open(folder.join("events.ndjson")).unwrap()), (printed, said));
    assert!(are_equal(&folder.join("raw/stdout"), &copy), "every byte");
    let outcome: Value = serde_json::from_slice(&fs::read(folder.join("outcome.json")).unwrap()).unwrap();
    assert_eq!(outcome["outcome"], "completed");
    assert!((1..MOST_MEMORY).contains(&memory), "{memory} kB");
    let length = fs::metadata(&copy).unwrap().len();
    eprintln!("{printed} events, {length} bytes: {took:.1?}, {memory} kB at most");

    for args in
        [&["runs"][..], &["runs", "show", "last"], &["runs", "why", "last"], &["runs", "events", "last"]]
    {
        let (code, took, memory) = measured(&ground, args);
        assert_eq!(code, Some(0), "{args:?}");
        assert!(memory < MOST_MEMORY, "{args:?}: {memory} kB");
        eprintln!("{}: {took:.1?}, {memory} kB when last looked at", args.join(" "));
    }
}
