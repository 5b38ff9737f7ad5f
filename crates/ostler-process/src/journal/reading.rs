//! Runs as they are on disk: live, finished or abandoned.

use std::fs::{DirEntry, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use ostler_agent::run_event::RunEvent;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use super::{Facts, JournalError, Past, trouble};

/// How a run stands.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Somebody runs it now.
    Live,
    /// It has an outcome.
    Ended(Value),
    /// It has neither an outcome nor an owner: Ostler was killed.
    Abandoned,
}

/// A run on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Its folder.
    pub folder: PathBuf,
    /// What was known when it began.
    pub facts: Facts,
    /// How it stands.
    pub state: State,
}

impl Kept {
    pub(super) fn read(folder: PathBuf) -> Result<Self, JournalError> {
        let path = folder.join("run.json");
        let failed = |source| JournalError::Read { path: path.clone(), source };
        let text = std::fs::read(&path).map_err(failed)?;
        let facts = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
        // The lock first: a run that ends in between is then seen as ended, not as abandoned.
        let is_live = is_locked(&folder);
        let outcome = std::fs::read(folder.join("outcome.json")).ok();
        let state = match outcome.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            _ if is_live => State::Live,
            Some(outcome) => State::Ended(outcome),
            None => State::Abandoned,
        };
        Ok(Self { folder, facts, state })
    }

    /// Every event that can be read, in order. A torn line and kinds that are new to us are passed over.
    pub fn events(&self) -> Result<impl Iterator<Item = RunEvent>, JournalError> {
        let path = self.folder.join("events.ndjson");
        let file = File::open(&path).map_err(|source| JournalError::Read { path, source })?;
        let lines = BufReader::new(file).split(b'\n');
        Ok(lines.map_while(Result::ok).filter_map(|line| RunEvent::read(&line)))
    }

    /// What it had come to when it ended or was left.
    pub fn past(&self) -> Result<Past, JournalError> {
        Past::read(self)
    }

    /// Whether somebody runs it now. Asks anew.
    pub fn is_live(&self) -> bool {
        is_locked(&self.folder)
    }

    /// Why Ostler could not write its journal any more, if that is how it was abandoned.
    pub fn trouble(&self) -> Option<String> {
        trouble::noted(&self.folder)
    }

    /// Where the raw bytes of a stream are.
    pub fn raw(&self, name: &str) -> PathBuf {
        self.folder.join("raw").join(name)
    }
}

/// Every run, the newest first. What cannot be read as a run is left out.
pub fn list(runs: &Path) -> Vec<Kept> {
    let mut found: Vec<_> = folders(runs).filter_map(|folder| Kept::read(folder).ok()).collect();
    // Ids begin with the time.
    found.sort_by(|left, right| right.facts.run.cmp(&left.facts.run));
    found
}

/// The folders that are runs by their names: what is being removed has another.
pub(super) fn folders(runs: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let is_run = |entry: &DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    entries.filter(is_run).map(|entry| entry.path())
}

/// The run with that id, or with an id that only it begins with, or the `last` one.
pub fn find(runs: &Path, run: &str) -> Result<Kept, JournalError> {
    let unknown = || JournalError::Unknown { run: run.to_owned() };
    let all = list(runs);
    if run == "last" {
        return all.into_iter().next().ok_or_else(unknown);
    }
    let is_meant = |kept: &Kept| kept.facts.run.starts_with(run) && !run.is_empty();
    let mut fitting: Vec<Kept> = all.into_iter().filter(is_meant).collect();
    if let Some(exact) = fitting.iter().position(|kept| kept.facts.run == run) {
        return Ok(fitting.swap_remove(exact));
    }
    let only = fitting.pop().ok_or_else(unknown)?;
    if fitting.is_empty() {
        return Ok(only);
    }
    fitting.push(only);
    let runs = fitting.into_iter().map(|kept| kept.facts.run).collect();
    Err(JournalError::Several { run: run.to_owned(), runs })
}

pub(super) fn is_locked(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join("lock")) else { return false };
    if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return true;
    }
    // Not by closing it alone: see `Lock`.
    flock(&file, FlockOperation::Unlock).is_err()
}
