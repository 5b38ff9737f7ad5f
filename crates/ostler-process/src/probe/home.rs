//! The home that a program is given when it is tried: below a folder of Ostler's, so that whatever a killed Ostler left
//! there is found and removed; a temporary one where there is no such folder.
//!
//! It is locked by us. A home whose lock is free belongs to nobody who lives.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// Folders are readable by their owner only.
const PRIVATE: u32 = 0o700;

/// How often the folder of all homes may be removed by others before we are in it, which takes microseconds.
const ATTEMPTS: u32 = 8;

/// Removed with all that is in it when dropped.
#[derive(Debug)]
pub(super) struct Home {
    /// Dropped first.
    folder: TempDir,
    _lock: File,
    _homes: Homes,
}

/// The folder of all homes. Goes with the last of them.
#[derive(Debug)]
struct Homes(PathBuf);

impl Drop for Homes {
    fn drop(&mut self) {
        // It is not empty while others are in it.
        let _ = fs::remove_dir(&self.0);
    }
}

impl Home {
    /// Makes one, and removes those whose owners are dead.
    pub(super) fn open(homes: &Path) -> io::Result<Self> {
        let mut made = Err(io::ErrorKind::NotFound.into());
        // Ostler's own folder is made by whoever is about to keep something there.
        if homes.parent().is_some_and(Path::is_dir) {
            for _ in 0..ATTEMPTS {
                made = Self::below(homes);
                match &made {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Ok(_) | Err(_) => break,
                }
            }
        }
        made.or_else(|_| Self::made_in(&std::env::temp_dir(), PathBuf::new()))
    }

    fn below(homes: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(PRIVATE).create(homes)?;
        // Held while homes are made and removed, so that none is taken for dead before it has its own lock.
        let _door = locked(homes, FlockOperation::LockExclusive)?;
        remove_dead(homes);
        Self::made_in(homes, homes.to_owned())
    }

    fn made_in(place: &Path, homes: PathBuf) -> io::Result<Self> {
        let private = Permissions::from_mode(PRIVATE);
        let folder =
            tempfile::Builder::new().prefix("ostler-probe-").permissions(private).tempdir_in(place)?;
        let lock = locked(folder.path(), FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { folder, _lock: lock, _homes: Homes(homes) })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the homes that dead owners left.
pub(super) fn sweep(homes: &Path) {
    if let Ok(_door) = locked(homes, FlockOperation::NonBlockingLockExclusive) {
        remove_dead(homes);
        drop(Homes(homes.to_owned()));
    }
}

fn locked(folder: &Path, how: FlockOperation) -> io::Result<File> {
    let opened = File::open(folder)?;
    flock(&opened, how)?;
    Ok(opened)
}

fn remove_dead(homes: &Path) {
    for entry in fs::read_dir(homes).into_iter().flatten().flatten() {
        if let Ok(_lock) = locked(&entry.path(), FlockOperation::NonBlockingLockExclusive)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::debug!(%error, "could not remove what a probe left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_removed_the_living_are_not_and_nothing_stays() {
        let ostler = tempfile::tempdir().unwrap();
        let homes = ostler.path().join("probes");
        fs::create_dir_all(homes.join("ostler-probe-dead/.codex")).unwrap();
        let living = Home::open(&homes).unwrap();
        assert_eq!(fs::read_dir(&homes).unwrap().count(), 1);
        fs::create_dir(homes.join("ostler-probe-dead")).unwrap();
        sweep(&homes);
        assert_eq!(fs::read_dir(&homes).unwrap().count(), 1);
        let next = Home::open(&homes).unwrap();
        assert!(living.path().is_dir() && next.path().is_dir());
        drop((living, next));
        assert!(!homes.exists());
    }

    #[test]
    fn without_a_folder_of_ostlers_it_is_a_temporary_one() {
        let nowhere = tempfile::tempdir().unwrap().path().join("none/probes");
        let home = Home::open(&nowhere).unwrap();
        assert!(home.path().starts_with(std::env::temp_dir()) && !nowhere.exists());
    }
}
