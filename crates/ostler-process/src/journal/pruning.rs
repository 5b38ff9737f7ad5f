//! Runs that are old enough to be removed.
//!
//! A run is first given another name, and then removed: whatever happens meanwhile, it is there whole or not at all, and
//! what is left of it is removed the next time.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

use super::reading::{folders, is_locked};
use super::{JournalError, Kept, State};

/// How a folder's name begins while it is being removed. A name that begins with a dot is no run.
const DOOMED: &str = ".pruned-";

/// How deep a run's folder is measured. An agent's private home is in it, with whatever the agent put there.
const MOST_DEPTH: usize = 64;

/// A run that nobody runs, and that nobody wrote to for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Old {
    /// Its folder.
    pub folder: PathBuf,
    /// Its id.
    pub run: String,
    /// What it is. `None` if Ostler was killed before it had written that down.
    pub kept: Option<Kept>,
    /// What it takes on the disk.
    pub bytes: u64,
}

/// What became of a run that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pruned {
    /// It is gone.
    Removed,
    /// Somebody has begun to run it.
    Spared,
}

/// Runs that ended or were abandoned, and were last written to before that time; the oldest first. What cannot be read,
/// because a later Ostler wrote it, is not among them.
pub fn older_than(runs: &Path, time: SystemTime) -> Vec<Old> {
    let mut found: Vec<Old> = folders(runs).filter_map(|folder| old(folder, time)).collect();
    found.sort_by(|left, right| left.run.cmp(&right.run));
    found
}

fn old(folder: PathBuf, time: SystemTime) -> Option<Old> {
    // A run that was never written down has only its lock.
    let written = ["outcome.json", "events.ndjson", "run.json", "lock"];
    let times = written.iter().filter_map(|name| fs::metadata(folder.join(name)).ok()?.modified().ok());
    if times.max()? >= time || is_locked(&folder) {
        return None;
    }
    let kept = match folder.join("run.json").exists() {
        true => Some(Kept::read(folder.clone()).ok()?),
        false => None,
    };
    if kept.as_ref().is_some_and(|kept| kept.state == State::Live) {
        return None;
    }
    let run = folder.file_name()?.to_str()?.to_owned();
    let bytes = space(&folder, MOST_DEPTH);
    Some(Old { folder, run, kept, bytes })
}

/// Links are not followed.
fn space(path: &Path, depth: usize) -> u64 {
    let Ok(own) = fs::symlink_metadata(path) else { return 0 };
    let below = match depth.checked_sub(1) {
        Some(depth) if own.is_dir() => {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| space(&entry.path(), depth)).sum()
        }
        Some(_) | None => 0,
    };
    // Blocks are counted in units of 512 bytes, whatever the disk's are.
    own.blocks() * 512 + below
}

/// Removes a run, unless somebody has begun to run it.
pub fn remove(old: &Old) -> Result<Pruned, JournalError> {
    let lock = match File::open(old.folder.join("lock")) {
        Ok(lock) => lock,
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Pruned::Removed),
        Err(source) => return Err(JournalError::Remove { path: old.folder.clone(), source }),
    };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(Pruned::Spared);
    }
    let doomed = old.folder.with_file_name(format!("{DOOMED}{}", old.run));
    let failed = |source| JournalError::Remove { path: old.folder.clone(), source };
    fs::rename(&old.folder, &doomed).map_err(failed)?;
    let _ = flock(&lock, FlockOperation::Unlock);
    fs::remove_dir_all(&doomed).map_err(failed)?;
    Ok(Pruned::Removed)
}

/// Removes what is left of runs whose removal was cut short.
pub fn finish_removals(runs: &Path) -> Result<(), JournalError> {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(DOOMED.as_bytes()) {
            let path = entry.path();
            match fs::remove_dir_all(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(JournalError::Remove { path, source });
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}
