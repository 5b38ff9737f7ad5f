//! The files of a workspace at one moment, and what is different later.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::git::{self, Standing};
use super::rules::is_rules_file;
use super::walk::{Ground, Leash, Step};
use super::{Changes, Extent, Paths, Workspace, aside};

/// How many files are remembered: some 150 bytes each, and about as many as are looked at in [`BEFORE_LIMIT`] (0.32 s,
/// cached, on two busy cores).
pub(super) const MOST_FILES: usize = 50_000;

/// How long a look before the agent starts may take: the user waits for it.
const BEFORE_LIMIT: Duration = Duration::from_millis(300);

/// How long the look at the end may take: the outcome waits for it.
const AFTER_LIMIT: Duration = Duration::from_millis(300);

/// How many paths of a kind are told.
const MOST_TOLD: usize = 200;

/// How far the clock of a file system may be behind ours: whole ticks on most, two seconds on some.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// The files of a workspace as they were. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    workspace: Workspace,
    files: Files,
    began: SystemTime,
    standing: Option<Standing>,
}

#[derive(Debug)]
struct Files {
    stamps: HashMap<PathBuf, Stamp>,
    /// Those that were touched before they were looked at: an agent need not wait for the look.
    touched: HashSet<PathBuf>,
    extent: Extent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    changed_at: (i64, i64),
}

impl From<&Metadata> for Stamp {
    fn from(found: &Metadata) -> Self {
        Self { size: found.size(), changed_at: (found.mtime(), found.mtime_nsec()) }
    }
}

impl Snapshot {
    /// Looks at the workspace, and asks git where it stands. Takes at most 0.4 s; what was not reached by then is
    /// missing, and [`extent`](Self::extent) says so. What is created or changed between this call and the look is told
    /// apart, so that nobody need wait for it. Never fails. Dropping the future ends the look.
    pub fn take(workspace: &Workspace) -> impl Future<Output = Self> + Send + 'static {
        Self::take_within(workspace, BEFORE_LIMIT)
    }

    fn take_within(
        workspace: &Workspace,
        limit: Duration,
    ) -> impl Future<Output = Self> + Send + 'static + use<> {
        let began = SystemTime::now();
        let workspace = workspace.clone();
        async move {
            let place = workspace.clone();
            let (files, standing) = tokio::join!(
                aside(limit, move |leash| look(&place, began, leash)),
                tokio::time::timeout(limit, git::standing(&workspace.root)),
            );
            let nothing =
                || Files { stamps: HashMap::new(), touched: HashSet::new(), extent: Extent::Partial };
            Self(Arc::new(Taken {
                workspace,
                files: files.unwrap_or_else(nothing),
                began,
                standing: standing.ok().flatten(),
            }))
        }
    }

    /// Whether it has all files.
    pub fn extent(&self) -> Extent {
        self.0.files.extent
    }

    /// What is different now. Takes at most 0.4 s; what was not reached by then is missing, and the extent says so.
    /// Never fails. Dropping the future ends the look, and git.
    pub async fn changes(&self) -> Changes {
        self.changes_within(AFTER_LIMIT).await
    }

    async fn changes_within(&self, limit: Duration) -> Changes {
        let before = self.clone();
        let diff = async { git::diff(&self.0.workspace.root, self.0.standing.as_ref()?).await };
        let (changes, diff) = tokio::join!(
            aside(limit, move |leash| compare(&before.0, leash)),
            tokio::time::timeout(limit, diff),
        );
        let unseen = || Found { extent: Extent::Partial, ..Found::default() };
        let found = changes.unwrap_or_else(unseen);
        Changes {
            created: told(found.created),
            changed: told(found.changed),
            removed: told(found.removed),
            extent: found.extent,
            diff: diff.ok().flatten(),
        }
    }
}

fn look(workspace: &Workspace, began: SystemTime, leash: &Leash) -> Files {
    let (mut stamps, mut touched) = (HashMap::new(), HashSet::new());
    let began = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let extent = each_file(workspace, leash, |path, found| {
        // The file system's clock is behind ours by a tick at most, and no agent is as quick as that.
        let at = (u64::try_from(found.ctime()).unwrap_or_default(), found.ctime_nsec());
        if at >= (began.as_secs(), i64::from(began.subsec_nanos())) {
            touched.insert(path.to_owned());
        }
        stamps.insert(path.to_owned(), Stamp::from(found));
    });
    Files { stamps, touched, extent }
}

