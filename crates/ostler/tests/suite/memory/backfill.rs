//! The histories that agents have kept: taken in once, also when that is cut off, and a person is told how far it is.

use std::process::Stdio;

use rusqlite::Connection;
use serde_json::json;

use super::stored;
use crate::ground::{Ground, ended};

/// So many sessions of Claude Code, with two messages each.
fn sessions(ground: &Ground, count: usize) -> Vec<String> {
    let mut want = Vec::new();
    for number in 0..count {
        let texts = [format!("Question {number}"), format!("Answer {number}")];
        let lines: String = texts
            .iter()
            .enumerate()
            .map(|(turn, text)| super::line(turn, if turn == 0 { "user" } else { "assistant" }, text))
            .collect();
        ground.put(&format!("home/.claude/projects/-srv-p/{number:04}.jsonl"), &lines);
        want.extend(texts);
    }
    want.sort();
    want
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

#[test]
fn it_can_be_cut_off_and_begun_again() {
    let ground = Ground::new();
    let want = sessions(&ground, 8);
    let mut runs = 0;
    // Each one is killed after its second session; the next one does not begin anew.
    for _ in 0..2 {
        let mut command = ground.command(&["memory", "backfill"]);
        command.env("OSTLER_MEMORY_KILL_AT", "ingest.kept:2");
        let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        runs += usize::from(output.status.code().is_none());
    }
    assert_eq!(runs, 2);
    let ended = ground.run(&["memory", "backfill"]);
    assert_eq!(ended.stdout, "8 files; 8 inserted, 0 already known, 0 lines that could not be read\n");
    assert_eq!(sorted(stored(&ground)), want);
}

#[test]
fn killed_at_each_of_its_steps_it_takes_in_each_message_once() {
    let ground = Ground::new();
    let want = sessions(&ground, 3);
    for step in ["ingest.committed", "cursor.created", "cursor.written", "cursor.renamed", "ingest.kept"] {
        let mut command = ground.command(&["memory", "backfill"]);
        command.env("OSTLER_MEMORY_KILL_AT", step);
        let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(output.status.code(), None, "{step}");
        // All of it again.
        let _ = std::fs::remove_dir_all(ground.at("ostler/memory/cursors"));
    }
    assert_eq!(ground.run(&["memory", "backfill"]).code, Some(0));
    assert_eq!(sorted(stored(&ground)), want);
}

#[test]
fn a_person_is_told_how_far_it_is() {
    let ground = Ground::new();
    sessions(&ground, 51);
    let ended = ground.run(&["memory", "backfill"]);
    assert!(ended.stderr.contains("50 of 51 files, 100 inserted"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "51 files; 102 inserted, 0 already known, 0 lines that could not be read\n");
}

/// The tables that its version of today has, as far as they are read.
#[test]
fn the_database_of_opencode_is_read() {
    let ground = Ground::new();
    let path = ground.put("home/.local/share/opencode/opencode.db", "");
    let db = Connection::open(path).unwrap();
    db.execute_batch(
        "CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT NOT NULL);
         CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, data TEXT NOT NULL);
         CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL, data TEXT NOT NULL);
         INSERT INTO session VALUES ('ses_1', '/srv/q');",
    )
    .unwrap();
    for (number, role, text) in [(1, "user", "From OpenCode"), (2, "assistant", "Indeed")] {
        let message = json!({"role": role, "time": {"created": 1_794_000_000_000_i64 + number}}).to_string();
        db.execute("INSERT INTO message VALUES (?1, 'ses_1', ?2)", (format!("msg_{number}"), message))
            .unwrap();
        let part = json!({"type": "text", "text": text}).to_string();
        db.execute(
            "INSERT INTO part VALUES (?1, ?2, 'ses_1', ?3)",
            (format!("prt_{number}"), format!("msg_{number}"), part),
        )
        .unwrap();
    }
    drop(db);
    for want in ["1 files; 2 inserted, 0 already known", "1 files; 0 inserted, 2 already known"] {
        let ended = ground.run(&["memory", "backfill", "--from", "opencode"]);
        assert!(ended.stdout.starts_with(want), "{}{}", ended.stdout, ended.stderr);
    }
    assert_eq!(stored(&ground), ["From OpenCode", "Indeed"]);
}
