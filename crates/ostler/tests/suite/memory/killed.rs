//! Ended at any step that touches the disk: nothing is lost, nothing is there twice.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use super::{hook_of, line, stored};
use crate::ground::{Ground, ended};

/// Every step of a capture and of a drain that touches the disk. The kill points of the code are these and those of keys
/// and of backfill, which have tests of their own; a test below compares.
const CAPTURE: [&str; 11] = [
    "defer.created",
    "defer.written",
    "defer.synced",
    "defer.renamed",
    "defer.named",
    "capture.deferred",
    "cursor.created",
    "cursor.written",
    "cursor.synced",
    "cursor.renamed",
    "cursor.named",
];
const DRAIN: [&str; 10] = [
    "quarantine.created",
    "quarantine.written",
    "quarantine.synced",
    "quarantine.renamed",
    "quarantine.named",
    "drain.inserted",
    "drain.committed",
    "drain.removed",
    "drain.forgotten",
    "catch_up.committed",
];

/// Steps of the same files in other commands.
const ELSEWHERE: [&str; 7] = [
    "exchange.written",
    "exchange.compared",
    "exchange.swapped",
    "ingest.committed",
    "ingest.kept",
    "vectors.inserted",
    "vectors.committed",
];

fn at(ground: &Ground, args: &[&str], step: &str) -> std::process::Command {
    let mut command = ground.command(args);
    command.env("OSTLER_MEMORY_KILL_AT", step);
    command
}

/// A transcript grows; at every step of every capture and drain the process is killed. Then it is done again,
/// undisturbed, and what is stored is what was said.
#[test]
fn at_every_step_of_capture_and_drain() {
    let ground = Ground::new();
    let path = ground.at("sess-1.jsonl");
    let told = json!({"session_id": "sess-1", "transcript_path": path, "cwd": "/srv/project"});
    let (mut text, mut want) = (String::new(), Vec::new());
    let mut say = |said: String| {
        text.push_str(&line(want.len(), "user", &said));
        want.push(said);
        std::fs::write(&path, &text).unwrap();
        want.clone()
    };
    let mut all = Vec::new();
    for step in CAPTURE {
        say(format!("Before {step}"));
        let hook = hook_of(at(&ground, &["memory", "hook", "stop"], step), &told);
        assert_eq!(hook.code, None, "{step} is not reached");
        // What is left of it is drained, or read again from the transcript.
        let drain = ground.run(&["memory", "drain"]);
        assert_eq!(drain.code, Some(0), "{step}: {}", drain.stderr);
    }
    for step in DRAIN.into_iter().chain(CAPTURE.into_iter().filter(|step| step.starts_with("cursor"))) {
        all = say(format!("Before {step}"));
        if step.starts_with("catch_up") || step.starts_with("cursor") {
            // No hook told of this one.
        } else {
            assert_eq!(hook_of(ground.command(&["memory", "hook", "stop"]), &told).code, Some(0));
        }
        if step.starts_with("quarantine") {
            let name = format!("other-17940000{:02}.jsonl", all.len());
            let bad =
                format!("{{\"version\":1,\"deferred_at\":\"\",\"session_id\":\"o\"}}\n{{ broken at {step}\n");
            ground.put(&format!("ostler/memory/deferred/{name}"), &bad);
        }
        let mut drain = at(&ground, &["memory", "drain"], step);
        let drain = ended(drain.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(drain.status.code(), None, "{step} is not reached");
    }
    let (mut found, mut want) = (stored(&ground), all);
    assert_eq!(found.len(), want.len());
    found.sort();
    want.sort();
    assert_eq!(found, want);
    // Each bad line is there once, though it was put aside again and again.
    let aside = std::fs::read_dir(ground.at("ostler/memory/quarantine")).unwrap().flatten();
    let lines = aside.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count();
    assert_eq!(lines, 5);
}

/// A kill point that no test knows is a step that no test ends at.
#[test]
fn every_kill_point_is_known_here() {
    fn collect(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                collect(&entry.path(), found);
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let calls = text.split("reached(\"").skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(calls.map(str::to_owned));
        }
    }
    let mut found = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../ostler-memory/src"), &mut found);
    let is_step =
        |name: &&&str| !["defer.", "cursor.", "quarantine."].iter().any(|file| name.starts_with(file));
    let known: BTreeSet<String> = CAPTURE
        .iter()
        .chain(&DRAIN)
        .chain(&ELSEWHERE)
        .filter(is_step)
        .map(|name| (*name).to_owned())
        .collect();
    assert_eq!(found, known);
}

/// What a killed process left half written is removed when it is old, and not before: its writer may only be slow.
#[test]
fn what_was_left_half_written_is_cleared_up_after_hours() {
    const HOUR: u64 = 60 * 60;
    let ground = Ground::new();
    let path = ground.put("sess-1.jsonl", &line(0, "user", "Said once"));
    let told = json!({"session_id": "sess-1", "transcript_path": path, "cwd": "/srv/project"});
    for step in ["defer.created", "defer.synced", "cursor.written"] {
        hook_of(at(&ground, &["memory", "hook", "stop"], step), &told);
    }
    let drafts = || -> Vec<std::path::PathBuf> {
        let folders = ["deferred", "cursors"].map(|name| ground.at("ostler/memory").join(name));
        let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with('.')).collect()
    };
    assert_eq!(drafts().len(), 3);
    for (hours, left) in [(5, 3), (7, 0)] {
        for path in drafts() {
            let then = std::time::SystemTime::now() - std::time::Duration::from_secs(hours * HOUR);
            std::fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
        }
        assert_eq!(ground.run(&["memory", "drain"]).code, Some(0));
        assert_eq!(drafts().len(), left, "{hours} hours");
    }
    hook_of(ground.command(&["memory", "hook", "stop"]), &told);
    assert_eq!(stored(&ground), ["Said once"]);
}
