//! Forgetting: the text is gone, also from the file, and what was forgotten is not taken down again.

use rusqlite::{Connection, TransactionBehavior, params};

use super::{Store, StoreError, vectors};

/// What to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgotten {
    /// One message.
    Message(i64),
    /// A session, by the agent's own id.
    Session(String),
    /// All of a project.
    Project(String),
    /// All that was said before, in milliseconds since 1970.
    Before(i64),
}

impl Store {
    /// Forgets. Gives how many messages it were. Their keys are kept, so that no later reading brings them back.
    pub fn forget(&mut self, what: &Forgotten) -> Result<u64, StoreError> {
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        change.execute_batch(
            "CREATE TEMP TABLE IF NOT EXISTS leaving (id INTEGER PRIMARY KEY); DELETE FROM leaving;",
        )?;
        match what {
            Forgotten::Message(id) => {
                change.execute("INSERT INTO leaving SELECT id FROM message WHERE id = ?1", [id])?
            }
            Forgotten::Session(name) => change.execute(
                "INSERT INTO leaving SELECT m.id FROM message m JOIN session s ON s.id = m.session WHERE s.name = ?1",
                [name],
            )?,
            Forgotten::Project(project) => change.execute(
                "INSERT INTO leaving SELECT m.id FROM message m JOIN session s ON s.id = m.session WHERE s.project = ?1",
                [project],
            )?,
            Forgotten::Before(at) => {
                change.execute("INSERT INTO leaving SELECT id FROM message WHERE at < ?1", params![at])?
            }
        };
        let count = remove(&change)?;
        change.commit()?;
        // What was written into the log before is gone from there too.
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(count)
    }
}

fn remove(db: &Connection) -> Result<u64, rusqlite::Error> {
    db.execute_batch(
        "INSERT OR IGNORE INTO forgotten
             SELECT s.source || '/' || s.name, m.key FROM message m JOIN session s ON s.id = m.session
             WHERE m.id IN (SELECT id FROM leaving);
         DELETE FROM words WHERE rowid IN (SELECT id FROM leaving);
         DELETE FROM fact WHERE message IN (SELECT id FROM leaving);
         UPDATE fact SET replaced_by = NULL, valid_to = NULL WHERE replaced_by IN (SELECT id FROM leaving);",
    )?;
    vectors::forget(db)?;
    let count = db.execute("DELETE FROM message WHERE id IN (SELECT id FROM leaving)", [])?;
    db.execute_batch(
        "DELETE FROM session WHERE id NOT IN (SELECT session FROM message);
         INSERT INTO words (words) VALUES ('optimize');",
    )?;
    Ok(count as u64)
}
