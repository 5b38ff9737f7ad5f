//! The namespaces of a wall that stands, by which another process gets behind the same wall.
//!
//! All processes of a run share one file system: a layer above a directory may be mounted only once at a time, or the
//! kernel gives no guarantee for what is read and written there.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::process::Pid;
use rustix::thread::LinkNameSpaceType;

/// Whether processes behind a wall have a network of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Networks {
    /// It is everybody's.
    Shared,
    /// They have one.
    Own,
}

/// A user and a mount namespace, and a network namespace if there is one for it. They last as long as this, whether or not a process is in them.
#[derive(Debug)]
pub(crate) struct Namespaces {
    user: OwnedFd,
    mount: OwnedFd,
    network: Option<OwnedFd>,
}

impl Namespaces {
    /// Those of a process that cannot be reaped meanwhile.
    pub(crate) fn of(process: Pid, networks: Networks) -> io::Result<Self> {
        let folder = Path::new("/proc").join(process.as_raw_pid().to_string()).join("ns");
        Ok(Self {
            user: File::open(folder.join("user"))?.into(),
            mount: File::open(folder.join("mnt"))?.into(),
            network: match networks {
                Networks::Shared => None,
                Networks::Own => Some(File::open(folder.join("net"))?.into()),
            },
        })
    }

    /// From what [`Namespaces::as_fds`] gave.
    pub(crate) fn from_fds(descriptors: Vec<OwnedFd>) -> Option<Self> {
        let mut descriptors = descriptors.into_iter();
        let (user, mount) = (descriptors.next()?, descriptors.next()?);
        Some(Self { user, mount, network: descriptors.next() })
    }

    /// To be handed to another process.
    pub(crate) fn as_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.to_join().into_iter().map(|(namespace, _)| namespace).collect()
    }

    /// In the order in which a process can join them: the first one gives it the right to join the others.
    pub(crate) fn to_join(&self) -> Vec<(BorrowedFd<'_>, LinkNameSpaceType)> {
        let network = self.network.as_ref().map(|network| (network.as_fd(), LinkNameSpaceType::Network));
        let user = (self.user.as_fd(), LinkNameSpaceType::User);
        let mount = (self.mount.as_fd(), LinkNameSpaceType::Mount);
        [user, mount].into_iter().chain(network).collect()
    }
}
