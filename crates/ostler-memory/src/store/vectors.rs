//! Vectors in the store: those of each message, how far they have come, and of which model they are.
//!
//! The signs of all of them are in a table of their own: a process that searches reads them once, and no page of the
//! numbers with them.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::{Store, StoreError};
use crate::embedding::{Bits, Vector, bits_from_bytes, bits_to_bytes};

/// The name of the job that makes vectors.
const JOB: &str = "vectors";

/// What gets a vector: what people and agents said, and facts. Calls of tools are found by their words.
const GETS_ONE: &str = "kind <> 'tool' AND mark IN ('', 'sidechain', 'summary')";

/// How far the vectors of a model have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The model.
    pub model: String,
    /// All messages up to this number have theirs.
    pub upto: i64,
}

impl Reached {
    fn of(state: &str) -> Option<Self> {
        let (model, upto) = state.split_once(' ')?;
        Some(Self { model: model.to_owned(), upto: upto.parse().ok()? })
    }

    fn state(&self) -> String {
        format!("{} {}", self.model, self.upto)
    }
}

/// The signs of one vector, as they are looked through.
pub(crate) type Signs = (i64, i64, Bits);

impl Store {
    /// How far vectors have come; nothing if no model has begun.
    pub fn reached(&self) -> Result<Option<Reached>, StoreError> {
        Ok(reached(&self.db)?)
    }

    /// Makes this the model of the vectors. Those of another one are removed.
    pub(crate) fn begin_vectors(&mut self, model: &str) -> Result<Reached, StoreError> {
        if let Some(found) = self.reached()?.filter(|found| found.model == model) {
            return Ok(found);
        }
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found = match reached(&change)? {
            Some(found) if found.model == model => found,
            _ => {
                change.execute_batch("DELETE FROM vector; DELETE FROM signs;")?;
                let fresh = Reached { model: model.to_owned(), upto: 0 };
                change.execute(
                    "INSERT OR REPLACE INTO job (name, state) VALUES (?1, ?2)",
                    [JOB, &fresh.state()],
                )?;
                fresh
            }
        };
        change.commit()?;
        Ok(found)
    }

    /// The next messages that have no vector yet: number and text.
    pub(crate) fn without_vector(&self, after: i64, most: usize) -> Result<Vec<(i64, String)>, StoreError> {
        let query = format!("SELECT id, text FROM message WHERE id > ?1 AND {GETS_ONE} ORDER BY id LIMIT ?2");
        let mut statement = self.db.prepare_cached(&query)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![after, most], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many messages wait for their vectors.
    pub fn vectors_missing(&self) -> Result<u64, StoreError> {
        let after = self.reached()?.map_or(0, |found| found.upto);
        let query = format!("SELECT count(*) FROM message WHERE id > ?1 AND {GETS_ONE}");
        let count: i64 = self.db.query_row(&query, [after], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Keeps vectors, and notes how far they have come, in one transaction. What is there already stays. If another one
    /// has changed how far they had come meanwhile, that is not overwritten: gives what holds now.
    pub(crate) fn keep_vectors(
        &mut self,
        before: &Reached,
        upto: i64,
        vectors: &[(i64, Vec<Vector>)],
    ) -> Result<Option<Reached>, StoreError> {
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let now = reached(&change)?;
        if now.as_ref().map(|now| &now.model) != Some(&before.model) {
            return Ok(now);
        }
        {
            let mut numbers = change.prepare_cached(
                "INSERT OR IGNORE INTO vector (message, part, ints)
                 SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM message WHERE id = ?1)",
            )?;
            let mut signs =
                change.prepare_cached("INSERT INTO signs (id, message, bits) VALUES (?1, ?2, ?3)")?;
            for (message, parts) in vectors {
                for (part, vector) in (0_i64..).zip(parts) {
                    if numbers.execute(params![message, part, vector.to_bytes()])? > 0 {
                        signs.execute(params![
                            change.last_insert_rowid(),
                            message,
                            bits_to_bytes(&vector.bits())
                        ])?;
                    }
                }
            }
        }
        let after = Reached { model: before.model.clone(), upto };
        change.execute(
            "UPDATE job SET state = ?3 WHERE name = ?1 AND state = ?2",
            [JOB, &before.state(), &after.state()],
        )?;
        let now = reached(&change)?;
        crate::kill_point::reached("vectors.inserted");
        change.commit()?;
        crate::kill_point::reached("vectors.committed");
        Ok(now)
    }

    /// The number of the newest vector.
    pub(crate) fn last_sign(&self) -> Result<i64, StoreError> {
        let last: Option<i64> =
            self.db.prepare_cached("SELECT max(id) FROM signs")?.query_row([], |row| row.get(0))?;
        Ok(last.unwrap_or(0))
    }

    /// The signs of all vectors after this number, one after the other.
    pub(crate) fn signs(&self, after: i64, mut sink: impl FnMut(Signs)) -> Result<(), StoreError> {
        let mut statement =
            self.db.prepare_cached("SELECT id, message, bits FROM signs WHERE id > ?1 ORDER BY id")?;
        let mut rows = statement.query([after])?;
        while let Some(row) = rows.next()? {
            if let Some(bits) = row.get_ref(2)?.as_blob().ok().and_then(bits_from_bytes) {
                sink((row.get(0)?, row.get(1)?, bits));
            }
        }
        Ok(())
    }

    /// The vectors of messages, the parts of each in order. One without any is left out.
    pub(crate) fn vectors(
        &self,
        messages: impl IntoIterator<Item = i64>,
    ) -> Result<HashMap<i64, Vec<Vector>>, StoreError> {
        let mut statement =
            self.db.prepare_cached("SELECT ints FROM vector WHERE message = ?1 ORDER BY part")?;
        let mut found = HashMap::new();
        for message in messages {
            let rows = statement.query_map([message], |row| {
                Ok(row.get_ref(0)?.as_blob().ok().and_then(Vector::from_bytes))
            })?;
            let parts: Vec<Vector> = rows.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            if !parts.is_empty() {
                found.insert(message, parts);
            }
        }
        Ok(found)
    }
}

fn reached(db: &Connection) -> Result<Option<Reached>, rusqlite::Error> {
    let state: Option<String> = db
        .prepare_cached("SELECT state FROM job WHERE name = ?1")?
        .query_row([JOB], |row| row.get(0))
        .optional()?;
    Ok(state.as_deref().and_then(Reached::of))
}

/// Messages that are in the table `leaving` lose their vectors. A number may be given to another message later, so
/// that what has been reached is taken back to before them.
pub(super) fn forget(db: &Connection) -> Result<(), rusqlite::Error> {
    db.execute_batch(
        "DELETE FROM signs WHERE id IN (SELECT id FROM vector WHERE message IN (SELECT id FROM leaving));
         DELETE FROM vector WHERE message IN (SELECT id FROM leaving);",
    )?;
    let first: Option<i64> = db.query_row("SELECT min(id) FROM leaving", [], |row| row.get(0))?;
    if let (Some(first), Some(found)) = (first, reached(db)?) {
        let back = Reached { upto: found.upto.min(first - 1), ..found };
        db.execute("UPDATE job SET state = ?2 WHERE name = ?1", [JOB, &back.state()])?;
    }
    Ok(())
}
