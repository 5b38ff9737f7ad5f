//! A disk that is full while a run is written down: the run stops, nothing is left running, and what was written can be
//! read.

use std::fs;
use std::process::{Command, Output, Stdio};

use super::hostile::wait_until;
use super::killed::assert_readable;
use super::{ground, living, script};
use crate::ground::{Ground, ended};

/// Files that may not grow beyond so many kB, instead of a full disk: the write fails in the same way, and it needs no
/// rights.
fn limited(ground: &Ground, agent: &str, kilobytes: u32) -> Output {
    let ostler = env!("CARGO_BIN_EXE_ostler");
    // Dash counts in units of 512 bytes.
    let blocks = kilobytes * 2;
    let run = format!("trap '' XFSZ; ulimit -f {blocks}; exec {ostler} run -a '{agent}' --permissions all x");
    started(ground, Command::new("sh").args(["-c", &run]))
}

fn started(ground: &Ground, command: &mut Command) -> Output {
    command.current_dir(ground.at("project")).env("OSTLER_HOME", ground.at("ostler")).stdin(Stdio::null());
    ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn assert_stopped(ground: &Ground, output: &Output, mark: &str) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("could not write the run's journal"), "{said}");
    assert!(said.contains("try: the disk is full: free some space, or move OSTLER_HOME"), "{said}");
    assert_eq!(living(mark), [""; 0]);
    assert!(ground.run(&["runs"]).stdout.contains("abandoned"));
    let why = ground.run(&["runs", "why", "last"]);
    assert!(why.stdout.contains("state    abandoned\ndetail   Ostler ended before"), "{}", why.stdout);
    // Not "or": what happened was noted, in room that was kept for it.
    assert!(why.stdout.contains("it could not write its journal ("), "{}", why.stdout);
    assert!(why.stdout.contains("try      make room where Ostler keeps its runs"), "{}", why.stdout);
    let shown = ground.run(&["runs", "show", "last"]).stdout;
    assert!(shown.contains("Ostler could not write its journal: "), "{shown}");
}

#[test]
fn a_run_whose_output_does_not_fit_is_stopped() {
    let ground = ground();
    let agent = script(&ground, "head -c 1000000 /dev/zero | tr '\\0' 'x'; echo; setsid sleep 98771");
    let output = limited(&ground, &agent, 100);
    assert_stopped(&ground, &output, "98771");
    assert_readable(&ground, "a full disk");
}

#[test]
fn a_run_whose_events_do_not_fit_is_stopped_and_no_line_is_torn() {
    let ground = ground();
    // The events are longer than the output that they are of, so that they are too long first.
    let agent = script(&ground, "setsid sleep 98772 & while :; do echo some words; done");
    let output = limited(&ground, &agent, 100);
    assert_stopped(&ground, &output, "98772");
    let events = ground.run(&["runs", "events", "last"]).stdout;
    assert!(events.len() > 90_000 && events.ends_with("}\n"), "{} bytes", events.len());
    let read = assert_readable(&ground, "a full disk");
    assert_eq!(read, events.lines().count() as u64);
}

#[test]
fn a_run_that_cannot_even_begin_leaves_nothing() {
    let ground = ground();
    let output = limited(&ground, "command:true", 0);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the disk is full"), "{said}");
    assert_eq!(ground.left(), ["runs"]);
    assert!(ground.run(&["runs"]).stdout.contains("No runs yet"));
}

/// A real one, of a megabyte, where it may be mounted.
#[test]
fn a_disk_that_is_really_full_stops_the_run() {
    let ground = ground();
    fs::create_dir(ground.at("ostler")).unwrap();
    let agent = script(&ground, "setsid sleep 98773 & while :; do echo some words; done");
    let ostler = env!("CARGO_BIN_EXE_ostler");
    // What is on it is gone with it: it is copied first.
    let script = format!(
        "mount -t tmpfs -o size=1m none \"$OSTLER_HOME\" || exit 99\n\
         {ostler} run -a '{agent}' --permissions all x; code=$?\n\
         cp -r \"$OSTLER_HOME\" ../copied && exit $code"
    );
    let output = started(&ground, Command::new("unshare").args(["-m", "sh", "-c", &script]));
    if output.status.code() == Some(99) || output.stderr.starts_with(b"unshare:") {
        eprintln!("left out: no file system can be mounted here");
        return;
    }
    fs::remove_dir(ground.at("ostler")).unwrap();
    fs::rename(ground.at("copied"), ground.at("ostler")).unwrap();
    assert_stopped(&ground, &output, "98773");
    assert!(assert_readable(&ground, "a full disk") > 1_000);
    wait_until("nothing is left", || living("98773").is_empty());
}
