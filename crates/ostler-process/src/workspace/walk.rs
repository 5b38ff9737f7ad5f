//! Goes through a workspace, within bounds. Links are not followed and other file systems not entered, so there are no
//! loops, and what hangs is not ours. No file is opened but `.gitignore`.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::rules::Rules;
use super::{Extent, Workspace};

/// Folders that are full of what nobody wrote, and our own. Not entered wherever they are.
const SKIPPED_FOLDERS: [&str; 4] = [".git", "node_modules", "target", ".ostler"];

/// A link to the repository, in place of the folder.
const GIT_FILE: &str = ".git";

/// How deep folders are entered. Deeper ones are made by mistake; the longest path would allow two thousand.
const MOST_DEPTH: usize = 64;

/// How many entries one walk looks at, ignored ones included: four times the files that are kept, so that it ends also
/// where nearly everything is ignored.
const MOST_ENTRIES: usize = 200_000;

/// A workspace as it is on disk.
#[derive(Debug)]
pub(super) struct Ground {
    root: PathBuf,
    device: u64,
    own: Vec<PathBuf>,
    rules: Option<Arc<Rules>>,
}

/// A folder of the workspace, with the rules for its entries.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    rules: Option<Arc<Rules>>,
    depth: usize,
}

/// What the walk came to.
pub(super) enum Step<'a> {
    /// A folder, before its entries are read.
    Folder(&'a Folder),
    /// A file, a link, or something special.
    File(&'a DirEntry),
}

/// Ends a walk from outside, or when its time is over.
#[derive(Debug, Clone, Default)]
pub(super) struct Leash {
    pulled: Arc<AtomicBool>,
    until: Option<Instant>,
}

impl Leash {
    pub(super) fn for_at_most(limit: Duration) -> Self {
        Self { until: Some(Instant::now() + limit), ..Self::default() }
    }

    pub(super) fn pull(&self) {
        self.pulled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_pulled(&self) -> bool {
        self.pulled.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Ground {
    pub(super) fn of(workspace: &Workspace) -> io::Result<Self> {
        let root = fs::canonicalize(&workspace.root)?;
        let device = fs::metadata(&root)?.dev();
        // What is not there yet can only be named as it was given to us.
        let real = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let own = workspace.own.iter().map(real).collect();
        Ok(Self { rules: Rules::above(&root), root, device, own })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a walk through everything begins.
    pub(super) fn top(&self) -> Folder {
        Folder { rules: Rules::inside(&self.root, self.rules.clone()), path: self.root.clone(), depth: 0 }
    }

    /// A folder inside another one; none if it is not looked at, or has just gone.
    pub(super) fn inside(&self, folder: &Folder, name: &OsStr) -> io::Result<Option<Folder>> {
        if !self.shows_folder(folder, name) {
            return Ok(None);
        }
        let path = folder.path.join(name);
        let found = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if !found.is_dir() || found.dev() != self.device {
            return Ok(None);
        }
        let rules = Rules::inside(&path, folder.rules.clone());
        Ok(Some(Folder { path, rules, depth: folder.depth + 1 }))
    }

    /// Whether a folder of that name in the folder is looked at, or was.
    pub(super) fn shows_folder(&self, folder: &Folder, name: &OsStr) -> bool {
        let path = folder.path.join(name);
        !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped)
            && !self.own.contains(&path)
            && !folder.rules.as_ref().is_some_and(|rules| rules.ignores(&path, true))
    }

    /// Whether a file of that name in the folder is looked at.
    pub(super) fn shows(&self, folder: &Folder, name: &OsStr) -> bool {
        let path = folder.path.join(name);
        name != GIT_FILE
            && !self.own.contains(&path)
            && !folder.rules.as_ref().is_some_and(|rules| rules.ignores(&path, false))
    }

    /// Goes through the folder and all below it. Partial if it was broken off, or a folder could not be read.
    pub(super) fn walk(
        &self,
        from: Folder,
        leash: &Leash,
        mut visit: impl FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Extent {
        let mut extent = Extent::Whole;
        let (mut ahead, mut looked_at) = (vec![from], 0);
        while let Some(folder) = ahead.pop() {
            if visit(Step::Folder(&folder)).is_break() {
                return Extent::Partial;
            }
            let entries = match fs::read_dir(&folder.path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    tracing::debug!(folder = %folder.path.display(), %error, "a folder is not looked into");
                    extent = Extent::Partial;
                    continue;
                }
            };
            for entry in entries {
                looked_at += 1;
                if looked_at > MOST_ENTRIES || leash.is_pulled() {
                    return Extent::Partial;
                }
                // The rest of a folder that cannot be read on.
                let Ok(entry) = entry else {
                    extent = Extent::Partial;
                    break;
                };
                let (name, is_folder) =
                    (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
                if is_folder && folder.depth >= MOST_DEPTH {
                    extent = Extent::Partial;
                } else if is_folder {
                    match self.inside(&folder, &name) {
                        Ok(inside) => ahead.extend(inside),
                        Err(_) => extent = Extent::Partial,
                    }
                } else if self.shows(&folder, &name) && visit(Step::File(&entry)).is_break() {
                    return Extent::Partial;
                }
            }
        }
        extent
    }
}
