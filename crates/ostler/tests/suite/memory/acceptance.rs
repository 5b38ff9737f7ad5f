//! What a hook must do, point by point.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};

use super::{capture, deferred, hook, hook_of, line, stored, transcript};
use crate::ground::Ground;

#[test]
fn a_hook_without_a_daemon_leaves_one_file_of_the_agreed_format() {
    let ground = Ground::new();
    let path = transcript(&ground, 3);
    let told = capture(&ground, &path);
    assert_eq!((&told["status"], &told["events"]), (&json!("deferred"), &json!(3)));
    let files = deferred(&ground);
    assert_eq!(files.len(), 1);
    assert_eq!(told["path"], json!(files[0]));
    assert!(files[0].file_name().unwrap().to_string_lossy().starts_with("sess-1-"));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&files[0]), mode(files[0].parent().unwrap())), (0o600, 0o700));
    let text = std::fs::read_to_string(&files[0]).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(
        (&lines[0]["version"], &lines[0]["session_id"], &lines[0]["cwd"]),
        (&json!(1), &json!("sess-1"), &json!("/srv/project"))
    );
    assert!(lines[0]["deferred_at"].as_str().unwrap().ends_with('Z'));
    let want = json!({
        "text": "Turn number 1 here", "cue": "session sess-1 turn 2", "tier": "episodic", "role": "assistant",
        "ts": "2026-11-16T10:00:01.000Z", "id": "u1",
        "sha256": lines[2]["sha256"],
    });
    assert_eq!(lines[2], want);
    assert_eq!(lines[2]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn a_repeat_with_nothing_new_writes_nothing_and_more_is_read_on_from_there() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    capture(&ground, &path);
    let again = capture(&ground, &path);
    assert_eq!(
        (&again["status"], &again["events"], &again["path"]),
        (&json!("deferred"), &json!(0), &Value::Null)
    );
    assert_eq!(deferred(&ground).len(), 1);
    // A line that is not complete is not read.
    let more = line(2, "user", "And now?");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str(&more[..20]);
    std::fs::write(&path, &text).unwrap();
    assert_eq!(capture(&ground, &path)["events"], 0);
    text.push_str(&more[20..]);
    std::fs::write(&path, &text).unwrap();
    assert_eq!(capture(&ground, &path)["events"], 1);
    assert_eq!(stored(&ground), ["Turn number 0 here", "Turn number 1 here", "And now?"]);
    assert!(deferred(&ground).is_empty());
}

#[test]
fn a_transcript_that_is_not_there_gives_a_header_only_or_an_error_in_json() {
    let ground = Ground::new();
    let told = capture(&ground, &ground.at("nowhere.jsonl"));
    assert_eq!(told["status"], "deferred");
    let files = deferred(&ground);
    assert_eq!((files.len(), std::fs::read_to_string(&files[0]).unwrap().lines().count()), (1, 1));
    std::fs::remove_file(&files[0]).unwrap();
    let ended = ground.run(&["memory", "capture-transcript", "/nowhere.jsonl"]);
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.code, &told["inserted"], &told["errors"]), (Some(0), &json!(0), &json!(1)));
    assert!(told["reason"].as_str().unwrap().contains("no transcript"), "{told}");
    assert!(deferred(&ground).is_empty());
}

#[test]
fn without_the_flag_a_transcript_goes_into_the_store() {
    let ground = Ground::new();
    let path = transcript(&ground, 4).display().to_string();
    for want in
        [json!({"inserted": 4, "skipped": 0, "errors": 0}), json!({"inserted": 0, "skipped": 4, "errors": 0})]
    {
        let ended = ground.run(&["memory", "capture-transcript", &path]);
        assert_eq!((ended.code, serde_json::from_str::<Value>(&ended.stdout).unwrap()), (Some(0), want));
    }
    assert!(deferred(&ground).is_empty());
}

