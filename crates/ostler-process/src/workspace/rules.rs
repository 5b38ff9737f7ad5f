//! What git ignores: `.gitignore` files from the top of the repository down, its own list, and the user's.
//!
//! They count also where there is no repository yet: whoever writes such a file says what is of no interest.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use rustix::fs::OFlags;

/// The file that a folder's rules are in.
pub(super) const RULES_FILE: &str = ".gitignore";

/// How much of one file is read: the longest in use have a few hundred lines.
const LONGEST_FILE: u64 = 256 * 1024;

/// How far up the top of a repository is looked for.
const MOST_LEVELS: usize = 64;

/// The rules of one folder, and those of the folders above.
#[derive(Debug)]
pub struct Rules {
    own: Gitignore,
    above: Option<Arc<Rules>>,
}

impl Rules {
    /// What holds at a workspace's root, apart from its own file.
    pub fn above(root: &Path) -> Option<Arc<Self>> {
        let is_top = |folder: &&Path| folder.join(".git").exists();
        let top = root.ancestors().take(MOST_LEVELS).find(is_top)?;
        let everywhere = gitconfig_excludes_path().and_then(|file| Self::read(top, &file, None));
        let mut rules = Self::read(top, &top.join(".git/info/exclude"), everywhere);
        let between: Vec<&Path> =
            root.ancestors().skip(1).take_while(|folder| folder.starts_with(top)).collect();
        for folder in between.into_iter().rev() {
            rules = Self::inside(folder, rules);
        }
        rules
    }

    /// What holds inside a folder, given what holds outside.
    pub fn inside(folder: &Path, above: Option<Arc<Self>>) -> Option<Arc<Self>> {
        Self::read(folder, &folder.join(RULES_FILE), above)
    }

    /// Whether an entry of this folder is ignored. The nearest rule decides.
    pub fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        let mut rules = Some(self);
        while let Some(level) = rules {
            match level.own.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = level.above.as_deref(),
            }
        }
        false
    }

    fn read(folder: &Path, file: &Path, above: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let Some(text) = text(file) else { return above };
        let mut builder = GitignoreBuilder::new(folder);
        for line in text.lines() {
            // A line that makes no sense is passed over, as git does.
            if let Err(error) = builder.add_line(None, line) {
                tracing::trace!(file = %file.display(), %error, "a rule was passed over");
            }
        }
        match builder.build() {
            Ok(own) if !own.is_empty() => Some(Arc::new(Self { own, above })),
            Ok(_) | Err(_) => above,
        }
    }
}

/// Git does not follow a link here either; and a pipe of that name must not hold us.
fn text(file: &Path) -> Option<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(i32::try_from(flags).ok()?).open(file).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a file of that name holds rules.
pub(super) fn is_rules_file(name: &OsStr) -> bool {
    name == RULES_FILE
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
