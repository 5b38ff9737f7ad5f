//! An agent's program from npm into Ostler's own folder, whole or not at all.
//!
//! Which packages npm may bring, and with which hashes, is known before (see [`integrity`]). npm fills a workshop beside
//! the final place, and refuses what has another hash; what it brought is started once; then one rename puts it where it
//! belongs, and another makes it the current one. Install scripts of packages are not run: the native program that is
//! in the package is used as it is. Whatever ends an install early, the workshop is removed: by us, or by the next
//! install if we were killed.

mod error;
mod integrity;
mod npm;
mod slot;
mod workshop;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_agent::package::{Package, is_exact};

pub use error::InstallError;
pub use integrity::{HashSource, Integrity};
pub use npm::Npm;

use crate::locate::native_in;
use crate::probe::Place;
use crate::{host, probe};
use integrity::TrustedLock;
use slot::{Adoption, Slot};
use workshop::Workshop;

/// How often the growth of the workshop is measured and told.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// After how long without growth a download is given up. npm itself gives up a silent connection after
/// [`npm::IDLE_TIMEOUT`]; this is for what it does not notice.
const STALLED_AFTER: Duration = Duration::from_secs(120);

/// A disk with less free space than this is full: what npm wrote last may not have fitted.
const FULL_BYTES: u64 = 16 * 1024 * 1024;

/// Which version is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted(String);

impl Wanted {
    /// The version that Ostler was last proven with.
    pub fn verified(package: &Package) -> Self {
        Self(package.verified.to_owned())
    }

    /// A version, the beginning of one, or a tag such as `latest`. Nothing else that npm would take for one: no
    /// addresses, no paths.
    pub fn parse(text: &str) -> Result<Self, InstallError> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || ".-+_".contains(letter);
        let named = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        if named && text.chars().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InstallError::NotAVersion { text: text.to_owned() })
        }
    }
}

/// What to install, from where, to where.
#[derive(Debug)]
pub struct Order {
    /// What.
    pub package: &'static Package,
    /// Which version of it.
    pub wanted: Wanted,
    /// The folder that Ostler installs agents into. Created if need be, readable by its owner only.
    pub agents: PathBuf,
    /// By which npm.
    pub npm: Npm,
    /// Where what it brings is tried.
    pub place: Place,
}

/// What is being done at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Asking which version a tag means, or for the hashes of a version.
    Resolving,
    /// npm is filling the workshop.
    Fetching {
        /// Which version.
        version: String,
        /// What is on disk so far.
        bytes: u64,
    },
    /// The program is being started for the first time.
    Verifying,
}

/// What an install changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not there.
    Installed,
    /// It was there, but another version was current.
    Switched,
    /// Nothing.
    None,
}

/// A program that is installed, starts, and is current.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The version that npm knows it by.
    pub version: String,
    /// What to start.
    pub program: PathBuf,
    /// What was done.
    pub change: Change,
    /// The hashes of what was fetched; nothing if nothing was.
    pub integrity: Option<Integrity>,
}

/// Installs a package. Dropping the future ends npm with all it started, and removes what was fetched; so does any
/// error. Any number of installs may run at once, also of one package: the first to be ready is kept.
pub async fn install(order: &Order, tell: &mut dyn FnMut(Step)) -> Result<Installation, InstallError> {
    let Order { package, wanted, agents, npm, place } = order;
    if package.native_paths(std::env::consts::OS, std::env::consts::ARCH).is_empty() {
        return Err(InstallError::NoNative { package: package.npm });
    }
    let slot = Slot::of(agents, package);
    let version = if is_exact(&wanted.0) {
        wanted.0.clone()
    } else {
        tell(Step::Resolving);
        npm.resolve(package, &wanted.0, &Workshop::open(agents)?).await?
    };
    if let Some(program) = working(&slot, order, &version).await {
        let change = slot.make_current(&version)?;
        return Ok(Installation { version, program, change, integrity: None });
    }
    let workshop = Workshop::open(agents)?;
    let trusted = match TrustedLock::find(&slot, package, &version)? {
        Some(trusted) => trusted,
        None => {
            tell(Step::Resolving);
            let lock = npm.lock(package, &version, &workshop).await?;
            TrustedLock::from_npm(&slot, package, &version, &lock)?
        }
    };
    fetch(order, &version, &trusted, &workshop, tell).await?;
    tell(Step::Verifying);
    let native = first_that_starts(package, &workshop.tree().join("node_modules"), place).await?;
    slot.record_program(&workshop.tree(), &native)?;
    let integrity = trusted.of_tree(package, &version, &workshop.tree());
    if let HashSource::Registry { .. } = integrity.source {
        trusted.record(&slot, package, &version)?;
    }
    if let Adoption::Taken = slot.adopt(&version, &workshop)?
        && working(&slot, order, &version).await.is_none()
    {
        slot.discard(&version, &workshop)?;
        slot.adopt(&version, &workshop)?;
    }
    slot.make_current(&version)?;
    let program = slot.program(&version).ok_or(InstallError::Vanished { path: slot.version(&version) })?;
    Ok(Installation { version, program, change: Change::Installed, integrity: Some(integrity) })
}