/// Each hook is one process, from its start to its end. The kernel counts: a process that has ended and was not asked
/// for yet tells what pages its children took; and who outlives it still has the variable that it was started with.
#[test]
fn twenty_hooks_at_once_start_nothing_and_lose_nothing() {
    let ground = Ground::new();
    let path = transcript(&ground, 5);
    let told = json!({"session_id": "sess-1", "transcript_path": path, "cwd": "/srv/project", "hook_event_name": "Stop"});
    let input = ground.put("told.json", &told.to_string());
    let mark = format!("OSTLER_TEST_MARK={}", ground.at("").display());
    let hooks: Vec<_> = (0..20)
        .map(|_| {
            let mut command = ground.command(&["memory", "hook", "stop"]);
            command.stdin(std::fs::File::open(&input).unwrap()).env("OSTLER_TEST_MARK", ground.at(""));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for hook in hooks {
        let id = WaitId::Pid(Pid::from_child(&hook));
        waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", hook.id())).unwrap();
        // After the name in parentheses: state, parent, …; the ninth and the eleventh are faults of children.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        assert_eq!((fields[0], fields[8], fields[10]), ("Z", "0", "0"), "{stat}");
        let output = crate::ground::ended(hook);
        assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(0), vec![], vec![]));
    }
    let left: Vec<_> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            let variables = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, Vec::<std::ffi::OsString>::new());
    assert_eq!(stored(&ground).len(), 5);
}

#[test]
fn a_hook_ends_well_whatever_it_is_told() {
    let ground = Ground::new();
    for told in [
        json!(null),
        json!([]),
        json!({"transcript_path": 7}),
        json!({"transcript_path": "/proc/self/mem"}),
        json!({"transcript_path": "/dev/full"}),
    ] {
        for event in ["stop", "session-start", "session-end", "prompt", "pre-compact", "something-new"] {
            let ended = hook(&ground, event, &told);
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{event} {told}");
        }
    }
}

/// Behind a wall the host captures: a store of the agent's own would be one that nobody reads.
#[test]
fn a_hook_in_a_jail_does_nothing() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    let told = json!({"session_id": "sess-1", "transcript_path": path, "cwd": "/srv/project"});
    for event in ["session-start", "prompt", "stop", "session-end"] {
        let mut command = ground.command(&["memory", "hook", event]);
        command.env("OSTLER_JAIL", "1");
        let ended = hook_of(command, &told);
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""), "{event}");
        assert!(!ground.at("ostler/memory").exists(), "{event}");
    }
}

#[test]
fn a_new_session_is_told_where_the_last_one_stopped() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    let told = |session: &str| json!({"session_id": session, "transcript_path": path, "cwd": "/srv/project"});
    hook(&ground, "stop", &told("sess-1"));
    let begun =
        json!({"session_id": "sess-2", "transcript_path": ground.at("none.jsonl"), "cwd": "/srv/project"});
    let ended = hook(&ground, "session-start", &begun);
    assert!(ended.stdout.contains("Turn number 1 here") && ended.stdout.contains("- [m"), "{}", ended.stdout);
    let elsewhere = json!({"session_id": "sess-3", "transcript_path": "/x", "cwd": "/srv/other"});
    assert_eq!(hook(&ground, "session-start", &elsewhere).stdout, "");
}

#[test]
fn what_was_said_is_found_with_its_reasons() {
    let ground = Ground::new();
    let text =
        [line(0, "user", "We settled on port 8443 for the gateway"), line(1, "assistant", "Noted.")].concat();
    let path = ground.put("t.jsonl", &text);
    capture(&ground, &path);
    let ended = ground.run(&["memory", "recall", "--json", "which port has the gateway?"]);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    let hit = &found["hits"][0];
    assert_eq!(
        (&hit["text"], &hit["session"], &hit["key"]),
        (&json!("We settled on port 8443 for the gateway"), &json!("sess-1"), &json!("u0"))
    );
    assert!(hit["parts"]["words"].as_f64().unwrap() > 0.0);
    let id = hit["id"].as_str().unwrap();
    let explained = ground.run(&["memory", "recall", "--explain", "gateway port"]);
    assert!(
        explained.stdout.contains("= words ") && explained.stderr.contains("by words only"),
        "{}",
        explained.stdout
    );
    assert!(ground.run(&["memory", "timeline", id]).stdout.contains("Noted."));
    assert!(ground.run(&["memory", "show", id]).stdout.contains("port 8443"));
    assert!(
        ground
            .run(&["memory", "correct", id, "The gateway listens on 9443"])
            .stdout
            .contains("is corrected by")
    );
    let found: Value =
        serde_json::from_str(&ground.run(&["memory", "recall", "--json", "gateway port"]).stdout).unwrap();
    assert_eq!(found["hits"][0]["text"], "The gateway listens on 9443");
    assert_eq!(ground.run(&["memory", "forget", id]).stdout, "1 forgotten\n");
    let gone = ground.run(&["memory", "show", id]);
    assert_eq!(gone.code, Some(2));
    assert!(gone.stderr.contains("there is no message") && gone.stderr.contains("try:"), "{}", gone.stderr);
}

