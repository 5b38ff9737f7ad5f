//! The capture contract of docs/memory.md ("Files"): its six acceptance tests `a` to `f`, and what follows from it for
//! every agent. The transcript is the least that the contract allows: plain strings without ids, times or a directory.

use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};

use super::{deferred, hook};
use crate::ground::{Ended, Ground, ended};

/// What is said in the transcript: verbatim includes spaces at the end, quotation marks and other scripts.
const TURNS: [(&str, &str); 3] =
    [("user", "hello world"), ("assistant", "  hi \"back\"\nat you \u{2713} "), ("user", "third turn here")];

/// How long a hook may hold up the end of a session.
const BUDGET: Duration = Duration::from_secs(2);

fn transcript(ground: &Ground) -> String {
    let line = |(role, text): &(&str, &str)| {
        format!("{}\n", json!({"type": role, "message": {"role": role, "content": text}}))
    };
    ground.put("transcript.jsonl", &TURNS.iter().map(line).collect::<String>()).display().to_string()
}

fn no_spawn<'a>(more: &[&'a str], path: &'a str) -> Vec<&'a str> {
    [&["memory", "capture-transcript", "--no-spawn", "--session-id", "s1"], more, &[path]].concat()
}

/// The one line of JSON on the standard output of a command that exits with 0 and prints nothing else.
fn answer(ended: &Ended) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!((ended.stdout.matches('\n').count(), ended.stdout.ends_with('\n')), (1, true));
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The lines of the only deferral file.
fn only_file(ground: &Ground) -> Vec<Value> {
    let files = deferred(ground);
    assert_eq!(files.len(), 1, "{files:?}");
    let text = std::fs::read_to_string(&files[0]).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn current_dir(ground: &Ground) -> Value {
    json!(ground.at("project"))
}

/// The output of a process that started no other: the kernel has counted no page faults of children of it.
fn ended_alone(child: Child) -> Output {
    waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    assert_eq!((fields[0], fields[8], fields[10]), ("Z", "0", "0"), "{stat}");
    ended(child)
}

#[test]
fn a_without_a_daemon_a_deferral_file_is_written() {
    let ground = Ground::new();
    let printed = answer(&ground.run(&no_spawn(&[], &transcript(&ground))));
    let lines = only_file(&ground);
    assert_eq!((&printed["status"], &printed["path"]), (&json!("deferred"), &json!(deferred(&ground)[0])));
    let header = &lines[0];
    assert_eq!(
        (&header["version"], &header["session_id"], &header["cwd"]),
        (&json!(1), &json!("s1"), &current_dir(&ground))
    );
    let said: Vec<(&str, &str)> = lines[1..]
        .iter()
        .map(|line| (line["role"].as_str().unwrap(), line["text"].as_str().unwrap()))
        .collect();
    assert_eq!(said, TURNS, "one line a turn, verbatim, whatever the shape of the message");
}

#[test]
fn b_a_session_that_ends_waits_two_seconds_at_most() {
    let ground = Ground::new();
    let path = transcript(&ground);
    let began = Instant::now();
    answer(&ground.run(&no_spawn(&[], &path)));
    assert!(began.elapsed() < BUDGET, "{:?}", began.elapsed());
}

#[test]
fn c_three_sessions_that_end_together_start_no_process() {
    let ground = Ground::new();
    let path = transcript(&ground);
    let mark = format!("OSTLER_TEST_MARK={}", ground.at("").display());
    let children: Vec<Child> = ["s1", "s2", "s3"]
        .iter()
        .map(|session| {
            let args = ["memory", "capture-transcript", "--no-spawn", "--session-id", session, &path];
            let mut command = ground.command(&args);
            command.env("OSTLER_TEST_MARK", ground.at("")).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = ended_alone(child);
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    }
    assert_eq!(deferred(&ground).len(), 3);
    let has_mark = |environ: &[u8]| environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
    let left: Vec<_> = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).collect();
    let left = left.iter().filter(|path| has_mark(&std::fs::read(path.join("environ")).unwrap_or_default()));
    assert_eq!(left.count(), 0, "nothing of it outlives it");
}

#[test]
fn d_without_the_flag_it_is_ingested_and_no_deferral_file_is_written() {
    let ground = Ground::new();
    let help = ground.run(&["memory", "capture-transcript", "--help"]);
    assert!(help.stdout.contains("--no-spawn"), "{}", help.stdout);
    let gone = ground.at("no-such-file.jsonl").display().to_string();
    let printed = answer(&ground.run(&["memory", "capture-transcript", &gone]));
    assert_eq!(
        (&printed["inserted"], &printed["skipped"], &printed["errors"]),
        (&json!(0), &json!(0), &json!(1))
    );
    assert!(printed["reason"].is_string(), "{printed}");
    let path = transcript(&ground);
    let args = ["memory", "capture-transcript", "--session-id", "s1", &path];
    assert_eq!(answer(&ground.run(&args)), json!({"inserted": 3, "skipped": 0, "errors": 0}));
    assert_eq!(answer(&ground.run(&args)), json!({"inserted": 0, "skipped": 3, "errors": 0}));
    assert_eq!(deferred(&ground), Vec::<std::path::PathBuf>::new());
    assert_eq!(stored(&ground), TURNS.map(|(_, text)| (text.to_owned(), current_dir(&ground))));
}

#[test]
fn e_a_deferral_file_has_a_header_and_a_line_for_each_turn() {
    let ground = Ground::new();
    answer(&ground.run(&no_spawn(&["--cwd", "/some/cwd"], &transcript(&ground))));
    let name = deferred(&ground)[0].file_name().unwrap().to_string_lossy().into_owned();
    let written =
        name.strip_prefix("s1-").and_then(|name| name.split(['-', '.']).next()?.parse::<i64>().ok());
    assert!(written.is_some() && name.ends_with(".jsonl"), "<session>-<unix>[-<rand>].jsonl: {name}");
    let is_time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().is_ok();
    let lines = only_file(&ground);
    let header = &lines[0];
    assert_eq!(
        (&header["version"], &header["session_id"], &header["cwd"], is_time(&header["deferred_at"])),
        (&json!(1), &json!("s1"), &json!("/some/cwd"), true)
    );
    assert_eq!(lines.len(), 1 + TURNS.len());
    for ((number, (role, text)), line) in (1..).zip(TURNS).zip(&lines[1..]) {
        let cue = format!("session s1 turn {number}");
        let want = json!({
            "text": text, "cue": cue, "tier": "episodic", "role": role,
            "ts": line["ts"], "id": line["id"], "sha256": line["sha256"],
        });
        assert_eq!(*line, want);
        assert!(is_time(&line["ts"]) && line["id"].is_string() && line["sha256"].is_string(), "{line}");
    }
}

#[test]
fn f_a_missing_transcript_gives_a_header_and_no_error() {
    let ground = Ground::new();
    let gone = ground.at("does-not-exist.jsonl").display().to_string();
    assert_eq!(answer(&ground.run(&no_spawn(&[], &gone)))["status"], "deferred");
    let lines = only_file(&ground);
    assert_eq!(
        (lines.len(), &lines[0]["session_id"], &lines[0]["cwd"]),
        (1, &json!("s1"), &current_dir(&ground))
    );
}

/// Every text in the store, with its directory.
fn stored(ground: &Ground) -> Vec<(String, Value)> {
    let exported = ground.run(&["memory", "export"]);
    assert_eq!((exported.code, exported.stderr.as_str()), (Some(0), ""));
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["text"].as_str().unwrap().to_owned(), line["cwd"].clone())
    };
    exported.stdout.lines().map(read).collect()
}

