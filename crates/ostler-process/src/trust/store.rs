//! What the user has trusted: a file that only `ostler trust` and `ostler run` write, in Ostler's home. It holds one snapshot
//! for each directory and each state of its files that was trusted.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ostler_agent::document::{Document, Format, Mistake};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::Place;
use super::scan::digest_all;

/// The format of the file.
const VERSION: u32 = 1;

/// Readable by its owner only.
const PRIVATE: u32 = 0o600;

/// Snapshots of one directory: branches and worktrees. The oldest makes room.
const MOST_SNAPSHOTS: usize = 16;

/// Every snapshot of the largest repositories that can be trusted is below this.
const LARGEST_STORE_BYTES: u64 = 64 * 1024 * 1024;

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    v: u32,
    /// The oldest first.
    snapshots: Vec<Snapshot>,
}

/// Files of one directory that the user trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The git directory that the worktrees of the repository share; without git the directory itself.
    pub repository: PathBuf,
    /// The directory, relative to the root of the repository.
    pub directory: String,
    /// One hash of all files.
    pub hash: String,
    /// When the user trusted them, in RFC 3339.
    pub trusted_at: String,
    /// The digest of each file, by its path in the directory.
    pub files: BTreeMap<String, String>,
}

/// Why the user's trust is not known or cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file is damaged.
    #[error(transparent)]
    Mistake(#[from] Mistake),
    /// It cannot be read.
    #[error("could not read the trusted repositories in {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot be written.
    #[error("could not write the trusted repositories to {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl TrustError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Mistake(mistake) => format!("remove {} and trust your repositories again", mistake.file),
            Self::Read { .. } => "check that the file is yours".to_owned(),
            Self::Write { .. } => "set OSTLER_HOME to a folder that you can write to".to_owned(),
        })
    }
}

impl Snapshot {
    /// Of a directory as it is now.
    pub(super) fn of(place: &Place) -> Self {
        let now = jiff::Timestamp::now();
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        Self {
            repository: place.repository.clone(),
            directory: place.relative.clone(),
            hash: digest_all(&place.files),
            trusted_at: now.to_string(),
            files: place.files.clone(),
        }
    }

    fn is_of(&self, place: &Place) -> bool {
        self.repository == place.repository && self.directory == place.relative
    }
}

impl Store {
    /// Reads the file; none is an empty store. A damaged one is an error, never an empty one.
    pub fn read(path: &Path) -> Result<Self, TrustError> {
        let failed = |source| TrustError::Read { path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            // `NotADirectory`: a parent is a file, so that there is nothing at this path either.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Self { v: VERSION, snapshots: Vec::new() });
            }
            Err(error) => return Err(failed(error)),
        };
        let mut text = String::new();
        file.take(LARGEST_STORE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > LARGEST_STORE_BYTES {
            return Err(failed(io::Error::other(format!("it is longer than {LARGEST_STORE_BYTES} bytes"))));
        }
        let document = Document::new(path.display().to_string(), text, Format::Json);
        let store: Self = document.read()?;
        if store.v != VERSION {
            let problem = format!("this Ostler reads version {VERSION}, not {}", store.v);
            return Err(document.mistake(&[], problem, None).into());
        }
        // Files that do not belong to their hash were not written by Ostler.
        let is_sound = |snapshot: &Snapshot| digest_all(&snapshot.files) == snapshot.hash;
        match store.snapshots.iter().find(|snapshot| !is_sound(snapshot)) {
            Some(damaged) => {
                let problem = format!(
                    "the hash {} of {} does not belong to its files",
                    damaged.hash,
                    damaged.repository.display()
                );
                Err(document.mistake(&[], problem, None).into())
            }
            None => Ok(store),
        }
    }

    /// Reads the store, changes it and writes it, while no other process does. Its folder must exist.
    pub fn change<T>(path: &Path, change: impl FnOnce(&mut Self) -> T) -> Result<T, TrustError> {
        let failed = |source| TrustError::Write { path: path.to_owned(), source };
        // A file of its own, because the store itself is replaced. It stays: removing it would let two processes in.
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(PRIVATE)
            .open(path.with_extension("lock"))
            .map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        let mut store = Self::read(path)?;
        let before = store.clone();
        let changed = change(&mut store);
        if store != before {
            store.write(path)?;
        }
        Ok(changed)
    }

