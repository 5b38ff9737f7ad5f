//! The wall around a process, which the kernel keeps.
//!
//! The shim sets it after it is contained and before it becomes the agent, so no line of the agent runs outside. What is
//! granted is decided in `ostler_agent::jail`. Why so, and what was rejected: `docs/adr/0025`.
//!
//! - `namespace`: a file system that holds only what is granted; `layout`: where each rule goes in it.
//! - `landlock`: the second wall inside, and the only one where namespaces are forbidden.
//! - `canary`: the attempt that must fail once the wall stands.

mod capabilities;
mod encoding;
mod id_map;
mod layout;
mod mounts;
mod namespace;

use std::io;
use std::path::{Path, PathBuf};

use ostler_agent::jail::{JailKind, JailPolicy, JailReport};

pub(crate) use id_map::write_id_maps;

/// A wall to be set around a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jail {
    /// Which wall. There is no other in its place: where it cannot be set, nothing is started.
    pub kind: JailKind,
    /// What it lets through.
    pub policy: JailPolicy,
}

/// A wall that could not be set. The process was not started.
#[derive(Debug, thiserror::Error)]
#[error("could not {action} {}", .path.display())]
pub(crate) struct JailError {
    pub(crate) action: &'static str,
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: io::Error,
}

impl JailError {
    fn at<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.to_owned();
        move |error| Self { action, path, source: error.into() }
    }
}

/// Sets the wall around the calling process, which has one thread. `request_id_maps` returns once another process has
/// written the maps of the new user namespace. After an error the process may be half inside: it must exit.
pub(crate) fn enter(
    jail: &Jail,
    request_id_maps: impl FnOnce() -> io::Result<()>,
) -> Result<JailReport, JailError> {
    match jail.kind {
        JailKind::Namespace => {
            namespace::enter(&jail.policy, request_id_maps)?;
            capabilities::drop_all()?;
            Ok(JailReport { kind: jail.kind, abi: None, not_enforced: Vec::new() })
        }
        JailKind::Landlock => Err(JailError {
            action: "enforce Landlock for",
            path: "/".into(),
            source: io::ErrorKind::Unsupported.into(),
        }),
    }
}
