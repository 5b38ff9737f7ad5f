use super::*;
use crate::deferral::{Event, Session, hash};
use crate::redaction::Policy;

pub(crate) fn said(id: &str, role: &str, text: &str) -> Event {
    Event {
        text: text.to_owned(),
        cue: String::new(),
        tier: "episodic".to_owned(),
        role: role.to_owned(),
        ts: "2026-11-16T10:00:00Z".to_owned(),
        id: id.to_owned(),
        sha256: hash(text),
        kind: String::new(),
        mark: String::new(),
    }
}

pub(crate) fn session(id: &str, cwd: &str) -> Session {
    Session { source: "claude".to_owned(), id: id.to_owned(), cwd: cwd.to_owned(), transcript: String::new() }
}

fn store() -> (tempfile::TempDir, Place, Store) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path().join("memory"));
    let store = Store::open(&place, PATIENT).unwrap();
    (folder, place, store)
}

#[test]
fn a_message_is_there_once() {
    let (_folder, _place, mut store) = store();
    let events = [said("a", "user", "Hello"), said("b", "assistant", "Hello")];
    assert_eq!(store.insert(&session("s", "/p"), &events).unwrap(), Inserted { inserted: 2, known: 0 });
    assert_eq!(store.insert(&session("s", "/p"), &events).unwrap(), Inserted { inserted: 0, known: 2 });
    // The same words in another session are another message.
    assert_eq!(store.insert(&session("t", "/p"), &events[..1]).unwrap().inserted, 1);
    assert_eq!(store.totals().unwrap(), Totals { sessions: 2, messages: 3, ..Totals::default() });
}

#[test]
fn the_database_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, place, mut store) = store();
    store.insert(&session("s", "/p"), &[said("a", "user", "Hello")]).unwrap();
    for name in ["memory.db", "memory.db-wal", "memory.db-shm"] {
        let mode = std::fs::metadata(place.root().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_newer_store_is_left_alone() {
    let (_folder, place, store) = store();
    store.db.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let refused = Store::open(&place, PATIENT);
    assert!(matches!(refused, Err(StoreError::Newer { found: 99, .. })), "{refused:?}");
}

#[test]
fn what_is_no_database_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    std::fs::write(place.store(), "x".repeat(4096)).unwrap();
    let refused = Store::open(&place, PATIENT);
    assert!(matches!(refused, Err(StoreError::NoKey { .. })), "{refused:?}");
    std::fs::write(place.store(), format!("SQLite format 3\0{}", "x".repeat(4096))).unwrap();
    let refused = Store::open(&place, PATIENT);
    assert!(matches!(refused, Err(StoreError::Unreadable { .. })), "{refused:?}");
}

#[test]
fn a_second_writer_waits_and_then_says_so() {
    let (_folder, place, store) = store();
    store.db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut second = Store::open(&place, HASTY).unwrap();
    let refused = second.insert(&session("s", "/p"), &[said("a", "user", "Hello")]);
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    store.db.execute_batch("COMMIT").unwrap();
    assert_eq!(second.insert(&session("s", "/p"), &[said("a", "user", "Hello")]).unwrap().inserted, 1);
}

#[test]
fn what_was_forgotten_is_gone_and_stays_gone() {
    let (_folder, place, mut store) = store();
    let events = [said("a", "user", "the word is xylophone"), said("b", "user", "another")];
    store.insert(&session("s", "/p"), &events).unwrap();
    let id = store.db.query_row("SELECT id FROM message WHERE key = 'a'", [], |row| row.get(0)).unwrap();
    assert_eq!(store.forget(&Forgotten::Message(id)).unwrap(), 1);
    assert_eq!(store.insert(&session("s", "/p"), &events).unwrap(), Inserted { inserted: 0, known: 2 });
    drop(store);
    for entry in std::fs::read_dir(place.root()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(9).any(|window| window.eq_ignore_ascii_case(b"xylophone"));
            assert!(!found, "{}", path.display());
        }
    }
}

#[test]
fn a_session_and_a_project_and_a_time_are_forgotten() {
    let (_folder, _place, mut store) = store();
    for (name, cwd) in [("s", "/p"), ("t", "/q"), ("u", "/p")] {
        store.insert(&session(name, cwd), &[said("a", "user", "Hello")]).unwrap();
    }
    assert_eq!(store.forget(&Forgotten::Session("s".to_owned())).unwrap(), 1);
    assert_eq!(store.forget(&Forgotten::Project("/p".to_owned())).unwrap(), 1);
    assert_eq!(store.forget(&Forgotten::Before(i64::MAX)).unwrap(), 1);
    assert_eq!(store.totals().unwrap(), Totals::default());
}

#[test]
fn a_correction_keeps_what_it_corrects() {
    let (_folder, _place, mut store) = store();
    let fact = |text| Fact { text, cwd: "/p", now: 1_000, policy: Policy::Mask };
    let old = store.remember(fact("The port is 80")).unwrap();
    let new = store.correct(old, fact("The port is 8080")).unwrap();
    assert_eq!(store.message(old).unwrap().unwrap().replaced_by, Some(new));
    assert_eq!(store.message(new).unwrap().unwrap().text, "The port is 8080");
    let refused = store.correct(old, fact("The port is 9"));
    assert!(matches!(refused, Err(CorrectError::Already { .. })), "{refused:?}");
    assert!(matches!(store.correct(999, fact("x")), Err(CorrectError::Unknown(999))));
    assert_eq!(store.totals().unwrap().facts, 1);
    assert!(store.pin(new, true).unwrap() && !store.pin(999, true).unwrap());
}

/// The clock was set back in the middle of a session.
#[test]
fn what_was_said_is_in_the_order_in_which_it_was_said() {
    let (_folder, _place, mut store) = store();
    let at = |id: &str, hour: u32| Event {
        ts: format!("2026-11-16T{hour:02}:00:00Z"),
        ..said(id, "user", &format!("{id} of the matter"))
    };
    store.insert(&session("s", "/p"), &[at("first", 12), at("second", 13), at("third", 3)]).unwrap();
    store.insert(&session("s", "/p"), &[at("fourth", 4)]).unwrap();
    let keys = |found: Vec<Message>| -> Vec<String> { found.into_iter().map(|found| found.key).collect() };
    let want = ["first", "second", "third", "fourth"];
    assert_eq!(keys(store.around(2, 5, 5).unwrap()), want);
    assert_eq!(keys(store.last_of_project("/p", "mine", 9).unwrap()), want);
    let mut exported = Vec::new();
    let mut keep = |message| {
        exported.push(message);
        Ok(())
    };
    store.each(&mut keep).unwrap().unwrap();
    assert_eq!(keys(exported), want);
    // Who is near whom when something is looked for is a matter of that order too.
    store
        .insert(&session("t", "/p"), &[at("asked about zebras", 23), at("answer", 1), at("else", 22)])
        .unwrap();
    let found = store.recall(&crate::recall::Question::new("zebras", 0, 2)).unwrap();
    assert_eq!(
        keys(found.hits.into_iter().map(|hit| hit.message).collect()),
        ["asked about zebras", "answer"]
    );
}
