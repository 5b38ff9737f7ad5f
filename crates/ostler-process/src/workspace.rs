//! What changes in the folder that an agent works in: whether something changes now, and in the end what did.
//!
//! Everything here is bounded, does its looking on threads of its own, and never fails: where something cannot be seen
//! the answer says that it is partial, or is absent. `.git`, `node_modules`, `target`, what git ignores, and our own
//! files are not looked at.

use std::path::PathBuf;
use std::time::Duration;

mod git;
pub mod harmless;
mod monitor;
mod presence;
mod rules;
mod snapshot;
mod walk;
mod watched;

pub use git::{Diff, DiffStat};
pub use monitor::{Method, Monitor};
pub use presence::Presence;
pub use rules::Rules;
pub use snapshot::Snapshot;

use walk::Leash;

/// A folder that an agent works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The folder.
    pub root: PathBuf,
    /// Files and folders of our own, in case they are inside: `OSTLER_HOME`.
    pub own: Vec<PathBuf>,
}

/// Whether everything was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// It was.
    Whole,
    /// A bound was reached, or a folder could not be read.
    Partial,
}

/// What is different from a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Files that were not there.
    pub created: Paths,
    /// Files with another size or time of change.
    pub changed: Paths,
    /// Files that are gone.
    pub removed: Paths,
    /// Whether there may be more.
    pub extent: Extent,
    /// What git says, if this is a repository with a commit.
    pub diff: Option<Diff>,
}

/// Paths from the workspace's root, in order: the first of them, and how many more there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// The first.
    pub first: Vec<PathBuf>,
    /// How many are left out.
    pub more: usize,
}

impl Paths {
    /// How many paths there are, with those left out.
    pub fn count(&self) -> usize {
        self.first.len() + self.more
    }
}

/// Does something that may block on a thread of its own, and waits for it no longer than told. Dropping the future, or
/// the end of the time, pulls the leash. The thread is not waited for then: a file system that hangs would hold us.
async fn aside<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&Leash) -> T + Send + 'static,
) -> Option<T> {
    struct Pull(Leash);
    impl Drop for Pull {
        fn drop(&mut self) {
            self.0.pull();
        }
    }
    let leash = Leash::for_at_most(limit);
    let pull = Pull(leash.clone());
    let (answer, answered) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("ostler-look".to_owned());
    let started = thread.spawn(move || {
        let found = work(&leash);
        if answer.send(found).is_err() {
            tracing::debug!("a look at the workspace came too late");
        }
    });
    started.ok()?;
    let found = tokio::time::timeout(limit + HAND_OVER, answered).await;
    drop(pull);
    found.ok()?.ok()
}

/// How long after its time is over a look may take to be handed over.
const HAND_OVER: Duration = Duration::from_millis(100);

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