#[test]
fn a_hook_whose_input_names_no_directory_takes_the_one_that_it_runs_in() {
    let ground = Ground::new();
    let path = transcript(&ground);
    let input = json!({"session_id": "s1", "transcript_path": path, "cwd": ""});
    assert_eq!(hook(&ground, "stop", &input).code, Some(0));
    assert_eq!(only_file(&ground)[0]["cwd"], current_dir(&ground));
    assert_eq!(stored(&ground).len(), 3);
    // So does one for a new session: it gets the context of its project.
    let begins = hook(&ground, "session-start", &json!({"session_id": "s2"}));
    assert!(begins.stdout.contains("third turn here"), "{}", begins.stdout);
}

#[test]
fn a_directory_that_a_transcript_names_later_is_the_one_that_counts() {
    let ground = Ground::new();
    let record = |more: Value| {
        let mut record = json!({"type": "user", "message": {"role": "user", "content": "text"}});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{record}\n")
    };
    let path = ground.put("t.jsonl", &record(json!({}))).display().to_string();
    answer(&ground.run(&no_spawn(&[], &path)));
    assert_eq!(only_file(&ground)[0]["cwd"], current_dir(&ground));
    std::fs::remove_file(&deferred(&ground)[0]).unwrap();
    let text = std::fs::read_to_string(&path).unwrap() + &record(json!({"cwd": "/srv/project"}));
    std::fs::write(&path, text).unwrap();
    answer(&ground.run(&no_spawn(&[], &path)));
    assert_eq!(only_file(&ground)[0]["cwd"], "/srv/project");
}

#[test]
fn a_relative_directory_is_resolved_where_the_hook_runs() {
    let ground = Ground::new();
    answer(&ground.run(&no_spawn(&["--cwd", "./sub/."], &transcript(&ground))));
    assert_eq!(only_file(&ground)[0]["cwd"], json!(ground.at("project/sub")));
}

