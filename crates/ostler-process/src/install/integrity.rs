//! The hashes that an install is held to: those of this release, those that the first install of a version recorded, or
//! those that the registry announces now, which are recorded.
//!
//! A record is `<version>.lock.json` beside the version's folder. It stays when the version is removed.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ostler_agent::package::Package;
use ostler_agent::package::lock::{LockError, Mismatch, PackageLock};

use crate::install::error::InstallError;
use crate::install::slot::Slot;
use crate::install::workshop::create_private;

/// Where the hashes of an install come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashSource {
    /// This release has them.
    Pinned,
    /// An earlier install of the same version recorded them.
    Recorded {
        /// The record.
        record: PathBuf,
    },
    /// The registry announced them, and they are recorded now. Those that this release has were compared.
    Registry {
        /// The record.
        record: PathBuf,
    },
}

/// The hashes of what was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integrity {
    /// Where they come from.
    pub source: HashSource,
    /// Each package with its sha512, as npm writes it.
    pub packages: Vec<(String, String)>,
}

/// A lock, and where it comes from.
pub(super) struct TrustedLock {
    pub(super) lock: PackageLock,
    pub(super) source: HashSource,
}

impl TrustedLock {
    /// The one for that version that needs no registry, if there is one.
    pub(super) fn find(
        slot: &Slot,
        package: &'static Package,
        version: &str,
    ) -> Result<Option<Self>, InstallError> {
        let pins = PackageLock::pinned(package, version);
        let record = slot.record(version);
        if let Some(lock) = read(&record, package, version, pins.as_ref())? {
            return Ok(Some(Self { lock, source: HashSource::Recorded { record } }));
        }
        let covers = |lock: &PackageLock| lock.covers(package, std::env::consts::OS, std::env::consts::ARCH);
        Ok(pins.filter(covers).map(|lock| Self { lock, source: HashSource::Pinned }))
    }

    /// The one that npm wrote by what the registry announces.
    pub(super) fn from_npm(
        slot: &Slot,
        package: &'static Package,
        version: &str,
        text: &str,
    ) -> Result<Self, InstallError> {
        let pins = PackageLock::pinned(package, version);
        match PackageLock::parse(package, version, text, pins.as_ref()) {
            Ok(lock) => Ok(Self { lock, source: HashSource::Registry { record: slot.record(version) } }),
            Err(LockError::Differs(mismatch)) => {
                Err(InstallError::Integrity { mismatch, expected_by: HashSource::Pinned })
            }
            Err(source) => Err(InstallError::Lock { package: package.npm, source }),
        }
    }

    /// The error for a package that has another hash.
    pub(super) fn refuse(&self, mismatch: Mismatch) -> InstallError {
        InstallError::Integrity { mismatch: Box::new(mismatch), expected_by: self.source.clone() }
    }

    /// Records hashes that are new. An install at the same time may have recorded others: those hold.
    pub(super) fn record(
        &self,
        slot: &Slot,
        package: &'static Package,
        version: &str,
    ) -> Result<(), InstallError> {
        let HashSource::Registry { record } = &self.source else { return Ok(()) };
        let failed = |source| InstallError::Folder { action: "write", path: record.clone(), source };
        create_private(slot.folder())?;
        let mut file = tempfile::NamedTempFile::new_in(slot.folder()).map_err(failed)?;
        file.write_all(self.lock.project().lock.as_bytes()).map_err(failed)?;
        file.as_file().sync_data().map_err(failed)?;
        match file.persist_noclobber(record) {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                let Some(earlier) = read(record, package, version, None)? else { return Ok(()) };
                earlier.difference(&self.lock).map_or(Ok(()), |mismatch| {
                    let expected_by = HashSource::Recorded { record: record.clone() };
                    Err(InstallError::Integrity { mismatch: Box::new(mismatch), expected_by })
                })
            }
            Err(error) => Err(failed(error.error)),
        }
    }

    /// What was installed into a tree, and by which hashes. Those that the registry announced are pinned if this release has
    /// all of them: it may lack only those of other platforms.
    pub(super) fn of_tree(&self, package: &Package, version: &str, tree: &Path) -> Integrity {
        let lock = self.lock.for_platform(std::env::consts::OS, std::env::consts::ARCH);
        let installed = lock.hashes().filter(|(place, _)| is_installed(tree, place));
        let packages = installed.map(|(place, hash)| {
            let name = place.rsplit_once("node_modules/").map_or(place, |(_, name)| name);
            (name.to_owned(), hash.to_owned())
        });
        let packages: Vec<(String, String)> = packages.collect();
        let pins = PackageLock::pinned(package, version);
        let is_pinned = |name: &str| pins.as_ref().is_some_and(|pins| pins.hash_of(name).is_some());
        let source = match &self.source {
            HashSource::Registry { .. } if packages.iter().all(|(name, _)| is_pinned(name)) => {
                HashSource::Pinned
            }
            source => source.clone(),
        };
        Integrity { source, packages }
    }
}

/// Whether npm unpacked the package of that location.
pub(super) fn is_installed(tree: &Path, place: &str) -> bool {
    tree.join(place).is_dir()
}

fn read(
    record: &Path,
    package: &'static Package,
    version: &str,
    pins: Option<&PackageLock>,
) -> Result<Option<PackageLock>, InstallError> {
    let text = match fs::read_to_string(record) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(InstallError::Folder { action: "read", path: record.to_owned(), source });
        }
    };
    let lock = PackageLock::parse(package, version, &text, pins);
    lock.map(Some).map_err(|source| InstallError::Record { record: record.to_owned(), source })
}
