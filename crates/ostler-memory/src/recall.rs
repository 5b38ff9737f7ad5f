//! Finding again. Candidates come by their words, and by their vectors where a model is installed; each list is brought
//! to the same scale and they are added. A message counts more if its neighbours match too: an answer is often in the
//! turn after the words of the question.

mod dense;
mod lexical;
mod question;
mod ranking;

use crate::meaning::{AskError, Meaning};
use crate::store::{Message, Store, StoreError};

pub use question::{Effort, Question};
pub use ranking::{Hit, Parts};

/// Among how many of a project's sessions the last one is looked for. Each is two pages to read and decrypt for a process
/// that has just begun, and one that is older goes on rarely.
const NEWEST_SESSIONS: usize = 50;

/// How many candidates a list has.
const CANDIDATES: usize = 200;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// Whether meaning took part, or why not.
    pub by_meaning: ByMeaning,
}

/// Whether meaning took part in a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ByMeaning {
    /// It did.
    Yes,
    /// No model is installed, or none was asked for.
    NoModel,
    /// There is a model, and no vector of it yet.
    NoVectors,
    /// The model failed, in these words.
    Failed(String),
}

impl ByMeaning {
    /// Why a search was by words only, for people; nothing if it was not.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Yes => None,
            Self::NoModel => {
                Some("by words only: no model is installed (`ostler memory model install`)".to_owned())
            }
            Self::NoVectors => Some(
                "by words only: no message has a vector yet (`ostler memory drain` makes them)".to_owned(),
            ),
            Self::Failed(reason) => Some(format!("by words only: {reason}")),
        }
    }
}

impl Store {
    /// Finds by words. Never writes. Any text is a question: none of its letters is syntax.
    pub fn recall(&self, question: &Question<'_>) -> Result<Found, StoreError> {
        self.recall_with(question, None)
    }

    /// Finds by words and by meaning. Never writes. A model that fails is told, and the words have to do.
    pub fn recall_with(
        &self,
        question: &Question<'_>,
        meaning: Option<&mut Meaning>,
    ) -> Result<Found, StoreError> {
        let _at_once = self.at_once()?;
        let by_words = lexical::candidates(self, question)?;
        // Who looks in one project only has to look through more of all to find as much of it.
        let is_bounded = question.project.is_some() || question.since.is_some();
        let count = if is_bounded { 8 * CANDIDATES } else { CANDIDATES };
        let (asked, by_meaning) = match meaning {
            _ if question.words().is_empty() => (None, ByMeaning::NoVectors),
            None => (None, ByMeaning::NoModel),
            Some(meaning) => match meaning.ask(self, question.text, count) {
                Ok(Some(mut asked)) => {
                    if is_bounded {
                        asked.nearest = self.within(question, &asked.nearest)?;
                    }
                    (Some(asked), ByMeaning::Yes)
                }
                Ok(None) => (None, ByMeaning::NoVectors),
                Err(AskError::Store(error)) => return Err(error),
                Err(AskError::Embed(error)) => (None, ByMeaning::Failed(error.to_string())),
            },
        };
        let hits = ranking::ranked(self, question, &by_words, asked.as_ref())?;
        Ok(Found { hits, by_meaning })
    }

    /// Those of these messages that are of the project and the time that are asked for, as many as a list has.
    fn within(&self, question: &Question<'_>, messages: &[i64]) -> Result<Vec<i64>, StoreError> {
        let mut statement = self.db.prepare_cached(
            "SELECT 1 FROM message m JOIN session s ON s.id = m.session
             WHERE m.id = ?1 AND (?2 IS NULL OR s.project = ?2) AND (?3 IS NULL OR m.at >= ?3)",
        )?;
        let mut wanted = Vec::new();
        for id in messages {
            if wanted.len() < CANDIDATES
                && statement.exists(rusqlite::params![id, question.project, question.since])?
            {
                wanted.push(*id);
            }
        }
        Ok(wanted)
    }

    /// The newest messages of a project's last session besides this one, the oldest of them first.
    pub fn last_of_project(
        &self,
        project: &str,
        except: &str,
        limit: usize,
    ) -> Result<Vec<Message>, StoreError> {
        // Sessions get their numbers in order: the last one is among the newest, and each is looked at only at its end.
        let query = format!(
            "SELECT {} FROM message m JOIN session s ON s.id = m.session
             WHERE m.mark = '' AND m.kind = 'said' AND m.session = (
                 SELECT last.session FROM (
                     SELECT id FROM session WHERE project = ?1 AND name <> ?2 AND source <> 'ostler'
                     ORDER BY id DESC LIMIT {NEWEST_SESSIONS}) newest
                 CROSS JOIN message last ON last.session = newest.id AND last.ordinal = (
                     SELECT ordinal FROM message
                     WHERE session = newest.id AND mark = '' AND kind = 'said' ORDER BY ordinal DESC LIMIT 1)
                 ORDER BY last.at DESC, last.id DESC LIMIT 1)
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
        let query = pinned_query();
        let mut statement = self.db.prepare_cached(&query)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(rusqlite::params![project, limit], Message::of)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// `CROSS` has SQLite begin with what is pinned: else it reads all messages of the project.
fn pinned_query() -> String {
    format!(
        "SELECT {} FROM message m CROSS JOIN session s ON s.id = m.session
         WHERE m.pinned > 0 AND (s.project = ?1 OR s.project = '') ORDER BY m.at DESC LIMIT ?2",
        crate::store::COLUMNS
    )
}

#[cfg(test)]
#[path = "recall_tests.rs"]
mod tests;
