//! What the store tells: one message, what was around it, how much there is.

use rusqlite::{OptionalExtension as _, Row, params};

use super::{Store, StoreError};

/// The columns of a [`Message`], from `message m JOIN session s`.
pub(crate) const COLUMNS: &str = "m.id, s.source, s.name, s.project, m.key, m.ordinal, m.at, m.role, m.kind, m.mark, \
     m.text, m.shield, m.pinned, m.session, (SELECT replaced_by FROM fact WHERE message = m.id)";

/// Something that was said, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its number here.
    pub id: i64,
    /// Which agent.
    pub source: String,
    /// The agent's id of the session.
    pub session: String,
    /// The project.
    pub project: String,
    /// The agent's id of it.
    pub key: String,
    /// Its place in the session.
    pub ordinal: i64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// Who.
    pub role: String,
    /// `said`, `tool` or `fact`.
    pub kind: String,
    /// Why it is not part of the conversation; empty if it is.
    pub mark: String,
    /// What.
    pub text: String,
    /// How much it looks like orders to its reader.
    pub shield: u8,
    /// Whether a person wants it always known.
    pub pinned: bool,
    /// The number of its session here.
    pub session_row: i64,
    /// What it was corrected by.
    pub replaced_by: Option<i64>,
}

impl Message {
    pub(crate) fn of(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            id: row.get(0)?,
            source: row.get(1)?,
            session: row.get(2)?,
            project: row.get(3)?,
            key: row.get(4)?,
            ordinal: row.get(5)?,
            at: row.get(6)?,
            role: row.get(7)?,
            kind: row.get(8)?,
            mark: row.get(9)?,
            text: row.get(10)?,
            shield: u8::try_from(row.get::<_, i64>(11)?).unwrap_or(100),
            pinned: row.get::<_, i64>(12)? != 0,
            session_row: row.get(13)?,
            replaced_by: row.get(14)?,
        })
    }

    /// When, in words of ISO 8601.
    pub fn when(&self) -> String {
        jiff::Timestamp::from_millisecond(self.at).map(|at| at.to_string()).unwrap_or_default()
    }
}

/// How much there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sessions.
    pub sessions: i64,
    /// Messages.
    pub messages: i64,
    /// Facts that hold.
    pub facts: i64,
    /// Messages with a vector.
    pub vectors: i64,
}

impl Store {
    /// One message.
    pub fn message(&self, id: i64) -> Result<Option<Message>, StoreError> {
        let query =
            format!("SELECT {COLUMNS} FROM message m JOIN session s ON s.id = m.session WHERE m.id = ?1");
        Ok(self.db.prepare_cached(&query)?.query_row([id], Message::of).optional()?)
    }

    /// What was said around a message, in its session, itself included.
    pub fn around(&self, id: i64, before: u32, after: u32) -> Result<Vec<Message>, StoreError> {
        let query = format!(
            "SELECT {COLUMNS} FROM message m JOIN session s ON s.id = m.session,
             (SELECT session, ordinal FROM message WHERE id = ?1) here
             WHERE m.session = here.session AND m.ordinal BETWEEN here.ordinal - ?2 AND here.ordinal + ?3
             ORDER BY m.ordinal"
        );
        let mut statement = self.db.prepare_cached(&query)?;
        let rows = statement.query_map(params![id, before, after], Message::of)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How much there is.
    pub fn totals(&self) -> Result<Totals, StoreError> {
        let count = |query: &str| self.db.query_row(query, [], |row| row.get(0));
        Ok(Totals {
            sessions: count("SELECT count(*) FROM session")?,
            messages: count("SELECT count(*) FROM message")?,
            facts: count("SELECT count(*) FROM fact WHERE valid_to IS NULL")?,
            vectors: count("SELECT count(*) FROM vector WHERE part = 0")?,
        })
    }

    /// Every message in order, handed to `sink` one after the other.
    pub fn each(
        &self,
        mut sink: impl FnMut(Message) -> std::io::Result<()>,
    ) -> Result<std::io::Result<()>, StoreError> {
        let query = format!(
            "SELECT {COLUMNS} FROM message m JOIN session s ON s.id = m.session ORDER BY m.session, m.ordinal"
        );
        let mut statement = self.db.prepare(&query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Err(error) = sink(Message::of(row)?) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}
