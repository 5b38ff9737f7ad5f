//! What fake agents remember between invocations: one small file a session, found by the session's id.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::clock;
use super::dialect::Dialect;
use super::script::Tokens;

/// One conversation, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Session {
    v: u64,
    pub(super) id: String,
    dialect: String,
    pub(super) cwd: PathBuf,
    pub(super) turns: Vec<Exchange>,
    /// Used by all turns so far.
    pub(super) used: Tokens,
    changed_at_ms: u64,
}

/// One prompt and what was answered; nothing yet while its turn is under way, or if that never ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exchange {
    pub(super) prompt: String,
    pub(super) answer: Option<String>,
}

impl Session {
    /// A conversation without turns.
    pub(super) fn new(id: impl Into<String>, dialect: Dialect, cwd: &Path) -> Self {
        Self {
            v: 1,
            id: id.into(),
            dialect: dialect.name().to_owned(),
            cwd: cwd.to_owned(),
            turns: Vec::new(),
            used: Tokens { input: 0, output: 0 },
            changed_at_ms: 0,
        }
    }

    /// The same conversation so far, under another id.
    pub(super) fn forked(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }
}

/// The folder of sessions, if there is one.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    folder: Option<PathBuf>,
}

impl Sessions {
    /// Sessions below `state`, or none that are kept.
    pub(super) fn new(state: Option<PathBuf>) -> Self {
        Self { folder: state.map(|state| state.join("sessions")) }
    }

    /// Whether anything is remembered.
    pub(super) fn are_kept(&self) -> bool {
        self.folder.is_some()
    }

    /// The session of this id, if it is remembered.
    pub(super) fn find(&self, id: &str) -> anyhow::Result<Option<Session>> {
        let Some(path) = self.path(id) else { return Ok(None) };
        if !path.exists() {
            return Ok(None);
        }
        read(&path).map(Some)
    }

    /// The session that changed last, of one dialect and, if given, one folder.
    pub(super) fn newest(&self, dialect: Dialect, cwd: Option<&Path>) -> anyhow::Result<Option<Session>> {
        let Some(folder) = self.folder.as_ref().filter(|folder| folder.exists()) else { return Ok(None) };
        let mut newest: Option<Session> = None;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let session = read(&path)?;
            let fits = session.dialect == dialect.name() && cwd.is_none_or(|cwd| session.cwd == cwd);
            if fits && newest.as_ref().is_none_or(|best| best.changed_at_ms <= session.changed_at_ms) {
                newest = Some(session);
            }
        }
        Ok(newest)
    }

    /// Remembers a session as it is now, whole or not at all.
    pub(super) fn keep(&self, session: &mut Session) -> anyhow::Result<()> {
        let Some(path) = self.path(&session.id) else { return Ok(()) };
        session.changed_at_ms = clock::epoch_ms();
        write_whole(&path, &serde_json::to_vec_pretty(session)?)
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        // An id comes from a command line: whatever is not plain must not lead out of the folder.
        let plain =
            |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '_';
        let name: String =
            id.chars().map(|character| if plain(character) { character } else { '_' }).collect();
        Some(self.folder.as_ref()?.join(format!("{name}.json")))
    }
}

/// Writes a file by temporary name and rename, with the folders it needs.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let place = || format!("could not write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(place)?;
    }
    let draft = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&draft, bytes).with_context(place)?;
    fs::rename(&draft, path).with_context(place)
}

fn read(path: &Path) -> anyhow::Result<Session> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a session", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let sessions = Sessions::new(Some(folder.path().to_owned()));
        let mut session = Session::new("../one", Dialect::Codex, Path::new("/w"));
        session.turns.push(Exchange { prompt: "hi".to_owned(), answer: None });
        sessions.keep(&mut session)?;
        assert_eq!(sessions.find("../one")?, Some(session.clone()));
        assert_eq!(sessions.find("two")?, None);
        assert_eq!(sessions.newest(Dialect::Codex, Some(Path::new("/w")))?, Some(session));
        assert_eq!(sessions.newest(Dialect::Codex, Some(Path::new("/x")))?, None);
        assert_eq!(sessions.newest(Dialect::Claude, None)?, None);
        Ok(())
    }

    #[test]
    fn without_a_folder_nothing_is_kept() -> anyhow::Result<()> {
        let sessions = Sessions::new(None);
        sessions.keep(&mut Session::new("one", Dialect::Acp, Path::new("/")))?;
        assert_eq!(sessions.find("one")?, None);
        Ok(())
    }
}
