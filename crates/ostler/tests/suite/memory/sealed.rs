//! The store is encrypted, its key can be changed, and whenever that is cut off nothing is lost.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{capture, deferred, hook, stored, transcript};
use crate::ground::{Ended, Ground, ended};
use crate::screen::{Screen, Size};

/// A store with three messages.
fn filled() -> (Ground, Vec<String>) {
    let ground = Ground::new();
    let path = transcript(&ground, 3);
    capture(&ground, &path);
    let texts = stored(&ground);
    assert_eq!(texts.len(), 3);
    (ground, texts)
}

fn store(ground: &Ground) -> PathBuf {
    ground.at("ostler/memory/memory.db")
}

fn key(ground: &Ground) -> PathBuf {
    ground.at("ostler/memory/memory.key")
}

/// The store, opened with the key that its file names.
pub(super) fn opened(ground: &Ground) -> Connection {
    let file: Value = serde_json::from_slice(&std::fs::read(key(ground)).unwrap()).unwrap();
    let db = Connection::open(store(ground)).unwrap();
    db.pragma_update(None, "key", format!("x'{}'", file["current"]["key"].as_str().unwrap())).unwrap();
    db
}

/// The same store without encryption, as it was before there was any.
fn plain(ground: &Ground) -> Vec<u8> {
    let db = opened(ground);
    let path = ground.put("plain.db", "");
    db.execute("ATTACH DATABASE ?1 AS plain KEY ''", [path.to_str().unwrap()]).unwrap();
    db.query_row("SELECT sqlcipher_export('plain')", [], |_| Ok(())).unwrap();
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    db.execute_batch(&format!("PRAGMA plain.user_version = {version}; DETACH plain")).unwrap();
    std::fs::read(path).unwrap()
}

