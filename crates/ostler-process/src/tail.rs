//! Follows files that an agent goes on writing: its transcript, and those of its sub-agents.
//!
//! [`Tail`] tells that one of them grew; [`Lines`] reads what is new in one. The files, and the folders they are in, may
//! come later, go, and be replaced. The kernel tells of changes; whether a file grew is decided by looking at it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use tokio::time::Instant;

use crate::watches::{AwaitedWatches, Interest, Sight, What};

mod lines;
mod place;

pub use lines::{Lines, Progress};
pub use place::Place;

/// Between two looks while the kernel tells: for what it does not tell, such as a folder above that was replaced, or a
/// link to a file elsewhere. Well below the shortest limit of the watchdog.
const LOOK_ANYWAY: Duration = Duration::from_secs(30);

/// Between two looks where there are no watches. Agents write every tenth of a second; a person waits for it.
const LOOK_UNAIDED: Duration = Duration::from_secs(1);

/// How many folders are looked into below one place, the last by name first. Codex makes one a day: three years.
const MOST_FOLDERS: usize = 1024;

/// How many files are followed. A run with that many sub-agents does not end within its ceiling.
const MOST_FILES: usize = 4096;

/// How often to try again when a folder comes while we are about to wait for it.
const ATTEMPTS: usize = 8;

/// Files that grow. Costs nothing while they do not. Dropping it ends all watches; it has no thread.
#[derive(Debug)]
pub struct Tail {
    places: Vec<Place>,
    /// None where the kernel has no room for watches.
    watches: Option<AwaitedWatches>,
    /// The paths under which each watched folder was found.
    folders: HashMap<i32, Vec<PathBuf>>,
    files: HashMap<PathBuf, Seen>,
    look_at: Instant,
    /// When to ask the kernel to tell, if that was put off.
    watch_at: Option<Instant>,
}

/// A file as it was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// With the time of its birth, where that is known: the number of a removed file is soon another's.
    id: (u64, u64, Option<SystemTime>),
    length: u64,
}

impl Tail {
    /// Begins to follow. What is in the files by now is not growth. Never fails: without watches it looks every second.
    /// To be called, as everything here, within a runtime that has its drivers for I/O and time.
    pub fn new(places: impl IntoIterator<Item = Place>) -> Self {
        Self::begin(places, opened(), None)
    }

    /// The same, but growth is told only once this time has passed, then also of what grew before. Until then it costs
    /// nothing: taking watches away makes a process wait 10 to 20 ms for the kernel, which a short one need not.
    pub fn late(places: impl IntoIterator<Item = Place>, after: Duration) -> Self {
        Self::begin(places, None, Some(Instant::now() + after))
    }

    fn begin(
        places: impl IntoIterator<Item = Place>,
        watches: Option<AwaitedWatches>,
        watch_at: Option<Instant>,
    ) -> Self {
        let mut tail = Self {
            places: places.into_iter().collect(),
            watches,
            folders: HashMap::new(),
            files: HashMap::new(),
            look_at: Instant::now(),
            watch_at,
        };
        tail.look();
        tail.look_at = watch_at.unwrap_or(tail.look_at);
        tail
    }

    /// Follows one place more. What is in its files by now is not growth; nor is what others grew by since they were
    /// last looked at lost.
    pub fn follow(&mut self, place: Place) {
        for path in self.found_in(&place) {
            if let (None, Some(seen)) = (self.files.get(&path), seen(&path)) {
                self.files.insert(path, seen);
            }
        }
        self.places.push(place);
    }

