//! Where memory is kept, below one folder. Asking creates nothing.

use std::path::{Path, PathBuf};

use crate::key::{self, Passphrase};

/// The folder of memory, and what a person said to open it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
    passphrase: Option<Passphrase>,
    records: Option<PathBuf>,
}

impl Place {
    /// Below this folder, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), passphrase: None, records: None }
    }

    /// The same, for agents that keep their records below this directory and write whatever they like there: no link in it
    /// is followed, and no database in it is opened.
    pub fn with_records_below(self, directory: PathBuf) -> Self {
        Self { records: Some(directory), ..self }
    }

    /// The directory below which records are read; `None` if they are read wherever they are.
    pub(crate) fn records(&self) -> Option<&Path> {
        self.records.as_deref()
    }

    /// The same, for somebody who knows the passphrase.
    pub fn with_passphrase(self, passphrase: Option<Passphrase>) -> Self {
        Self { passphrase, ..self }
    }

    /// What was said to open it.
    pub(crate) fn passphrase(&self) -> Option<&Passphrase> {
        self.passphrase.as_ref()
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

    /// The key of the database.
    pub fn key(&self) -> PathBuf {
        self.root.join(key::FILE)
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
