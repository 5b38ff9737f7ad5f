//! Whether another run works in the same folder.
//!
//! Every run holds a shared lock on the folder itself for as long as it lasts: whoever can have it alone is alone. The
//! kernel gives it back however a run ends, nothing is written anywhere, and it does not matter under which name or by
//! which user's Ostler the folder is used.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How often a lock is tried that somebody else has for an instant, to see whether he is alone.
const TRIES: usize = 20;

/// Between two tries.
const INSTANT: Duration = Duration::from_millis(1);

/// That a run is at work in a folder, until it is dropped.
///
/// Once it has met another run it is not alone any more, even when that one has ended: what it left behind may go on
/// changing files. So only the first run in a folder believes that it is alone, and only that one lets go of its lock
/// for an instant to look.
#[derive(Debug)]
pub struct Presence {
    folder: Option<File>,
    company: Company,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Company {
    NoneMet,
    Met,
}

impl Presence {
    /// Announces a run. Never fails: where the folder cannot be locked, as on some network file systems, others are not
    /// noticed.
    pub fn announce(workspace: &Path) -> Self {
        let folder = File::open(workspace).ok();
        let company =
            match folder.as_ref().map(|folder| flock(folder, FlockOperation::NonBlockingLockExclusive)) {
                Some(Err(Errno::WOULDBLOCK)) => Company::Met,
                Some(Ok(()) | Err(_)) | None => Company::NoneMet,
            };
        let presence = Self { folder, company };
        presence.stay();
        presence
    }

    /// Whether another run is here, or was since this one began. Costs two system calls.
    pub fn is_shared(&mut self) -> bool {
        if let (Company::NoneMet, Some(folder)) = (self.company, &self.folder) {
            if flock(folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                self.company = Company::Met;
            }
            self.stay();
        }
        self.company == Company::Met
    }

    /// Takes the lock that all share.
    fn stay(&self) {
        let Some(folder) = &self.folder else { return };
        for _ in 0..TRIES {
            match flock(folder, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) => std::thread::sleep(INSTANT),
                Ok(()) | Err(_) => return,
            }
        }
        tracing::debug!("another program keeps a lock on the workspace");
    }
}

impl Drop for Presence {
    /// Not by closing it alone: a process that is being started at this moment has a copy of the descriptor.
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = flock(folder, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_in_a_folder_know_of_each_other_and_do_not_forget() {
        let place = tempfile::tempdir().unwrap();
        let mut first = Presence::announce(place.path());
        assert!(!first.is_shared() && !first.is_shared());
        let mut second = Presence::announce(place.path());
        assert!(second.is_shared() && first.is_shared());
        drop(second);
        assert!(first.is_shared());
        let mut third = Presence::announce(place.path());
        assert!(third.is_shared());
        drop((first, third));
        assert!(!Presence::announce(place.path()).is_shared());
    }

    #[test]
    fn whoever_looks_first_the_second_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let mut first = Presence::announce(place.path());
        let second = Presence::announce(place.path());
        assert!(first.is_shared());
        drop(second);
        let elsewhere = tempfile::tempdir().unwrap();
        assert!(!Presence::announce(elsewhere.path()).is_shared());
        assert!(!Presence::announce(&elsewhere.path().join("nowhere")).is_shared());
    }
}
