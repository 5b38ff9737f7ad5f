//! Why an install failed, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::package::lock::{LockError, Mismatch};

use crate::install::integrity::HashSource;
use crate::install::npm::Complaint;
use crate::probe::ProbeError;

/// Why an agent could not be installed. In every case nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Not something that npm may be asked for.
    #[error("`{text}` is not a version")]
    NotAVersion {
        /// What was asked for.
        text: String,
    },
    /// No npm.
    #[error("installing agents needs npm, and {}", missing(.configured))]
    NoNpm {
        /// What the configuration names, if it does.
        configured: Option<PathBuf>,
    },
    /// There is an npm, but it cannot run.
    #[error("npm ({}) does not start", .npm.display())]
    NpmDoesNotStart {
        /// Which.
        npm: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is an npm, but no Node.js for it.
    #[error("npm ({}) does not start: it finds no Node.js", .npm.display())]
    NoNode {
        /// Which.
        npm: PathBuf,
    },
    /// The registry cannot be reached.
    #[error("npm cannot reach its registry")]
    Offline {
        /// What npm said.
        #[source]
        source: Complaint,
    },
    /// Somebody else's certificate, usually that of a proxy that inspects TLS.
    #[error("npm does not trust the certificate of its registry")]
    Certificate {
        /// What npm said.
        #[source]
        source: Complaint,
    },
    /// The registry does not have that.
    #[error("there is no `{package}` in version `{version}`")]
    NoSuchVersion {
        /// Name in the registry.
        package: &'static str,
        /// What was asked for.
        version: String,
        /// What npm said.
        #[source]
        source: Complaint,
    },
    /// The disk is full.
    #[error("no space left to install into {}", .folder.display())]
    NoSpace {
        /// Where.
        folder: PathBuf,
        /// What npm said, if it noticed.
        #[source]
        source: Option<Complaint>,
    },
    /// npm may not do what it must.
    #[error("npm was denied access")]
    Denied {
        /// What npm said.
        #[source]
        source: Complaint,
    },
    /// Anything else that npm complains about.
    #[error("npm could not install `{package}`")]
    Npm {
        /// Name in the registry.
        package: &'static str,
        /// What npm said.
        #[source]
        source: Complaint,
    },
    /// A package is not the one that it should be.
    #[error(
        "`{}` {} is refused: its hash should be {} and is {}",
        .mismatch.package, .mismatch.version, .mismatch.expected, .mismatch.received
    )]
    Integrity {
        /// The package and both hashes.
        mismatch: Box<Mismatch>,
        /// Who says what the hash should be.
        expected_by: HashSource,
    },
    /// The registry gives no hashes that hold.
    #[error("`{package}` cannot be verified by what the registry says of it")]
    Lock {
        /// Name in the registry.
        package: &'static str,
        /// What is wrong with npm's lock.
        #[source]
        source: LockError,
    },
    /// The hashes of an earlier install cannot be used.
    #[error("the recorded hashes in {} cannot be used", .record.display())]
    Record {
        /// The file.
        record: PathBuf,
        /// What is wrong with it.
        #[source]
        source: LockError,
    },
    /// The download stands still.
    #[error("nothing arrived for {} s", .quiet.as_secs())]
    Stalled {
        /// For how long.
        quiet: Duration,
    },
    /// Ostler's own folder cannot be used.
    #[error("could not {action} {}", .path.display())]
    Folder {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No native program is known for this machine.
    #[error("`{package}` has no native program for {} on {}", std::env::consts::OS, std::env::consts::ARCH)]
    NoNative {
        /// Name in the registry.
        package: &'static str,
    },
    /// npm was content, but the program is not there.
    #[error("npm installed `{package}` without its native program")]
    NoNativeInside {
        /// Name in the registry.
        package: &'static str,
    },
    /// The program is there, but does not run here.
    #[error("what npm installed as `{package}` does not start on this machine")]
    DoesNotStart {
        /// Name in the registry.
        package: &'static str,
        /// What the last candidate did.
        #[source]
        source: ProbeError,
    },
    /// Somebody removed it meanwhile.
    #[error("{} disappeared while it was being installed", .path.display())]
    Vanished {
        /// What.
        path: PathBuf,
    },
}

