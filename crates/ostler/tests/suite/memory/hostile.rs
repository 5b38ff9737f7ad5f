//! What must not harm: secrets, odd bytes, long lines, names that lead elsewhere, places that cannot be written.

use std::fmt::Write as _;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::bad_places::shell;
use super::{capture, deferred, hook, line, stored};
use crate::ground::Ground;

/// Every byte that memory keeps, in all of its files.
fn all_bytes(ground: &Ground) -> Vec<u8> {
    let mut found = Vec::new();
    let mut open = vec![ground.at("ostler")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() { open.push(path) } else { found.extend(std::fs::read(path).unwrap()) }
        }
    }
    found
}

#[test]
fn secrets_reach_no_file() {
    let ground = Ground::new();
    let secret = format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6");
    let text = format!("my token is {secret} and <private>the safe is 1234-5678</private> fine");
    let path = ground.put("t.jsonl", &line(0, "user", &text));
    let check = |when: &str| {
        let bytes = all_bytes(&ground);
        for hidden in [secret.as_str(), "1234-5678"] {
            assert!(
                !bytes.windows(hidden.len()).any(|window| window == hidden.as_bytes()),
                "{hidden} {when}"
            );
        }
    };
    capture(&ground, &path);
    check("in the spool");
    assert_eq!(stored(&ground), ["my token is [redacted: github token] and [private] fine"]);
    check("in the store");
}

#[test]
fn odd_lines_harm_nothing() {
    let ground = Ground::new();
    let mut bytes = line(0, "user", "Before").into_bytes();
    bytes.extend(b"\xff\xfe not utf-8 \xc3\x28\n");
    bytes.extend(b"{\"type\": \"user\", \"uuid\": 5, \"message\": {\"content\": \"with\\u0000nul\"}}\n");
    bytes.extend(b"{ broken\n\n");
    // A line longer than is read.
    bytes.extend(b"{\"type\": \"user\", \"message\": {\"content\": \"");
    bytes.resize(bytes.len() + 40 * 1024 * 1024, b'x');
    bytes.extend(b"\"}}\n");
    bytes.extend(line(1, "assistant", "After").into_bytes());
    let path = ground.at("t.jsonl");
    std::fs::write(&path, bytes).unwrap();
    // More than one hook reads at once.
    for _ in 0..4 {
        capture(&ground, &path);
    }
    assert_eq!(stored(&ground), ["Before", "with\u{fffd}nul", "After"]);
}

/// A line of a gigabyte, all of it NUL: neither a hook nor a drain has room for a third of it.
#[test]
fn a_line_of_a_gigabyte_is_passed_over() {
    let ground = Ground::new();
    let path = ground.at("t.jsonl");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(line(0, "user", "Before").as_bytes()).unwrap();
    // A hole: it takes no room on the disk.
    file.seek(SeekFrom::Current(1 << 30)).unwrap();
    file.write_all(format!("\n{}", line(1, "assistant", "After")).as_bytes()).unwrap();
    let told = json!({"session_id": "sess-1", "transcript_path": path, "cwd": "/srv/project"});
    ground.put("told.json", &told.to_string());
    let script = "ulimit -v 350000; \"$0\" memory hook stop < ../told.json && \"$0\" memory hook stop < ../told.json && \
         exec \"$0\" memory drain";
    let output = shell(&ground, script);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stored(&ground), ["Before", "After"]);
}

#[test]
fn a_name_leads_nowhere_else() {
    let ground = Ground::new();
    let path = ground.put("t.jsonl", &line(0, "user", "Hello"));
    let told = json!({"session_id": "../../../../escaped/x", "transcript_path": path, "cwd": "/"});
    assert_eq!(hook(&ground, "stop", &told).code, Some(0));
    assert_eq!(deferred(&ground).len(), 1);
    assert!(!ground.at("escaped").exists() && !ground.at("ostler/escaped").exists());
    assert_eq!(stored(&ground), ["Hello"]);
}

#[test]
fn a_spool_that_is_a_link_is_not_used() {
    let ground = Ground::new();
    let path = ground.put("t.jsonl", &line(0, "user", "Hello"));
    std::fs::create_dir_all(ground.at("ostler/memory")).unwrap();
    std::fs::create_dir(ground.at("elsewhere")).unwrap();
    symlink(ground.at("elsewhere"), ground.at("ostler/memory/deferred")).unwrap();
    assert_eq!(capture(&ground, &path)["status"], "failed");
    assert_eq!(std::fs::read_dir(ground.at("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_bad_line_or_file_in_the_spool_is_put_aside_alone() {
    let ground = Ground::new();
    capture(&ground, &ground.put("t.jsonl", &line(0, "user", "Good")));
    let spool = ground.at("ostler/memory/deferred");
    let mut file = String::from(
        "{\"version\":1,\"deferred_at\":\"2026-11-16T10:00:00Z\",\"session_id\":\"other\",\"cwd\":\"/x\"}\n",
    );
    let _ = writeln!(
        file,
        "{{\"text\":\"Kept\",\"cue\":\"session other turn 1\",\"tier\":\"episodic\",\"role\":\"user\",\"ts\":\"2026-11-16T10:00:00Z\"}}"
    );
    let _ = writeln!(file, "{{ broken");
    let _ = writeln!(file, "{{\"text\":\"Kept too\",\"role\":\"user\"}}");
    std::fs::write(spool.join("other-1794000000.jsonl"), file).unwrap();
    std::fs::write(
        spool.join("future-1794000001.jsonl"),
        "{\"version\":9,\"deferred_at\":\"\",\"session_id\":\"f\"}\n",
    )
    .unwrap();
    std::fs::write(spool.join("empty-1794000002.jsonl"), "").unwrap();
    let told: Value = serde_json::from_str(&ground.run(&["memory", "drain", "--json"]).stdout).unwrap();
    let want = json!({
        "files": 2, "left": 0, "inserted": 3, "already_known": 0, "quarantined": 3, "vectors_made": 0,
        "vectors_missing": 0,
    });
    assert_eq!(told, want);
    let mut texts = stored(&ground);
    texts.sort();
    assert_eq!(texts, ["Good", "Kept", "Kept too"]);
    let doctor = ground.run(&["memory", "doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.stdout.contains("problem") && doctor.stdout.contains("put aside"), "{}", doctor.stdout);
}

#[test]
fn a_store_that_cannot_be_used_is_told_and_hooks_go_on() {
    let ground = Ground::new();
    let path = ground.put("t.jsonl", &line(0, "user", "Hello"));
    ground.put("ostler/memory/memory.db", &"not a database ".repeat(500));
    assert_eq!(capture(&ground, &path)["status"], "deferred");
    let begun = json!({"session_id": "s", "transcript_path": "/x", "cwd": "/srv/project"});
    let ended = hook(&ground, "session-start", &begun);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    let ended = ground.run(&["memory", "recall", "hello"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("cannot be read as a database") && ended.stderr.contains("try:"),
        "{}",
        ended.stderr
    );
    assert_eq!(deferred(&ground).len(), 1);
    std::fs::remove_file(ground.at("ostler/memory/memory.db")).unwrap();
    assert_eq!(stored(&ground), ["Hello"]);
}