#[test]
fn what_is_exported_can_be_imported() {
    let ground = Ground::new();
    capture(&ground, &transcript(&ground, 6));
    let exported = ground.run(&["memory", "export"]).stdout;
    let other = Ground::new();
    let file = other.put("all.jsonl", &exported).display().to_string();
    assert_eq!(other.run(&["memory", "import", &file]).stdout, "6 inserted, 0 already known\n");
    assert_eq!(other.run(&["memory", "import", &file]).stdout, "0 inserted, 6 already known\n");
    assert_eq!(other.run(&["memory", "export"]).stdout, exported);
}

#[test]
fn pins_and_corrections_are_exported_too() {
    let ground = Ground::new();
    capture(&ground, &transcript(&ground, 2));
    stored(&ground);
    assert_eq!(ground.run(&["memory", "pin", "m1"]).code, Some(0));
    assert_eq!(ground.run(&["memory", "correct", "m2", "Turn number 1 was elsewhere"]).code, Some(0));
    assert_eq!(ground.run(&["memory", "remember", "The port is 8443"]).code, Some(0));
    let exported = ground.run(&["memory", "export"]).stdout;
    let other = Ground::new();
    let file = other.put("all.jsonl", &exported).display().to_string();
    for _ in 0..2 {
        assert_eq!(other.run(&["memory", "import", &file]).code, Some(0));
        assert_eq!(other.run(&["memory", "export"]).stdout, exported);
    }
    let found = other.run(&["memory", "recall", "--json", "turn number 1"]).stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["hits"][0]["text"], "Turn number 1 was elsewhere");
    let status = other.run(&["memory", "status"]).stdout;
    assert!(status.contains("4 messages in 3 sessions, 2 facts"), "{status}");
}

#[test]
fn histories_of_agents_are_taken_in_once() {
    let ground = Ground::new();
    transcript(&ground, 3);
    let meta = json!({"timestamp": "2026-11-16T10:00:00Z", "ordinal": 0, "type": "session_meta", "payload": {"id": "x", "cwd": "/srv/q"}});
    let item = json!({"timestamp": "2026-11-16T10:00:01Z", "ordinal": 1, "type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "UserMessage", "id": "i", "content": [{"type": "text", "text": "From Codex"}]}}});
    ground.put("home/.codex/sessions/2026/11/16/rollout-2026-11-16T10-00-00-01a1e0b2-49a4-70b1-b1c8-48a607dfe815.jsonl", &format!("{meta}\n{item}\n"));
    assert_eq!(
        ground.run(&["memory", "backfill"]).stdout,
        "2 files; 4 inserted, 0 already known, 0 lines that could not be read\n"
    );
    assert_eq!(
        ground.run(&["memory", "backfill"]).stdout,
        "2 files; 0 inserted, 0 already known, 0 lines that could not be read\n"
    );
    assert!(stored(&ground).contains(&"From Codex".to_owned()));
}

#[test]
fn hooks_are_installed_told_and_taken_out() {
    let ground = Ground::new();
    let before = "{\n  \"model\": \"opus\" // mine\n}\n";
    let settings = ground.put("home/.claude/settings.json", before);
    let dry = ground.run(&["memory", "hooks", "install", "--target", "claude", "--dry-run"]);
    assert!(dry.stdout.contains("would be changed"), "{}", dry.stdout);
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), before);
    let ended = ground.run(&["memory", "hooks", "install"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("trusted"), "{}", ended.stderr);
    let status = ground.run(&["memory", "hooks", "status"]).stdout;
    assert_eq!(status.matches(" installed (").count(), 3, "{status}");
    assert!(ground.run(&["memory", "hooks", "install"]).stdout.matches("nothing to do").count() == 3);
    assert_eq!(ground.run(&["memory", "hooks", "uninstall"]).code, Some(0));
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), before);
    assert!(!ground.at("home/.codex/hooks.json").exists());
    // A mistake in one leaves all alone.
    std::fs::write(&settings, "{ \"model\": ").unwrap();
    let refused = ground.run(&["memory", "hooks", "install"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("were not changed") && refused.stderr.contains("try: mend"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), "{ \"model\": ");
    assert!(!ground.at("home/.codex/hooks.json").exists());
}
