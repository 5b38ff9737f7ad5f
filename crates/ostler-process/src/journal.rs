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

mod last_line;
mod past;
mod pruning;
mod reading;
mod trouble;

use last_line::{ends_a_line, last_seq};
pub use past::Past;
pub use pruning::{Old, Pruned, finish_removals, older_than, remove};
pub use reading::{Kept, State, find, list};

/// What the agent wrote on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A terminal, which is both.
    Terminal,
}

/// What is known of a run before it starts: `run.json`.
///
/// What is not there, because an older Ostler wrote it, is as it would be unless set; what is new to us is passed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// What else the run was given, and is given again if it is gone on with.
    #[serde(default)]
    pub given: Given,
}

/// What a run was given besides its prompt. Never a secret: variables are not kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Given {
    /// The model.
    pub model: Option<String>,
    /// Rules of what the agent may do.
    pub allow: Vec<String>,
    /// Whether it had no jail, although its permissions would have one.
    pub no_jail: bool,
    /// Whether configuration of agents and git in the workspace could be changed.
    pub allow_config_writes: bool,
    /// What it could reach in the network: `--net`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net: Option<String>,
    /// What was added to the agent's own system prompt.
    pub system_prompt: Option<String>,
    /// Arguments that were handed on as they are.
    pub agent_args: Vec<String>,
    /// Names of the variables that were set for it; their values may be secrets.
    pub env: Vec<String>,
    /// How often it may be resumed.
    pub max_resumes: Option<u32>,
    /// The first pause before a resume after an outage or a crash, in milliseconds.
    pub resume_pause_ms: Option<u64>,
    /// Whether it waits for a quota.
    pub wait_for_quota: bool,
    /// US dollars that it may spend.
    pub max_cost: Option<f64>,
    /// Tokens that it may use.
    pub max_tokens: Option<u64>,
    /// Turns that it may take.
    pub max_turns: Option<u32>,
    /// Whether it had a bridge.
    pub bridge: bool,
    /// Kinds of artifacts that its agent must hand over.
    pub require_artifacts: Vec<String>,
    /// What its agent may do at the bridge, if not the usual.
    pub capabilities: Option<String>,
    /// MCP servers whose tools are passed on: `NAME=URL`, `NAME=COMMAND`.
    pub mcp: Vec<String>,
    /// What the host tries itself when the agent says that it is done.
    pub checks: Vec<String>,
    /// Where accepted artifacts are copied to.
    pub export_artifacts: Option<PathBuf>,
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
    /// More than one run is meant.
    #[error("{} runs begin with `{run}`", .runs.len())]
    Several {
        /// As given.
        run: String,
        /// Those, the newest first.
        runs: Vec<String>,
    },
    /// It cannot be removed.
    #[error("could not remove {}", .path.display())]
    Remove {
        /// Its folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
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
            Self::Several { runs, .. } => {
                let newest: Vec<&str> = runs.iter().take(TOLD).map(String::as_str).collect();
                Some(format!("name one of them, the newest first: {}; or `last`", newest.join(", ")))
            }
            Self::Read { .. } | Self::Remove { .. } => None,
        }
    }
}