    /// All snapshots, the oldest first.
    pub fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    /// Adds snapshots, as the newest ones.
    pub fn add(&mut self, snapshots: Vec<Snapshot>) {
        for snapshot in snapshots {
            let is_same_directory = |other: &Snapshot| {
                other.repository == snapshot.repository && other.directory == snapshot.directory
            };
            self.snapshots.retain(|other| !is_same_directory(other) || other.hash != snapshot.hash);
            while self.snapshots.iter().filter(|other| is_same_directory(other)).count() >= MOST_SNAPSHOTS {
                let Some(oldest) = self.snapshots.iter().position(is_same_directory) else { break };
                self.snapshots.remove(oldest);
            }
            self.snapshots.push(snapshot);
        }
    }

    /// Removes all snapshots of a repository, and tells how many there were.
    pub fn remove(&mut self, repository: &Path) -> usize {
        let before = self.snapshots.len();
        self.snapshots.retain(|snapshot| snapshot.repository != repository);
        before - self.snapshots.len()
    }

    /// The newest snapshot of a directory.
    pub(super) fn last(&self, place: &Place) -> Option<&Snapshot> {
        self.snapshots.iter().rev().find(|snapshot| snapshot.is_of(place))
    }

    /// Whether the files of a directory that fulfil a condition are those of a snapshot: no more, no fewer, no others.
    pub(super) fn trusts(&self, place: &Place, counts: impl Fn(&str) -> bool) -> bool {
        let counted = |files: &BTreeMap<String, String>| -> Vec<(String, String)> {
            let files = files.iter().filter(|(path, _)| counts(path));
            files.map(|(path, digest)| (path.clone(), digest.clone())).collect()
        };
        let found = counted(&place.files);
        found.is_empty()
            || self
                .snapshots
                .iter()
                .any(|snapshot| snapshot.is_of(place) && counted(&snapshot.files) == found)
    }

    /// Replaces the file, in one step.
    fn write(&self, path: &Path) -> Result<(), TrustError> {
        let failed = |source| TrustError::Write { path: path.to_owned(), source };
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut fresh = tempfile::Builder::new()
            .permissions(Permissions::from_mode(PRIVATE))
            .tempfile_in(folder)
            .map_err(failed)?;
        fresh.write_all(&text).and_then(|()| fresh.as_file().sync_all()).map_err(failed)?;
        fresh.persist(path).map(drop).map_err(|error| failed(error.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(repository: &str, content: &str) -> Place {
        Place {
            directory: repository.into(),
            repository: repository.into(),
            relative: String::new(),
            files: BTreeMap::from([(".mcp.json".to_owned(), content.to_owned())]),
        }
    }

    #[test]
    fn many_processes_that_trust_at_once_are_all_stored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.json");
        let places: Vec<Place> = (0..30).map(|number| place(&format!("/r/{number}"), "a")).collect();
        std::thread::scope(|scope| {
            for place in &places {
                scope.spawn(|| Store::change(&path, |store| store.add(vec![Snapshot::of(place)])).unwrap());
            }
        });
        let store = Store::read(&path).unwrap();
        assert!(places.iter().all(|place| store.trusts(place, |_| true)));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, PRIVATE);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_trusts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.json");
        let mut store = Store { v: VERSION, snapshots: vec![Snapshot::of(&place("/r", "a"))] };
        store.write(&path).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        store.snapshots[0].files.insert(".mcp.json".to_owned(), "b".to_owned());
        let forged = serde_json::to_string(&store).unwrap();
        let table = [
            (String::new(), "EOF"),
            (whole[..whole.len() / 2].to_owned(), "EOF"),
            (whole.replace("\"v\": 1", "\"v\": 2"), "this Ostler reads version 1, not 2"),
            (whole.replace("trusted_at", "trusted_when"), "unknown key `trusted_when`"),
            (forged, "does not belong to its files"),
        ];
        for (text, want) in table {
            std::fs::write(&path, &text).unwrap();
            let error = Store::read(&path).unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            assert!(error.to_string().contains(want) || want == "EOF", "{error}");
            assert!(Store::change(&path, |store| store.add(Vec::new())).is_err());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "it is left as it is");
        }
    }

    #[test]
    fn every_trusted_state_of_a_directory_stays_trusted_up_to_a_bound() {
        let mut store = Store { v: VERSION, snapshots: Vec::new() };
        let state = |number: usize| place("/r", &number.to_string());
        for number in 0..=MOST_SNAPSHOTS {
            store.add(vec![Snapshot::of(&state(number))]);
        }
        let trusted: Vec<usize> =
            (0..=MOST_SNAPSHOTS + 1).filter(|number| store.trusts(&state(*number), |_| true)).collect();
        assert_eq!(trusted, (1..=MOST_SNAPSHOTS).collect::<Vec<_>>());
        assert_eq!((store.remove(Path::new("/other")), store.remove(Path::new("/r"))), (0, MOST_SNAPSHOTS));
        assert!(!store.trusts(&state(1), |_| true));
    }
}
