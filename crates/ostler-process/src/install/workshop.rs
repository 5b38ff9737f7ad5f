//! The temporary folder in which one install is made ready: `agents/.installing-…/`, on the file system of its
//! destination, so that one rename can move it.
//!
//! Its lock is held by us and by our npm. A workshop whose lock is free therefore belongs to nobody who lives, and
//! the next install removes it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::install::error::InstallError;

const PREFIX: &str = ".installing-";

/// Folders are readable by their owner only, and so are files.
const PRIVATE: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// Removed with all that is in it when dropped.
pub(super) struct Workshop {
    folder: TempDir,
    lock: File,
}

impl Workshop {
    /// Makes one, and removes those whose owners are dead.
    pub(super) fn open(agents: &Path) -> Result<Self, InstallError> {
        create_private(agents)?;
        let failed =
            |source| InstallError::Folder { action: "install into", path: agents.to_owned(), source };
        // Held while workshops are made and removed, so that none is taken for dead before it has its own lock.
        let private = |options: &mut OpenOptions, path: PathBuf| {
            options.write(true).mode(PRIVATE_FILE).open(path).map_err(failed)
        };
        let door = private(OpenOptions::new().create(true), agents.join(".lock"))?;
        flock(&door, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        remove_dead(agents);
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(PRIVATE))
            .tempdir_in(agents)
            .map_err(failed)?;
        let lock = private(OpenOptions::new().create_new(true), folder.path().join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|errno| failed(errno.into()))?;
        let workshop = Self { folder, lock };
        create_private(&workshop.tree())?;
        Ok(workshop)
    }

    /// The folder that agents are installed into.
    pub(super) fn destination(&self) -> &Path {
        self.folder.path().parent().unwrap_or(self.folder.path())
    }

    /// What will become the version's folder.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    /// All that is in it.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A free name for a folder in which npm tries to install one package.
    pub(super) fn trial(&self) -> PathBuf {
        self.folder.path().join("trial")
    }

    /// A free name for what is to be removed.
    pub(super) fn scrap(&self) -> PathBuf {
        self.folder.path().join("scrap")
    }

    /// A free name for a link.
    pub(super) fn link(&self) -> PathBuf {
        self.folder.path().join("link")
    }

    /// The lock as somebody's standard input: the workshop is in use until they too are gone.
    pub(super) fn share_lock(&self) -> Result<Stdio, InstallError> {
        let path = self.folder.path().join("lock");
        let shared = self.lock.try_clone();
        shared.map(Stdio::from).map_err(|source| InstallError::Folder { action: "lock", path, source })
    }
}

/// Creates a folder and its parents, all private.
pub(super) fn create_private(folder: &Path) -> Result<(), InstallError> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(folder).map_err(|source| InstallError::Folder {
        action: "create",
        path: folder.to_owned(),
        source,
    })
}

fn remove_dead(agents: &Path) {
    let Ok(entries) = fs::read_dir(agents) else { return };
    for entry in entries.flatten() {
        let is_workshop = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_workshop && is_dead(&entry.path()) {
            tracing::info!(folder = %entry.path().display(), "removing what an install left behind");
            if let Err(error) = fs::remove_dir_all(entry.path()) {
                tracing::warn!(%error, "could not remove it");
            }
        }
    }
}

fn is_dead(workshop: &Path) -> bool {
    match File::open(workshop.join("lock")) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workshops(agents: &Path) -> usize {
        let entries = fs::read_dir(agents).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)).count()
    }

    #[test]
    fn the_dead_are_removed_and_the_living_are_not() {
        let agents = tempfile::tempdir().unwrap();
        let living = Workshop::open(agents.path()).unwrap();
        fs::create_dir_all(agents.path().join(".installing-dead/tree/node_modules")).unwrap();
        fs::write(agents.path().join(".installing-dead/lock"), "").unwrap();
        fs::create_dir(agents.path().join(".installing-early")).unwrap();
        let next = Workshop::open(agents.path()).unwrap();
        assert!(living.tree().is_dir() && next.tree().is_dir());
        assert_eq!(workshops(agents.path()), 2);
        drop((living, next));
        assert_eq!(workshops(agents.path()), 0);
    }

    #[test]
    fn nobody_else_can_look_in() {
        let agents = tempfile::tempdir().unwrap();
        let workshop = Workshop::open(agents.path()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&agents.path().join(".lock")), 0o600);
        assert_eq!(mode(workshop.folder.path()), 0o700);
        assert_eq!(mode(&workshop.folder.path().join("lock")), 0o600);
        assert_eq!(mode(&workshop.tree()), 0o700);
    }

    #[tokio::test]
    async fn a_workshop_lives_as_long_as_a_child_that_was_given_its_lock() {
        let agents = tempfile::tempdir().unwrap();
        let workshop = Workshop::open(agents.path()).unwrap();
        let mut child = tokio::process::Command::new("/bin/sh")
            .args(["-c", "exec sleep 600"])
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .stdin(workshop.share_lock().unwrap())
            .spawn()
            .unwrap();
        let Workshop { folder, lock } = workshop;
        let folder = folder.keep();
        drop(lock);
        drop(Workshop::open(agents.path()).unwrap());
        assert!(folder.is_dir());
        child.kill().await.unwrap();
    }
}
