//! Where memory is kept, below one folder. Asking creates nothing.

use std::path::{Path, PathBuf};

/// The folder of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// Below this folder, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What was taken down and is not in the store yet.
    pub fn deferred(&self) -> PathBuf {
        self.root.join("deferred")
    }

    /// How far each transcript was read.
    pub fn cursors(&self) -> PathBuf {
        self.root.join("cursors")
    }

    /// What could not be stored, with the reason.
    pub fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// The database.
    pub fn store(&self) -> PathBuf {
        self.root.join("memory.db")
    }

    /// Where a daemon answers, if one runs.
    pub fn socket(&self) -> PathBuf {
        self.root.join("daemon.sock")
    }

    /// Held by the one daemon.
    pub fn daemon_lock(&self) -> PathBuf {
        self.root.join("daemon.lock")
    }

    /// The model for vectors.
    pub fn model(&self) -> PathBuf {
        self.root.join("model")
    }

    /// One word: what is done with secrets. See [`crate::redaction::Policy`].
    pub fn policy(&self) -> PathBuf {
        self.root.join("redaction")
    }

    /// Copies of settings files from before we changed them.
    pub fn backups(&self) -> PathBuf {
        self.root.join("backups")
    }
}
