//! Watches on folders, through inotify. What was seen is told as it is read; nothing is queued here.
//!
//! The kernel's own queue is bounded: when it overflows it says so, and whoever watches looks for himself.
//! Written on `rustix`, because the usual crate (`notify`) adds watches below a folder without a bound, and its licence
//! and that of what it needs are not on our list.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
#[path = "watches/absent.rs"]
mod inotify;

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use tokio::net::unix::pipe;

pub(crate) use inotify::Watches;

/// What is to be told about a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// All that happens to its entries. A link is not followed.
    Tree,
    /// All that happens to its entries, beside what was asked before.
    Entries,
    /// Entries that come, beside what was asked before.
    Arrivals,
}

/// Something that happened in a watched folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight<'a> {
    /// Some of what happened was lost.
    Overflow,
    /// The watch is no more: the folder was removed, or we took the watch away.
    WatchGone(i32),
    /// The folder itself has another path now.
    FolderMoved(i32),
    /// An entry of a folder, by the folder's watch and the entry's name.
    Entry { watch: i32, name: &'a OsStr, what: What },
}

/// What happened to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A folder came: made here, or moved here.
    FolderCame,
    /// A folder was moved away, with the watches below it.
    FolderLeft,
    /// A folder was removed.
    FolderGone,
    /// A file came, went, or was written to.
    File,
}

/// Whether everything that had happened was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// It was.
    All,
    /// There is more to read.
    Some,
}

/// Watches that can be awaited.
///
/// The runtime has no safe way to wait for any descriptor; for a pipe it has. To the runtime the two are the same: it
/// only asks the kernel to be told when there is something to read. So it gets a second descriptor, as if of a pipe.
#[derive(Debug)]
pub(crate) struct AwaitedWatches {
    watches: Watches,
    readiness: pipe::Receiver,
}

impl AwaitedWatches {
    /// None yet. To be called within a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let watches = Watches::new()?;
        let readiness = pipe::Receiver::from_owned_fd_unchecked(watches.as_fd().try_clone_to_owned()?)?;
        Ok(Self { watches, readiness })
    }

    /// As [`Watches::add`].
    pub(crate) fn add(&self, folder: &Path, interest: Interest) -> io::Result<i32> {
        self.watches.add(folder, interest)
    }

    /// As [`Watches::remove`].
    pub(crate) fn remove(&self, watch: i32) {
        self.watches.remove(watch);
    }

    /// Waits until there is something to read. Cancel safe.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.readiness.readable().await
    }

    /// As [`Watches::drain`]; what is left makes it readable again.
    pub(crate) fn drain(&mut self, sink: impl FnMut(Sight<'_>)) -> io::Result<()> {
        let watches = &mut self.watches;
        // `WouldBlock` tells the runtime that all was read, and that there is something to wait for.
        let drained = self.readiness.try_io(|| match watches.drain(sink)? {
            Drained::All => Err(io::ErrorKind::WouldBlock.into()),
            Drained::Some => Ok(()),
        });
        match drained {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
