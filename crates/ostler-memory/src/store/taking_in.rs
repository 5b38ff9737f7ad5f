//! What people said about messages, taken in with them: pins, facts, corrections. What is here already stays.

use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::{Store, StoreError};

/// How a message is called everywhere, not only in this store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Which agent.
    pub source: String,
    /// The agent's id of the session.
    pub session: String,
    /// The agent's id of the message.
    pub key: String,
}

/// What was said about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The message.
    pub name: Name,
    /// Whether it is a fact.
    pub is_fact: bool,
    /// Whether it is pinned.
    pub is_pinned: bool,
    /// What it was corrected by.
    pub corrected_by: Option<Name>,
}

impl Store {
    /// Takes remarks in. One on a message that is not here is passed over. A repeat changes nothing.
    pub fn take_in(&mut self, remarks: &[Remark]) -> Result<(), StoreError> {
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for remark in remarks {
            let Some((id, at)) = found(&change, &remark.name)? else { continue };
            if remark.is_pinned {
                change.execute("UPDATE message SET pinned = 1 WHERE id = ?1", [id])?;
            }
            if remark.is_fact {
                change.execute(
                    "INSERT INTO fact (message, valid_from) VALUES (?1, ?2) ON CONFLICT (message) DO NOTHING",
                    params![id, at],
                )?;
            }
            let Some(name) = &remark.corrected_by else { continue };
            let Some((new, since)) = found(&change, name)? else { continue };
            change.execute(
                "INSERT INTO fact (message, valid_from, valid_to, replaced_by) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (message) DO UPDATE SET valid_to = ?3, replaced_by = ?4 WHERE replaced_by IS NULL",
                params![id, at, since, new],
            )?;
            change.execute(
                "INSERT INTO fact (message, valid_from, replaces) VALUES (?1, ?2, ?3)
                 ON CONFLICT (message) DO UPDATE SET replaces = ?3 WHERE replaces IS NULL",
                params![new, since, id],
            )?;
        }
        change.commit()?;
        Ok(())
    }
}

/// The number of a message here, and its time.
fn found(change: &Transaction<'_>, name: &Name) -> Result<Option<(i64, i64)>, rusqlite::Error> {
    change
        .prepare_cached(
            "SELECT m.id, m.at FROM message m JOIN session s ON s.id = m.session
             WHERE s.source = ?1 AND s.name = ?2 AND m.key = ?3",
        )?
        .query_row(params![name.source, name.session, name.key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}
