//! The database: sessions, what was said in them, what was corrected, and the words to find it by. One writer at a
//! time; SQLite's own lock says who. A message is known by its session and its own id, and is there once.

mod facts;
mod forgetting;
mod rows;
mod schema;
mod told;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::place::Place;
use crate::private::PrivateFolder;

pub use facts::{CorrectError, Fact};
pub use forgetting::Forgotten;
pub use rows::Inserted;
pub(crate) use told::COLUMNS;
pub use told::{Message, Totals};

/// The least version of SQLite whose write-ahead log is known not to lose a commit.
const LEAST_SQLITE: i32 = 3_051_003;

/// How long a person waits for another writer.
pub const PATIENT: Duration = Duration::from_secs(5);

/// How long a hook does.
pub const HASTY: Duration = Duration::from_millis(15);

/// The database, open.
#[derive(Debug)]
pub struct Store {
    pub(crate) db: Connection,
    path: PathBuf,
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
    /// Somebody else writes.
    #[error("the store is being written by another process")]
    Busy,
    /// It is not a database, or one with another key.
    #[error("the store `{}` cannot be read as a database", .path.display())]
    Unreadable {
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
            Self::Newer { .. } => "use the newer Ostler; nothing was changed".to_owned(),
            Self::Busy => "try again; what was taken down meanwhile is kept in the spool".to_owned(),
            Self::Unreadable { path } => format!(
                "`ostler memory doctor` tells more; move {} aside to begin anew, and `ostler memory backfill`",
                path.display()
            ),
            Self::OldSqlite(_) => "build Ostler with the SQLite that comes with it".to_owned(),
            Self::Sqlite(_) => "`ostler memory doctor` tells more".to_owned(),
        })
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => Self::Busy,
            _ => Self::Sqlite(error),
        }
    }
}

impl Store {
    /// Opens the store to write, made if it is not there; waits this long for another writer.
    pub fn open(place: &Place, wait: Duration) -> Result<Self, StoreError> {
        let path = place.store();
        let failed = |source| StoreError::Place { path: path.clone(), source };
        let folder = PrivateFolder::create(place.root()).map_err(failed)?;
        let is_new = !path.exists();
        if is_new {
            make_private(&folder, &path).map_err(failed)?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        Self::connect(path, flags, wait, schema::migrate)
    }

    /// Opens the store to read; nothing if there is none yet.
    pub fn open_to_read(place: &Place, wait: Duration) -> Result<Option<Self>, StoreError> {
        let path = place.store();
        if !path.exists() {
            return Ok(None);
        }
        // Readers of a write-ahead log take part in its bookkeeping.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        Self::connect(path, flags, wait, schema::migrate).map(Some)
    }

    fn connect(
        path: PathBuf,
        flags: OpenFlags,
        wait: Duration,
        prepare: fn(&mut Connection) -> Result<Option<i64>, rusqlite::Error>,
    ) -> Result<Self, StoreError> {
        let version = rusqlite::version_number();
        if version < LEAST_SQLITE {
            return Err(StoreError::OldSqlite(version));
        }
        let open = || -> Result<_, rusqlite::Error> {
            let mut db = Connection::open_with_flags(&path, flags)?;
            db.busy_timeout(wait)?;
            let newer = prepare(&mut db)?;
            Ok((db, newer))
        };
        match open() {
            Ok((_, Some(found))) => Err(StoreError::Newer { path, found }),
            Ok((db, None)) => Ok(Self { db, path }),
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
                Err(StoreError::Unreadable { path })
            }
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
                Err(StoreError::Unreadable { path })
            }
            Err(error) => Err(error.into()),
        }
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
mod tests;