#[test]
fn a_daemon_stores_the_directory_of_the_hook_and_not_its_own() {
    let ground = Ground::new();
    let path = transcript(&ground);
    let mut daemon = ground.command(&["memory", "daemon", "--idle", "60s"]);
    let daemon = daemon.current_dir(ground.at("home")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let daemon = daemon.unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while ground.run(&["memory", "daemon", "status"]).code != Some(0) {
        assert!(Instant::now() < until, "it does not answer");
    }
    assert_eq!(answer(&ground.run(&no_spawn(&[], &path)))["status"], "captured");
    assert_eq!(ground.run(&["memory", "daemon", "stop"]).code, Some(0));
    assert_eq!(ended(daemon).status.code(), Some(0));
    assert_eq!(stored(&ground), TURNS.map(|(_, text)| (text.to_owned(), current_dir(&ground))));
}

/// A record without a time was said about when the one before it was; the first one when the file was last written.
#[test]
fn a_record_without_a_time_has_that_of_its_neighbour() {
    let ground = Ground::new();
    let said = |time: Value| {
        format!(
            "{}\n",
            json!({"type": "assistant", "timestamp": time, "message": {"role": "assistant", "content": "text"}})
        )
    };
    let text = [said(Value::Null), said(json!("2026-11-16T10:00:00Z")), said(json!(7)), said(json!("soon"))];
    let path = ground.put("t.jsonl", &text.concat()).display().to_string();
    let written: std::time::SystemTime = "2026-11-15T09:00:00Z".parse::<jiff::Timestamp>().unwrap().into();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
    answer(&ground.run(&no_spawn(&[], &path)));
    let times: Vec<Value> = only_file(&ground)[1..].iter().map(|line| line["ts"].clone()).collect();
    let later = "2026-11-16T10:00:00Z";
    assert_eq!(times, ["2026-11-15T09:00:00Z", later, later, later]);
}

/// A rollout whose messages are plain strings, and which has neither ids nor times. Its directory is in the context of
/// a turn.
#[test]
fn a_rollout_of_codex_is_captured_with_the_least_that_it_can_have() {
    let ground = Ground::new();
    let item = |kind: &str, content: Value| json!({"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": kind, "content": content}}});
    let records = [
        json!({"type": "session_meta", "payload": {"id": "x"}}),
        json!({"type": "turn_context", "payload": {"cwd": "/srv/q"}}),
        item("UserMessage", json!("hello world")),
        item("AgentMessage", json!(["hi", "back"])),
        json!({"type": "event_msg", "payload": {"type": "agent_message", "message": [{"type": "text", "text": "as before"}]}}),
    ];
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    let path = ground.put("rollout-x.jsonl", &text).display().to_string();
    answer(&ground.run(&no_spawn(&[], &path)));
    let lines = only_file(&ground);
    assert_eq!((&lines[0]["source"], &lines[0]["cwd"]), (&json!("codex"), &json!("/srv/q")));
    let said: Vec<(&str, &str)> = lines[1..]
        .iter()
        .map(|line| (line["role"].as_str().unwrap(), line["text"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("user", "hello world"), ("assistant", "hi\nback"), ("assistant", "as before")]);
}

/// Rows without a directory, a time or a role that is known hide no others.
#[test]
fn a_database_of_opencode_is_captured_with_the_least_that_it_can_have() {
    let ground = Ground::new();
    let path = ground.at("opencode.db");
    opencode(&path);
    let path = path.display().to_string();
    let args = ["memory", "capture-transcript", "--no-spawn", "--session-id", "ses_1", &path];
    assert_eq!(answer(&ground.run(&args))["status"], "deferred");
    assert_eq!(only_file(&ground)[0]["cwd"], current_dir(&ground));
    let exported = ground.run(&["memory", "export"]).stdout;
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let brief = |line: &Value| json!([line["role"], line["mark"], line["text"], line["cwd"]]);
    let here = current_dir(&ground);
    assert_eq!(
        lines.iter().map(brief).collect::<Vec<_>>(),
        [
            json!(["user", "", "hello world", here]),
            json!(["assistant", "meta", "be brief", here]),
            json!(["assistant", "", "hi back", here]),
        ]
    );
    assert_eq!(lines[2]["ts"], "2026-11-06T21:20:00Z");
}

fn opencode(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.execute_batch(
        "CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT);
         CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, data TEXT);
         CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL, data TEXT);
         INSERT INTO session VALUES ('ses_1', NULL);
         INSERT INTO message VALUES ('m0', 'ses_1', NULL);
         INSERT INTO part VALUES ('p0', 'm0', 'ses_1', NULL);",
    )
    .unwrap();
    let parts = [
        ("m1", "user", json!({"type": "text", "text": "hello world"})),
        ("m2", "system", json!({"type": "text", "text": "be brief"})),
        (
            "m3",
            "assistant",
            json!({"type": "text", "text": "hi back", "time": {"start": 1_794_000_000_000_i64}}),
        ),
    ];
    for (id, role, part) in parts {
        let message = json!({"role": role}).to_string();
        db.execute("INSERT INTO message VALUES (?1, 'ses_1', ?2)", (id, message)).unwrap();
        let part = (format!("p{id}"), id, part.to_string());
        db.execute("INSERT INTO part VALUES (?1, ?2, 'ses_1', ?3)", part).unwrap();
    }
}
