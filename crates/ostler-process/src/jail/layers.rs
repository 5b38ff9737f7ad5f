//! The layers that take what builds write to the caches of toolchains: private per project, below Ostler's own directory.
//!
//! ```text
//! layers/HASH/project      the project's path; its time is that of the last run
//! layers/HASH/0.lock       locked by the run that uses the layers beside it
//! layers/HASH/0/cargo/…    one directory for each cache
//! ```
//!
//! Two runs must not mount one layer at once: the kernel gives no guarantee for what they would read. So a run that finds the
//! first set of layers in use takes the next, and with all in use it has none.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

/// The directory of all layers, below Ostler's own.
pub const LAYERS: &str = "layers";

/// Sets of layers of one project. Each begins empty, so that more of them would mostly be filled anew.
const MOST_SETS: usize = 4;

const PROJECT: &str = "project";

/// Bytes of a project's hash: enough that no two projects of one user meet.
const HASH_BYTES: usize = 16;

/// A set of layers that this process alone may mount, until it is dropped.
#[derive(Debug)]
pub struct Layers {
    folder: PathBuf,
    _lock: File,
}

impl Layers {
    /// A free set of layers for a project, which is a path without links. `None` if all are in use, or if none can be made
    /// there: a run does without them.
    pub fn claim(root: &Path, project: &Path) -> Option<Self> {
        Self::try_claim(root, project).unwrap_or_else(|error| {
            tracing::debug!(target: "ostler::run", %error, "there are no layers");
            None
        })
    }

    fn try_claim(root: &Path, project: &Path) -> io::Result<Option<Self>> {
        let own = root.join(hash(project));
        DirBuilder::new().recursive(true).mode(0o700).create(&own)?;
        for number in 0..MOST_SETS {
            let Some(lock) = lock(&own, number)? else { continue };
            fs::write(own.join(PROJECT), project.as_os_str().as_bytes())?;
            return Ok(Some(Self { folder: own.join(number.to_string()), _lock: lock }));
        }
        Ok(None)
    }

    /// Where they are. It need not exist.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn hash(project: &Path) -> String {
    let digest = Sha256::digest(project.as_os_str().as_bytes());
    digest.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The lock of a set, unless another run holds it.
fn lock(project: &Path, number: usize) -> io::Result<Option<File>> {
    let path = project.join(format!("{number}.lock"));
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Layers that no run needs any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldLayers {
    /// The project.
    pub project: PathBuf,
    /// How much there is on disk.
    pub bytes: u64,
    folder: PathBuf,
}

/// The layers of projects that are gone, or that had no run since `time`. Those that a run holds are left out.
pub fn older_than(root: &Path, time: SystemTime) -> Vec<OldLayers> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut old: Vec<OldLayers> = entries.filter_map(|entry| find_old(&entry.path(), time)).collect();
    old.sort_by(|left, right| left.project.cmp(&right.project));
    old
}

fn find_old(folder: &Path, time: SystemTime) -> Option<OldLayers> {
    let note = folder.join(PROJECT);
    let project = PathBuf::from(OsStr::from_bytes(&fs::read(&note).ok()?));
    let is_unused = note.metadata().and_then(|found| found.modified()).is_ok_and(|used| used < time);
    let is_gone = matches!(project.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let is_free = || locks(folder).is_ok_and(|locks| locks.is_some());
    let is_old = (is_unused || is_gone) && is_free();
    is_old.then(|| OldLayers { project, bytes: size(folder), folder: folder.to_owned() })
}

/// All locks of a project; nothing, if a run holds one.
fn locks(folder: &Path) -> io::Result<Option<Vec<File>>> {
    (0..MOST_SETS)
        .map(|number| lock(folder, number).transpose())
        .collect::<Option<io::Result<_>>>()
        .transpose()
}

/// Removes them, unless a run has taken them meanwhile. Answers whether they were removed.
pub fn remove(old: &OldLayers) -> io::Result<bool> {
    // Held until all is gone.
    let Some(_locks) = locks(&old.folder)? else { return Ok(false) };
    open_directories(&old.folder)?;
    fs::remove_dir_all(&old.folder)?;
    Ok(true)
}

/// Makes all directories removable: the kernel's own is closed to everybody, and toolchains make some read-only.
fn open_directories(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_directories(&entry.path())?;
        }
    }
    Ok(())
}

/// What a directory takes on disk, as far as it can be read. Links are not followed.
fn size(path: &Path) -> u64 {
    let Ok(found) = path.symlink_metadata() else { return 0 };
    let below = if found.is_dir() { fs::read_dir(path).ok() } else { None };
    let below = below.into_iter().flatten().flatten().map(|entry| size(&entry.path()));
    found.blocks() * 512 + below.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn runs_of_one_project_at_once_never_share_layers() {
        let root = tempfile::tempdir().unwrap();
        let claim = |project: &str| Layers::claim(root.path(), Path::new(project));
        let held: Vec<Layers> = (0..MOST_SETS).map(|_| claim("/p").unwrap()).collect();
        let mut folders: Vec<&Path> = held.iter().map(Layers::folder).collect();
        folders.dedup();
        assert_eq!(folders.len(), MOST_SETS);
        assert!(claim("/p").is_none());
        let other = claim("/q").unwrap();
        assert!(held.iter().all(|layers| layers.folder() != other.folder()));
        let first = held[0].folder().to_owned();
        drop(held);
        assert_eq!(claim("/p").unwrap().folder(), first);
    }

    #[test]
    fn layers_of_vanished_and_unused_projects_are_removed_unless_a_run_holds_them() {
        let (root, projects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let project = |name: &str| projects.path().join(name);
        let claim = |name: &str| {
            fs::create_dir(project(name)).unwrap();
            let layers = Layers::claim(root.path(), &project(name)).unwrap();
            let closed = layers.folder().join("cargo/work/work");
            fs::create_dir_all(&closed).unwrap();
            fs::write(layers.folder().join("cargo/file"), "x").unwrap();
            fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
            layers
        };
        let (held, kept, gone) = (claim("held"), claim("kept"), claim("gone"));
        drop((kept, gone));
        for name in ["held", "gone"] {
            fs::remove_dir(project(name)).unwrap();
        }
        let names = |old: &[OldLayers]| old.iter().map(|old| old.project.clone()).collect::<Vec<_>>();
        let old = older_than(root.path(), SystemTime::UNIX_EPOCH);
        assert_eq!(names(&old), [project("gone")]);
        assert!(old[0].bytes > 0 && remove(&old[0]).unwrap());
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(names(&older_than(root.path(), later)), [project("kept")]);
        drop(held);
        for old in older_than(root.path(), later) {
            assert!(remove(&old).unwrap());
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        assert_eq!(older_than(&root.path().join("none"), later), []);
    }
}
