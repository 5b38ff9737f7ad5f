//! The database: sessions, what was said in them, what was corrected, and the words to find it by. One writer at a
//! time; SQLite's own lock says who. A message is known by its session and its own id, and is there once.

mod facts;
mod forgetting;
mod opening;
mod rows;
mod schema;
mod sealing;
mod taking_in;
mod told;
mod vectors;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Transaction};

use crate::place::Place;
use crate::private::PrivateFolder;
use opening::{Form, Hold};

pub use facts::{CorrectError, Fact};
pub use forgetting::Forgotten;
pub use rows::Inserted;
pub use sealing::{NewKey, Protection};
pub use taking_in::{Name, Remark};
pub(crate) use told::COLUMNS;
pub use told::{Message, Totals};
pub use vectors::Reached;

/// The least version of SQLite whose write-ahead log is known not to lose a commit.
const LEAST_SQLITE: i32 = 3_051_003;

/// How long a person waits for another writer.
pub const PATIENT: Duration = Duration::from_secs(5);

/// How long a hook does.
pub const HASTY: Duration = Duration::from_millis(15);

/// The database, open. As long as it is, nobody exchanges its file or its key.
#[derive(Debug)]
pub struct Store {
    pub(crate) db: Connection,
    path: PathBuf,
    _hold: Hold,
}

/// Why the database could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Its folder or file.
    #[error("could not use the store `{}`", .path.display())]
    Place {
        /// The store.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was made by a later Ostler.
    #[error("the store `{}` is of version {found}, and this Ostler knows {}", .path.display(), schema::VERSION)]
    Newer {
        /// The store.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// The disk is full.
    #[error("there is no room on the disk for the store")]
    Full,
    /// Somebody else writes.
    #[error("the store is being written by another process")]
    Busy,
    /// It is not a database, or is damaged.
    #[error("the store `{}` cannot be read as a database", .path.display())]
    Unreadable {
        /// The store.
        path: PathBuf,
    },
    /// It is encrypted with another key than ours, or is not a database.
    #[error("the store `{}` cannot be read as a database with the key of `{}`", .path.display(), .key.display())]
    WrongKey {
        /// The store.
        path: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// It is encrypted, and there is no key.
    #[error("the store `{}` cannot be read as a database, and its key `{}` is not there", .path.display(), .key.display())]
    NoKey {
        /// The store.
        path: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// The key file is not one of ours.
    #[error("the key file `{}` cannot be read", .key.display())]
    KeyFile {
        /// The key file.
        key: PathBuf,
    },
    /// Its key is made of a passphrase, and none was said.
    #[error("the store `{}` is opened with a passphrase", .path.display())]
    Locked {
        /// The store.
        path: PathBuf,
    },
    /// What was written with another key is not what was there.
    #[error("the store `{}` was not exchanged: its copy is different", .path.display())]
    Different {
        /// The store.
        path: PathBuf,
    },
    /// SQLite is older than can be trusted.
    #[error("SQLite is of version {0}")]
    OldSqlite(i32),
    /// Anything else that SQLite says.
    #[error("the store failed")]
    Sqlite(#[source] rusqlite::Error),
}

impl StoreError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Place { .. } => {
                "check that there is room on the disk and that the folder can be written to".to_owned()
            }
            Self::Full => "make room; what was taken down is kept in the spool".to_owned(),
            Self::Newer { .. } => "use the newer Ostler; nothing was changed".to_owned(),
            Self::Busy => "try again; what was taken down meanwhile is kept in the spool".to_owned(),
            Self::Unreadable { path } => format!(
                "`ostler memory doctor` tells more; move {} aside to begin anew, and `ostler memory backfill`",
                path.display()
            ),
            Self::WrongKey { key, .. } => format!(
                "put back the {} that was there when it could be read, or say the right passphrase; nothing was changed",
                key.display()
            ),
            Self::NoKey { path, key } => format!(
                "put {} back, or move {} aside to begin anew, and `ostler memory backfill`",
                key.display(),
                path.display()
            ),
            Self::KeyFile { key } => {
                format!("put back the {} that was there; nothing was changed", key.display())
            }
            Self::Locked { .. } => "set OSTLER_MEMORY_PASSPHRASE, or call it from a terminal".to_owned(),
            Self::Different { .. } => "nothing was changed; `ostler memory doctor` tells more".to_owned(),
            Self::OldSqlite(_) => "build Ostler with the SQLite that comes with it".to_owned(),
            Self::Sqlite(_) => "`ostler memory doctor` tells more".to_owned(),
        })
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => Self::Busy,
            Some(rusqlite::ErrorCode::DiskFull) => Self::Full,
            _ => Self::Sqlite(error),
        }
    }
}

impl Store {
    /// Opens the store to write, made if it is not there; waits this long for another writer. A plain store of before
    /// is encrypted first, by who has the patience.
    pub fn open(place: &Place, wait: Duration) -> Result<Self, StoreError> {
        match Self::open_as_it_is(place, wait) {
            Err(StoreError::WrongKey { .. }) if sealing::expect_plain(place, wait)? => {
                Self::open_as_it_is(place, wait)
            }
            other => other,
        }
    }

    fn open_as_it_is(place: &Place, wait: Duration) -> Result<Self, StoreError> {
        let version = rusqlite::version_number();
        if version < LEAST_SQLITE {
            return Err(StoreError::OldSqlite(version));
        }
        let path = place.store();
        let failed = |source| StoreError::Place { path: path.clone(), source };
        let folder = PrivateFolder::create(place.root()).map_err(failed)?;
        let (hold, standing) = opening::in_order(place, &folder, wait)?;
        let key = standing.key(place)?;
        if standing.form == Form::Nothing {
            make_private(&folder, &path).map_err(failed)?;
        }
        let open = || -> Result<_, rusqlite::Error> {
            let mut db = opening::connect(&path, key.as_ref(), wait)?;
            let newer = schema::migrate(&mut db)?;
            Ok((db, newer))
        };
        match open() {
            Ok((_, Some(found))) => Err(StoreError::Newer { path, found }),
            Ok((db, None)) => Ok(Self { db, path, _hold: hold }),
            Err(error) => Err(opening::told(place, standing.form, error)),
        }
    }

    /// Opens the store to read; nothing if there is none yet. Readers of a write-ahead log take part in its bookkeeping.
    pub fn open_to_read(place: &Place, wait: Duration) -> Result<Option<Self>, StoreError> {
        if !place.store().exists() {
            return Ok(None);
        }
        Self::open(place, wait).map(Some)
    }

    /// From now on until it is dropped, all that is read is of the same moment, and a question that is made of hundreds
    /// takes the locks of the file once.
    pub(crate) fn at_once(&self) -> Result<Option<Transaction<'_>>, StoreError> {
        if !self.db.is_autocommit() {
            return Ok(None);
        }
        Ok(Some(self.db.unchecked_transaction()?))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether SQLite finds the database sound: its own words, `ok` if so.
    pub fn check(&self) -> Result<String, StoreError> {
        Ok(self.db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?)
    }
}

/// The file is there, for its owner alone, before SQLite writes to it: the log beside it gets the same mode.
fn make_private(folder: &PrivateFolder, path: &Path) -> io::Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match folder.create_empty(&name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
pub(crate) mod tests;
