//! Opening what is in the workspace, and nothing else.
//!
//! The kernel resolves every path below the descriptor of the workspace (`openat2`), so a link that is put in the way in
//! the meantime leads nowhere either. Links inside the workspace are followed for reading. For writing none is, so that
//! the words of a path are its folders, and `.git` cannot hide behind another name. Nothing is opened before its kind is
//! known: a pipe would wait, a device could do anything.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, open, openat2};
use rustix::io::Errno;

use crate::event::Barred;

/// How often a path is resolved again while somebody moves folders that it leads through.
const MOST_TRIES: usize = 64;

/// The folder in which git keeps what it is told to run.
const REPOSITORY: &str = ".git";

/// Why something in the workspace could not be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The path is not gone to. The run is told.
    Barred { path: String, why: Barred },
    /// Anything else, as a sentence for the agent.
    Failed(String),
}

/// What a path may lead through.
#[derive(Clone, Copy)]
enum Links {
    /// Links that stay inside.
    Inside,
    /// None.
    None,
}

/// The workspace, held open.
#[derive(Debug)]
pub(super) struct Beneath {
    root: OwnedFd,
    path: PathBuf,
}

/// Something that is there, not yet opened.
#[derive(Debug)]
pub(super) struct Found {
    held: OwnedFd,
    pub(super) stat: Stat,
}

/// Where a file is to be written.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: OwnedFd,
    pub(super) name: OsString,
}

impl Beneath {
    pub(super) fn open(workspace: &Path) -> Result<Self, Fault> {
        let opened = open(workspace, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let root = opened.map_err(|errno| {
            Fault::Failed(format!(
                "The workspace cannot be opened ({errno}). No tool of it works until a person looks at it."
            ))
        })?;
        Ok(Self { root, path: workspace.to_owned() })
    }

    /// What a path leads to, links inside the workspace followed.
    pub(super) fn find(&self, path: &str) -> Result<Found, Fault> {
        let relative = self.relative(path)?;
        let held = resolve(&self.root, relative.as_os_str(), OFlags::PATH, Links::Inside);
        let held = held.map_err(|errno| fault(path, errno))?;
        let stat = fstat(&held).map_err(|errno| fault(path, errno))?;
        Ok(Found { held, stat })
    }

    /// A regular file, opened for reading.
    pub(super) fn file(&self, path: &str) -> Result<(File, Stat), Fault> {
        let found = self.find(path)?;
        match found.kind() {
            FileType::RegularFile => {}
            FileType::Directory => {
                let words = format!("`{path}` is a folder. `list_files` shows what is in it.");
                return Err(Fault::Failed(words));
            }
            _ => return Err(Fault::Barred { path: path.to_owned(), why: Barred::Special }),
        }
        let file = found.open(OFlags::NONBLOCK | OFlags::NOCTTY).map_err(|errno| fault(path, errno))?;
        Ok((File::from(file), found.stat))
    }

    /// A folder, opened so that it can be read.
    pub(super) fn folder(&self, path: &str) -> Result<OwnedFd, Fault> {
        let found = self.find(path)?;
        if found.kind() != FileType::Directory {
            let words = format!("`{path}` is not a folder. Name one, or leave `path` out for the workspace.");
            return Err(Fault::Failed(words));
        }
        found.open(OFlags::DIRECTORY).map_err(|errno| fault(path, errno))
    }

    /// A folder inside one that is open, for a walk: no link is followed, no other file system entered.
    pub(super) fn step(folder: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(folder, name, flags, Mode::empty(), resolve)
    }

    /// A regular file in a folder that is open, for a walk. Nothing else is opened.
    pub(super) fn entry(folder: impl AsFd, name: &OsStr) -> Result<Option<(File, Stat)>, Errno> {
        let held = resolve(folder, name, OFlags::PATH, Links::None)?;
        let found = Found { stat: fstat(&held)?, held };
        if found.kind() != FileType::RegularFile {
            return Ok(None);
        }
        let file = found.open(OFlags::NONBLOCK | OFlags::NOCTTY)?;
        Ok(Some((File::from(file), found.stat)))
    }

    /// Where a file is to be written. Folders that are missing are made.
    pub(super) fn place(&self, path: &str) -> Result<Place, Fault> {
        let barred = |why| Fault::Barred { path: path.to_owned(), why };
        let relative = self.relative(path)?;
        let mut names: Vec<&OsStr> = relative.iter().filter(|name| *name != ".").collect();
        if names.iter().any(|name| name.eq_ignore_ascii_case(REPOSITORY)) {
            return Err(barred(Barred::Repository));
        }
        let Some(name) = names.pop().filter(|_| !path.ends_with('/')) else {
            return Err(Fault::Failed(format!("`{path}` is a folder. Name a file in it.")));
        };
        let mut folder = self.root.try_clone().map_err(|error| Fault::Failed(error.to_string()))?;
        for part in names {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let opened = match resolve(&folder, part, flags, Links::None) {
                Err(Errno::NOENT) => match mkdirat(&folder, part, Mode::from_raw_mode(0o777)) {
                    // Somebody else made it: as good.
                    Ok(()) | Err(Errno::EXIST) => resolve(&folder, part, flags, Links::None),
                    Err(errno) => Err(errno),
                },
                opened => opened,
            };
            folder = opened.map_err(|errno| fault(path, errno))?;
        }
        Ok(Place { folder, name: name.to_owned() })
    }

    /// The path as the kernel gets it, or why it does not.
    fn relative<'p>(&self, path: &'p str) -> Result<&'p Path, Fault> {
        let barred = |why| Err(Fault::Barred { path: path.to_owned(), why });
        if path.contains('\0') {
            return Err(Fault::Failed("The path contains a NUL character, which no path has.".to_owned()));
        }
        let given = Path::new(path);
        for part in given.components() {
            match part {
                Component::RootDir | Component::Prefix(_) => return barred(Barred::Absolute),
                Component::ParentDir => return barred(Barred::Parent),
                Component::CurDir | Component::Normal(_) => {}
            }
        }
        Ok(if path.is_empty() { Path::new(".") } else { given })
    }

    /// What was probably meant by an absolute path, if it is inside.
    pub(super) fn inside<'p>(workspace: &Path, path: &'p str) -> Option<&'p str> {
        let rest = Path::new(path).strip_prefix(workspace).ok()?.to_str()?;
        (!rest.is_empty()).then_some(rest)
    }

    /// Where it is, for what takes paths only.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Found {
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Opens what was found, whatever is at its path by now.
    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let held = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        open(held, flags | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Where it really is, for what takes paths only.
    pub(super) fn real_path(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.held.as_raw_fd())).ok()
    }
}

