//! The read-back of a wall: a file and a socket outside, which the process must not reach once the wall stands.
//!
//! The host makes them and reaches them itself first, so that a failure inside means that the wall holds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use ostler_agent::jail::{JailKind, JailPolicy};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempDir;
use uuid::Uuid;

use super::landlock::SOCKETS_ABI;

const FILE: &str = "file";

/// How the names of their directories begin.
const PREFIX: &str = "canary-";

/// Beside the file: a socket that is listened on, and a file that is made only by a process that no wall stops.
const SOCKET: &str = "socket";
const INTRUDER: &str = "intruder";

/// A file, a socket and a port that a jailed process must not reach; the first two in a directory of their own. Removed when dropped.
#[derive(Debug)]
pub struct Canary {
    folder: TempDir,
    _listener: UnixListener,
    port: TcpListener,
}

impl Canary {
    /// Makes them below `parent`, which the policy does not grant, and checks that this process can reach both.
    pub fn create(parent: &Path) -> Result<Self, CanaryError> {
        let failed = |action| move |source| CanaryError::Unusable { action, source };
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent);
        let folder = folder.map_err(failed("make its directory"))?;
        let path = folder.path().join(FILE);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(Uuid::new_v4().as_bytes()))
            .map_err(failed("write its file"))?;
        let directory = open_directory(folder.path()).map_err(failed("open its directory"))?;
        let listener = UnixListener::bind(socket_in(&directory)).map_err(failed("listen on its socket"))?;
        open_to_read(&path).map_err(failed("read its file"))?;
        open_to_write(&path).map_err(failed("write its file"))?;
        connect(&path).map_err(failed("connect to its socket"))?;
        listener.accept().map_err(failed("accept on its socket"))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed("listen on its port"))?;
        Ok(Self { folder, _listener: listener, port })
    }

    /// Removes what killed processes left below `parent`. No other process may use that directory meanwhile.
    pub fn remove_left(parent: &Path) {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
            // What stays is pruned with the run.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }

    /// A port of this machine on which it listens. The kernel answers for it.
    pub fn port(&self) -> io::Result<SocketAddr> {
        self.port.local_addr()
    }

    /// The file, for [`JailPolicy::canary`].
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }
}

/// Why a wall is not known to hold. The process must exit.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    /// The process reached something outside.
    #[error("the wall does not hold: the process could {action} outside")]
    Reached {
        /// What it could do.
        action: &'static str,
    },
    /// The attempt failed for a reason that says nothing about the wall.
    #[error("the wall could not be checked: could not try to {action} outside")]
    Untested {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The host could not make the canary.
    #[error("could not {action} for the check of the wall")]
    Unusable {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl CanaryError {
    /// What was tried.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Reached { action } | Self::Untested { action, .. } | Self::Unusable { action, .. } => {
                action
            }
        }
    }

    /// The error number of the system call that failed. Zero if it succeeded, which is the failure.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Reached { .. } => 0,
            Self::Untested { source, .. } | Self::Unusable { source, .. } => {
                source.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
            }
        }
    }
}

/// Tries from inside to read and write the policy's canary, to make a file beside it, and to connect to the socket beside
/// it where the wall keeps that. Each must be refused. `abi` is what [`restrict`](super::restrict) reported.
pub fn read_back(policy: &JailPolicy, wall: JailKind, abi: Option<u32>) -> Result<(), CanaryError> {
    let path = &policy.canary;
    expect_refusal("read a file", wall, open_to_read(path))?;
    expect_refusal("write a file", wall, open_to_write(path))?;
    let beside = path.with_file_name(INTRUDER);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
    if made.is_ok() {
        // The file is evidence enough in the error.
        let _ = fs::remove_file(&beside);
    }
    expect_refusal("make a file", wall, made.map(drop))?;
    let keeps_sockets = match wall {
        JailKind::Namespace => true,
        JailKind::Landlock => abi >= Some(SOCKETS_ABI),
    };
    if keeps_sockets {
        expect_refusal("connect to a socket", wall, connect(path))?;
    }
    Ok(())
}

fn expect_refusal(action: &'static str, wall: JailKind, attempt: io::Result<()>) -> Result<(), CanaryError> {
    match attempt {
        Ok(()) => Err(CanaryError::Reached { action }),
        Err(error) if is_refusal(wall, &error) => Ok(()),
        Err(source) => Err(CanaryError::Untested { action, source }),
    }
}

/// Landlock denies. In a namespace the file is absent, or in a place that is read-only.
fn is_refusal(wall: JailKind, error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    let is_denied = matches!(errno, Some(Errno::ACCESS | Errno::PERM));
    let is_absent = matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::ROFS));
    is_denied || (is_absent && wall == JailKind::Namespace)
}

fn open_to_read(path: &Path) -> io::Result<()> {
    File::open(path).map(drop)
}

fn open_to_write(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

/// Connects to the socket beside the canary.
fn connect(canary: &Path) -> io::Result<()> {
    let directory = open_directory(canary.parent().unwrap_or(canary))?;
    UnixStream::connect(socket_in(&directory)).map(drop)
}

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// The address of a socket takes 107 bytes, which a path below somebody's home may exceed.
fn socket_in(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(canary: PathBuf) -> JailPolicy {
        JailPolicy { rules: Vec::new(), canary }
    }

    #[test]
    fn a_process_without_a_wall_reaches_the_canary() {
        let folder = tempfile::tempdir().unwrap();
        // Too long for the address of a socket.
        let parent = folder.path().join("d".repeat(120));
        fs::create_dir(&parent).unwrap();
        let canary = Canary::create(&parent).unwrap();
        let policy = policy(canary.path());
        for wall in [JailKind::Landlock, JailKind::Namespace] {
            let error = read_back(&policy, wall, Some(7)).unwrap_err();
            assert_eq!(error.to_string(), "the wall does not hold: the process could read a file outside");
        }
        connect(&policy.canary).unwrap();
        drop(canary);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    }

    #[test]
    fn an_absent_canary_proves_a_namespace_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let policy = policy(folder.path().join("gone/file"));
        read_back(&policy, JailKind::Namespace, None).unwrap();
        let error = read_back(&policy, JailKind::Landlock, Some(7)).unwrap_err();
        assert!(matches!(error, CanaryError::Untested { action: "read a file", .. }), "{error:?}");
        assert_eq!(error.errno(), Errno::NOENT.raw_os_error());
    }

    #[test]
    fn every_attempt_counts() {
        let folder = tempfile::tempdir().unwrap();
        // Only the directory is there: what fails is what needs more than that.
        let error = read_back(&policy(folder.path().join("absent")), JailKind::Namespace, None).unwrap_err();
        assert!(matches!(error, CanaryError::Reached { action: "make a file" }), "{error:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_refusals_prove_a_wall() {
        let table = [
            (Errno::ACCESS, true, true),
            (Errno::PERM, true, true),
            (Errno::NOENT, true, false),
            (Errno::ROFS, true, false),
            (Errno::MFILE, false, false),
            (Errno::NOSPC, false, false),
            (Errno::CONNREFUSED, false, false),
        ];
        for (errno, by_namespace, by_landlock) in table {
            let error = io::Error::from(errno);
            assert_eq!(is_refusal(JailKind::Namespace, &error), by_namespace, "{errno:?}");
            assert_eq!(is_refusal(JailKind::Landlock, &error), by_landlock, "{errno:?}");
        }
    }
}
