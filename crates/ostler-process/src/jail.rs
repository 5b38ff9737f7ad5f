//! The wall around a process, which the kernel keeps.
//!
//! The shim sets it after it is contained and before it becomes the agent, so no line of the agent runs outside. What is
//! granted is decided in `ostler_agent::jail`. Why so, and what was rejected: `docs/adr/0026`.
//!
//! - `namespace`: a file system that holds only what is granted; `layout`: where each rule goes in it.
//! - `landlock`: the second wall inside, and the only one where namespaces are forbidden.
//! - `network`: a network of its own, with the ports of this machine that are granted.
//! - `sign_in`: keeps the agent's sign-in in step with the user's.
//! - `canary`: the attempt that must fail once the wall stands.

mod canary;
mod capabilities;
mod encoding;
pub mod facts;
mod id_map;
mod landlock;
pub mod layers;
mod layout;
mod mounts;
mod namespace;
mod namespaces;
mod network;
mod sign_in;
mod trial;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use ostler_agent::jail::{JailKind, JailPolicy, JailReport};
use ostler_agent::network::NetAccess;
use rustix::io::Errno;

pub use self::landlock::{LandlockError, LandlockReport, find_abi, find_remedy, restrict};
pub use canary::{Canary, CanaryError, read_back};
pub(crate) use id_map::write_id_maps;
pub(crate) use namespaces::{Namespaces, Networks};
pub use network::JailNetwork;
pub(crate) use network::{JailSockets, receive as receive_sockets};
pub(crate) use sign_in::SignInSync;
pub use trial::{TrialError, try_wall};

/// A wall to be set around a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jail {
    /// Which wall. There is no other in its place: where it cannot be set, nothing is started.
    pub kind: JailKind,
    /// What it lets through.
    pub policy: JailPolicy,
    /// Its network. Without one it is everybody's. Only namespaces can have one.
    pub network: Option<JailNetwork>,
}

/// A wall that could not be set. The process was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JailError {
    #[error("could not {action} {}", .path.display())]
    Namespace {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not {action} the jail's network")]
    Network {
        action: &'static str,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Landlock(#[from] LandlockError),
    #[error(transparent)]
    Canary(#[from] CanaryError),
}

impl JailError {
    fn at<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |error| Self::Namespace { action, path, source: error.into() }
    }

    /// Whether only a layer above a directory could not be added.
    pub(crate) fn is_about_layer(&self) -> bool {
        matches!(self, Self::Namespace { action: namespace::ADD_LAYER, .. })
    }

    /// The error number of the call that failed.
    pub(crate) fn errno(&self) -> i32 {
        match self {
            Self::Namespace { source, .. } | Self::Network { source, .. } => {
                source.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
            }
            Self::Landlock(error) => error.errno(),
            Self::Canary(error) => error.errno(),
        }
    }
}

/// How a process gets behind a wall.
pub(crate) enum Entrance<'a> {
    /// It makes the wall itself. The sockets of its network go to the outlet.
    New { outlet: Option<BorrowedFd<'a>> },
    /// An earlier process made it, by the same policy.
    Earlier(&'a Namespaces),
}

/// Sets the wall around the calling process, which has one thread, and checks that it holds. `request_id_maps` returns once
/// another process has written the maps of a new user namespace. After an error the process may be half inside: it must
/// exit.
pub(crate) fn enter(
    jail: &Jail,
    entrance: &Entrance<'_>,
    request_id_maps: impl FnOnce() -> io::Result<()>,
) -> Result<JailReport, JailError> {
    let Jail { kind, policy, network } = jail;
    match (kind, entrance) {
        (JailKind::Namespace, Entrance::Earlier(earlier)) => namespace::join(earlier)?,
        (JailKind::Namespace, Entrance::New { outlet }) => {
            let network = network.as_ref().zip(*outlet);
            namespace::enter(policy, network, request_id_maps)?;
        }
        (JailKind::Landlock, _) => {}
    }
    capabilities::drop_all()?;
    let LandlockReport { abi, not_enforced } = restrict(policy, *kind)?;
    read_back(policy, *kind, abi)?;
    if let (JailKind::Namespace, Some(network)) = (kind, network) {
        network::read_back(network)?;
    }
    Ok(JailReport { kind: *kind, abi, net: NetAccess::All.to_string(), not_enforced })
}
