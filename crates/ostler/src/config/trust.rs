//! The projects that 0.1 trusted, by their paths: whatever their `.ostler/config.toml` says is obeyed. Nothing is added to
//! the list any more; what is trusted now is bound to the content of files (`ostler_process::trust`).

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ostler_agent::document::{Document, Format, Mistake};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::file;

/// The list's format.
const VERSION: u32 = 1;

/// The list is readable by its owner only.
const PRIVATE: u32 = 0o600;

/// The list, as it is in the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trust {
    v: u32,
    /// Folders, absolute and without symbolic links.
    projects: Vec<PathBuf>,
}

/// Why the list cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error("{} is not a folder", .path.display())]
    NoFolder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the name of the folder {} is not UTF-8", .path.display())]
    NotUtf8 { path: PathBuf },
    #[error(transparent)]
    Mistake(#[from] Mistake),
    #[error("could not read the list of trusted projects {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not write the list of trusted projects {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl TrustError {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoFolder { .. } => "name a folder that exists".to_owned(),
            Self::NotUtf8 { .. } => {
                "rename it: the list of trusted projects is JSON, which has no other names".to_owned()
            }
            Self::Mistake(mistake) => format!("remove {} and trust your projects again", mistake.file),
            Self::Read { .. } => "check that the file is yours".to_owned(),
            Self::Write { .. } => "set OSTLER_HOME to a folder that you can write to".to_owned(),
        })
    }
}

impl Trust {
    /// Reads the list; none is an empty one.
    pub(crate) fn read(list: &Path) -> Result<Self, TrustError> {
        let read = file::read(list).map_err(|source| TrustError::Read { path: list.to_owned(), source })?;
        let Some(text) = read else { return Ok(Self { v: VERSION, projects: Vec::new() }) };
        let document = Document::new(list.display().to_string(), text, Format::Json);
        let trust: Self = document.read()?;
        if trust.v != VERSION {
            let problem = format!("this Ostler reads version {VERSION}, not {}", trust.v);
            return Err(document.mistake(&[], problem, None).into());
        }
        Ok(trust)
    }

    /// Whether that very folder is on the list.
    pub(crate) fn covers(&self, project: &Path) -> bool {
        project.canonicalize().is_ok_and(|real| self.projects.contains(&real))
    }

    /// Reads the list, changes it and writes it, with nobody else doing so in between. Its folder must exist.
    pub(crate) fn change<T>(list: &Path, change: impl FnOnce(&mut Self) -> T) -> Result<T, TrustError> {
        let failed = |source| TrustError::Write { path: list.to_owned(), source };
        // A file of its own, because the list itself is replaced. It stays: to remove it would be to let two in.
        let door = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(PRIVATE)
            .open(list.with_extension("lock"))
            .map_err(failed)?;
        flock(&door, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        let mut trust = Self::read(list)?;
        let changed = change(&mut trust);
        trust.write(list)?;
        Ok(changed)
    }

    /// Removes a folder, and tells whether it was there.
    pub(crate) fn remove(&mut self, project: &Path) -> bool {
        let before = self.projects.len();
        self.projects.retain(|trusted| trusted != project);
        before != self.projects.len()
    }

    /// All of them.
    pub(crate) fn projects(&self) -> &[PathBuf] {
        &self.projects
    }

    /// Replaces the list, in one step.
    fn write(&self, list: &Path) -> Result<(), TrustError> {
        let failed = |source| TrustError::Write { path: list.to_owned(), source };
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        let folder = list.parent().unwrap_or(Path::new("."));
        let mut fresh = tempfile::Builder::new()
            .permissions(Permissions::from_mode(PRIVATE))
            .tempfile_in(folder)
            .map_err(failed)?;
        fresh.write_all(&text).and_then(|()| fresh.as_file().sync_all()).map_err(failed)?;
        fresh.persist(list).map(drop).map_err(|error| failed(error.error))
    }
}

/// The name by which the list knows a folder.
pub(crate) fn folder(path: &Path) -> Result<PathBuf, TrustError> {
    let failed = |source| TrustError::NoFolder { path: path.to_owned(), source };
    let real = path.canonicalize().map_err(failed)?;
    if real.to_str().is_none() {
        return Err(TrustError::NotUtf8 { path: real });
    }
    if real.is_dir() { Ok(real) } else { Err(failed(io::ErrorKind::NotADirectory.into())) }
}
