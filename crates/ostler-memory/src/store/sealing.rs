//! The file of the store is exchanged for one with another key, or for one that is encrypted at all. Whenever that is cut
//! off, the next one who opens the store finds either the old file or the new one, whole, and its key:
//!
//! 1. The key file names the new key beside the old one.
//! 2. All there is is written to a file beside the store, with the new key.
//! 3. That file is opened and compared.
//! 4. It gets the store's name.
//! 5. The key file names the new key only.
//!
//! All of it while nobody else has the store open. For a plain store the key file says that it may be one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::opening::{Form, Hold, Standing, With, connect, form, missing, name, told};
use super::{Store, StoreError, schema};
use crate::key::{Key, KeyFile, Kind, Passphrase, Slot};
use crate::kill_point::reached;
use crate::place::Place;
use crate::private::PrivateFolder;

/// The new file, and what SQLite may have left beside it.
const NEXT: &str = "memory.db.next";
const LEFT: [&str; 4] = [NEXT, "memory.db.next-journal", "memory.db.next-wal", "memory.db.next-shm"];

/// Where the new key comes from.
#[derive(Debug, Clone, Copy)]
pub enum NewKey<'a> {
    /// It is random, and in the key file.
    File,
    /// It is made of this.
    Passphrase(&'a Passphrase),
}

/// What protects the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// Whether there is a store, and it is not encrypted.
    pub is_plain: bool,
    /// Where its key comes from, and since when it is the key; nothing if there is none.
    pub key: Option<(Kind, String)>,
    /// Whether a change of the key was cut off. Whoever opens the store settles that.
    pub is_changing: bool,
}

impl Store {
    /// What protects the store, without opening it.
    pub fn protection(place: &Place) -> Result<Protection, StoreError> {
        let folder = match PrivateFolder::open(place.root()) {
            Ok(folder) => folder,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Protection { is_plain: false, key: None, is_changing: false });
            }
            Err(source) => return Err(StoreError::Place { path: place.store(), source }),
        };
        let standing = Standing::look(place, &folder)?;
        Ok(Protection {
            is_plain: standing.form == Form::Plain,
            is_changing: standing.keys.as_ref().is_some_and(|keys| keys.next.is_some()),
            key: standing.keys.map(|keys| (keys.current.kind(), keys.since)),
        })
    }

    /// Gives the store another key. Waits this long until nobody has it open. Cut off at any moment, the store has the
    /// old key or the new one, and the key file has the one that it has.
    pub fn rotate(place: &Place, new: NewKey<'_>, wait: Duration) -> Result<(), StoreError> {
        let failed = |source| StoreError::Place { path: place.key(), source };
        let folder = PrivateFolder::create(place.root()).map_err(failed)?;
        let _alone = Hold::take(place, &folder, With::Nobody, wait)?;
        settle(place, &folder, wait)?;
        let standing = Standing::look(place, &folder)?;
        let (slot, passphrase) = match new {
            NewKey::File => (Slot::raw(), None),
            NewKey::Passphrase(passphrase) => (Slot::of_passphrase(), Some(passphrase)),
        };
        let slot = slot.map_err(failed)?;
        let to = slot.key(passphrase).map_err(|error| missing(place, error))?;
        let from = standing.key(place)?;
        let keys = standing.keys.filter(|_| standing.form == Form::Sealed);
        if let Some(keys) = keys {
            let both = KeyFile { next: Some(slot.clone()), ..keys.clone() };
            both.save(&folder, "rotate.noted").map_err(failed)?;
            if let Err(error) = write_next(place, &folder, from.as_ref(), &to, wait) {
                // If this fails too, whoever opens the store does it.
                discard(&folder);
                let _ = keys.save(&folder, "rotate.undone");
                return Err(error);
            }
            swap(place, &folder)?;
        }
        KeyFile::new(slot).save(&folder, "rotate.done").map_err(failed)
    }
}

/// Somebody put a plain store in the place of an encrypted one: it is encrypted with the next opening. Says whether it
/// was so.
pub(super) fn expect_plain(place: &Place, wait: Duration) -> Result<bool, StoreError> {
    let failed = |source| StoreError::Place { path: place.key(), source };
    let folder = PrivateFolder::open(place.root()).map_err(failed)?;
    // Who has it open has it with this key: then it is not plain.
    let Ok(_alone) = Hold::take(place, &folder, With::Nobody, wait) else { return Ok(false) };
    let keys = Standing::look(place, &folder)?.keys;
    match keys.filter(|keys| keys.is_settled()) {
        Some(keys) if form(place, &folder)? == Form::Plain => {
            KeyFile { sealing: true, ..keys }.save(&folder, "seal.key").map_err(failed)?;
            Ok(true)
        }
        Some(_) | None => Ok(false),
    }
}

