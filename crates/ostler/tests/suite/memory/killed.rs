//! Ended at any step that touches the disk: nothing is lost, nothing is there twice.

use std::process::Stdio;

use serde_json::json;

use super::{hook_of, line, stored};
use crate::ground::{Ground, ended};

/// As many steps as a capture has, and a drain.
const OF_CAPTURE: usize = 12;
const OF_DRAIN: usize = 6;

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
    for step in 0..OF_CAPTURE * OF_DRAIN {
        let said = format!("Turn {step}");
        text.push_str(&line(step, "user", &said));
        want.push(said);
        std::fs::write(&path, &text).unwrap();
        let hook = hook_of(at(&ground, &["memory", "hook", "stop"], 1 + step / OF_DRAIN), &told);
        kills += usize::from(hook.code.is_none());
        let mut drain = at(&ground, &["memory", "drain"], 1 + step % OF_DRAIN);
        let drain = drain.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        kills += usize::from(ended(drain).status.code().is_none());
    }
    assert!(kills > OF_CAPTURE * OF_DRAIN, "{kills} steps were reached");
    hook_of(ground.command(&["memory", "hook", "stop"]), &told);
    let found = stored(&ground);
    assert_eq!(found.len(), want.len());
    let (mut found, mut want) = (found, want);
    found.sort();
    want.sort();
    assert_eq!(found, want);
}
