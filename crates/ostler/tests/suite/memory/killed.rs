//! Ended at any step that touches the disk: nothing is lost, nothing is there twice.

use std::process::Stdio;

use serde_json::json;

use super::{hook_of, line, stored};
use crate::ground::{Ground, ended};

/// More steps than a capture or a drain has.
const STEPS: usize = 24;

fn at(ground: &Ground, args: &[&str], step: usize) -> std::process::Command {
    let mut command = ground.command(args);
    command.env("OSTLER_MEMORY_KILL_AT", format!("any:{step}"));
    command
}

/// A transcript grows; at every step of every capture and drain the process is killed once. Then it is done again,
/// undisturbed, and what is stored is what was said.
#[test]
fn at_every_step_of_capture_and_drain() {
    let ground = Ground::new();
    let path = ground.at("sess-1.jsonl");
    let told = json!({"session_id": "sess-1", "transcript_path": path, "cwd": "/srv/project"});
    let (mut text, mut want, mut kills) = (String::new(), Vec::new(), 0);
    for step in 1..=STEPS {
        for turn in 0..2 {
            let number = want.len();
            let said = format!("Turn {number} of step {step}, part {turn}");
            text.push_str(&line(number, "user", &said));
            want.push(said);
        }
        std::fs::write(&path, &text).unwrap();
        let hook = hook_of(at(&ground, &["memory", "hook", "stop"], step), &told);
        kills += usize::from(hook.code.is_none());
        let drain =
            at(&ground, &["memory", "drain"], step).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        kills += usize::from(ended(drain.unwrap()).status.code().is_none());
    }
    assert!(kills > STEPS / 2, "{kills} of {STEPS} steps were reached");
    hook_of(ground.command(&["memory", "hook", "stop"]), &told);
    let found = stored(&ground);
    assert_eq!(found.len(), want.len());
    let (mut found, mut want) = (found, want);
    found.sort();
    want.sort();
    assert_eq!(found, want);
}
