//! Deferral files, version 1: what a hook took down and nobody stored yet. A header line, then one line a turn. The
//! format is a contract with other programs; what we add to it are further keys.

use std::io;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::private::{PrivateFolder, plain_name, random_word};

/// The version that is written and read.
pub const VERSION: u32 = 1;

/// The first line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// 1.
    pub version: u32,
    /// When it was written, in UTC.
    pub deferred_at: String,
    /// The agent's own id of the session.
    pub session_id: String,
    /// Where the agent worked; empty if that is not known.
    #[serde(default)]
    pub cwd: String,
    /// Which agent.
    #[serde(default)]
    pub source: String,
    /// The agent's own record that it is from.
    #[serde(default)]
    pub transcript: String,
}

/// One further line: something that was said or done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// As it was said, after redaction.
    pub text: String,
    /// `session S turn N`.
    #[serde(default)]
    pub cue: String,
    /// `episodic`.
    #[serde(default)]
    pub tier: String,
    /// `user` or `assistant`.
    pub role: String,
    /// When, in UTC.
    #[serde(default)]
    pub ts: String,
    /// What it is known by in its session. Files of other writers have none.
    #[serde(default)]
    pub id: String,
    /// Of the text.
    #[serde(default)]
    pub sha256: String,
    /// `tool` for a call; absent for words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Why it is not part of the conversation; absent if it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mark: String,
}

/// A session, and what is known of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Session {
    /// Which agent.
    pub source: String,
    /// The agent's own id of it.
    pub id: String,
    /// Where the agent works; empty if that is not known.
    pub cwd: String,
    /// Its own record.
    pub transcript: String,
}

/// Writes one file. It is there whole, or not at all. Gives its name.
pub fn write(
    folder: &PrivateFolder,
    session: &Session,
    events: &[Event],
    now: Timestamp,
) -> io::Result<String> {
    let header = Header {
        version: VERSION,
        deferred_at: now.to_string(),
        session_id: session.id.clone(),
        cwd: session.cwd.clone(),
        source: session.source.clone(),
        transcript: session.transcript.clone(),
    };
    let mut content = serde_json::to_vec(&header)?;
    content.push(b'\n');
    for event in events {
        serde_json::to_writer(&mut content, event)?;
        content.push(b'\n');
    }
    let name = format!("{}-{}-{}.jsonl", plain_name(&session.id), now.as_second(), random_word());
    folder.write(&name, &content, "defer")?;
    Ok(name)
}

/// The hash of a text, in hexadecimal.
pub fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
