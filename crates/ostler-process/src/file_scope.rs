//! Files that the host reads and writes for an agent, in directories where the agent writes too. What a jailed agent put
//! there must not lead the host elsewhere, as a link would, nor hold it, as a pipe or an endless file would.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, linkat, mkdirat, open, openat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;
use uuid::Uuid;

/// Which files the host may open for an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FileScope {
    /// Any, also through links: those of an agent that has the rights of the user.
    #[default]
    Anywhere,
    /// Only those below these directories, without following a link there. The way to the directories themselves is
    /// trusted.
    Below(Vec<PathBuf>),
}

/// What to do about a directory that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Fail,
}

impl FileScope {
    /// Opens a regular file for reading. Never waits, as a pipe would.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = match self.root_of(path)? {
            None => open(path, flags, Mode::empty())?,
            Some(root) => {
                let (parent, name) = split(path)?;
                let parent = walk(root, parent, Missing::Fail)?;
                openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::empty())?
            }
        };
        let file = File::from(opened);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        }
    }

    /// Reads a file that has at most `longest` bytes.
    pub fn read(&self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        let (file, mut content) = (self.open(path)?, Vec::new());
        file.take(longest.saturating_add(1)).read_to_end(&mut content)?;
        match content.len() as u64 > longest {
            true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {longest} bytes"))),
            false => Ok(content),
        }
    }

    /// Opens a directory.
    pub fn open_directory(&self, path: &Path) -> io::Result<ScopedDirectory> {
        Ok(ScopedDirectory(match self.root_of(path)? {
            Some(root) => walk(root, path, Missing::Fail)?,
            None => open(path, DIRECTORY, Mode::empty())?,
        }))
    }

    /// Opens a directory, for its owner alone if it has to be made.
    pub fn create_directory(&self, path: &Path) -> io::Result<ScopedDirectory> {
        let handle = match self.root_of(path)? {
            Some(root) => walk(root, path, Missing::Create)?,
            None => {
                DirBuilder::new().recursive(true).mode(0o700).create(path)?;
                open(path, DIRECTORY, Mode::empty())?
            }
        };
        Ok(ScopedDirectory(handle))
    }

    /// The directory of ours that a path is below; `None` where any path may be opened.
    fn root_of(&self, path: &Path) -> io::Result<Option<&Path>> {
        let Self::Below(roots) = self else { return Ok(None) };
        match roots.iter().find(|root| path.starts_with(root)) {
            Some(root) => Ok(Some(root)),
            None => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "not one of the agent's directories"))
            }
        }
    }
}

/// Whether a file outlasts a power failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    Synced,
    /// It is written anew at the next start.
    Cached,
}

/// A directory. What is done in it is done there, whatever takes its place meanwhile.
#[derive(Debug)]
pub struct ScopedDirectory(OwnedFd);

impl ScopedDirectory {
    /// Writes a file for its owner alone, in place of what has this name. A link is replaced, not followed.
    pub fn replace_file(&self, name: &Path, content: &[u8]) -> io::Result<()> {
        let draft = self.write_draft(content, Durability::Cached)?;
        let renamed = renameat(&self.0, &draft, &self.0, name);
        if renamed.is_err() {
            let _ = unlinkat(&self.0, &draft, AtFlags::empty());
        }
        renamed.map_err(io::Error::from)
    }

    /// Writes a file for its owner alone, whole or not at all. Fails if the name is taken.
    pub fn create_file(&self, name: &Path, content: &[u8]) -> io::Result<()> {
        let draft = self.write_draft(content, Durability::Synced)?;
        let linked = linkat(&self.0, &draft, &self.0, name, AtFlags::empty());
        unlinkat(&self.0, &draft, AtFlags::empty())?;
        linked.map_err(io::Error::from)
    }

    /// Makes a link, in place of a file or link of this name.
    pub fn replace_link(&self, name: &Path, target: &Path) -> io::Result<()> {
        self.remove_file(name)?;
        symlinkat(target, &self.0, name).map_err(io::Error::from)
    }

    /// Removes a file or link, if it is there.
    pub fn remove_file(&self, name: &Path) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Under a name that no agent takes for one of its files.
    fn write_draft(&self, content: &[u8], durability: Durability) -> io::Result<String> {
        let draft = format!(".{}.draft", Uuid::new_v4());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.0, &draft, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file.write_all(content).and_then(|()| match durability {
            Durability::Synced => file.sync_data(),
            Durability::Cached => Ok(()),
        });
        if written.is_err() {
            let _ = unlinkat(&self.0, &draft, AtFlags::empty());
        }
        written.map(|()| draft)
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The directory that a path is in, and its name there.
pub(crate) fn split(path: &Path) -> io::Result<(&Path, &Path)> {
    let found = path.parent().zip(path.file_name());
    found.map(|(parent, name)| (parent, Path::new(name))).ok_or_else(|| outside(path))
}

/// Goes from `root` to a directory below it, step by step, through no link.
fn walk(root: &Path, path: &Path, missing: Missing) -> io::Result<OwnedFd> {
    let mut directory = open(root, DIRECTORY, Mode::empty())?;
    let steps = path.strip_prefix(root).map_err(|_| outside(path))?;
    for step in steps.components() {
        let Component::Normal(name) = step else { return Err(outside(path)) };
        let next = || openat(&directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        let opened = match next() {
            Err(Errno::NOENT) if missing == Missing::Create => {
                match mkdirat(&directory, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                next()
            }
            opened => opened,
        };
        directory = opened.map_err(io::Error::from)?;
    }
    Ok(directory)
}

fn outside(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} leads out of its directory", path.display()))
}

#[cfg(test)]
#[path = "file_scope_tests.rs"]
mod tests;