/// Runs a command that is killed at its so-manieth step on the disk.
fn killed_at(ground: &Ground, args: &[&str], step: usize) -> Ended {
    let mut command = ground.command(args);
    command.env("OSTLER_MEMORY_KILL_AT", format!("any:{step}"));
    let output = ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Kills a command at each of its steps, one after the other, until it gets to its end. Gives how often.
fn at_each_step(ground: &Ground, args: &[&str], mut after: impl FnMut(usize)) -> usize {
    for step in 1.. {
        let ended = killed_at(ground, args, step);
        after(step);
        if let Some(code) = ended.code {
            assert_eq!(code, 0, "{}", ended.stderr);
            return step - 1;
        }
    }
    0
}

#[test]
fn what_was_said_is_in_no_file_of_the_store() {
    let (ground, _) = filled();
    let mode = std::fs::metadata(key(&ground)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for name in ["memory.db", "memory.db-wal"] {
        let bytes = std::fs::read(ground.at("ostler/memory").join(name)).unwrap_or_default();
        assert!(!bytes.windows(11).any(|window| window == b"Turn number"), "{name}");
    }
    let told = ground.run(&["memory", "key", "status"]).stdout;
    assert!(told.starts_with("encrypted; its key is in "), "{told}");
    let told: Value =
        serde_json::from_str(&ground.run(&["memory", "key", "status", "--json"]).stdout).unwrap();
    assert_eq!(
        (&told["encrypted"], &told["key"], &told["changing"]),
        (&json!(true), &json!("file"), &json!(false))
    );
}

#[test]
fn a_key_is_changed_and_whenever_that_is_cut_off_nothing_is_lost() {
    let (ground, want) = filled();
    let first = std::fs::read(key(&ground)).unwrap();
    let check = |step| assert_eq!(stored(&ground), want, "step {step}");
    let kills = at_each_step(&ground, &["memory", "key", "rotate"], check);
    // The two times that the key file is written have five steps each, and there are three between them.
    assert_eq!(kills, 13);
    assert_ne!(std::fs::read(key(&ground)).unwrap(), first);
    let left: Vec<_> = std::fs::read_dir(ground.at("ostler/memory"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("next"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_plain_store_of_before_is_encrypted_and_whenever_that_is_cut_off_nothing_is_lost() {
    let (ground, want) = filled();
    let before = plain(&ground);
    let again = |name: &str| {
        let _ = std::fs::remove_file(ground.at("ostler/memory").join(name));
    };
    let kills = {
        let mut step = 0;
        loop {
            step += 1;
            for name in ["memory.db-wal", "memory.db-shm", "memory.key"] {
                again(name);
            }
            std::fs::write(store(&ground), &before).unwrap();
            let ended = killed_at(&ground, &["memory", "status"], step);
            assert_eq!(stored(&ground), want, "step {step}");
            let bytes = std::fs::read(store(&ground)).unwrap();
            assert!(!bytes.starts_with(b"SQLite format 3"), "step {step}");
            if ended.code == Some(0) {
                break step - 1;
            }
        }
    };
    // As for a change of the key.
    assert_eq!(kills, 13);
}

#[test]
fn without_its_key_or_with_another_one_it_is_told_and_nothing_is_lost() {
    let (ground, want) = filled();
    let right = std::fs::read(key(&ground)).unwrap();
    let bytes = std::fs::read(store(&ground)).unwrap();
    let other = Ground::new();
    capture(&other, &transcript(&other, 1));
    stored(&other);
    let wrong = std::fs::read(key(&other)).unwrap();
    let begun = json!({"session_id": "s", "transcript_path": "/x", "cwd": "/srv/project"});
    for (what, said) in
        [(Some(wrong), "with the key of"), (None, "its key"), (Some(b"{}".to_vec()), "the key file")]
    {
        match &what {
            Some(bytes) => std::fs::write(key(&ground), bytes).unwrap(),
            None => std::fs::remove_file(key(&ground)).unwrap(),
        }
        for args in [&["memory", "recall", "turn"][..], &["memory", "drain"], &["memory", "key", "rotate"]] {
            let refused = ground.run(args);
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{args:?}");
            assert!(
                refused.stderr.contains(said) && refused.stderr.contains("try: put"),
                "{}",
                refused.stderr
            );
        }
        let doctor = ground.run(&["memory", "doctor"]);
        assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
        // Who is waited for does not fail, and takes down as ever.
        let ended = hook(&ground, "session-start", &begun);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
        assert!(std::fs::read(store(&ground)).unwrap() == bytes, "{said}");
    }
    let more = ground.put("more.jsonl", &super::line(9, "user", "Taken down meanwhile"));
    capture(&ground, &more);
    assert_eq!(deferred(&ground).len(), 1);
    std::fs::write(key(&ground), right).unwrap();
    let found = stored(&ground);
    assert_eq!((&found[..3], found[3].as_str()), (&want[..], "Taken down meanwhile"));
}

#[test]
fn a_passphrase_is_needed_where_one_was_set() {
    let (ground, want) = filled();
    let none = ground.run(&["memory", "key", "rotate", "--passphrase"]);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert!(none.stderr.contains("try: set OSTLER_MEMORY_NEW_PASSPHRASE"), "{}", none.stderr);
    let with = |name: &str, value: &str, args: &[&str]| {
        let mut command = ground.command(args);
        let child = command.env(name, value).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = ended(child);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    let short = with("OSTLER_MEMORY_NEW_PASSPHRASE", "short", &["memory", "key", "rotate", "--passphrase"]);
    assert_eq!(short.code, Some(2), "{}", short.stderr);
    let set =
        with("OSTLER_MEMORY_NEW_PASSPHRASE", "correct horse", &["memory", "key", "rotate", "--passphrase"]);
    assert_eq!(set.code, Some(0), "{}", set.stderr);
    assert!(set.stdout.starts_with("encrypted with a passphrase"), "{}", set.stdout);
    let locked = ground.run(&["memory", "recall", "turn"]);
    assert_eq!(locked.code, Some(1));
    assert!(locked.stderr.contains("try: set OSTLER_MEMORY_PASSPHRASE"), "{}", locked.stderr);
    // What that means for new sessions is told, and is no problem.
    let unasked = "a new one is told nothing unasked";
    let doctor = ground.run(&["memory", "doctor"]);
    assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("note    the store has a passphrase"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains(unasked), "{}", doctor.stdout);
    let status = ground.run(&["memory", "hooks", "status"]);
    assert!(status.stdout.contains(unasked), "{}", status.stdout);
    let status: Value =
        serde_json::from_str(&ground.run(&["memory", "hooks", "status", "--json"]).stdout).unwrap();
    assert_eq!((&status["prefix"], &status["agents"][0]["state"]), (&json!(false), &json!("not_installed")));
    assert!(ground.run(&["memory", "hooks", "install"]).stderr.contains(unasked));
    let begun = json!({"session_id": "s", "transcript_path": "/x", "cwd": "/srv/project"});
    assert_eq!(hook(&ground, "session-start", &begun).stdout, "");
    let export = |said: &str| with("OSTLER_MEMORY_PASSPHRASE", said, &["memory", "export"]);
    assert_eq!(export("correct house").code, Some(1));
    assert_eq!(export("correct horse").stdout.lines().count(), want.len());
    let back = with("OSTLER_MEMORY_PASSPHRASE", "correct horse", &["memory", "key", "rotate"]);
    assert_eq!(back.code, Some(0), "{}", back.stderr);
    assert_eq!(stored(&ground), want);
    for args in [&["memory", "doctor"][..], &["memory", "hooks", "status"]] {
        let told = ground.run(args).stdout;
        assert!(!told.contains(unasked), "{told}");
    }
    assert!(hook(&ground, "session-start", &begun).stdout.contains("Turn number"));
}

/// A question, and the keys that are pressed when it is to be seen.
type Answer = (&'static str, &'static str);

/// A command on a terminal, and what is typed there. Gives the exit code and all that was ever shown.
fn typed(ground: &Ground, args: &[&str], answers: &[Answer]) -> (Option<i32>, String) {
    let mut screen = Screen::start(&ground.command(args), Size(24, 200));
    for (question, keys) in answers {
        screen.until(question, |rows| rows.iter().any(|row| row.starts_with(question.trim_end())));
        screen.press(keys);
    }
    let (code, _) = screen.end();
    (code, String::from_utf8(screen.bytes()).unwrap())
}

const OLD: &str = "Passphrase of the memory: ";
const NEW: &str = "New passphrase of the memory: ";
const AGAIN: &str = "The same again: ";

#[test]
fn a_passphrase_is_asked_for_on_a_terminal_and_never_shown() {
    let (ground, want) = filled();
    let rotate = ["memory", "key", "rotate", "--passphrase"];
    let is_hidden = |shown: &str| !shown.contains("horse") && !shown.contains("house");
    // Two that differ, one that is too short, and somebody who thinks better of it: nothing is changed.
    let table: [(&[Answer], i32, &str); 3] = [
        (&[(NEW, "correct horse\r"), (AGAIN, "correct house\r")], 2, "two different passphrases"),
        (&[(NEW, "horse\r")], 2, "at least"),
        (&[(NEW, "correct horse\x03")], 130, "cancelled by Ctrl-C"),
    ];
    for (answers, want_code, told) in table {
        let (code, shown) = typed(&ground, &rotate, answers);
        assert_eq!(code, Some(want_code), "{shown}");
        assert!(shown.contains(told) && is_hidden(&shown), "{shown}");
        assert_eq!(stored(&ground), want);
    }
    let set = [(NEW, "correct horsf\x7fe\r"), (AGAIN, "correct horse\r")];
    let (code, shown) = typed(&ground, &rotate, &set);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("encrypted with a passphrase") && is_hidden(&shown), "{shown}");
    let export = ["memory", "export"];
    let (code, shown) = typed(&ground, &export, &[(OLD, "correct house\r")]);
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("try: ") && is_hidden(&shown), "{shown}");
    let (code, shown) = typed(&ground, &export, &[(OLD, "correct horse\r")]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(want.iter().all(|text| shown.contains(text)) && is_hidden(&shown), "{shown}");
    // Back to a key that nobody has to know.
    let (code, shown) = typed(&ground, &["memory", "key", "rotate"], &[(OLD, "correct horse\r")]);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(stored(&ground), want);
}
