use super::*;
use crate::recall::Question;
use crate::store::tests::{said, session};
use crate::store::{HASTY, PATIENT};

fn place() -> (tempfile::TempDir, Place) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path().join("memory"));
    (folder, place)
}

fn filled(place: &Place) {
    let mut store = Store::open(place, PATIENT).unwrap();
    let events = [said("a", "user", "the word is xylophone"), said("b", "assistant", "noted")];
    assert_eq!(store.insert(&session("s", "/p"), &events).unwrap().inserted, 2);
}

/// What is found by a word, which is in the index and not only in the rows.
fn found(place: &Place) -> Result<Vec<String>, StoreError> {
    let store = Store::open(place, PATIENT)?;
    let found = store.recall(&Question::new("xylophone", 0, 1))?;
    Ok(found.hits.into_iter().map(|hit| hit.message.text).collect())
}

fn bytes_have(place: &Place, word: &str) -> bool {
    std::fs::read_dir(place.root()).unwrap().flatten().any(|entry| {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    })
}

/// The store of before: the same, without a key.
fn made_plain(place: &Place) {
    let path = place.store();
    let standing = Standing::look(place, &PrivateFolder::open(place.root()).unwrap()).unwrap();
    let db = connect(&path, standing.key(place).unwrap().as_ref(), PATIENT).unwrap();
    db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
    let plain = place.root().join("plain");
    std::fs::write(&plain, "").unwrap();
    db.execute("ATTACH DATABASE ?1 AS plain KEY ''", [plain.display().to_string()]).unwrap();
    db.query_row("SELECT sqlcipher_export('plain')", [], |_| Ok(())).unwrap();
    db.execute_batch(&format!("PRAGMA plain.user_version = {}", schema::VERSION)).unwrap();
    drop(db);
    std::fs::rename(plain, path).unwrap();
    std::fs::remove_file(place.key()).unwrap();
}

#[test]
fn what_was_said_is_not_in_the_files() {
    let (_folder, place) = place();
    filled(&place);
    assert!(!bytes_have(&place, "xylophon"));
    assert_eq!(found(&place).unwrap(), ["the word is xylophone"]);
    let found = Store::protection(&place).unwrap();
    assert_eq!((found.is_plain, found.key.unwrap().0, found.is_changing), (false, Kind::File, false));
}

#[test]
fn a_plain_store_is_encrypted_by_who_has_the_patience() {
    let (_folder, place) = place();
    filled(&place);
    made_plain(&place);
    assert!(bytes_have(&place, "xylophone") && Store::protection(&place).unwrap().is_plain);
    // A session that begins does not wait for that.
    assert_eq!(Store::open(&place, HASTY).unwrap().totals().unwrap().messages, 2);
    assert!(Store::protection(&place).unwrap().is_plain);
    assert_eq!(found(&place).unwrap(), ["the word is xylophone"]);
    assert!(!Store::protection(&place).unwrap().is_plain && !bytes_have(&place, "xylophon"));
}

#[test]
fn another_key_opens_it_and_the_old_one_does_not() {
    let (_folder, place) = place();
    filled(&place);
    let old = std::fs::read(place.key()).unwrap();
    Store::rotate(&place, NewKey::File, PATIENT).unwrap();
    assert_ne!(std::fs::read(place.key()).unwrap(), old);
    assert_eq!(found(&place).unwrap(), ["the word is xylophone"]);
    let (key, store) = (std::fs::read(place.key()).unwrap(), std::fs::read(place.store()).unwrap());
    std::fs::write(place.key(), old).unwrap();
    let refused = found(&place);
    assert!(matches!(refused, Err(StoreError::WrongKey { .. })), "{refused:?}");
    let refused = Store::rotate(&place, NewKey::File, PATIENT);
    assert!(matches!(refused, Err(StoreError::WrongKey { .. })), "{refused:?}");
    std::fs::remove_file(place.key()).unwrap();
    let refused = found(&place);
    assert!(matches!(refused, Err(StoreError::NoKey { .. })), "{refused:?}");
    assert!(!place.key().exists() && std::fs::read(place.store()).unwrap() == store);
    std::fs::write(place.key(), key).unwrap();
    assert_eq!(found(&place).unwrap(), ["the word is xylophone"]);
}

