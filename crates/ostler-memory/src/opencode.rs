//! OpenCode keeps its sessions in a database. Its rows are read here and made into records; what they mean is decided
//! where all agents are known.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use ostler_agent::remembering::Origin;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, params};
use serde_json::{Value, json};

use crate::deferral::{Event, Session};
use crate::redaction::Policy;
use crate::transcript;

/// How long its own writer is waited for.
const WAIT: Duration = Duration::from_secs(2);

/// What was said in one session, or in all.
pub fn read(
    path: &Path,
    session: Option<&str>,
    policy: Policy,
) -> Result<Vec<(Session, Vec<Event>)>, String> {
    if !path.is_file() {
        return Err(format!("there is no database `{}`", path.display()));
    }
    rows(path, session, policy).map_err(|error| format!("`{}` cannot be read: {error}", path.display()))
}

fn rows(
    path: &Path,
    session: Option<&str>,
    policy: Policy,
) -> Result<Vec<(Session, Vec<Event>)>, rusqlite::Error> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(WAIT)?;
    let mut sessions =
        db.prepare("SELECT id, directory FROM session WHERE ?1 IS NULL OR id = ?1 ORDER BY id")?;
    let mut parts = db.prepare(
        "SELECT p.id, p.data, m.data FROM part p JOIN message m ON m.id = p.message_id
         WHERE p.session_id = ?1 ORDER BY m.id, p.id",
    )?;
    let found = sessions.query_map(params![session], |row| Ok((row.get::<_, String>(0)?, text(row, 1)?)))?;
    let mut told = Vec::new();
    for found in found {
        let (id, cwd) = found?;
        let session = Session {
            source: Origin::OpenCode.name().to_owned(),
            id: id.clone(),
            cwd,
            transcript: path.display().to_string(),
        };
        let mut events = Vec::new();
        let mut rows = parts.query(params![id])?;
        while let Some(row) = rows.next()? {
            let record = record(&id, row.get(0)?, &text(row, 1)?, &text(row, 2)?);
            for remembered in Origin::OpenCode.remembered(&record) {
                let turn = events.len() as u64 + 1;
                events.extend(transcript::event(&remembered, &id, turn, policy, || "part".to_owned()));
            }
        }
        told.push((session, events));
    }
    Ok(told)
}

/// A column as text; empty where there is none: one odd row must not hide all others.
fn text(row: &Row<'_>, column: usize) -> Result<String, rusqlite::Error> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => String::new(),
    })
}

fn record(session: &str, id: String, part: &str, message: &str) -> Value {
    let mut part: Value = serde_json::from_str(part).unwrap_or_default();
    let message: Value = serde_json::from_str(message).unwrap_or_default();
    if let Some(fields) = part.as_object_mut() {
        fields.insert("id".to_owned(), id.into());
    }
    let created = message["time"]["created"].as_i64().or(part["time"]["start"].as_i64());
    let time = created.and_then(|at| Timestamp::from_millisecond(at).ok());
    json!({"sessionID": session, "role": message["role"], "time": time.map(|time| time.to_string()), "part": part})
}