/// The program of the version that is current in the package's slot.
pub(crate) fn installed_program(agents: &Path, package: &Package) -> Option<PathBuf> {
    Slot::of(agents, package).current_program()
}

/// Where the program of the current version should be, if any version is current. It may be damaged.
pub(crate) fn installed_link(agents: &Path, package: &Package) -> Option<PathBuf> {
    Slot::of(agents, package).current_link()
}

async fn working(slot: &Slot, order: &Order, version: &str) -> Option<PathBuf> {
    let program = slot.program(version)?;
    match probe::version(order.package, &program, &order.place).await {
        Ok(_) => Some(program),
        Err(error) => {
            tracing::warn!(%error, "what is installed does not start: installing it again");
            None
        }
    }
}

/// Lets npm fill the workshop. The native program is an optional package: if it does not fit on the disk, npm is
/// content with half of it. So a disk that was full at any time counts as a failure, whatever npm says.
async fn fetch(
    order: &Order,
    version: &str,
    trusted: &TrustedLock,
    workshop: &Workshop,
    tell: &mut dyn FnMut(Step),
) -> Result<(), InstallError> {
    let free = || host::free_bytes(workshop.destination()).unwrap_or(u64::MAX);
    let mut least_free = free();
    let fetching = order.npm.fetch(order.package, version, trusted, workshop);
    tokio::pin!(fetching);
    let begun = tokio::time::Instant::now();
    let mut ticks = tokio::time::interval_at(begun + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    let (mut bytes, mut grown_at) = (0, begun);
    loop {
        tell(Step::Fetching { version: version.to_owned(), bytes });
        tokio::select! {
            done = &mut fetching => break done?,
            _ = ticks.tick() => {}
        }
        least_free = least_free.min(free());
        let now = size_on_disk(workshop.path());
        if now != bytes {
            (bytes, grown_at) = (now, tokio::time::Instant::now());
        }
        if grown_at.elapsed() >= STALLED_AFTER {
            return Err(InstallError::Stalled { quiet: STALLED_AFTER });
        }
    }
    if least_free.min(free()) < FULL_BYTES {
        return Err(InstallError::NoSpace { folder: workshop.destination().to_owned(), source: None });
    }
    Ok(())
}

/// A package may bring several builds for one platform, of which the preferred one needs a newer processor or another
/// C library than this machine has. Trying is the only reliable test.
async fn first_that_starts(
    package: &'static Package,
    modules: &Path,
    place: &Place,
) -> Result<PathBuf, InstallError> {
    let mut last = None;
    for candidate in native_in(package, modules) {
        match probe::version(package, &candidate, place).await {
            Ok(_) => return Ok(candidate),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(source) => InstallError::DoesNotStart { package: package.npm, source },
        None => InstallError::NoNativeInside { package: package.npm },
    })
}

/// What a folder takes on disk. What disappears meanwhile does not count.
pub(crate) fn size_on_disk(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    /// `stat` counts in these, whatever the file system's own blocks are.
    const STAT_BLOCK_BYTES: u64 = 512;
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size_on_disk(&entry.path()),
            Ok(found) => found.blocks() * STAT_BLOCK_BYTES,
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