#[test]
fn a_passphrase_is_asked_for_and_can_be_given_up() {
    let (_folder, place) = place();
    filled(&place);
    let passphrase = |text: &str| Passphrase::new(text).unwrap();
    Store::rotate(&place, NewKey::Passphrase(&passphrase("correct horse")), PATIENT).unwrap();
    assert!(matches!(found(&place), Err(StoreError::Locked { .. })));
    let known = place.clone().with_passphrase(Some(passphrase("correct horse")));
    assert_eq!(found(&known).unwrap(), ["the word is xylophone"]);
    let wrong = place.clone().with_passphrase(Some(passphrase("correct house")));
    assert!(matches!(found(&wrong), Err(StoreError::WrongKey { .. })));
    Store::rotate(&known, NewKey::File, PATIENT).unwrap();
    assert_eq!(found(&place).unwrap(), ["the word is xylophone"]);
}

/// As a change that was cut off leaves it: both keys are named, and the store has one of them.
#[test]
fn of_two_keys_the_one_that_opens_is_the_key() {
    let (_folder, place) = place();
    filled(&place);
    let folder = PrivateFolder::open(place.root()).unwrap();
    let keys = KeyFile::load(&folder).unwrap().unwrap().ok().unwrap();
    let other = Slot::raw().unwrap();
    for (current, next) in [(keys.current.clone(), other.clone()), (other, keys.current.clone())] {
        let both = KeyFile { next: Some(next), current, ..keys.clone() };
        both.save(&folder, "test").unwrap();
        std::fs::write(place.root().join(NEXT), "half of it").unwrap();
        assert!(Store::protection(&place).unwrap().is_changing);
        assert_eq!(found(&place).unwrap(), ["the word is xylophone"]);
        assert!(KeyFile::load(&folder).unwrap().unwrap().is_ok_and(|found| found == keys));
        assert!(!place.root().join(NEXT).exists());
    }
}

#[test]
fn a_store_that_is_open_keeps_its_key() {
    let (_folder, place) = place();
    filled(&place);
    let store = Store::open(&place, PATIENT).unwrap();
    let key = std::fs::read(place.key()).unwrap();
    assert!(matches!(Store::rotate(&place, NewKey::File, HASTY), Err(StoreError::Busy)));
    assert_eq!(std::fs::read(place.key()).unwrap(), key);
    drop(store);
    Store::rotate(&place, NewKey::File, HASTY).unwrap();
}

#[test]
fn a_newer_plain_store_is_left_alone() {
    let (_folder, place) = place();
    filled(&place);
    made_plain(&place);
    let db = Connection::open(place.store()).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let before = std::fs::read(place.store()).unwrap();
    assert!(matches!(found(&place), Err(StoreError::Newer { found: 99, .. })));
    assert!(std::fs::read(place.store()).unwrap() == before && !place.root().join(NEXT).exists());
}

#[test]
fn a_plain_store_that_is_put_in_its_place_is_encrypted_with_its_key() {
    let (_folder, place) = place();
    filled(&place);
    let key = std::fs::read(place.key()).unwrap();
    made_plain(&place);
    std::fs::write(place.key(), &key).unwrap();
    assert_eq!(found(&place).unwrap(), ["the word is xylophone"]);
    assert!(!bytes_have(&place, "xylophon"));
    assert_eq!(std::fs::read(place.key()).unwrap(), key);
}

/// The kernel takes all locks of a process on a file away when the process closes that file once, however often it has
/// it open. So nobody but SQLite may open the store of an open store.
#[test]
fn a_second_look_takes_no_lock_away() {
    use std::os::unix::fs::MetadataExt as _;
    let (_folder, place) = place();
    filled(&place);
    let store = Store::open(&place, PATIENT).unwrap();
    store.totals().unwrap();
    let file = format!(":{} ", std::fs::metadata(place.store()).unwrap().ino());
    let process = format!(" {} ", std::process::id());
    let locks = || {
        let all = std::fs::read_to_string("/proc/locks").unwrap();
        all.lines()
            .filter(|line| line.contains("POSIX") && line.contains(&file) && line.contains(&process))
            .count()
    };
    let held = locks();
    assert!(held > 0, "{}", std::fs::read_to_string("/proc/locks").unwrap());
    Store::protection(&place).unwrap();
    drop(Store::open(&place, PATIENT).unwrap());
    assert_eq!(locks(), held);
    drop(store);
}