fn resolve(folder: impl AsFd, path: &OsStr, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let how = match links {
        Links::Inside => beneath,
        Links::None => beneath | ResolveFlags::NO_SYMLINKS,
    };
    let mut tried = 0;
    loop {
        tried += 1;
        match openat2(&folder, path, flags | OFlags::CLOEXEC, Mode::empty(), how) {
            Err(Errno::AGAIN | Errno::INTR) if tried < MOST_TRIES => {}
            done => return done,
        }
    }
}

/// What it means that a path could not be opened.
pub(super) fn fault(path: &str, errno: Errno) -> Fault {
    let barred = |why| Fault::Barred { path: path.to_owned(), why };
    match errno {
        Errno::XDEV => barred(Barred::Outside),
        Errno::LOOP => barred(Barred::Link),
        // What a socket says to whoever opens it.
        Errno::NXIO => barred(Barred::Special),
        Errno::NOENT => Fault::Failed(format!(
            "There is no `{path}` in the workspace. `list_files` shows what there is."
        )),
        Errno::NOTDIR => Fault::Failed(format!(
            "`{path}` leads through something that is not a folder. `list_files` shows what there is."
        )),
        Errno::ACCESS | Errno::PERM => {
            Fault::Failed(format!("`{path}` is not permitted to this user ({errno}). Go on without it."))
        }
        Errno::NAMETOOLONG => Fault::Failed("The path is too long. Use a shorter one.".to_owned()),
        Errno::NOSYS => Fault::Failed(
            "The kernel of this machine is too old to keep paths inside the workspace (it lacks `openat2`). Go on \
             without this tool."
                .to_owned(),
        ),
        errno => Fault::Failed(format!("`{path}` cannot be used: {errno}. Try once more, or go on without it.")),
    }
}
