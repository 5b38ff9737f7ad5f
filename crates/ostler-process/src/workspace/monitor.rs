//! Whether something changes in the workspace right now.
//!
//! One thread watches the folders, or where there are too many, looks from time to time. It tells only that something
//! changed: the signal is one value that is overwritten, so nothing piles up if nobody listens.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::sync::watch;

use super::Workspace;
use super::snapshot::MOST_FILES;
use super::walk::{Ground, Leash, Step};
use super::watched::{Arrivals, Watched};

/// How far the monitor goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Half of what the smallest usual limit gives a user (8,192), so that editors have room. About 1 KiB of the
    /// kernel's memory each.
    pub(super) watches: usize,
    /// Between two looks, where there are no watches. The shortest limit of the watchdog is minutes.
    pub(super) sample_every: Duration,
}

const BOUNDS: Bounds = Bounds { watches: 4096, sample_every: Duration::from_secs(10) };

/// A look that takes long is followed by a longer pause: at most a twentieth of one core is used.
const PAUSE_PER_LOOK: u32 = 20;

/// After something was seen, before more is read: a build that writes all the time wakes us ten times a second.
const PAUSE: Duration = Duration::from_millis(100);

/// Before all watches are set anew, after some of what happened was lost or a `.gitignore` changed.
const PAUSE_BEFORE_ANEW: Duration = Duration::from_secs(1);

/// How long the end of the thread is waited for. It ends within one call to the system; a file system that hangs is
/// not waited for.
const LAST_LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// How the workspace is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Not yet: watches are being set.
    Starting,
    /// The kernel tells.
    Watching,
    /// All files are looked at from time to time.
    Sampling,
    /// Not at all: the folder cannot be read.
    Blind,
}

/// Tells when something changes in a workspace. Dropping it ends its thread.
#[derive(Debug)]
pub struct Monitor {
    signal: watch::Receiver<Method>,
    leash: Leash,
    /// Closing it wakes the thread.
    line: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Begins to look, on a thread of its own. Returns at once and never fails: without a thread nothing is ever told.
    /// What happens before the watches are set is not told either.
    pub fn start(workspace: &Workspace) -> Self {
        Self::start_after(workspace, Duration::ZERO)
    }

    /// The same, but nothing is looked at before this time has passed.
    pub fn start_after(workspace: &Workspace, after: Duration) -> Self {
        Self::start_within(workspace, BOUNDS, after)
    }

    pub(super) fn start_within(workspace: &Workspace, bounds: Bounds, after: Duration) -> Self {
        let (teller, signal) = watch::channel(Method::Starting);
        let leash = Leash::default();
        let begun = UnixStream::pair().and_then(|(line, other_end)| {
            let look = Lookout {
                workspace: workspace.clone(),
                bounds,
                after,
                teller,
                leash: leash.clone(),
                line: other_end,
            };
            let thread =
                thread::Builder::new().name("ostler-monitor".to_owned()).spawn(move || look.out())?;
            Ok((line, thread))
        });
        match begun {
            Ok((line, thread)) => Self { signal, leash, line: Some(line), thread: Some(thread) },
            Err(error) => {
                tracing::warn!(%error, "the workspace is not watched");
                Self { signal, leash, line: None, thread: None }
            }
        }
    }

    /// Waits until something has changed since this was last asked. However much did, it is told once. Cancel safe:
    /// what happens while nobody waits is told at the next call.
    pub async fn changed(&mut self) {
        if self.signal.changed().await.is_err() {
            // Nobody looks any more, so nothing is seen.
            std::future::pending::<()>().await;
        }
    }

    /// Ends the looking without waiting for it: from now on nothing is told.
    pub fn rest(&mut self) {
        self.leash.pull();
        self.line = None;
    }

