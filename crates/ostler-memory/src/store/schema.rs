//! The tables, and how an older store becomes one of today.

use rusqlite::{Connection, TransactionBehavior};

/// The version of a store of today.
pub(super) const VERSION: i64 = 2;

/// From nothing to version 1. `words` finds messages by their words and keeps no copy of them: its second column has the
/// parts of `camelCase` names. `seen` tells how often a word occurs.
const FIRST: &str = "
CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    name TEXT NOT NULL,
    cwd TEXT NOT NULL,
    project TEXT NOT NULL,
    UNIQUE (source, name)
) STRICT;
CREATE INDEX session_project ON session (project);
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (id),
    key TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    at INTEGER NOT NULL,
    role TEXT NOT NULL,
    kind TEXT NOT NULL,
    mark TEXT NOT NULL,
    text TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    shield INTEGER NOT NULL,
    pinned INTEGER NOT NULL DEFAULT 0,
    UNIQUE (session, key)
) STRICT;
CREATE INDEX message_order ON message (session, ordinal);
CREATE INDEX message_at ON message (at);
CREATE INDEX message_pinned ON message (pinned) WHERE pinned > 0;
CREATE VIRTUAL TABLE words USING fts5 (
    text, names, content='', contentless_delete=1, tokenize='porter unicode61'
);
CREATE VIRTUAL TABLE seen USING fts5vocab (words, row);
CREATE TABLE fact (
    message INTEGER PRIMARY KEY REFERENCES message (id),
    valid_from INTEGER NOT NULL,
    valid_to INTEGER,
    replaces INTEGER,
    replaced_by INTEGER
) STRICT;
CREATE INDEX fact_replaces ON fact (replaces);
CREATE TABLE vector (
    message INTEGER NOT NULL,
    part INTEGER NOT NULL,
    bits BLOB NOT NULL,
    ints BLOB NOT NULL,
    PRIMARY KEY (message, part)
) STRICT, WITHOUT ROWID;
CREATE TABLE spool (
    file TEXT PRIMARY KEY,
    line INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE forgotten (
    session TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE job (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// From version 1 to 2. `vector` was empty until then. A number is never given twice, so that who has read the signs up to
/// one has only to read on.
const SECOND: &str = "
DROP TABLE vector;
CREATE TABLE vector (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message INTEGER NOT NULL REFERENCES message (id),
    part INTEGER NOT NULL,
    ints BLOB NOT NULL,
    UNIQUE (message, part)
) STRICT;
CREATE TABLE signs (
    id INTEGER PRIMARY KEY,
    message INTEGER NOT NULL,
    bits BLOB NOT NULL
) STRICT;
";

/// Brings a store to today's version, in one transaction. Gives the version of one that is newer, which is not touched.
pub(super) fn migrate(db: &mut Connection) -> Result<Option<i64>, rusqlite::Error> {
    let found = version(db)?;
    if found > VERSION {
        return Ok(Some(found));
    }
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "secure_delete", "ON")?;
    // The log is cut back to this after a large import.
    db.pragma_update(None, "journal_size_limit", 8 * 1024 * 1024)?;
    // What a search reads again and again; SQLite's own 2 MB are less than one question needs in a large store.
    db.pragma_update(None, "cache_size", -16 * 1024)?;
    if found == VERSION {
        return Ok(None);
    }
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = version(&change)?;
    for (number, step) in (1..).zip([FIRST, SECOND]) {
        if before < number {
            change.execute_batch(step)?;
        }
    }
    change.pragma_update(None, "user_version", VERSION)?;
    change.commit()?;
    Ok(None)
}

pub(super) fn version(db: &Connection) -> Result<i64, rusqlite::Error> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
