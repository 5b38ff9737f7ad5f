//! Writes an agent's record of a session before the agent does: a conversation that it is to know. Whole or not at all,
//! for its owner alone, and never over a record that is there.

use std::io;
use std::path::PathBuf;

use ostler_agent::agent::{Agent, Seed, TranscriptPlace, Whereabouts};
use ostler_agent::canonical::Message;
use uuid::Uuid;

use crate::file_scope::{FileScope, split};

/// A session that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeded {
    /// Its record.
    pub path: PathBuf,
    /// How long that is: what comes after it is new.
    pub length: u64,
}

/// Why a session could not be written.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The agent takes no record of others.
    #[error("agent `{agent}` cannot be given a history")]
    Unable {
        /// The agent.
        agent: &'static str,
    },
    /// It would be a path to somewhere else.
    #[error("`{session}` is not the id of a session: it is no UUID")]
    NotAnId {
        /// What was given for it.
        session: String,
    },
    /// The session has a record.
    #[error("session {session} is there already")]
    Taken {
        /// The session.
        session: String,
    },
    /// The record could not be written.
    #[error("could not write {}", .path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl SeedError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unable { .. } => Some("put the conversation into the prompt".to_owned()),
            Self::NotAnId { .. } => Some("use a UUID".to_owned()),
            Self::Taken { .. } => Some("use another id, or go on with that session".to_owned()),
            Self::Write { .. } => Some("check that the agent's own folder can be written to".to_owned()),
        }
    }
}

/// Writes the record of a session that knows `messages`, where the agent will look for it. The agent is to be started
/// with that session resumed, and its record followed from [`Seeded::length`] on.
pub fn seed(
    agent: &dyn Agent,
    whereabouts: &Whereabouts<'_>,
    model: Option<&str>,
    messages: &[Message],
    files: &FileScope,
) -> Result<Seeded, SeedError> {
    let session = whereabouts.session;
    // With hyphens, as agents write it: only that is a name of a file that they find.
    if Uuid::try_parse(session).ok().map(|id| id.to_string()).as_deref() != Some(session) {
        return Err(SeedError::NotAnId { session: session.to_owned() });
    }
    let unable = || SeedError::Unable { agent: agent.name() };
    let Some(TranscriptPlace::File { path, .. }) = agent.transcript(whereabouts) else {
        return Err(unable());
    };
    let content = agent.seed(&Seed {
        session,
        workspace: whereabouts.workspace,
        model,
        messages,
        at: &jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
        id: &|| Uuid::new_v4().to_string(),
    });
    let content = content.ok_or_else(unable)?;
    let written = split(&path).and_then(|(folder, name)| {
        // Not over what is there: a rename would be.
        files.create_directory(folder)?.create_file(name, content.as_bytes())
    });
    match written {
        Ok(()) => Ok(Seeded { path, length: content.len() as u64 }),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(SeedError::Taken { session: session.to_owned() })
        }
        Err(source) => Err(SeedError::Write { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use ostler_agent::agents::{Claude, ClaudeTerminal, Codex};
    use ostler_agent::canonical::read;
    use serde_json::json;

    use super::*;

    const SESSION: &str = "7f1f3a64-6f0d-4f8f-9f39-0f4ad9b0b0a1";

    fn whereabouts<'a>(home: &'a Path, session: &'a str) -> Whereabouts<'a> {
        Whereabouts { home, variable: &|_| None, workspace: Path::new("/srv/a.b"), session }
    }

    fn messages() -> Vec<Message> {
        read(&[json!({"role": "user", "content": "q"}), json!({"role": "assistant", "content": "a"})])
            .unwrap()
    }

    #[test]
    fn a_session_is_written_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let seeded = seed(
            &ClaudeTerminal,
            &whereabouts(home.path(), SESSION),
            None,
            &messages(),
            &FileScope::Anywhere,
        )
        .unwrap();
        let folder = home.path().join(".claude/projects/-srv-a-b");
        assert_eq!(seeded.path, folder.join(format!("{SESSION}.jsonl")));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&seeded.path), mode(&folder), mode(&home.path().join(".claude"))),
            (0o600, 0o700, 0o700)
        );
        let content = fs::read_to_string(&seeded.path).unwrap();
        assert_eq!((content.len() as u64, content.lines().count()), (seeded.length, 2));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn what_is_there_is_not_touched() {
        let home = tempfile::tempdir().unwrap();
        let seeded =
            seed(&Claude, &whereabouts(home.path(), SESSION), None, &messages(), &FileScope::Anywhere)
                .unwrap();
        let before = fs::read(&seeded.path).unwrap();
        let again =
            seed(&Claude, &whereabouts(home.path(), SESSION), None, &messages(), &FileScope::Anywhere);
        assert!(matches!(again, Err(SeedError::Taken { .. })), "{again:?}");
        assert_eq!(fs::read(&seeded.path).unwrap(), before);
        assert_eq!(fs::read_dir(seeded.path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn an_id_is_not_a_path() {
        let home = tempfile::tempdir().unwrap();
        for session in
            ["../x", "", "7F1F3A64-6F0D-4F8F-9F39-0F4AD9B0B0A1", "7f1f3a646f0d4f8f9f390f4ad9b0b0a1"]
        {
            let refused =
                seed(&Claude, &whereabouts(home.path(), session), None, &messages(), &FileScope::Anywhere);
            assert!(matches!(refused, Err(SeedError::NotAnId { .. })), "{session}: {refused:?}");
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_agent_that_takes_none_says_so() {
        let home = tempfile::tempdir().unwrap();
        let refused =
            seed(&Codex, &whereabouts(home.path(), SESSION), None, &messages(), &FileScope::Anywhere);
        assert!(matches!(refused, Err(SeedError::Unable { agent: "codex" })), "{refused:?}");
    }
}
