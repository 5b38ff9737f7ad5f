//! A control group of our own, below the one that we are in: killed as one, and empty when the kernel says so.
//!
//! Its folder is locked by Ostler and by the guardian. A leaf whose lock is free therefore belongs to nobody who lives,
//! and the next start removes it. The lock is held on the folder itself, so that it means the same in every PID
//! namespace, where process numbers do not.
//!
//! A run inside a run makes its leaf inside the outer leaf, so killing, counting and removing go all the way down.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::family::{self, Process};
use crate::host::{self, Cgroup2};

const PREFIX: &str = "ostler-";

/// How often a new leaf may be lost to a start that looks for stale ones between the making and the locking, which
/// is microseconds.
const CREATE_ATTEMPTS: u32 = 8;

/// How long a dead owner's leaf may take to empty before it is left to a later start. Killing takes milliseconds.
const STALE_LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// The folder of a control group, locked.
#[derive(Debug)]
pub(super) struct Leaf {
    path: PathBuf,
    lock: OwnedFd,
}

/// Makes the next start quicker, if it is called some milliseconds before: for whoever knows that there will be one.
/// Blocks, so it wants a thread of its own. See [`Leaf::knock`].
pub fn anticipate() {
    if let Cgroup2::Writable(own) = host::cgroup2() {
        // That it fails costs only the time that it would have saved.
        let _ = fs::write(own.join("cgroup.procs"), std::process::id().to_string());
    }
}

impl Leaf {
    /// Makes one below our own group. Fails where groups are missing, closed to us, or only pretended.
    pub(super) fn create(mark: &str) -> io::Result<Self> {
        let parent = match host::cgroup2() {
            Cgroup2::Writable(own) => own,
            Cgroup2::Closed(_) => return Err(io::ErrorKind::PermissionDenied.into()),
            Cgroup2::Absent => return Err(io::ErrorKind::NotFound.into()),
        };
        for attempt in 0..CREATE_ATTEMPTS {
            let path = parent.join(format!("{PREFIX}{mark}.{attempt}"));
            fs::create_dir(&path)?;
            match lock(&path) {
                Ok(Some(lock)) => return Ok(Self { path, lock }),
                // Another start took it for a dead owner's, and has removed it or will.
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let _ = fs::remove_dir(&path);
                    return Err(error);
                }
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// The guardian's view of a leaf that Ostler made.
    pub(super) fn adopt(path: PathBuf, lock: OwnedFd) -> Self {
        Self { path, lock }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// What makes the first move into this leaf quick, if it is begun before: it blocks, and moves nothing.
    ///
    /// Before the kernel moves a process it waits until every processor has passed through a quiet state, 10 ms and
    /// more. Moves that follow one another share that wait. So a child of ours is "moved" to the group that it is in
    /// already, while it sets itself up.
    pub(super) fn knock(&self) -> Option<impl FnOnce(Pid) + Send + 'static> {
        let own = self.path.parent()?.join("cgroup.procs");
        Some(move |child: Pid| {
            // That it fails costs only the time that it would have saved.
            let _ = fs::write(own, child.as_raw_nonzero().to_string());
        })
    }

    /// Moves a process in that has not started anything yet, and reads back from both sides that it is there.
    pub(super) fn admit(&self, process: Pid) -> io::Result<()> {
        let number = process.as_raw_nonzero().to_string();
        fs::write(self.path.join("cgroup.procs"), &number)?;
        let is_listed =
            fs::read_to_string(self.path.join("cgroup.procs"))?.lines().any(|line| line == number);
        let groups = fs::read_to_string(format!("/proc/{number}/cgroup"))?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
        if is_listed && Path::new(own).file_name() == self.path.file_name() {
            Ok(())
        } else {
            Err(io::Error::other("the kernel does not list the process in its group"))
        }
    }

    /// Kills every process in it. The kernel does it as one where it can (Linux 5.14), so that a fork is not missed.
    pub(super) fn kill(&self) -> io::Result<()> {
        kill(&self.path)
    }

    /// Whether a process is in it. An unreaped dead one is not.
    pub(super) fn is_populated(&self) -> bool {
        is_populated(&self.path)
    }

    /// Every living process in it.
    pub(super) fn members(&self) -> Vec<Process> {
        members(&self.path)
    }

    /// Removes it, and the leaves of runs inside it. Idempotent.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.path)
    }

    /// Ends and removes what dead owners left beside it.
    pub(super) fn remove_stale(&self) {
        let Some(Ok(siblings)) = self.path.parent().map(fs::read_dir) else { return };
        for sibling in siblings.flatten() {
            let is_leaf = sibling.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
            if is_leaf && sibling.path() != self.path {
                let _ = remove_if_stale(&sibling.path());
            }
        }
    }
}

/// Whoever lets go of a leaf that is empty removes it: a start that was given up leaves none behind.
impl Drop for Leaf {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::debug!(%error, "could not remove a control group: somebody else does, or the next start");
        }
    }
}

fn remove_if_stale(path: &Path) -> io::Result<()> {
    // Held until it is removed, so that of two starts only one does it.
    let Some(_lock) = lock(path)? else { return Ok(()) };
    kill(path)?;
    for _ in 0..STALE_LOOKS {
        if !is_populated(path) {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    remove(path)
}

/// `None` if somebody else holds it. Fails with "not found" if it was removed meanwhile.
fn lock(path: &Path) -> io::Result<Option<OwnedFd>> {
    let folder = File::open(path)?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if folder.metadata()?.ino() != fs::metadata(path)?.ino() => {
            Err(io::ErrorKind::NotFound.into())
        }
        Ok(()) => Ok(Some(folder.into())),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

fn kill(path: &Path) -> io::Result<()> {
    match fs::write(path.join("cgroup.kill"), "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.exists() => {
            // Frozen processes do not fork, and still die.
            fs::write(path.join("cgroup.freeze"), "1")?;
            for process in members(path) {
                process.signal(Signal::KILL);
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn is_populated(path: &Path) -> bool {
    match fs::read_to_string(path.join("cgroup.events")) {
        Ok(events) => !events.lines().any(|line| line == "populated 0"),
        // It can only be removed when it is empty.
        Err(_) => path.exists(),
    }
}

fn members(path: &Path) -> Vec<Process> {
    let listed = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    let numbers = listed.lines().filter_map(|line| line.parse().ok().and_then(Pid::from_raw));
    let mut found: Vec<Process> = numbers.filter_map(family::process).filter(Process::is_alive).collect();
    for inner in inner(path) {
        found.extend(members(&inner));
    }
    found
}

fn remove(path: &Path) -> io::Result<()> {
    for inner in inner(path) {
        remove(&inner)?;
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn inner(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
