//! Artifacts on disk: what was accepted, byte for byte, with its history, and the newest rejected draft of each kind.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::receipts::{Receipt, ReceiptKind};
use crate::secret::hex;

/// An artifact could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("could not write {}", .path.display())]
pub struct StoreError {
    /// Where.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// The folder `artifacts` of a run.
#[derive(Debug)]
pub(crate) struct Store(PathBuf);

impl Store {
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        let store = Self(folder.join("artifacts"));
        for folder in [store.0.clone(), store.0.join("history"), store.0.join("drafts")] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.map_err(|source| StoreError { path: folder, source })?;
        }
        Ok(store)
    }

    /// Keeps an accepted document: under its number in the history first, then in the place of the one before.
    pub(crate) fn accept(&self, kind: &str, number: u64, content: &str) -> Result<PathBuf, StoreError> {
        write(&self.0.join(format!("history/{number:04}-{kind}.md")), content)?;
        let path = self.0.join(format!("{kind}.md"));
        write(&path, content)?;
        // There is none if it was accepted at once.
        let _ = std::fs::remove_file(self.draft(kind));
        Ok(path)
    }

    /// Keeps a rejected document.
    pub(crate) fn reject(&self, kind: &str, content: &str) -> Result<(), StoreError> {
        write(&self.draft(kind), content)
    }

    fn draft(&self, kind: &str) -> PathBuf {
        self.0.join(format!("drafts/{kind}.md"))
    }
}

/// Whole or not at all: written beside its place, then renamed.
fn write(path: &Path, content: &str) -> Result<(), StoreError> {
    let beside = path.with_extension("md.new");
    let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
    made.and_then(|mut file| file.write_all(content.as_bytes()))
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|source| StoreError { path: path.to_owned(), source })
}

/// The newest accepted document of one kind.
#[derive(Debug)]
pub struct Artifact {
    /// Its kind.
    pub kind: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes, if they are those that were accepted.
    pub content: Result<Vec<u8>, Changed>,
}

/// Why a document is not the one that was accepted.
#[derive(Debug, thiserror::Error)]
pub enum Changed {
    /// It has other bytes.
    #[error("{} is not what was accepted: somebody changed it", .path.display())]
    Bytes {
        /// Which.
        path: PathBuf,
    },
    /// It is not there.
    #[error("could not read {}: {source}", .path.display())]
    Gone {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What receipts say of the newest document of each kind: its kind, and the hash of its bytes.
pub fn hashes(receipts: &[Receipt]) -> BTreeMap<String, String> {
    let artifacts = receipts.iter().filter(|receipt| receipt.kind == ReceiptKind::Artifact);
    let pairs = artifacts.filter_map(|receipt| receipt.field("type").zip(receipt.field("sha256")));
    pairs.map(|(kind, hash)| (kind.to_owned(), hash.to_owned())).collect()
}

/// The accepted documents of a run, from its folder.
pub fn artifacts(folder: &Path, hashes: &BTreeMap<String, String>) -> Vec<Artifact> {
    let one = |(kind, hash): (&String, &String)| {
        let path = folder.join("artifacts").join(format!("{kind}.md"));
        let content = match std::fs::read(&path) {
            Ok(bytes) if hex(&Sha256::digest(&bytes)) == *hash => Ok(bytes),
            Ok(_) => Err(Changed::Bytes { path: path.clone() }),
            Err(source) => Err(Changed::Gone { path: path.clone(), source }),
        };
        Artifact { kind: kind.clone(), path, content }
    };
    hashes.iter().map(one).collect()
}
