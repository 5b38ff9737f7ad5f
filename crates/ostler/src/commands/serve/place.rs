//! The folder that a server works in. One server at a time has that of a home, with the sessions and conversations that
//! earlier ones left. Another server beside it has a folder of its own, which is gone with it: what one of them makes,
//! moves or removes is never the other's.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ostler_gateway::ground::tidy;
use ostler_gateway::pool::Shelf;
use tempfile::TempDir;

use super::ServeError;

/// Where sessions are noted. Whoever has it has the folder.
const PARKED: &str = "parked";

/// Where servers work that are not the first.
const BESIDE: &str = "beside";

/// Held by whoever makes or removes a folder there: one that was just made, and that nobody has yet, looks left behind.
const LOCK: &str = "lock";

/// A folder, and all that was noted in it.
pub(super) struct Place {
    /// For conversations and workspaces.
    pub(super) folder: PathBuf,
    pub(super) shelf: Shelf,
    /// Removed with the server, where it has one of its own.
    pub(super) own: Option<TempDir>,
}

impl Place {
    /// That of the home, or one beside it if another server has that.
    pub(super) fn take(home: &Path) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Shelf { path: home.to_owned(), source };
        match Shelf::open(&home.join(PARKED)).map_err(failed)? {
            Some(shelf) => {
                let folders: Vec<PathBuf> =
                    shelf.parked().into_iter().filter_map(|parked| parked.keepsake.folder).collect();
                tidy(home, &folders);
                sweep(home).map_err(failed)?;
                Ok(Self { folder: home.to_owned(), shelf, own: None })
            }
            None => beside(home).map_err(failed),
        }
    }
}

/// Nobody else makes or removes a folder there while this is held.
fn alone(beside: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(beside)?;
    let path = beside.join(LOCK);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    lock.lock()?;
    Ok(lock)
}

fn beside(home: &Path) -> io::Result<Place> {
    let beside = home.join(BESIDE);
    let _alone = alone(&beside)?;
    let own = tempfile::Builder::new().prefix("server-").tempdir_in(&beside)?;
    // It was made a moment ago: only we can have it.
    let shelf = Shelf::open(&own.path().join(PARKED))?.ok_or(io::ErrorKind::ResourceBusy)?;
    Ok(Place { folder: own.path().to_owned(), shelf, own: Some(own) })
}

/// Removes the folders of servers that were killed. One that somebody has stays.
fn sweep(home: &Path) -> io::Result<()> {
    let beside = home.join(BESIDE);
    if !beside.is_dir() {
        return Ok(());
    }
    let _alone = alone(&beside)?;
    for entry in std::fs::read_dir(&beside)?.flatten() {
        let path = entry.path();
        // What cannot be looked at is left where it is.
        let is_left = path.is_dir() && matches!(Shelf::open(&path.join(PARKED)), Ok(Some(_)));
        if is_left && let Err(error) = std::fs::remove_dir_all(&path) {
            tracing::warn!(target: "ostler::pool", %error, "what a server left could not be removed");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(place: &Place, name: &str) -> PathBuf {
        let folder = place.folder.join("workspaces").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("work"), "in progress").unwrap();
        folder.join("work")
    }

    /// Whoever came first ended, and its successor removed all that it did not know: the other's workspaces.
    #[test]
    fn a_server_that_is_restarted_leaves_the_workspaces_of_another_alone() {
        let home = tempfile::tempdir().unwrap();
        let first = Place::take(home.path()).unwrap();
        let second = Place::take(home.path()).unwrap();
        assert_eq!((first.folder.as_path(), first.own.is_none()), (home.path(), true));
        assert!(second.folder.starts_with(home.path().join(BESIDE)) && second.own.is_some());
        let (left, kept) = (work(&first, "a"), work(&second, "b"));
        drop(first);
        let first = Place::take(home.path()).unwrap();
        assert_eq!((first.own.is_none(), left.exists(), kept.exists()), (true, false, true));
        let third = Place::take(home.path()).unwrap();
        assert_ne!(third.folder, second.folder);
        let folder = second.folder.clone();
        drop(second);
        assert!(!folder.exists(), "it goes with its server");
    }

    #[test]
    fn what_a_killed_server_left_beside_is_swept() {
        let home = tempfile::tempdir().unwrap();
        let first = Place::take(home.path()).unwrap();
        let mut killed = Place::take(home.path()).unwrap();
        let folder = killed.own.take().unwrap().keep();
        work(&killed, "a");
        drop((first, killed));
        assert!(folder.exists());
        let _first = Place::take(home.path()).unwrap();
        assert!(!folder.exists());
    }
}
