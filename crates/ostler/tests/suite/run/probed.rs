//! A program that is only asked for its version is contained as one that runs a task: whatever it starts is gone.

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::hostile::{in_every_tier, wait_until};
use super::{living, long_sleep, outcome};
use crate::ground::{Ground, ended};

/// Codex, as a script that starts a daemon whenever it is asked for its version, and then does `more`.
fn ground(tier: &str, sleep: &str, more: &str) -> Ground {
    let ground = Ground::new().with("PATH", "/usr/bin:/bin").with("OSTLER_FORCE_TIER", tier);
    fs::create_dir(ground.at("tmp")).unwrap();
    let begun = ground.at("begun");
    let script = format!(
        "test \"$1\" = --version || exit 3\n(setsid {sleep} >/dev/null 2>&1 &)\ntouch {}\n{more}",
        begun.display()
    );
    let codex = ground.script("codex", &script);
    ground.put("ostler/config.toml", &format!("[agents.codex]\nprogram = {codex:?}\n"));
    let tmp = ground.at("tmp");
    ground.with("TMPDIR", tmp)
}

fn assert_no_home_is_left(ground: &Ground) {
    assert_eq!(fs::read_dir(ground.at("tmp")).unwrap().count(), 0);
    assert!(!ground.at("ostler/probes").exists());
}

/// Starts a run that does not come further than the program's version.
fn begun(ground: &Ground) -> Child {
    let mut command = ground.command(&["run", "-a", "codex", "--json", "x"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it is asked for its version", || ground.at("begun").exists());
    child
}

#[test]
fn what_a_program_starts_when_it_tells_its_version_does_not_survive() {
    in_every_tier(|tier| {
        let sleep = long_sleep(98_771);
        let ground = ground(tier, &sleep, "echo codex-cli 1.2.3");
        for args in [&["agents", "check", "codex"][..], &["run", "-a", "codex", "--json", "x"]] {
            let ended = ground.run(args);
            assert!(ground.at("begun").exists(), "{args:?}: {}{}", ended.stdout, ended.stderr);
            assert_no_home_is_left(&ground);
        }
        wait_until("no daemon is left", || living(&sleep).is_empty());
    });
}

#[test]
fn an_ostler_that_is_killed_while_it_asks_for_a_version_leaves_nothing() {
    in_every_tier(|tier| {
        let sleep = long_sleep(98_772);
        let ground = ground(tier, &sleep, &format!("exec {sleep}"));
        let mut child = begun(&ground);
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("all are gone", || living(&sleep).is_empty());
        assert_eq!(fs::read_dir(ground.at("tmp")).unwrap().count(), 0);
        ground.script("codex", "echo codex-cli 1.2.3");
        ground.run(&["run", "-a", "codex", "--json", "x"]);
        assert_no_home_is_left(&ground);
    });
}

#[test]
fn a_run_that_is_cancelled_before_its_agent_has_told_its_version_has_an_outcome() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 143)] {
        let sleep = long_sleep(98_773);
        let ground = ground("", &sleep, &format!("exec {sleep}"));
        let child = begun(&ground);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = ended(child);
        assert_eq!(living(&sleep), Vec::<String>::new());
        assert_no_home_is_left(&ground);
        let last = outcome(&String::from_utf8(output.stdout).unwrap());
        assert_eq!((&last["outcome"], &last["survivors"]), (&"cancelled".into(), &0.into()), "{last}");
        assert_eq!((output.status.code(), &last["exit_code"]), (Some(code), &code.into()));
        assert!(ground.run(&["runs"]).stdout.contains("cancelled"));
    }
}
