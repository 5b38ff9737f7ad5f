use serde_json::json;

use super::*;
use crate::store::PATIENT;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn line(number: u32) -> String {
    let record = json!({
        "type": "user", "uuid": format!("u{number}"), "sessionId": "s", "cwd": "/srv/p",
        "timestamp": "2026-11-16T10:00:00.000Z", "message": {"role": "user", "content": format!("Turn {number}")},
    });
    format!("{record}\n")
}

/// A transcript that grew after its last hook, so long ago.
fn grown(folder: &Path, ago: Duration) -> (Place, Store) {
    let place = Place::new(folder.join("memory"));
    let path = folder.join("s.jsonl");
    std::fs::write(&path, line(0)).unwrap();
    let wanted = Wanted { path: path.clone(), origin: Some(Origin::Claude), ..Wanted::default() };
    assert_eq!(capture::defer(&place, &wanted).unwrap().events, 1);
    std::fs::write(&path, line(0) + &line(1)).unwrap();
    let cursor = std::fs::read_dir(place.cursors()).unwrap().next().unwrap().unwrap().path();
    let file = File::options().write(true).open(cursor).unwrap();
    file.set_modified(SystemTime::now() - ago).unwrap();
    let store = Store::open(&place, PATIENT).unwrap();
    (place, store)
}

/// Agents write the end of an answer after the hook for it. Who is waited for looks where that may have happened lately, and
/// not at all the transcripts of a year.
#[test]
fn the_end_of_a_transcript_is_caught_up_with_soon_or_when_there_is_time() {
    for (days, want) in [(6, 2), (8, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let (place, mut store) = grown(folder.path(), days * DAY);
        let soon = Some(Instant::now() + DAY);
        assert_eq!(drain(&place, &mut store, soon).unwrap().inserted, want, "{days} days");
        drain(&place, &mut store, None).unwrap();
        assert_eq!(store.totals().unwrap().messages, 2, "{days} days");
    }
}

/// Another process is putting in what was said before.
#[test]
fn what_was_said_later_does_not_overtake_what_another_one_puts_in() {
    let folder = tempfile::tempdir().unwrap();
    let (place, mut store) = grown(folder.path(), Duration::ZERO);
    let path = folder.path().join("s.jsonl");
    let wanted = Wanted { path: path.clone(), origin: Some(Origin::Claude), ..Wanted::default() };
    assert_eq!(capture::defer(&place, &wanted).unwrap().events, 1);
    // And a third one that no hook has seen.
    std::fs::write(&path, line(0) + &line(1) + &line(2)).unwrap();
    let spool = PrivateFolder::open(&place.deferred()).unwrap();
    let names = order::waiting(&spool).unwrap();
    let other = spool.file(&names[0]).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let done = drain(&place, &mut store, None).unwrap();
    assert_eq!(done, Drained { left: 2, ..Drained::default() });
    drop(other);
    let done = drain(&place, &mut store, None).unwrap();
    assert_eq!((done.files, done.inserted, done.left), (2, 3, 0));
    let said: Vec<String> = store.around(1, 9, 9).unwrap().into_iter().map(|message| message.text).collect();
    assert_eq!(said, ["Turn 0", "Turn 1", "Turn 2"]);
}

/// An agent that writes in the directory of its records may replace one of them, or the directory, by a link.
#[test]
fn a_record_that_became_a_link_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let (path, other) = (home.join("records/s.jsonl"), folder.path().join("other/s.jsonl"));
    for path in [&path, &other] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    }
    std::fs::write(&path, line(0)).unwrap();
    std::fs::write(&other, line(0) + &line(1)).unwrap();
    let place = Place::new(folder.path().join("memory")).with_records_below(home.clone());
    let wanted = Wanted { path: path.clone(), origin: Some(Origin::Claude), ..Wanted::default() };
    assert_eq!(capture::defer(&place, &wanted).unwrap().events, 1, "its own record is captured");
    let mut store = Store::open(&place, PATIENT).unwrap();
    let messages = |store: &mut Store| {
        drain(&place, store, None).unwrap();
        store.totals().unwrap().messages
    };
    assert_eq!(messages(&mut store), 1);
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(capture::defer(&place, &wanted).is_err());
    assert_eq!(messages(&mut store), 1);
    std::fs::remove_dir_all(home.join("records")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("other"), home.join("records")).unwrap();
    assert!(capture::defer(&place, &wanted).is_err());
    assert_eq!(messages(&mut store), 1);
    let database = Wanted { path: home.join("opencode.db"), origin: Some(Origin::OpenCode), ..wanted };
    assert!(capture::defer(&place, &database).is_err(), "a database is not opened");
}