    /// The files that are there, with their lengths when they were last looked at.
    pub fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.files.iter().map(|(path, seen)| (path.as_path(), seen.length))
    }

    /// The files that are there by now, with their lengths. That they grew is still told.
    pub fn present(&mut self) -> Vec<(PathBuf, u64)> {
        let places = self.places.clone();
        let found = places.iter().flat_map(|place| self.found_in(place)).collect::<Vec<_>>();
        let present = |path: PathBuf| seen(&path).map(|seen| (path, seen.length));
        found.into_iter().filter_map(present).collect()
    }

    /// Waits until files grew, and tells which. Cancel safe: what grows while nobody waits is told at the next call.
    pub async fn grew(&mut self) -> Vec<PathBuf> {
        loop {
            let notice = match &self.watches {
                None => {
                    tokio::time::sleep_until(self.look_at).await;
                    Notice::Time
                }
                Some(watches) => tokio::select! {
                    ready = watches.readable() => ready.map_or(Notice::Broken, |()| Notice::Watches),
                    () = tokio::time::sleep_until(self.look_at) => Notice::Time,
                },
            };
            if self.watch_at.take_if(|at| *at <= Instant::now()).is_some() {
                self.watches = opened();
            }
            let grown = match notice {
                Notice::Time => self.look(),
                Notice::Watches => self.read_watches(),
                Notice::Broken => {
                    self.watches = None;
                    self.look()
                }
            };
            if !grown.is_empty() {
                return grown;
            }
        }
    }

    /// Lets the kernel take the watches away beside whatever else is done. From now on it looks every second.
    pub fn rest(&mut self) {
        self.watch_at = None;
        self.folders.clear();
        if let Some(watches) = self.watches.take() {
            tokio::task::spawn_blocking(move || drop(watches));
        }
    }

    fn read_watches(&mut self) -> Vec<PathBuf> {
        let (mut touched, mut gone, mut must_look) = (HashSet::new(), Vec::new(), false);
        let (places, folders) = (&self.places, &self.folders);
        let Some(watches) = &mut self.watches else { return Vec::new() };
        let take_in = |sight: Sight<'_>| match sight {
            Sight::Overflow => must_look = true,
            Sight::WatchGone(watch) | Sight::FolderMoved(watch) => gone.push(watch),
            Sight::Entry { watch, name, what } => {
                for path in folders.get(&watch).into_iter().flatten().map(|folder| folder.join(name)) {
                    if places.iter().any(|place| place.is_reached_through(&path)) {
                        must_look = true;
                    } else if what == What::FolderCame {
                        must_look |= places.iter().any(|place| place.looks_into(&path));
                    } else if places.iter().any(|place| place.wants(&path)) {
                        touched.insert(path);
                    }
                }
            }
        };
        if let Err(error) = watches.drain(take_in) {
            tracing::debug!(%error, "watches cannot be read");
            self.watches = None;
            must_look = true;
        }
        for watch in gone {
            must_look |= self.folders.remove(&watch).is_some();
            // A folder that was moved is watched still, elsewhere.
            if let Some(watches) = &self.watches {
                watches.remove(watch);
            }
        }
        if must_look {
            return self.look();
        }
        touched.into_iter().filter(|path| self.has_grown(path)).collect()
    }

    /// Looks at every place, and watches what is to be watched, and nothing else.
    fn look(&mut self) -> Vec<PathBuf> {
        let mut found: HashSet<PathBuf> = HashSet::new();
        let watched_so_far = std::mem::take(&mut self.folders);
        for place in self.places.clone() {
            found.extend(self.found_in(&place));
        }
        if let Some(watches) = &self.watches {
            let unneeded = watched_so_far.keys().filter(|watch| !self.folders.contains_key(watch));
            unneeded.for_each(|watch| watches.remove(*watch));
        }
        self.files.retain(|path, _| found.contains(path));
        let grown = found.into_iter().filter(|path| self.has_grown(path)).collect();
        let pause = if self.watches.is_some() { LOOK_ANYWAY } else { LOOK_UNAIDED };
        self.look_at = Instant::now() + pause;
        grown
    }

    /// The files of a place. Each folder is watched before it is read, so that none slips through.
    fn found_in(&mut self, place: &Place) -> Vec<PathBuf> {
        self.reach(place.folder());
        if let Place::File(path) | Place::Whole(path) = place {
            return vec![path.clone()];
        }
        let (mut found, mut looked_into) = (Vec::new(), 0);
        let mut ahead = vec![place.folder().to_owned()];
        while let Some(folder) = ahead.pop() {
            if looked_into == MOST_FOLDERS {
                tracing::debug!(folder = %place.folder().display(), "some folders are not looked into");
                break;
            }
            looked_into += 1;
            self.watch(&folder, Interest::Entries);
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            let mut below = Vec::new();
            for entry in entries.flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    below.extend(place.looks_into(&path).then_some(path));
                } else if place.wants(&path) && found.len() < MOST_FILES {
                    found.push(path);
                }
            }
            // The last by name comes first off the pile.
            below.sort_unstable();
            ahead.append(&mut below);
        }
        found
    }

    /// Watches a folder, or the nearest one above it that is there, for the next one to come.
    fn reach(&mut self, folder: &Path) {
        for _ in 0..ATTEMPTS {
            if self.watches.is_none() || self.watch(folder, Interest::Entries) {
                return;
            }
            let mut next = folder;
            for above in folder.ancestors().skip(1) {
                if self.watch(above, Interest::Arrivals) {
                    break;
                }
                next = above;
            }
            // It may have come before it was watched for.
            if fs::symlink_metadata(next).is_err() {
                return;
            }
        }
    }

    /// Whether the folder is watched now.
    fn watch(&mut self, folder: &Path, interest: Interest) -> bool {
        let Some(watches) = &self.watches else { return false };
        match watches.add(folder, interest) {
            Ok(watch) => {
                let paths = self.folders.entry(watch).or_default();
                if !paths.iter().any(|path| path == folder) {
                    paths.push(folder.to_owned());
                }
                true
            }
            Err(error) if is_out_of_room(&error) => {
                tracing::debug!(%error, "files are followed without watches");
                self.watches = None;
                self.folders.clear();
                false
            }
            Err(_) => false,
        }
    }

    fn has_grown(&mut self, path: &Path) -> bool {
        let Some(now) = seen(path) else {
            self.files.remove(path);
            return false;
        };
        if self.files.len() >= MOST_FILES && !self.files.contains_key(path) {
            return false;
        }
        let was = self.files.insert(path.to_owned(), now);
        let had = was.filter(|was| was.id == now.id).map_or(0, |was| was.length);
        let is_whole =
            self.places.iter().any(|place| matches!(place, Place::Whole(wanted) if wanted == path));
        // A file that is shorter was cut and written anew.
        (is_whole || now.length != had) && now.length > 0
    }
}

/// Why the wait is over.
enum Notice {
    Watches,
    Time,
    Broken,
}

/// Nothing where the kernel has no room for watches.
fn opened() -> Option<AwaitedWatches> {
    AwaitedWatches::new()
        .inspect_err(|error| tracing::debug!(%error, "files are followed without watches"))
        .ok()
}

/// `ENOSPC` is the user's limit of watches.
fn is_out_of_room(error: &io::Error) -> bool {
    [Errno::NOSPC, Errno::NOMEM, Errno::MFILE]
        .iter()
        .any(|full| error.raw_os_error() == Some(full.raw_os_error()))
}

fn seen(path: &Path) -> Option<Seen> {
    let found = fs::metadata(path).ok()?;
    let id = (found.dev(), found.ino(), found.created().ok());
    found.is_file().then_some(Seen { id, length: found.len() })
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
