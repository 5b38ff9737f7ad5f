//! Looks at the machine for what the decision about a jail is made from. A workspace may be hostile: nothing is granted
//! because a file in it says so.

mod nested;
mod repository;

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ostler_agent::jail::{GitFacts, StateCopy, Wanted};
use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;

use crate::file_scope::FileScope;

pub use nested::{DEEPEST, MOST_DIRECTORIES, MOST_ENTRIES};

/// The repositories around and in a workspace, whose links are resolved.
pub fn git_facts(workspace: &Path) -> GitFacts {
    let (repository, is_whole) = repository::find(workspace);
    let mut facts = nested::search(workspace, repository.as_ref());
    facts.is_complete &= is_whole;
    facts.repository = repository;
    facts
}

/// A path with its links resolved; `None` if it does not exist.
pub fn real_path(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

/// Names in one of an agent's own directories that are looked at: each that is shown costs a mount.
const MOST_STATE_ENTRIES: usize = 512;

/// The names in one of an agent's own directories, in their order; none if it cannot be read.
pub fn state_entries(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<OsString> = entries.map(|entry| entry.file_name()).take(MOST_STATE_ENTRIES).collect();
    names.sort();
    names
}

/// Settings that are longer are not looked at for paths.
const LONGEST_SETTINGS: u64 = 256 * 1024;

/// The text of an agent's settings, if it is a file in one of the forms in which settings are written.
pub fn read_settings(file: &Path) -> Option<String> {
    let is_text = |kind: &str| ["json", "jsonc", "md", "toml"].contains(&kind);
    file.extension().and_then(OsStr::to_str).filter(|kind| is_text(kind))?;
    let found = file.symlink_metadata().ok()?;
    let read = || String::from_utf8(FileScope::Anywhere.read(file, LONGEST_SETTINGS).ok()?).ok();
    found.is_file().then(read)?
}

/// Copies files that a run begins with, unless it has them already. One that is a link is not copied: whoever made the
/// link would decide what the jail shows.
pub fn copy_state(copies: &[StateCopy]) -> io::Result<()> {
    for StateCopy { from, to } in copies.iter().filter(|copy| copy.to.symlink_metadata().is_err()) {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut source = match rustix::fs::open(from, flags, Mode::empty()) {
            Ok(source) => File::from(source),
            // The agent begins without it.
            Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS) => continue,
            Err(errno) => return Err(errno.into()),
        };
        if !source.metadata()?.is_file() {
            continue;
        }
        let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
        io::copy(&mut source, &mut copy)?;
    }
    Ok(())
}

/// Whether the user could read or change a path without a jail. What does not exist can be changed if it could be made.
pub fn could(path: &Path, wanted: Wanted) -> bool {
    let may = |path: &Path, access| rustix::fs::access(path, access).is_ok();
    match wanted {
        Wanted::Read => may(path, Access::READ_OK),
        Wanted::Write if path.symlink_metadata().is_ok() => may(path, Access::WRITE_OK),
        Wanted::Write => path.parent().is_some_and(|parent| may(parent, Access::WRITE_OK)),
    }
}

/// Makes the directories that a jail needs, for their owner alone. One that is a link, or is reached through one, is an
/// error: whoever made the link would decide what the jail shows.
pub fn create_directories(paths: &[PathBuf]) -> io::Result<()> {
    for path in paths {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        if path.canonicalize()? != *path {
            let text = format!("{} is reached through a link", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