/// Hands on every file that is looked at, by its path from the root.
fn each_file(workspace: &Workspace, leash: &Leash, mut sink: impl FnMut(&Path, &Metadata)) -> Extent {
    let ground = match Ground::of(workspace) {
        Ok(ground) => ground,
        Err(error) => {
            tracing::debug!(root = %workspace.root.display(), %error, "the workspace cannot be looked at");
            return Extent::Partial;
        }
    };
    let mut count = 0;
    ground.walk(ground.top(), leash, |step| {
        let Step::File(entry) = step else { return ControlFlow::Continue(()) };
        if count == MOST_FILES {
            return ControlFlow::Break(());
        }
        count += 1;
        // Without metadata it has just gone.
        let path = entry.path();
        if let (Ok(path), Ok(found)) = (path.strip_prefix(ground.root()), entry.metadata()) {
            sink(path, &found);
        }
        ControlFlow::Continue(())
    })
}

#[derive(Debug)]
struct Found {
    created: Vec<PathBuf>,
    changed: Vec<PathBuf>,
    removed: Vec<PathBuf>,
    extent: Extent,
}

impl Default for Found {
    fn default() -> Self {
        Self { created: Vec::new(), changed: Vec::new(), removed: Vec::new(), extent: Extent::Whole }
    }
}

fn compare(before: &Taken, leash: &Leash) -> Found {
    let known = &before.files.stamps;
    let (mut found, mut unknown, mut still_there) = (Found::default(), Vec::new(), HashSet::new());
    found.extent = each_file(&before.workspace, leash, |path, now| match known.get_key_value(path) {
        None => unknown.push((path.to_owned(), Birth::of(now, before.began))),
        Some((path, was)) => {
            still_there.insert(path.as_path());
            if before.files.touched.contains(path) {
                let is_new = now.created().is_ok_and(|born| born >= before.began);
                if is_new { &mut found.created } else { &mut found.changed }.push(path.clone());
            } else if *was != Stamp::from(now) {
                found.changed.push(path.clone());
            }
        }
    });
    let missing = known.keys().filter(|path| !still_there.contains(path.as_path()));
    // It may only be ignored now, or not reached this time.
    found.removed = missing.filter(|path| is_gone(&before.workspace.root.join(path))).cloned().collect();
    let rules_differ = {
        let new = unknown.iter().map(|(path, _)| path);
        let mut touched = new.chain(&found.changed).chain(&found.removed);
        touched.any(|path| path.file_name().is_some_and(is_rules_file))
    };
    // Whoever knows all files knows which ones are new. Otherwise their own times have to tell: a file that is not
    // ignored any more, or was not reached, is no news.
    let is_certain = before.files.extent == Extent::Whole && !rules_differ;
    for (path, birth) in unknown {
        match birth {
            _ if is_certain => found.created.push(path),
            Birth::Since => found.created.push(path),
            Birth::ChangedSince => found.changed.push(path),
            Birth::Before => {}
        }
    }
    if before.files.extent == Extent::Partial {
        found.extent = Extent::Partial;
    }
    found
}

/// What a file's own times say about it.
enum Birth {
    Before,
    ChangedSince,
    Since,
}

impl Birth {
    fn of(found: &Metadata, began: SystemTime) -> Self {
        let began = began.checked_sub(CLOCK_SLACK).unwrap_or(began);
        let began_at = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        // The time of the last change of any kind is the only one that a program cannot set.
        if u64::try_from(found.ctime()).unwrap_or_default() < began_at {
            Self::Before
        } else if found.created().is_ok_and(|born| born < began) {
            Self::ChangedSince
        } else {
            Self::Since
        }
    }
}

/// What cannot be looked at is not said to be gone.
fn is_gone(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(found) => found.is_dir(),
        Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

fn told(mut paths: Vec<PathBuf>) -> Paths {
    paths.sort_unstable();
    let more = paths.len().saturating_sub(MOST_TOLD);
    paths.truncate(MOST_TOLD);
    Paths { first: paths, more }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
