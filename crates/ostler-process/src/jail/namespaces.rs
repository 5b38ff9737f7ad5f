//! The namespaces of a wall that stands, by which another process gets behind the same wall.
//!
//! All processes of a run share one file system: a layer above a directory may be mounted only once at a time, or the
//! kernel gives no guarantee for what is read and written there.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::process::Pid;

/// A user and a mount namespace. They last as long as this, whether or not a process is in them.
#[derive(Debug)]
pub(crate) struct Namespaces {
    user: OwnedFd,
    mount: OwnedFd,
}

impl Namespaces {
    /// Those of a process that cannot be reaped meanwhile.
    pub(crate) fn of(process: Pid) -> io::Result<Self> {
        let folder = Path::new("/proc").join(process.as_raw_pid().to_string()).join("ns");
        Ok(Self {
            user: File::open(folder.join("user"))?.into(),
            mount: File::open(folder.join("mnt"))?.into(),
        })
    }

    /// From what [`Namespaces::as_fds`] gave.
    pub(crate) fn from_fds([user, mount]: [OwnedFd; 2]) -> Self {
        Self { user, mount }
    }

    /// To be handed to another process.
    pub(crate) fn as_fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.user.as_fd(), self.mount.as_fd()]
    }
}
