//! Places that cannot be used: a full disk, a folder that cannot be written to, a store that another one has, or that is
//! of tomorrow. A clear answer, and nothing is lost.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use super::sealed::opened;
use super::{capture, deferred, hook, line, stored, transcript};
use crate::ground::{Ground, ended};

/// Runs a shell script with the ground's variables; `$0` is Ostler.
pub(super) fn shell(ground: &Ground, script: &str) -> Output {
    let known = ground.command(&[]);
    let variables = known.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let mut command = Command::new("/bin/sh");
    command.env_clear().envs(variables).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.args(["-c", script, env!("CARGO_BIN_EXE_ostler")]).current_dir(ground.at("project"));
    ended(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// No file can get longer than so many blocks, which is as good as full.
#[test]
fn when_nothing_can_be_written_a_hook_says_so_and_the_next_one_makes_up_for_it() {
    let ground = Ground::new();
    let path = transcript(&ground, 3);
    let told = json!({"session_id": "sess-1", "transcript_path": path, "cwd": "/srv/project"});
    ground.put("told.json", &told.to_string());
    let output = shell(&ground, "trap '' XFSZ; ulimit -f 0; exec \"$0\" memory hook stop < ../told.json");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).starts_with("ostler memory: "), "{output:?}");
    assert!(deferred(&ground).is_empty());
    let left = std::fs::read_dir(ground.at("ostler/memory/deferred")).unwrap().count();
    assert_eq!(left, 0, "a part of a file was left");
    assert_eq!(hook(&ground, "stop", &told).code, Some(0));
    assert_eq!(stored(&ground).len(), 3);
}

#[test]
fn when_the_store_cannot_grow_what_was_taken_down_waits() {
    let ground = Ground::new();
    capture(&ground, &transcript(&ground, 1));
    assert_eq!(stored(&ground).len(), 1);
    let long: String =
        (10..40).map(|turn| line(turn, "user", &format!("{turn} {}", "long words ".repeat(4_000)))).collect();
    capture(&ground, &ground.put("long.jsonl", &long));
    assert_eq!(deferred(&ground).len(), 1);
    let output = shell(&ground, "trap '' XFSZ; ulimit -f 400; exec \"$0\" memory drain");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("  because "), "{output:?}");
    assert_eq!(deferred(&ground).len(), 1);
    assert_eq!(stored(&ground).len(), 31);
    assert!(deferred(&ground).is_empty());
}

/// A real one, of two megabytes, where it may be mounted.
#[test]
fn a_disk_that_is_really_full_loses_nothing() {
    let ground = Ground::new();
    std::fs::create_dir(ground.at("ostler")).unwrap();
    let long: String =
        (0..40).map(|turn| line(turn, "user", &format!("{turn} {}", "many words ".repeat(4_000)))).collect();
    ground.put("long.jsonl", &long);
    let script = "mount -t tmpfs -o size=3m none \"$OSTLER_HOME\" || exit 99\n\
         \"$0\" memory capture-transcript --no-spawn ../long.jsonl\n\
         \"$0\" memory drain && exit 98\n\
         mount -o remount,size=30m \"$OSTLER_HOME\" && \"$0\" memory drain --json && \"$0\" memory export | wc -l";
    let output = shell(&ground, &format!("exec unshare -m sh -c '{script}' \"$0\""));
    if output.status.code() == Some(99) || output.stderr.starts_with(b"unshare:") {
        eprintln!("left out: no file system can be mounted here");
        return;
    }
    let said = text(&output.stderr);
    assert!(said.contains("there is no room") && said.contains("try: make room"), "{said}");
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.last().map(String::as_str), Some("40"), "{output:?}");
}

/// Permissions do not bind root, for whom a read-only mount is made. Left out where that is not allowed either.
#[test]
fn a_folder_that_cannot_be_written_to_is_told_and_an_agent_does_not_notice() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    std::fs::create_dir_all(ground.at("ostler")).unwrap();
    let told = json!({"session_id": "sess-1", "transcript_path": path, "cwd": "/srv/project"});
    ground.put("told.json", &told.to_string());
    let is_root = rustix::process::geteuid().is_root();
    let body = "\"$0\" memory hook stop < ../told.json; echo $?; \"$0\" memory recall x; echo $?";
    let output = if is_root {
        let mount = "mount --bind \"$OSTLER_HOME\" \"$OSTLER_HOME\" && mount -o remount,bind,ro \"$OSTLER_HOME\" || exit 99";
        shell(&ground, &format!("exec unshare -m sh -c '{mount}; {body}' \"$0\""))
    } else {
        std::fs::set_permissions(ground.at("ostler"), std::fs::Permissions::from_mode(0o555)).unwrap();
        shell(&ground, body)
    };
    if output.status.code() == Some(99) || output.stderr.starts_with(b"unshare:") {
        eprintln!("left out: no read-only folder can be made here");
        return;
    }
    assert_eq!(text(&output.stdout), "0\n1\n", "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("ostler memory: ") && said.contains("error: could not use the store"), "{said}");
    assert!(said.contains("try: check that"), "{said}");
}

