//! How the database is opened: while nobody exchanges its file or its key, and with the key.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};

use super::{PATIENT, StoreError, sealing};
use crate::key::{Key, KeyError, KeyFile};
use crate::place::Place;
use crate::private::PrivateFolder;

/// Held by everybody who has the store open, and alone by who exchanges its file.
const LOCK: &str = "store.lock";

/// How often a lock is tried that another one has: the kernel knows no deadline for it.
const TRIED_EVERY: Duration = Duration::from_millis(3);

/// What a database begins with that is not encrypted.
const PLAIN: &[u8; 16] = b"SQLite format 3\0";

/// The right to have the store open, until it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    _file: File,
}

/// With whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum With {
    Others,
    Nobody,
}

impl Hold {
    pub(super) fn take(
        place: &Place,
        folder: &PrivateFolder,
        with: With,
        wait: Duration,
    ) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Place { path: place.store(), source };
        let file = folder.lockable(LOCK).map_err(failed)?;
        let operation = match with {
            With::Others => FlockOperation::NonBlockingLockShared,
            With::Nobody => FlockOperation::NonBlockingLockExclusive,
        };
        let until = Instant::now() + wait;
        loop {
            match flock(&file, operation) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
            if Instant::now() >= until {
                return Err(StoreError::Busy);
            }
            std::thread::sleep(TRIED_EVERY);
        }
    }
}

/// What the file of the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Not there, or empty.
    Nothing,
    /// A database that everybody can read who can read the file.
    Plain,
    /// Anything else: encrypted, or not a database.
    Sealed,
}

/// The store as it is on disk, before it is opened.
pub(super) struct Standing {
    pub(super) form: Form,
    pub(super) keys: Option<KeyFile>,
}

impl Standing {
    /// Looks. Is true as long as a [`Hold`] is held. Where the key file says enough, the store is not opened: who closes
    /// a file that SQLite has open in the same process takes SQLite's locks away.
    pub(super) fn look(place: &Place, folder: &PrivateFolder) -> Result<Self, StoreError> {
        let keys = KeyFile::load(folder)
            .map_err(|source| StoreError::Place { path: place.key(), source })?
            .transpose()
            .map_err(|error| missing(place, error))?;
        let form = match &keys {
            Some(keys) if keys.is_settled() => match std::fs::symlink_metadata(place.store()) {
                Ok(about) if about.len() > 0 => Form::Sealed,
                Ok(_) | Err(_) => Form::Nothing,
            },
            Some(_) | None => form(place, folder)?,
        };
        Ok(Self { form, keys })
    }

    /// Whether it can be opened as it is. A plain one is encrypted by who has the time.
    fn is_settled(&self, wait: Duration) -> bool {
        match (self.form, &self.keys) {
            (_, Some(keys)) if keys.next.is_some() => false,
            (Form::Plain, _) => wait < PATIENT,
            (_, Some(keys)) if keys.sealing => false,
            (Form::Nothing, None) => false,
            (Form::Nothing | Form::Sealed, _) => true,
        }
    }

    /// The key to open it with; none for a plain one.
    pub(super) fn key(&self, place: &Place) -> Result<Option<Key>, StoreError> {
        match (self.form, &self.keys) {
            (Form::Plain, _) => Ok(None),
            (Form::Nothing | Form::Sealed, None) => {
                Err(StoreError::NoKey { path: place.store(), key: place.key() })
            }
            (Form::Nothing | Form::Sealed, Some(keys)) => {
                keys.current.key(place.passphrase()).map(Some).map_err(|error| missing(place, error))
            }
        }
    }
}

pub(super) fn missing(place: &Place, error: KeyError) -> StoreError {
    match error {
        KeyError::Locked => StoreError::Locked { path: place.store() },
        KeyError::Unreadable => StoreError::KeyFile { key: place.key() },
    }
}

pub(super) fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// By its first bytes.
pub(super) fn form(place: &Place, folder: &PrivateFolder) -> Result<Form, StoreError> {
    let failed = |source| StoreError::Place { path: place.store(), source };
    let mut head = Vec::new();
    match folder.file(&name(&place.store())) {
        Ok(file) => file.take(PLAIN.len() as u64).read_to_end(&mut head).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Form::Nothing),
        Err(error) => return Err(failed(error)),
    };
    Ok(match head.as_slice() {
        [] => Form::Nothing,
        head if head == PLAIN => Form::Plain,
        _ => Form::Sealed,
    })
}

/// The right to have the store open, with its file and its key in order: a first key is made, an exchange that was cut
/// off is finished or undone, a plain store is encrypted.
pub(super) fn in_order(
    place: &Place,
    folder: &PrivateFolder,
    wait: Duration,
) -> Result<(Hold, Standing), StoreError> {
    let until = Instant::now() + wait;
    loop {
        let hold = Hold::take(place, folder, With::Others, wait)?;
        let standing = Standing::look(place, folder)?;
        if standing.is_settled(wait) {
            return Ok((hold, standing));
        }
        drop(hold);
        let alone = Hold::take(place, folder, With::Nobody, wait)?;
        sealing::settle(place, folder, wait)?;
        drop(alone);
        // Somebody may have begun the next exchange meanwhile.
        if Instant::now() >= until + wait {
            return Err(StoreError::Busy);
        }
    }
}

/// A connection, with the key if there is one. The first question to it tells whether the key is right.
pub(super) fn connect(path: &Path, key: Option<&Key>, wait: Duration) -> Result<Connection, rusqlite::Error> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(wait)?;
    // What goes wrong is told by us, not on standard error by a library.
    db.query_row("PRAGMA cipher_log_level = NONE", [], |_| Ok(()))?;
    if let Some(key) = key {
        db.pragma_update(None, "key", key.literal())?;
    }
    Ok(db)
}

/// What SQLite's answer to a first question means.
pub(super) fn told(place: &Place, form: Form, error: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match (error.sqlite_error_code(), form) {
        (Some(NotADatabase), Form::Sealed | Form::Nothing) => {
            StoreError::WrongKey { path: place.store(), key: place.key() }
        }
        (Some(NotADatabase | DatabaseCorrupt), _) => StoreError::Unreadable { path: place.store() },
        _ => error.into(),
    }
}
