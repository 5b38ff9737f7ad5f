//! Goes through the folders of the workspace, in order and within bounds. No link is followed and no other file system
//! entered, so there are no loops, and a folder that is swapped for a link in the meantime is not entered either.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ignore::overrides::{Override, OverrideBuilder};
use ostler_process::workspace::Rules;
use rustix::fs::{AtFlags, Dir, FileType, statat};
use tokio_util::sync::CancellationToken;

use super::beneath::{Beneath, Fault};

/// How many entries one walk looks at.
const MOST_ENTRIES: usize = 200_000;

/// How deep folders are entered. Deeper ones are made by mistake.
const MOST_DEPTH: usize = 64;

/// How long a walk may take.
const WITHIN: Duration = Duration::from_secs(60);

/// What a pattern for names or lines may have.
const MOST_PATTERN_BYTES: usize = 4 * 1024;

/// The folder that is git's own business, wherever it is.
const REPOSITORY: &str = ".git";

/// What is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ignored {
    LeftOut,
    Shown,
}

impl From<bool> for Ignored {
    fn from(shown: bool) -> Self {
        if shown { Self::Shown } else { Self::LeftOut }
    }
}

/// What a walk is for.
pub(super) struct Walk<'a> {
    pub(super) beneath: &'a Beneath,
    /// Where it begins.
    pub(super) start: &'a str,
    /// How many levels it goes down.
    pub(super) depth: usize,
    pub(super) ignored: Ignored,
    /// Ends it early.
    pub(super) cancelled: &'a CancellationToken,
}

/// Something that a walk came to.
pub(super) struct Entry<'a> {
    /// From the top of the workspace.
    pub(super) path: &'a Path,
    pub(super) kind: FileType,
    /// The folder that it is in, and its name there.
    pub(super) folder: &'a OwnedFd,
    pub(super) name: &'a OsStr,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All was looked at, except so many folders that could not be read.
    Whole { unread: usize },
    /// Whoever was shown the entries had enough.
    Enough,
    /// There was too much to look at, or it took too long.
    TooMuch,
}

struct Folder {
    held: OwnedFd,
    path: PathBuf,
    rules: Option<Arc<Rules>>,
    depth: usize,
}

struct Ahead {
    folder: Arc<Folder>,
    name: OsString,
    kind: FileType,
}

impl Walk<'_> {
    /// Shows every entry, folders before what is in them.
    pub(super) fn go(&self, mut visit: impl FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<Extent, Fault> {
        let until = Instant::now() + WITHIN;
        let start = Folder {
            held: self.beneath.folder(self.start)?,
            path: Path::new(self.start).components().collect(),
            rules: self.rules_at_start(),
            depth: 0,
        };
        let (mut ahead, mut looked_at, mut unread) = (Vec::new(), 0, 0);
        self.look_into(Arc::new(start), &mut ahead, &mut looked_at).map_err(|errno| {
            Fault::Failed(format!("`{}` cannot be listed: {errno}. Try once more.", self.start))
        })?;
        while let Some(Ahead { folder, name, kind }) = ahead.pop() {
            if looked_at > MOST_ENTRIES || self.cancelled.is_cancelled() || Instant::now() >= until {
                return Ok(Extent::TooMuch);
            }
            let path = folder.path.join(&name);
            let entry = Entry { path: &path, kind, folder: &folder.held, name: &name };
            if visit(entry).is_break() {
                return Ok(Extent::Enough);
            }
            if kind != FileType::Directory || folder.depth + 1 >= self.depth.min(MOST_DEPTH) {
                continue;
            }
            let looked = Beneath::step(&folder.held, &name).and_then(|held| {
                let rules = self.rules_inside(&path, folder.rules.clone());
                let inside = Folder { held, path, rules, depth: folder.depth + 1 };
                self.look_into(Arc::new(inside), &mut ahead, &mut looked_at)
            });
            unread += usize::from(looked.is_err());
        }
        Ok(Extent::Whole { unread })
    }

    /// Puts the entries of a folder ahead, the first on top.
    fn look_into(
        &self,
        folder: Arc<Folder>,
        ahead: &mut Vec<Ahead>,
        looked_at: &mut usize,
    ) -> rustix::io::Result<()> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder.held)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            *looked_at += 1;
            if *looked_at > MOST_ENTRIES {
                break;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => statat(&folder.held, &name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            if self.shows(&folder, &name, kind) {
                found.push(Ahead { folder: Arc::clone(&folder), name, kind });
            }
        }
        found.sort_unstable_by(|one, other| other.name.cmp(&one.name));
        ahead.append(&mut found);
        Ok(())
    }

    fn shows(&self, folder: &Folder, name: &OsStr, kind: FileType) -> bool {
        let path = || self.beneath.path().join(&folder.path).join(name);
        let is_folder = kind == FileType::Directory;
        name != REPOSITORY && !folder.rules.as_ref().is_some_and(|rules| rules.ignores(&path(), is_folder))
    }

    /// The rules of all folders down to where the walk begins.
    fn rules_at_start(&self) -> Option<Arc<Rules>> {
        if self.ignored == Ignored::Shown {
            return None;
        }
        let mut path = PathBuf::new();
        let mut rules = self.rules_inside(&path, Rules::above(self.beneath.path()));
        for part in Path::new(self.start).components() {
            path.push(part);
            rules = self.rules_inside(&path, rules);
        }
        rules
    }

    fn rules_inside(&self, path: &Path, above: Option<Arc<Rules>>) -> Option<Arc<Rules>> {
        match self.ignored {
            Ignored::Shown => None,
            Ignored::LeftOut => Rules::inside(&self.beneath.path().join(path), above),
        }
    }
}

/// Which files are meant.
pub(super) struct Glob(Override);

impl Glob {
    /// Everything, if there is no glob.
    pub(super) fn new(beneath: &Beneath, glob: Option<&str>) -> Result<Self, Fault> {
        let bad = |error: ignore::Error| {
            Fault::Failed(format!("`glob` is none: {error}. Write it as in `.gitignore`: `*.rs`, `src/**`."))
        };
        let mut builder = OverrideBuilder::new(beneath.path());
        if let Some(glob) = glob {
            brief("glob", glob)?;
            builder.add(glob).map_err(bad)?;
        }
        builder.build().map(Self).map_err(bad)
    }

    pub(super) fn takes(&self, beneath: &Beneath, path: &Path) -> bool {
        !self.0.matched(beneath.path().join(path), false).is_ignore()
    }
}

/// Refuses a pattern that is longer than anybody writes one.
pub(super) fn brief(what: &str, pattern: &str) -> Result<(), Fault> {
    if pattern.len() <= MOST_PATTERN_BYTES {
        return Ok(());
    }
    let bytes = pattern.len();
    let words = format!("`{what}` has {bytes} bytes; at most {MOST_PATTERN_BYTES} are taken. Shorten it.");
    Err(Fault::Failed(words))
}

/// A path as it is shown: in one line.
pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}
