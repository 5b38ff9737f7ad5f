//! The folder that the agent works in: whether something changes there now, and what did. It can neither delay nor fail
//! a run: looks are taken beside it, and what is not known in time is left out.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_agent::completion::Progress;
use ostler_agent::run_event::{self, Counted, Listed};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::workspace::{Changes, Diff, DiffStat, Extent, Monitor, Paths, Snapshot, Workspace};

/// How long a look that was begun before the agent is waited for, once the agent has ended: it was to take no longer.
const LATE: Duration = Duration::from_millis(300);

/// What became of the folder that the agent works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceState {
    /// It is there.
    Present,
    /// It was deleted, or moved away.
    Gone,
    /// Another folder is in its place.
    Replaced,
}

pub(super) struct Workplace {
    workspace: Workspace,
    /// The folder itself, as the kernel numbers it; nothing if it could not be looked at.
    identity: Option<(u64, u64)>,
    /// From the start of a process to its end.
    monitor: Option<Monitor>,
    /// The one before, whose watches are being taken away.
    rested: Option<Monitor>,
    /// At most one look is under way.
    taking: JoinSet<Snapshot>,
    /// As it was before the first process.
    first: Option<Snapshot>,
    /// As it was before the last one, if that is another.
    last: Option<Snapshot>,
    /// What is different from the first, as of the last decision.
    changes: Option<Changes>,
}

impl Workplace {
    /// `folder` is the run's own, in Ostler's home.
    pub(super) fn new(root: &Path, folder: &Path) -> Self {
        let home = folder.ancestors().nth(2).unwrap_or(folder);
        let workspace = Workspace { root: root.to_owned(), own: vec![home.to_owned()] };
        Self {
            identity: identity(root).ok(),
            workspace,
            monitor: None,
            rested: None,
            taking: JoinSet::new(),
            first: None,
            last: None,
            changes: None,
        }
    }

    /// What became of the folder since the run began.
    pub(super) fn state(&self) -> WorkspaceState {
        let Some(then) = self.identity else { return WorkspaceState::Present };
        match identity(&self.workspace.root) {
            Ok(now) if now != then => WorkspaceState::Replaced,
            Err(error) if is_absent(&error) => WorkspaceState::Gone,
            // A network mount that does not answer now is not a deleted folder.
            Ok(_) | Err(_) => WorkspaceState::Present,
        }
    }

    /// Begins to look, before a process is started. Returns at once.
    pub(super) fn look(&mut self) {
        self.taking.spawn(Snapshot::take(&self.workspace));
    }

    /// Begins to watch when this time has passed, after a process was started. Returns at once.
    pub(super) fn watch(&mut self, after: Duration) {
        self.monitor.get_or_insert_with(|| Monitor::start_after(&self.workspace, after));
    }

    /// Lets the watches be taken away beside whatever else is done: the kernel takes its time.
    pub(super) fn rest(&mut self) {
        if let Some(mut monitor) = self.monitor.take() {
            monitor.rest();
            self.rested = Some(monitor);
        }
    }

    /// Waits until something changes; for ever if nobody watches. Cancel safe.
    pub(super) async fn changed(&mut self) {
        match &mut self.monitor {
            Some(monitor) => monitor.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the last process changed something. Takes less than a second.
    pub(super) async fn progress(&mut self) -> Progress {
        self.take_in().await;
        self.changes = match &self.first {
            Some(first) => Some(first.changes().await),
            None => None,
        };
        let since_last = match &self.last {
            Some(last) => Some(last.changes().await),
            None => self.changes.clone(),
        };
        let made = |changes: &Changes| {
            [&changes.created, &changes.changed, &changes.removed].iter().any(|paths| paths.count() > 0)
        };
        if since_last.is_some_and(|changes| made(&changes)) { Progress::Made } else { Progress::None }
    }

    /// What is different since the run began, as of the last decision.
    pub(super) fn changes(&mut self) -> Option<run_event::Changes> {
        self.changes.take().map(told)
    }

    async fn take_in(&mut self) {
        let taken = tokio::time::timeout(LATE, self.taking.join_next()).await;
        self.taking.abort_all();
        let Ok(Some(Ok(snapshot))) = taken else { return };
        if self.first.is_none() {
            self.first = Some(snapshot);
        } else {
            self.last = Some(snapshot);
        }
    }
}

fn identity(folder: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(folder).map(|found| (found.dev(), found.ino()))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn told(changes: Changes) -> run_event::Changes {
    run_event::Changes {
        created: listed(&changes.created),
        changed: listed(&changes.changed),
        removed: listed(&changes.removed),
        partial: changes.extent == Extent::Partial,
        diff: changes.diff.as_ref().map(diff),
    }
}

fn listed(paths: &Paths) -> Listed {
    let first = paths.first.iter().map(|path: &PathBuf| path.to_string_lossy().into_owned()).collect();
    Listed { count: u64::try_from(paths.count()).unwrap_or(u64::MAX), first }
}

fn diff(diff: &Diff) -> run_event::Diff {
    let now = diff.now;
    run_event::Diff {
        files: now.files,
        insertions: now.inserted,
        deletions: now.deleted,
        before: diff.before.map(counted),
    }
}

fn counted(stat: DiffStat) -> Counted {
    Counted { files: stat.files, insertions: stat.inserted, deletions: stat.deleted }
}