fn missing(configured: &Option<PathBuf>) -> String {
    match configured {
        Some(path) => format!("{}, which the configuration names, is not an executable file", path.display()),
        None => "there is no `npm` on PATH".to_owned(),
    }
}

impl InstallError {
    /// What to try, for the error printer.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotAVersion { .. } => "a version such as `1.2.3`, or a tag such as `latest`",
            Self::NoNpm { configured: Some(_) } => "correct or remove `install.npm` in config.toml",
            Self::NoNpm { configured: None } => {
                "install Node.js, which brings npm; or install the agent in its own way and put it on PATH"
            }
            Self::NpmDoesNotStart { .. } => "start `npm --version` by hand to see what is wrong with it",
            Self::NoNode { .. } => "put `node` on PATH",
            Self::Offline { .. } => {
                "check the network, and `npm config get registry`, `proxy` and `https-proxy`; then try again"
            }
            Self::Certificate { .. } => {
                "if your network inspects TLS, set NODE_EXTRA_CA_CERTS to the file of its certificate, or \
                 `npm config set cafile FILE`; else check this machine's clock"
            }
            Self::NoSuchVersion { package, .. } => {
                return Some(format!(
                    "`npm view {package} versions` lists them; without @VERSION the verified one is taken"
                ));
            }
            Self::NoSpace { .. } => {
                "make room (an agent takes up to 500 MB), or set OSTLER_HOME to a roomier place"
            }
            Self::Denied { .. } => "check that npm's cache (`npm config get cache`) belongs to you",
            Self::Npm { .. } => "`npm doctor` may tell more, and so does OSTLER_LOG=debug",
            Self::Integrity { expected_by, .. } => return Some(integrity_hint(expected_by)),
            Self::Lock { source: LockError::NotALock, .. } => "npm 7 or newer is needed (`npm --version`)",
            Self::Lock { .. } => {
                "nothing was installed or started; use a registry that publishes sha512 hashes, or leave out \
                 @VERSION: Ostler has the hashes of the verified version"
            }
            Self::Record { record, .. } => {
                return Some(format!(
                    "nothing was installed or started; to accept what the registry has now, remove {} and install again",
                    record.display()
                ));
            }
            Self::Stalled { .. } => "check the network, then try again: npm keeps what has already arrived",
            Self::Folder { .. } => "set OSTLER_HOME to a folder that you can write to",
            Self::NoNative { .. } => "install the agent in its own way, and put it on PATH",
            Self::NoNativeInside { .. } => {
                "once more, should its download have failed; and check that `npm config get omit` is not `optional`"
            }
            Self::DoesNotStart { .. } => {
                "another version, or install the agent in its own way and put it on PATH"
            }
            Self::Vanished { .. } => "install it once more",
        };
        Some(hint.to_owned())
    }
}

/// In no case anything of the package was started; what to do depends on who says what its hash should be.
fn integrity_hint(expected_by: &HashSource) -> String {
    let about = match expected_by {
        HashSource::Pinned => {
            "the expected hash is that of the package that Ostler was verified with, so a registry, mirror or proxy \
             sends something else: see `npm config get registry`, and use another one"
                .to_owned()
        }
        HashSource::Recorded { record } => format!(
            "the expected hash was recorded when this version was first installed, and a published version does not \
             change: see `npm config get registry`; to accept the new one, remove {} and install again",
            record.display()
        ),
        HashSource::Registry { .. } => {
            "the registry sends something else than it announces: see `npm config get registry`, and try again or use \
             another one"
                .to_owned()
        }
    };
    format!("nothing was installed or started; {about}")
}