/// So many of several runs are told.
const TOLD: usize = 3;

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A run's folder, open for writing. While it is open nobody else can open it: that is how a run without an owner is
/// told from one under way.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    stdout: File,
    stderr: File,
    /// Made with the first byte: most agents are on no terminal.
    terminal: Option<File>,
    events: File,
    /// Where the last whole line of the events ends.
    length: u64,
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
    /// Makes the folder of a new run. On failure nothing of it is left.
    pub fn create(runs: &Path, facts: &Facts) -> Result<Self, JournalError> {
        let folder = runs.join(&facts.run);
        let created = Self::create_in(&folder, facts);
        if created.is_err() {
            // Its name is new, so that all in it is ours.
            let _ = std::fs::remove_dir_all(&folder);
        }
        created
    }

    fn create_in(folder: &Path, facts: &Facts) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Create { path: folder.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(folder.join("raw")).map_err(failed)?;
        let journal = Self::open(folder, &facts.run)?;
        trouble::reserve(folder).map_err(failed)?;
        journal.write_facts(facts)?;
        Ok(journal)
    }

    /// Opens the folder of a run that nobody owns, to go on with it under these facts. Also tells what was before.
    pub fn go_on(kept: &Kept, facts: &Facts) -> Result<(Self, Past), JournalError> {
        let mut journal = Self::open(&kept.folder, &kept.facts.run)?;
        // Read once the lock is held: nobody writes any more.
        let past = Past::read(kept)?;
        journal.mend()?;
        trouble::reserve(&kept.folder)
            .map_err(|source| JournalError::Write { path: kept.folder.clone(), source })?;
        journal.write_facts(facts)?;
        trouble::forget(&kept.folder);
        // From now on it has no outcome, also if we are killed. How it ended before stays among its events.
        let path = kept.folder.join("outcome.json");
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(JournalError::Write { path: kept.folder.clone(), source })
            }
            Ok(()) | Err(_) => Ok((journal, past)),
        }
    }

    fn write_facts(&self, facts: &Facts) -> Result<(), JournalError> {
        let failed = |error: serde_json::Error| JournalError::Write {
            path: self.folder.clone(),
            source: error.into(),
        };
        self.write_whole("run.json", &serde_json::to_vec_pretty(facts).map_err(failed)?)
    }

    fn open(folder: &Path, run: &str) -> Result<Self, JournalError> {
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
            terminal: None,
            events: append("events.ndjson")?,
            folder: folder.to_owned(),
            length: 0,
            seq: 0,
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
            Stream::Terminal => match &mut self.terminal {
                Some(file) => file,
                none => {
                    let path = self.folder.join("raw/terminal");
                    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
                    none.insert(opened.map_err(|source| JournalError::Create { path, source })?)
                }
            },
        };
        file.write_all(bytes).map_err(|source| {
            trouble::note(&self.folder, &source);
            JournalError::Write { path: self.folder.clone(), source }
        })
    }

    /// Numbers an event and appends it. Returns it as it was written. On a disk that is full it is there whole or not at
    /// all.
    pub fn event(&mut self, ms: u64, kind: RunEventKind) -> Result<(RunEvent, String), JournalError> {
        let failed = |source| JournalError::Write { path: self.folder.clone(), source };
        let event = RunEvent { seq: self.seq + 1, ms, kind };
        let mut line = event.line().map_err(|error| failed(error.into()))?;
        line.push('\n');
        if let Err(error) = self.events.write_all(line.as_bytes()) {
            // If not even that can be done, readers pass over a line that is torn.
            let _ = self.events.set_len(self.length);
            trouble::note(&self.folder, &error);
            return Err(failed(error));
        }
        (self.seq, self.length) = (self.seq + 1, self.length + line.len() as u64);
        line.pop();
        Ok((event, line))
    }

    /// Writes the outcome: the run is over. There is room for it.
    pub fn close(self, outcome: &serde_json::Value) -> Result<(), JournalError> {
        trouble::release(&self.folder);
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
        write().map_err(|source| {
            let _ = std::fs::remove_file(&made);
            JournalError::Write { path: self.folder.clone(), source }
        })
    }

    /// Finds out where it ended. A crash may have left a line without its end, to which the next event must not be glued:
    /// it is ended, not removed, as it may tell somebody something.
    fn mend(&mut self) -> Result<(), JournalError> {
        let path = self.folder.join("events.ndjson");
        let read = || {
            let file = File::open(&path)?;
            Ok((last_seq(&file)?, file.metadata()?.len(), !ends_a_line(&file)?))
        };
        let is_torn;
        (self.seq, self.length, is_torn) =
            read().map_err(|source| JournalError::Read { path: path.clone(), source })?;
        if is_torn {
            let failed = |source| JournalError::Write { path: self.folder.clone(), source };
            self.events.write_all(b"\n").map_err(failed)?;
            self.length += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
