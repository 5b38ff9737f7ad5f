//! Where the versions of one package are: `<slot>/<version>/`, with `<slot>/current` pointing at the one in use, and
//! `<version>/program` at what is started.
//!
//! Invariant: a version's folder appears by one rename, complete and proven to start.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ostler_agent::package::Package;

use crate::install::Change;
use crate::install::error::InstallError;
use crate::install::workshop::{Workshop, create_private};
use crate::locate::executable;

/// Whether a tree found its place free.
pub(super) enum Adoption {
    Done,
    Taken,
}

pub(super) struct Slot {
    agents: PathBuf,
    folder: PathBuf,
}

impl Slot {
    pub(super) fn of(agents: &Path, package: &Package) -> Self {
        Self { agents: agents.to_owned(), folder: agents.join(package.slot) }
    }

    pub(super) fn version(&self, version: &str) -> PathBuf {
        self.folder.join(version)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file with the hashes that a version was first installed with.
    pub(super) fn record(&self, version: &str) -> PathBuf {
        self.folder.join(format!("{version}.lock.json"))
    }

    /// What that version starts, if it is there.
    pub(super) fn program(&self, version: &str) -> Option<PathBuf> {
        executable(&self.version(version).join("program"))
    }

    /// What the current version starts.
    pub(super) fn current_program(&self) -> Option<PathBuf> {
        self.program("current")
    }

    /// Where the current version's program should be, if there is a current version. It may be damaged.
    pub(super) fn current_link(&self) -> Option<PathBuf> {
        let current = self.folder.join("current");
        fs::symlink_metadata(&current).is_ok().then(|| current.join("program"))
    }

    /// Writes down which of the natives in a tree is the one to start. The link is relative: the tree will move.
    pub(super) fn record_program(&self, tree: &Path, native: &Path) -> Result<(), InstallError> {
        let link = tree.join("program");
        let failed = |source| InstallError::Folder { action: "write", path: link.clone(), source };
        let real = tree.canonicalize().map_err(failed)?;
        let target = native.strip_prefix(&real).map_err(|error| failed(io::Error::other(error)))?;
        symlink(target, &link).map_err(failed)
    }

    /// Moves a finished tree to its place, unless there is one already.
    pub(super) fn adopt(&self, version: &str, workshop: &Workshop) -> Result<Adoption, InstallError> {
        create_private(&self.folder)?;
        let path = self.version(version);
        match fs::rename(workshop.tree(), &path) {
            Ok(()) => Ok(Adoption::Done),
            Err(error) if is_taken(&error) => Ok(Adoption::Taken),
            Err(source) => Err(InstallError::Folder { action: "install into", path, source }),
        }
    }

    /// Takes a version away. It is removed with the workshop.
    pub(super) fn discard(&self, version: &str, workshop: &Workshop) -> Result<(), InstallError> {
        let path = self.version(version);
        fs::rename(&path, workshop.scrap()).map_err(|source| InstallError::Folder {
            action: "replace",
            path,
            source,
        })
    }

    /// Lets `current` point at that version, in one step.
    pub(super) fn make_current(&self, version: &str) -> Result<Change, InstallError> {
        let current = self.folder.join("current");
        if fs::read_link(&current).is_ok_and(|target| target == Path::new(version)) {
            return Ok(Change::None);
        }
        let workshop = Workshop::open(&self.agents)?;
        let swapped = symlink(version, workshop.link()).and_then(|()| fs::rename(workshop.link(), &current));
        swapped.map_err(|source| InstallError::Folder { action: "change", path: current, source })?;
        Ok(Change::Switched)
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}