#[test]
fn a_store_that_another_one_has_is_told_and_hooks_do_not_wait() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    capture(&ground, &path);
    assert_eq!(stored(&ground).len(), 2);
    let lock = std::fs::File::open(ground.at("ostler/memory/store.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let begun = json!({"session_id": "s", "transcript_path": "/x", "cwd": "/srv/project"});
    let ended = hook(&ground, "session-start", &begun);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    capture(&ground, &ground.put("more.jsonl", &line(7, "user", "Meanwhile")));
    let refused = ground.run(&["memory", "recall", "turn"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("another process") && refused.stderr.contains("try: "),
        "{}",
        refused.stderr
    );
    drop(lock);
    assert_eq!(stored(&ground).len(), 3);
}

#[test]
fn a_database_that_another_one_writes_can_be_read_and_what_was_taken_down_waits() {
    let ground = Ground::new();
    capture(&ground, &transcript(&ground, 2));
    assert_eq!(stored(&ground).len(), 2);
    capture(&ground, &ground.put("more.jsonl", &line(7, "user", "Meanwhile")));
    let writer = opened(&ground);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let found = ground.run(&["memory", "recall", "--json", "turn number"]);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["hits"].as_array().unwrap().len(), 2);
    let refused = ground.run(&["memory", "drain"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("being written by another process"), "{}", refused.stderr);
    writer.execute_batch("COMMIT").unwrap();
    drop(writer);
    assert_eq!(stored(&ground).len(), 3);
}

#[test]
fn a_store_of_a_newer_ostler_is_left_as_it_is() {
    let ground = Ground::new();
    capture(&ground, &transcript(&ground, 2));
    assert_eq!(stored(&ground).len(), 2);
    let db = opened(&ground);
    db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let before = std::fs::read(ground.at("ostler/memory/memory.db")).unwrap();
    for args in [&["memory", "recall", "turn"][..], &["memory", "drain"], &["memory", "key", "rotate"]] {
        let refused = ground.run(args);
        assert_eq!(refused.code, Some(1), "{args:?}");
        assert!(
            refused.stderr.contains("is of version 99")
                && refused.stderr.contains("try: use the newer Ostler"),
            "{}",
            refused.stderr
        );
    }
    assert!(std::fs::read(ground.at("ostler/memory/memory.db")).unwrap() == before);
}

/// A hook wrote while the clock was a year ahead; then it was set right, and another one wrote.
#[test]
fn a_clock_that_goes_backwards_loses_nothing_and_changes_no_order() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    capture(&ground, &path);
    let early = deferred(&ground).remove(0);
    let text = std::fs::read_to_string(&early).unwrap().replace("2026-", "2099-");
    std::fs::write(ground.at("ostler/memory/deferred/sess-1-4070908800-0badc10c.jsonl"), text).unwrap();
    std::fs::remove_file(early).unwrap();
    let more = std::fs::read_to_string(&path).unwrap() + &line(2, "user", "Turn number 2 here");
    std::fs::write(&path, more).unwrap();
    assert_eq!(capture(&ground, &path)["events"], 1);
    assert_eq!(deferred(&ground).len(), 2);
    // In the order in which it was said, whatever the names and the times of the files say.
    let want = ["Turn number 0 here", "Turn number 1 here", "Turn number 2 here"];
    assert_eq!(stored(&ground), want);
    let around = ground.run(&["memory", "timeline", "--json", "m2"]);
    let around: Value = serde_json::from_str(&around.stdout).unwrap();
    let texts: Vec<&str> =
        around.as_array().unwrap().iter().map(|message| message["text"].as_str().unwrap()).collect();
    assert_eq!(texts, want);
    // What was said in the future is found, and no fresher than what was said now.
    let found = ground.run(&["memory", "recall", "--json", "turn number"]);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let hits = found["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 3);
    for hit in hits {
        let fresh = hit["parts"]["fresh"].as_f64().unwrap();
        assert!((0.0..1.0).contains(&fresh), "{hit}");
    }
    let begun = json!({"session_id": "s", "transcript_path": "/x", "cwd": "/srv/project"});
    assert!(hook(&ground, "session-start", &begun).stdout.contains("Turn number"));
}
