//! Keeps a sign-in whole while jailed agents use it.
//!
//! A jail shows the file with the tokens itself, so that what the agent writes is written through. Two things the mount
//! cannot do, and a thread does for as long as the jail lasts:
//!
//! - The mount stays with the file that was there first. Once a process outside has put another file in its place, the two
//!   are copied to each other, the later one over the earlier.
//! - Who refreshes the tokens locks them by a directory beside the file. Jailed agents lock in a directory that they share;
//!   each lock is mirrored there and beside the user's file.

use std::fs::{DirBuilder, File, FileTimes, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use ostler_agent::jail::JailSignIn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::watches::{Interest, Watches};

/// How often a mirrored lock is renewed, and a file without a name looked at. Agents take a lock for abandoned after ten
/// seconds.
const TICK: Duration = Duration::from_secs(1);

/// The mode of a directory that mirrors a lock. No agent makes one like it.
const MIRROR_MODE: u32 = 0o711;

/// No file with tokens is larger.
const LARGEST: u64 = 1024 * 1024;

/// Runs until it is dropped.
#[derive(Debug)]
pub(crate) struct SignInSync {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl SignInSync {
    /// Begins before the jail is built, so that the file that it will show is known.
    pub(crate) fn start(sign_in: &JailSignIn) -> io::Result<Self> {
        let mut sync = Sync::new(sign_in)?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let run = move || {
            if let Err(error) = sync.run(&stopped) {
                tracing::warn!(target: "ostler::run", %error, "the sign-in of a jailed agent is not kept in step");
            }
        };
        let thread = thread::Builder::new().name("sign-in".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for SignInSync {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Sync {
    /// The user's file.
    path: PathBuf,
    /// The file that the jail shows.
    shown: File,
    /// The content of both when they were last the same; `None` as long as they are one file.
    copied: Option<Vec<u8>>,
    watches: Watches,
    locks: Vec<Lock>,
}

impl Sync {
    fn new(sign_in: &JailSignIn) -> io::Result<Self> {
        let JailSignIn { file, folder, locks } = sign_in;
        let outside = file.parent().unwrap_or(Path::new("/"));
        let watches = Watches::new()?;
        for folder in [outside, folder] {
            watches.add(folder, Interest::Entries)?;
        }
        let locks = locks.iter().map(|name| Lock {
            inside: folder.join(name),
            outside: outside.join(name),
            mirror: None,
        });
        Ok(Self {
            path: file.clone(),
            shown: OpenOptions::new().read(true).write(true).custom_flags(no_follow()).open(file)?,
            copied: None,
            locks: locks.collect(),
            watches,
        })
    }

    fn run(&mut self, stopped: &OwnedFd) -> io::Result<()> {
        loop {
            self.copy()?;
            self.locks.iter_mut().for_each(Lock::mirror);
            let is_idle = self.copied.is_none() && self.locks.iter().all(|lock| lock.mirror.is_none());
            let tick = Timespec { tv_sec: TICK.as_secs().cast_signed(), tv_nsec: 0 };
            let mut ready = [
                PollFd::from_borrowed_fd(self.watches.as_fd(), PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            poll(&mut ready, (!is_idle).then_some(&tick))?;
            let is_over = !ready[1].revents().is_empty();
            // What happened is looked for, not read from here.
            self.watches.drain(|_| {})?;
            if is_over {
                self.copy()?;
                self.locks.iter_mut().for_each(Lock::release);
                return Ok(());
            }
        }
    }

    /// Brings the two files into step, if they are two.
    fn copy(&mut self) -> io::Result<()> {
        let outside = match OpenOptions::new().read(true).custom_flags(no_follow()).open(&self.path) {
            Ok(outside) => outside,
            // The user signed out.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let (of_shown, of_outside) = (self.shown.metadata()?, outside.metadata()?);
        if (of_shown.dev(), of_shown.ino()) == (of_outside.dev(), of_outside.ino()) {
            self.copied = None;
            return Ok(());
        }
        self.shown.rewind()?;
        let (shown, outside) = (read(&self.shown)?, read(outside)?);
        let last = self.copied.as_ref().unwrap_or(&shown);
        let is_later = || of_shown.modified().ok() > of_outside.modified().ok();
        if shown != *last && (outside == *last || is_later()) {
            replace(&self.path, &shown)?;
            self.copied = Some(shown);
        } else {
            if outside != shown {
                self.overwrite_shown(&outside)?;
            }
            self.copied = Some(outside);
        }
        Ok(())
    }

    /// In place: another file would not be shown.
    fn overwrite_shown(&mut self, content: &[u8]) -> io::Result<()> {
        self.shown.rewind()?;
        self.shown.write_all(content)?;
        self.shown.set_len(content.len() as u64)
    }
}

fn read(file: impl io::Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(LARGEST).read_to_end(&mut content)?;
    Ok(content)
}

/// Whole or not at all.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".ostler-{}", std::process::id()));
    let made = PathBuf::from(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(no_follow())
        .open(&made)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.and_then(|()| std::fs::rename(&made, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&made);
    })
}

fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}

/// One lock, in the directory of the jailed agents and beside the user's file.
struct Lock {
    inside: PathBuf,
    outside: PathBuf,
    /// The one that this thread made.
    mirror: Option<Mirror>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mirror {
    Inside,
    Outside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Lock,
    Mirror,
}

fn find(path: &Path) -> Found {
    match path.symlink_metadata() {
        Ok(found) if found.permissions().mode() & 0o777 == MIRROR_MODE => Found::Mirror,
        Ok(_) => Found::Lock,
        Err(_) => Found::Nothing,
    }
}

impl Lock {
    fn mirror(&mut self) {
        match (self.mirror, find(&self.inside), find(&self.outside)) {
            (None, Found::Lock, Found::Nothing) if make_mirror(&self.outside) => {
                self.mirror = Some(Mirror::Outside);
            }
            (None, Found::Nothing, Found::Lock) if make_mirror(&self.inside) => {
                self.mirror = Some(Mirror::Inside);
            }
            (Some(Mirror::Outside), Found::Lock, _) => renew(&self.outside),
            (Some(Mirror::Inside), _, Found::Lock) => renew(&self.inside),
            (Some(_), ..) => self.release(),
            (None, ..) => {}
        }
    }

    fn release(&mut self) {
        let path = match self.mirror.take() {
            Some(Mirror::Inside) => &self.inside,
            Some(Mirror::Outside) => &self.outside,
            None => return,
        };
        // An agent that took it for abandoned has made its own.
        if find(path) == Found::Mirror {
            let _ = std::fs::remove_dir(path);
        }
    }
}

fn make_mirror(path: &Path) -> bool {
    let made = DirBuilder::new().mode(MIRROR_MODE).create(path).is_ok();
    // The mask of the user may have taken bits away.
    made && std::fs::set_permissions(path, std::fs::Permissions::from_mode(MIRROR_MODE)).is_ok()
}

fn renew(path: &Path) {
    if let Ok(folder) = File::open(path) {
        let _ = folder.set_times(FileTimes::new().set_modified(SystemTime::now()));
    }
}

#[cfg(test)]
#[path = "sign_in_tests.rs"]
mod tests;