    /// How it looks, at the moment.
    pub fn method(&self) -> Method {
        // Nobody is left to tell of a change of method.
        if self.signal.has_changed().is_err() { Method::Blind } else { *self.signal.borrow() }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.rest();
        let Some(thread) = self.thread.take() else { return };
        for _ in 0..LAST_LOOKS {
            if thread.is_finished() {
                return;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        tracing::debug!("the workspace's file system does not answer");
    }
}

/// What the thread has.
struct Lookout {
    workspace: Workspace,
    bounds: Bounds,
    /// How long to wait before the first look.
    after: Duration,
    teller: watch::Sender<Method>,
    leash: Leash,
    line: UnixStream,
}

/// What to do after watching.
enum Next {
    SetAnew,
    Sample,
    End,
}

/// Why a wait was over.
#[derive(PartialEq, Eq)]
enum Woken {
    Ended,
    Seen,
    TimeOver,
}

impl Lookout {
    fn out(self) {
        if !self.after.is_zero() && self.wait(None, Some(self.after)) == Woken::Ended {
            return;
        }
        let ground = match Ground::of(&self.workspace) {
            Ok(ground) => ground,
            Err(error) => {
                tracing::debug!(root = %self.workspace.root.display(), %error, "the workspace is not watched");
                return;
            }
        };
        loop {
            let next = match Watched::set(&ground, &self.leash, self.bounds.watches) {
                Ok(mut watched) => self.watch(&ground, &mut watched),
                Err(error) => {
                    tracing::debug!(%error, "the workspace is sampled instead of watched");
                    Next::Sample
                }
            };
            match next {
                Next::SetAnew if self.wait(None, Some(PAUSE_BEFORE_ANEW)) != Woken::Ended => {}
                Next::SetAnew | Next::End => return,
                Next::Sample => return self.sample(&ground),
            }
        }
    }

    fn watch(&self, ground: &Ground, watched: &mut Watched) -> Next {
        self.looks(Method::Watching);
        loop {
            // Without a folder to watch the root is gone, or is not ours to see.
            let is_over = watched.is_empty();
            if is_over || self.wait(Some(watched.notices()), None) == Woken::Ended {
                return Next::End;
            }
            let news = match watched.read(ground) {
                Ok(news) => news,
                Err(error) => {
                    tracing::debug!(%error, "watches cannot be read");
                    return Next::Sample;
                }
            };
            if news.is_change {
                self.teller.send_modify(|_| {});
            }
            let Arrivals::Folders(came) = news.arrivals else { return Next::SetAnew };
            for folder in came {
                if let Err(error) = watched.add(ground, folder, &self.leash) {
                    tracing::debug!(%error, "the workspace is sampled from now on");
                    return Next::Sample;
                }
            }
            if self.wait(None, Some(PAUSE)) == Woken::Ended {
                return Next::End;
            }
        }
    }

    fn sample(&self, ground: &Ground) {
        self.looks(Method::Sampling);
        let mut last = None;
        loop {
            let began = Instant::now();
            let sum = sum(ground, &self.leash);
            let pause = self.bounds.sample_every.max(began.elapsed() * PAUSE_PER_LOOK);
            if last.replace(sum).is_some_and(|last| last != sum) && !self.leash.is_pulled() {
                self.teller.send_modify(|_| {});
            }
            if self.wait(None, Some(pause)) == Woken::Ended {
                return;
            }
        }
    }

    /// How it looks is no change of the workspace.
    fn looks(&self, method: Method) {
        self.teller.send_if_modified(|now| {
            *now = method;
            false
        });
    }

    fn wait(&self, notices: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> Woken {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            let mut waited_for = vec![PollFd::new(&self.line, PollFlags::IN)];
            waited_for.extend(notices.map(|notices| PollFd::from_borrowed_fd(notices, PollFlags::IN)));
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut waited_for, left.as_ref()) {
                Ok(0) => return Woken::TimeOver,
                Ok(_) if waited_for[0].revents().is_empty() => return Woken::Seen,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return Woken::Ended,
            }
        }
    }
}

/// One number for all files: another one if something changed. The order in which they are found does not matter.
fn sum(ground: &Ground, leash: &Leash) -> u64 {
    let (mut sum, mut count) = (0_u64, 0);
    ground.walk(ground.top(), leash, |step| {
        let Step::File(entry) = step else { return ControlFlow::Continue(()) };
        if count == MOST_FILES {
            return ControlFlow::Break(());
        }
        count += 1;
        if let Ok(found) = entry.metadata() {
            let mut hasher = DefaultHasher::new();
            (entry.path(), found.size(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
            sum = sum.wrapping_add(hasher.finish());
        }
        ControlFlow::Continue(())
    });
    sum
}

#[cfg(test)]
#[path = "monitor_tests.rs"]
mod tests;
