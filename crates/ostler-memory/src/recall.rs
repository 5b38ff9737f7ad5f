//! Finding again. Candidates come by their words, and by their vectors where a model is installed; each list is brought
//! to the same scale and they are added. A message counts more if its neighbours match too: an answer is often in the
//! turn after the words of the question.

mod lexical;
mod question;
mod ranking;

use crate::store::{Message, Store, StoreError};

pub use question::Question;
pub use ranking::{Hit, Parts};

/// How many candidates a list has.
const CANDIDATES: usize = 200;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// Whether vectors took part.
    pub has_vectors: bool,
}

impl Store {
    /// Finds. Never writes. Any text is a question: none of its letters is syntax.
    pub fn recall(&self, question: &Question<'_>) -> Result<Found, StoreError> {
        let by_words = lexical::candidates(self, question)?;
        let ranked = ranking::ranked(self, question, &by_words)?;
        Ok(Found { hits: ranked, has_vectors: false })
    }

    /// The newest messages of a project's last session besides this one, the oldest of them first.
    pub fn last_of_project(
        &self,
        project: &str,
        except: &str,
        limit: usize,
    ) -> Result<Vec<Message>, StoreError> {
        let query = format!(
            "SELECT {} FROM message m JOIN session s ON s.id = m.session
             WHERE m.mark = '' AND m.kind = 'said' AND m.session = (
                 SELECT m.session FROM message m JOIN session s ON s.id = m.session
                 WHERE s.project = ?1 AND s.name <> ?2 AND s.source <> 'ostler' AND m.mark = '' AND m.kind = 'said'
                 ORDER BY m.at DESC LIMIT 1)
             ORDER BY m.ordinal DESC LIMIT ?3",
            crate::store::COLUMNS
        );
        let mut statement = self.db.prepare_cached(&query)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(rusqlite::params![project, except, limit], Message::of)?;
        let mut found: Vec<Message> = rows.collect::<Result<_, _>>()?;
        found.reverse();
        Ok(found)
    }

    /// What is pinned, of a project and of no project, the newest first.
    pub fn pinned(&self, project: &str, limit: usize) -> Result<Vec<Message>, StoreError> {
        let query = format!(
            "SELECT {} FROM message m JOIN session s ON s.id = m.session
             WHERE m.pinned > 0 AND (s.project = ?1 OR s.project = '') ORDER BY m.at DESC LIMIT ?2",
            crate::store::COLUMNS
        );
        let mut statement = self.db.prepare_cached(&query)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(rusqlite::params![project, limit], Message::of)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
#[path = "recall_tests.rs"]
mod tests;
