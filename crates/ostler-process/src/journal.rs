//! A run's folder: every byte the agent wrote, every event, and in the end the outcome.
//!
//! Bytes are appended as they are read, before anything looks at them; an event is one write of one line. So a journal
//! is readable up to the moment of any crash: at worst its last line is torn. Files 0600, folders 0700.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ostler_agent::run_event::{RunEvent, RunEventKind};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

mod reading;

pub use reading::{Kept, State, find, list};

/// What the agent wrote on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What is known of a run before it starts: `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Version of this shape.
    pub v: u32,
    /// The run's id: a UUIDv7.
    pub run: String,
    /// The agent's name, or `command:…`.
    pub agent: String,
    /// How it is driven.
    pub engine: String,
    /// The program.
    pub program: PathBuf,
    /// What the program said when asked for its version.
    pub agent_version: Option<String>,
    /// The directory it works in.
    pub cwd: PathBuf,
    /// When it began, as seconds since 1970.
    pub began_at: i64,
    /// What was asked.
    pub prompt: String,
    /// The script, if the model is played.
    pub rehearse: Option<String>,
    /// What the agent may do: `deny`, `edits`, `all`.
    pub permissions: String,
    /// The watchdog's limits.
    pub limits: serde_json::Value,
}

/// Why a journal cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file or folder of the run cannot be made.
    #[error("could not create {}", .path.display())]
    Create {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot be written to.
    #[error("could not write the run's journal in {}", .path.display())]
    Write {
        /// The run's folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else is running it.
    #[error("run {run} is under way")]
    Busy {
        /// Its id.
        run: String,
    },
    /// There is no such run.
    #[error("there is no run `{run}`")]
    Unknown {
        /// As given.
        run: String,
    },
    /// Its files cannot be read.
    #[error("could not read {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl JournalError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Create { source, .. } | Self::Write { source, .. } if is_full(source) => {
                Some("the disk is full: free some space, or move OSTLER_HOME".to_owned())
            }
            Self::Create { .. } | Self::Write { .. } => {
                Some("set OSTLER_HOME to a folder that you can write to".to_owned())
            }
            Self::Busy { run } => Some(format!("wait for it, or stop it with `ostler stop {run}`")),
            Self::Unknown { .. } => Some("`ostler runs` lists them".to_owned()),
            Self::Read { .. } => None,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A run's folder, open for writing. While it is open nobody else can open it: that is how a run without an owner is
/// told from one under way.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    stdout: File,
    stderr: File,
    events: File,
    seq: u64,
    _lock: Lock,
}

/// Held until it is dropped. Closing the file alone would not do: a process that is being started at that moment has a
/// copy of the descriptor until it executes its program, and the lock with it.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = flock(&self.0, FlockOperation::Unlock) {
            tracing::warn!(%error, "a run's lock is not released before its file is closed everywhere");
        }
    }
}

impl Journal {
    /// Makes the folder of a new run.
    pub fn create(runs: &Path, facts: &Facts) -> Result<Self, JournalError> {
        let folder = runs.join(&facts.run);
        let raw = folder.join("raw");
        let failed = |source| JournalError::Create { path: folder.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&raw).map_err(failed)?;
        let journal = Self::open(&folder, &facts.run, 0)?;
        journal.write_whole(
            "run.json",
            &serde_json::to_vec_pretty(facts).map_err(|error| failed(error.into()))?,
        )?;
        Ok(journal)
    }

    /// Opens the folder of a run that nobody owns, to go on with it.
    pub fn go_on(kept: &Kept) -> Result<Self, JournalError> {
        let mut journal = Self::open(&kept.folder, &kept.facts.run, 0)?;
        journal.seq = kept.events()?.last().map_or(0, |event| event.seq);
        journal.mend_torn_line()?;
        Ok(journal)
    }

    fn open(folder: &Path, run: &str, seq: u64) -> Result<Self, JournalError> {
        let append = |name: &str| {
            let path = folder.join(name);
            let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
            opened.map_err(|source| JournalError::Create { path, source })
        };
        let lock = append("lock")?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| JournalError::Busy { run: run.to_owned() })?;
        Ok(Self {
            stdout: append("raw/stdout")?,
            stderr: append("raw/stderr")?,
            events: append("events.ndjson")?,
            folder: folder.to_owned(),
            seq,
            _lock: Lock(lock),
        })
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends bytes as they came. Call it before anything else is done with them.
    pub fn raw(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), JournalError> {
        let file = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        file.write_all(bytes).map_err(|source| JournalError::Write { path: self.folder.clone(), source })
    }

    /// Numbers an event and appends it. Returns it as it was written.
    pub fn event(&mut self, ms: u64, kind: RunEventKind) -> Result<(RunEvent, String), JournalError> {
        let failed = |source| JournalError::Write { path: self.folder.clone(), source };
        let event = RunEvent { seq: self.seq + 1, ms, kind };
        let mut line = event.line().map_err(|error| failed(error.into()))?;
        line.push('\n');
        self.events.write_all(line.as_bytes()).map_err(failed)?;
        self.seq += 1;
        line.pop();
        Ok((event, line))
    }

    /// Writes the outcome: the run is over.
    pub fn close(self, outcome: &serde_json::Value) -> Result<(), JournalError> {
        let bytes = serde_json::to_vec_pretty(outcome)
            .map_err(|error| JournalError::Write { path: self.folder.clone(), source: error.into() })?;
        self.write_whole("outcome.json", &bytes)
    }

    /// A file that is there whole or not at all.
    fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<(), JournalError> {
        let (path, made) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&made)?;
            file.write_all(bytes)?;
            file.write_all(b"\n")?;
            std::fs::rename(&made, &path)
        };
        write().map_err(|source| JournalError::Write { path: self.folder.clone(), source })
    }

    /// A crash may have left a line without its end; the next event must not be glued to it.
    fn mend_torn_line(&mut self) -> Result<(), JournalError> {
        let path = self.folder.join("events.ndjson");
        let bytes = std::fs::read(&path).map_err(|source| JournalError::Read { path, source })?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            let failed = |source| JournalError::Write { path: self.folder.clone(), source };
            self.events.write_all(b"\n").map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
