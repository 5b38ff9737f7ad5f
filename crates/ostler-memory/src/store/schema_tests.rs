use rusqlite::types::Value;

use super::*;
use crate::filling::fill;
use crate::filling::tests::Letters;
use crate::meaning::Meaning;
use crate::place::Place;
use crate::private::PrivateFolder;
use crate::recall::{ByMeaning, Question};
use crate::store::opening::{Standing, connect};
use crate::store::rows::put;
use crate::store::tests::{said, session};
use crate::store::{Inserted, PATIENT, Store};

const TABLES: [&str; 6] = ["session", "message", "fact", "spool", "forgotten", "job"];

/// Which store of version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// As it was when there was no encryption.
    Plain,
    /// As it was for a short time after.
    Sealed,
}

fn events() -> Vec<crate::deferral::Event> {
    let words = ["The port is 80", "readFileSync is slow", "We retried five times"];
    words.iter().enumerate().map(|(at, text)| said(&at.to_string(), "user", text)).collect()
}

/// A store of version 1, with something in each of its tables.
fn first(place: &Place, before: Before) -> Connection {
    let folder = PrivateFolder::create(place.root()).unwrap();
    let key = match before {
        Before::Plain => None,
        Before::Sealed => {
            // For its key.
            drop(Store::open(place, PATIENT).unwrap());
            for name in folder.names().unwrap().iter().filter(|name| name.starts_with("memory.db")) {
                folder.remove(name).unwrap();
            }
            Standing::look(place, &folder).unwrap().key(place).unwrap()
        }
    };
    folder.create_empty("memory.db").unwrap();
    let db = connect(&place.store(), key.as_ref(), PATIENT).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.execute_batch(FIRST).unwrap();
    db.pragma_update(None, "user_version", 1).unwrap();
    put(&db, &session("s", "/p"), &events()).unwrap();
    db.execute_batch(
        "UPDATE message SET pinned = 1 WHERE id = 2;
         INSERT INTO fact (message, valid_from, valid_to, replaced_by) VALUES (1, 5, 6, 3);
         INSERT INTO fact (message, valid_from, replaces) VALUES (3, 6, 1);
         INSERT INTO spool VALUES ('s-1-2.jsonl', 7);
         INSERT INTO forgotten VALUES ('claude/s', 'gone');
         INSERT INTO job VALUES ('other', 'state');",
    )
    .unwrap();
    db
}

fn rows(db: &Connection) -> Vec<(&'static str, Vec<Vec<Value>>)> {
    let of = |table: &&'static str| {
        let mut statement = db.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect()).unwrap();
        (*table, rows.collect::<Result<_, _>>().unwrap())
    };
    TABLES.iter().map(of).collect()
}

#[test]
fn a_store_of_the_first_version_becomes_one_of_today_and_keeps_all() {
    for before in [Before::Plain, Before::Sealed] {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path().join("memory"));
        let db = first(&place, before);
        let want = rows(&db);
        assert_eq!(want.iter().map(|(_, rows)| rows.len()).collect::<Vec<_>>(), [1, 3, 2, 1, 1, 1]);
        drop(db);
        let mut store = Store::open(&place, PATIENT).unwrap();
        assert_eq!(version(&store.db).unwrap(), VERSION, "{before:?}");
        assert_eq!(rows(&store.db), want, "{before:?}");
        // What was known and what was forgotten stay so, and the words find.
        let again = [events(), vec![said("gone", "user", "forgotten")]].concat();
        assert_eq!(
            store.insert(&session("s", "/p"), &again).unwrap(),
            Inserted { inserted: 0, known: 4 },
            "{before:?}"
        );
        for (asked, want) in [("retrying", 3), ("file sync", 2)] {
            let hits = store.recall(&Question::new(asked, 0, 1)).unwrap().hits;
            assert_eq!(hits[0].message.id, want, "{before:?} {asked}");
        }
        // Vectors can be made, of what was there before and of what comes.
        store.insert(&session("t", "/p"), &[said("x", "user", "zzz")]).unwrap();
        assert_eq!(store.vectors_missing().unwrap(), 4, "{before:?}");
        assert_eq!(fill(&mut store, &mut Letters::new("a"), None, &mut |_| {}).unwrap().done, 4);
        let mut meaning = Meaning::new(Box::new(Letters::new("a")));
        let found = store.recall_with(&Question::new("qzzzz", 0, 1), Some(&mut meaning)).unwrap();
        assert_eq!(
            (found.hits[0].message.text.as_str(), found.by_meaning),
            ("zzz", ByMeaning::Yes),
            "{before:?}"
        );
        drop(store);
        // Nothing is done twice.
        let store = Store::open(&place, PATIENT).unwrap();
        assert_eq!((store.totals().unwrap().vectors, store.vectors_missing().unwrap()), (4, 0));
    }
}
