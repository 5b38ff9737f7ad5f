//! Memory from outside: what hooks take down, that nothing is lost or doubled, and that nobody waits or is harmed.

mod acceptance;
mod backfill;
mod bad_places;
mod contract;
mod daemon;
mod hostile;
mod killed;
mod model;
mod sealed;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::ground::{Ended, Ground, ended};

/// A line of a transcript as Claude Code writes it.
fn line(number: usize, role: &str, text: &str) -> String {
    let content = match role {
        "user" => json!(text),
        _ => json!([{"type": "text", "text": text}]),
    };
    let record = json!({
        "type": role, "uuid": format!("u{number}"), "parentUuid": null, "isSidechain": false, "sessionId": "sess-1",
        "cwd": "/srv/project", "timestamp": format!("2026-11-16T10:00:{:02}.000Z", number % 60),
        "message": {"role": role, "content": content},
    });
    format!("{record}\n")
}

/// A transcript of so many turns.
fn transcript(ground: &Ground, turns: usize) -> PathBuf {
    let lines: String = (0..turns)
        .map(|turn| {
            line(turn, if turn % 2 == 0 { "user" } else { "assistant" }, &format!("Turn number {turn} here"))
        })
        .collect();
    ground.put("home/.claude/projects/-srv-project/sess-1.jsonl", &lines)
}

fn capture(ground: &Ground, path: &std::path::Path) -> Value {
    let path = path.display().to_string();
    let ended = ground.run(&["memory", "capture-transcript", "--no-spawn", "--session-id", "sess-1", &path]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Runs a hook with what an agent says.
fn hook(ground: &Ground, event: &str, told: &Value) -> Ended {
    hook_of(ground.command(&["memory", "hook", event]), told)
}

fn hook_of(mut command: Command, told: &Value) -> Ended {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that was killed reads no further.
    let _ = child.stdin.take().unwrap().write_all(told.to_string().as_bytes());
    let output = ended(child);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn deferred(ground: &Ground) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(ground.at("ostler/memory/deferred"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.'))
        .collect();
    found.sort();
    found
}

/// All texts in the store, in order of sessions and turns.
fn stored(ground: &Ground) -> Vec<String> {
    let ended = ground.run(&["memory", "export"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let text = |line: &str| serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().to_owned();
    ended.stdout.lines().map(text).collect()
}
