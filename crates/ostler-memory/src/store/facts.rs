//! What somebody wants known: remembered, corrected, pinned. A correction does not remove what it corrects: that was
//! said, and can still be found; it only does not hold any more.

use rusqlite::{OptionalExtension as _, TransactionBehavior, params};

use super::rows::{index, session_row};
use super::{Store, StoreError};
use crate::deferral::{Session, hash};
use crate::private::random_word;
use crate::redaction::{Policy, redacted};
use crate::shield;

/// Something to be known.
#[derive(Debug, Clone, Copy)]
pub struct Fact<'a> {
    /// What.
    pub text: &'a str,
    /// Where it holds: a directory; empty for everywhere.
    pub cwd: &'a str,
    /// Since when, in milliseconds since 1970.
    pub now: i64,
    /// What is done with secrets in it.
    pub policy: Policy,
}

/// Why nothing was corrected.
#[derive(Debug, thiserror::Error)]
pub enum CorrectError {
    /// There is no such message.
    #[error("there is no message {0}")]
    Unknown(i64),
    /// It has been corrected already.
    #[error("message {old} was corrected by {new} already")]
    Already {
        /// The message.
        old: i64,
        /// Its correction.
        new: i64,
    },
    /// There is nothing left to keep.
    #[error("nothing of it may be kept")]
    Nothing,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for CorrectError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl CorrectError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_) => Some("`ostler memory recall` tells the ids".to_owned()),
            Self::Already { new, .. } => Some(format!("correct {new} instead")),
            Self::Nothing => Some("say it without the secret".to_owned()),
            Self::Store(error) => error.hint(),
        }
    }
}

impl Store {
    /// Keeps a fact. Gives its number.
    pub fn remember(&mut self, fact: Fact<'_>) -> Result<i64, CorrectError> {
        self.state(fact, None)
    }

    /// Keeps what is true instead of a message, which does not hold any more. Gives the number of the correction.
    pub fn correct(&mut self, old: i64, fact: Fact<'_>) -> Result<i64, CorrectError> {
        self.state(fact, Some(old))
    }

    fn state(&mut self, fact: Fact<'_>, old: Option<i64>) -> Result<i64, CorrectError> {
        let text = redacted(fact.text, fact.policy).filter(|text| !text.trim().is_empty());
        let text = text.ok_or(CorrectError::Nothing)?;
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut cwd = fact.cwd.to_owned();
        if let Some(old) = old {
            let found: Option<(String, Option<i64>)> = change
                .query_row(
                    "SELECT s.cwd, f.replaced_by FROM message m JOIN session s ON s.id = m.session
                     LEFT JOIN fact f ON f.message = m.id WHERE m.id = ?1",
                    [old],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            match found {
                None => return Err(CorrectError::Unknown(old)),
                Some((_, Some(new))) => return Err(CorrectError::Already { old, new }),
                Some((place, None)) => cwd = place,
            }
        }
        let session =
            Session { source: "ostler".to_owned(), id: format!("facts:{cwd}"), cwd, ..Session::default() };
        let row = session_row(&change, &session)?;
        // Apart from each other: a fact is not what was said after another one.
        change.execute(
            "INSERT INTO message (session, key, ordinal, at, role, kind, mark, text, sha256, shield)
             VALUES (?1, ?2, (SELECT coalesce(max(ordinal), 0) + 10 FROM message WHERE session = ?1), ?3,
                     'user', 'fact', '', ?4, ?5, ?6)",
            params![
                row,
                format!("fact-{}-{}", fact.now, random_word()),
                fact.now,
                text,
                hash(&text),
                i64::from(shield::score(&text))
            ],
        )?;
        let new = change.last_insert_rowid();
        index(&change, new, &text)?;
        change.execute(
            "INSERT INTO fact (message, valid_from, replaces) VALUES (?1, ?2, ?3)",
            params![new, fact.now, old],
        )?;
        if let Some(old) = old {
            change.execute(
                "INSERT INTO fact (message, valid_from, valid_to, replaced_by)
                 VALUES (?1, (SELECT at FROM message WHERE id = ?1), ?2, ?3)
                 ON CONFLICT (message) DO UPDATE SET valid_to = ?2, replaced_by = ?3",
                params![old, fact.now, new],
            )?;
            change.execute(
                "UPDATE message SET pinned = (SELECT pinned FROM message WHERE id = ?1) WHERE id = ?2",
                params![old, new],
            )?;
            change.execute("UPDATE message SET pinned = 0 WHERE id = ?1", [old])?;
        }
        change.commit()?;
        Ok(new)
    }

    /// Pins a message, or takes the pin out. Says whether there is such a message.
    pub fn pin(&self, id: i64, pinned: bool) -> Result<bool, StoreError> {
        Ok(self.db.execute("UPDATE message SET pinned = ?2 WHERE id = ?1", params![id, i64::from(pinned)])?
            > 0)
    }
}
