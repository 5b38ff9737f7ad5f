//! How far a transcript was read. Written after what was read is safe, so that a crash repeats and never skips.

use std::io;

use serde::{Deserialize, Serialize};

use crate::private::{PrivateFolder, plain_name};

/// A cursor is a few hundred bytes.
const LARGEST: u64 = 64 * 1024;

/// How far one transcript was read, and how to tell that it is still the same file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// 1.
    pub v: u32,
    /// Which agent.
    pub source: String,
    /// The session.
    pub session: String,
    /// The transcript.
    pub path: String,
    /// Where the agent works.
    pub cwd: String,
    /// The file's device and number.
    pub file: (u64, u64),
    /// The end of the last complete line that was read.
    pub offset: u64,
    /// How many bytes of the beginning were hashed, and what came of it.
    pub head: (u64, String),
    /// How many turns were counted.
    pub turns: u64,
    /// Whether the offset is within a line that is too long to be read.
    pub within_long_line: bool,
}

/// The name of a session's cursor.
pub fn name(source: &str, session: &str) -> String {
    format!("{}-{}.json", plain_name(source), plain_name(session))
}

/// The cursor of that name, if there is one that can be read; else reading begins anew, and nothing is stored twice.
pub fn load(folder: &PrivateFolder, name: &str) -> Option<Cursor> {
    let bytes = folder.read(name, LARGEST).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|cursor: &Cursor| cursor.v == 1)
}

/// Keeps a cursor. One that is lost makes us read again what is known.
pub fn save(folder: &PrivateFolder, cursor: &Cursor) -> io::Result<()> {
    let bytes = serde_json::to_vec(cursor)?;
    folder.write_lightly(&name(&cursor.source, &cursor.session), &bytes, "cursor")
}
