//! Putting in: each message once, in the transaction of its file's progress.

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::{Store, StoreError};
use crate::deferral::{self, Event, Session};
use crate::{names, project, shield};

/// How many rows one transaction has at most: a reader waits for none of them, another writer for one.
const BATCH: usize = 2_000;

/// What came of putting in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inserted {
    /// New ones.
    pub inserted: u64,
    /// Those that were there.
    pub known: u64,
}

impl Inserted {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self { inserted: self.inserted + other.inserted, known: self.known + other.known }
    }
}

impl Store {
    /// Puts in what was said in a session. All or nothing for each [`BATCH`]; a repeat changes nothing.
    pub fn insert(&mut self, session: &Session, events: &[Event]) -> Result<Inserted, StoreError> {
        let mut sum = Inserted::default();
        for batch in events.chunks(BATCH) {
            let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            sum = sum.and(put(&change, session, batch)?);
            change.commit()?;
        }
        Ok(sum)
    }

    /// Puts in the lines of a deferral file from `line` on, and notes how far it came, in one transaction each batch.
    pub(crate) fn insert_from_spool(
        &mut self,
        session: &Session,
        events: &[(u64, Event)],
        file: &str,
    ) -> Result<Inserted, StoreError> {
        let mut sum = Inserted::default();
        for batch in events.chunks(BATCH) {
            let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let rows: Vec<Event> = batch.iter().map(|(_, event)| event.clone()).collect();
            sum = sum.and(put(&change, session, &rows)?);
            if let Some((line, _)) = batch.last() {
                note(&change, file, *line)?;
            }
            crate::kill_point::reached("drain.inserted");
            change.commit()?;
            crate::kill_point::reached("drain.committed");
        }
        Ok(sum)
    }

    /// How many lines of a file are in, its header included.
    pub(crate) fn spooled(&self, file: &str) -> Result<u64, StoreError> {
        let line: Option<i64> = self
            .db
            .query_row("SELECT line FROM spool WHERE file = ?1", [file], |row| row.get(0))
            .optional()?;
        Ok(line.and_then(|line| u64::try_from(line).ok()).unwrap_or(0))
    }

    /// Forgets how far a file came that is gone.
    pub(crate) fn spool_done(&self, file: &str) -> Result<(), StoreError> {
        self.db.execute("DELETE FROM spool WHERE file = ?1", [file])?;
        Ok(())
    }
}

fn note(change: &Transaction<'_>, file: &str, line: u64) -> Result<(), rusqlite::Error> {
    change
        .prepare_cached(
            "INSERT INTO spool (file, line) VALUES (?1, ?2) ON CONFLICT (file) DO UPDATE SET line = ?2",
        )?
        .execute(params![file, i64::try_from(line).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// The row of a session, made or completed.
pub(super) fn session_row(db: &Connection, session: &Session) -> Result<i64, rusqlite::Error> {
    let project = project::of(&session.cwd);
    db.prepare_cached(
        "INSERT INTO session (source, name, cwd, project) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (source, name) DO UPDATE SET cwd = ?3, project = ?4 WHERE cwd = ''",
    )?
    .execute(params![session.source, session.id, session.cwd, project])?;
    db.prepare_cached("SELECT id FROM session WHERE source = ?1 AND name = ?2")?
        .query_row(params![session.source, session.id], |row| row.get(0))
}

pub(super) fn put(db: &Connection, session: &Session, events: &[Event]) -> Result<Inserted, rusqlite::Error> {
    let row = session_row(db, session)?;
    let mut ordinal: i64 = db
        .prepare_cached("SELECT coalesce(max(ordinal), 0) FROM message WHERE session = ?1")?
        .query_row([row], |row| row.get(0))?;
    let mut sum = Inserted::default();
    let mut insert = db.prepare_cached(
        "INSERT INTO message (session, key, ordinal, at, role, kind, mark, text, sha256, shield)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
         WHERE NOT EXISTS (SELECT 1 FROM forgotten WHERE session = ?11 AND key = ?2)
         ON CONFLICT (session, key) DO NOTHING",
    )?;
    let name = format!("{}/{}", session.source, session.id);
    for event in events {
        let sha256 =
            if event.sha256.len() == 64 { event.sha256.clone() } else { deferral::hash(&event.text) };
        let key =
            if event.id.is_empty() { format!("{}-{}", event.cue, &sha256[..16]) } else { event.id.clone() };
        let at: jiff::Timestamp = event.ts.parse().unwrap_or_default();
        let kind = if event.kind.is_empty() { "said" } else { &event.kind };
        let changed = insert.execute(params![
            row,
            key,
            ordinal + 1,
            at.as_millisecond(),
            event.role,
            kind,
            event.mark,
            event.text,
            sha256,
            i64::from(shield::score(&event.text)),
            name,
        ])?;
        if changed == 0 {
            sum.known += 1;
            continue;
        }
        ordinal += 1;
        sum.inserted += 1;
        if is_found(&event.mark) {
            index(db, db.last_insert_rowid(), &event.text)?;
        }
    }
    Ok(sum)
}

/// Whether a message with this mark can be found by its words. What a program injects repeats itself in every session.
fn is_found(mark: &str) -> bool {
    matches!(mark, "" | "sidechain" | "summary")
}

pub(super) fn index(db: &Connection, id: i64, text: &str) -> Result<(), rusqlite::Error> {
    db.prepare_cached("INSERT INTO words (rowid, text, names) VALUES (?1, ?2, ?3)")?.execute(params![
        id,
        text,
        names::parts(text)
    ])?;
    Ok(())
}