/// Brings file and key into order. The caller is the only one who has the store.
pub(super) fn settle(place: &Place, folder: &PrivateFolder, wait: Duration) -> Result<(), StoreError> {
    let failed = |source| StoreError::Place { path: place.key(), source };
    let standing = Standing::look(place, folder)?;
    match (standing.form, standing.keys) {
        (Form::Nothing, None) => {
            KeyFile::new(Slot::raw().map_err(failed)?).save(folder, "key").map_err(failed)
        }
        (Form::Sealed, None) => Err(StoreError::NoKey { path: place.store(), key: place.key() }),
        (Form::Plain, keys) => {
            let keys = match keys {
                Some(keys) => KeyFile { next: None, sealing: true, ..keys },
                None => KeyFile { sealing: true, ..KeyFile::new(Slot::raw().map_err(failed)?) },
            };
            let to = keys.current.key(place.passphrase()).map_err(|error| missing(place, error))?;
            keys.save(folder, "seal.key").map_err(failed)?;
            write_next(place, folder, None, &to, wait).inspect_err(|_| discard(folder))?;
            swap(place, folder)?;
            KeyFile { sealing: false, ..keys }.save(folder, "seal.done").map_err(failed)
        }
        (Form::Nothing | Form::Sealed, Some(keys)) => match keys.next.clone() {
            None if keys.sealing => {
                discard(folder);
                KeyFile { sealing: false, ..keys }.save(folder, "seal.done").map_err(failed)
            }
            None => Ok(()),
            Some(next) => finish(place, folder, keys, next, wait),
        },
    }
}

/// A change was cut off: the key that opens the store is the key.
fn finish(
    place: &Place,
    folder: &PrivateFolder,
    keys: KeyFile,
    next: Slot,
    wait: Duration,
) -> Result<(), StoreError> {
    let mut refused = StoreError::WrongKey { path: place.store(), key: place.key() };
    for slot in [keys.current.clone(), next] {
        let key = match slot.key(place.passphrase()) {
            Ok(key) => key,
            Err(error) => {
                refused = missing(place, error);
                continue;
            }
        };
        if opens(place, &key, wait)? {
            discard(folder);
            let settled = KeyFile { next: None, current: slot, ..keys };
            return settled
                .save(folder, "settle")
                .map_err(|source| StoreError::Place { path: place.key(), source });
        }
    }
    Err(refused)
}

fn opens(place: &Place, key: &Key, wait: Duration) -> Result<bool, StoreError> {
    let asked = connect(&place.store(), Some(key), wait).and_then(|db| schema::version(&db));
    match asked.map_err(|error| told(place, Form::Sealed, error)) {
        Ok(_) => Ok(true),
        Err(StoreError::WrongKey { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What an exchange that was cut off left behind.
fn discard(folder: &PrivateFolder) {
    for name in LEFT {
        let _ = folder.remove(name);
    }
}

/// Writes all that the store has to a file beside it, with another key, and compares it.
fn write_next(
    place: &Place,
    folder: &PrivateFolder,
    from: Option<&Key>,
    to: &Key,
    wait: Duration,
) -> Result<(), StoreError> {
    let path = place.root().join(NEXT);
    let failed = |source| StoreError::Place { path: path.clone(), source };
    let was = if from.is_some() { Form::Sealed } else { Form::Plain };
    discard(folder);
    folder.create_empty(NEXT).map_err(failed)?;
    let copied = || -> Result<Option<(Connection, i64)>, rusqlite::Error> {
        let db = connect(&place.store(), from, wait)?;
        let version = schema::version(&db)?;
        if version > schema::VERSION {
            return Ok(Some((db, version)));
        }
        // Only one who is alone may do this; afterwards one file has it all.
        let mode: String = db.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
        if mode != "delete" {
            return Ok(None);
        }
        db.execute("ATTACH DATABASE ?1 AS next KEY ?2", [path.display().to_string(), to.literal()])?;
        db.execute_batch("BEGIN IMMEDIATE")?;
        db.query_row("SELECT sqlcipher_export('next')", [], |_| Ok(()))?;
        db.execute_batch(&format!("PRAGMA next.user_version = {version}; COMMIT; DETACH next"))?;
        Ok(Some((db, version)))
    };
    let copied = copied().map_err(|error| told(place, was, error))?;
    let (db, version) = copied.ok_or(StoreError::Busy)?;
    if version > schema::VERSION {
        return Err(StoreError::Newer { path: place.store(), found: version });
    }
    reached("exchange.written");
    let next = connect(&path, Some(to), wait)?;
    if !is_sound(&next)? || tables(&db)? != tables(&next)? || schema::version(&next)? != version {
        return Err(StoreError::Different { path: place.store() });
    }
    drop(next);
    folder.file(NEXT).and_then(|file| file.sync_all()).map_err(failed)?;
    reached("exchange.compared");
    Ok(())
}

/// Every page has the seal of its key, and SQLite finds nothing wrong with what is on them.
fn is_sound(db: &Connection) -> Result<bool, rusqlite::Error> {
    let mut seals = db.prepare("PRAGMA cipher_integrity_check")?;
    if seals.query([])?.next()?.is_some() {
        return Ok(false);
    }
    let word: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(word == "ok")
}

/// Every table that is one, and how many rows it has.
fn tables(db: &Connection) -> Result<Vec<(String, i64)>, rusqlite::Error> {
    let mut names = db
        .prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name")?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let count = |name: String| {
        let query = format!("SELECT count(*) FROM main.\"{}\"", name.replace('"', "\"\""));
        let rows = db.query_row(&query, [], |row| row.get(0))?;
        Ok((name, rows))
    };
    names.into_iter().map(count).collect()
}

/// The new file becomes the store.
fn swap(place: &Place, folder: &PrivateFolder) -> Result<(), StoreError> {
    let path: PathBuf = place.store();
    let failed = |source| StoreError::Place { path: path.clone(), source };
    folder.rename(NEXT, &name(Path::new(&path))).map_err(failed)?;
    reached("exchange.swapped");
    folder.sync().map_err(failed)
}

#[cfg(test)]
#[path = "sealing_tests.rs"]
mod tests;
