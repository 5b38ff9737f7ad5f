//! The kernel's side of it.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, Event, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use rustix::io::Errno;

use super::{Drained, Interest, Sight, What};

/// How much is read at once. An event takes 16 bytes and a name of at most 256: some sixty at least.
const BUFFER_BYTES: usize = 16 * 1024;

/// How often to read in a row before giving others a turn: more than the kernel's usual queue of 16,384 events fills.
const READS_IN_A_ROW: usize = 64;

/// Watches on folders. Dropping it ends them all.
#[derive(Debug)]
pub(crate) struct Watches {
    notices: OwnedFd,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Watches {
    /// None yet. Fails where the kernel's limit is reached: 128 per user, on most machines.
    pub(crate) fn new() -> io::Result<Self> {
        let notices = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self { notices, buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES] })
    }

    /// Watches one folder. The same folder gives the same number again.
    pub(crate) fn add(&self, folder: &Path, interest: Interest) -> io::Result<i32> {
        let arrivals = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let entries = arrivals
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVE_SELF
            | WatchFlags::EXCL_UNLINK;
        let flags = match interest {
            Interest::Tree => entries | WatchFlags::DONT_FOLLOW,
            Interest::Entries => entries | WatchFlags::MASK_ADD,
            Interest::Arrivals => arrivals | WatchFlags::MASK_ADD,
        };
        Ok(add_watch(&self.notices, folder, flags)?)
    }

    /// Ends a watch. One that is gone already is no mistake.
    pub(crate) fn remove(&self, watch: i32) {
        if let Err(error) = remove_watch(&self.notices, watch) {
            tracing::trace!(watch, %error, "a watch was gone already");
        }
    }

    /// Hands on what has happened so far. Never blocks.
    pub(crate) fn drain(&mut self, mut sink: impl FnMut(Sight<'_>)) -> io::Result<Drained> {
        let mut reader = Reader::new(&self.notices, &mut self.buffer);
        let mut reads = 0;
        loop {
            if reader.is_buffer_empty() {
                if reads == READS_IN_A_ROW {
                    return Ok(Drained::Some);
                }
                reads += 1;
            }
            match reader.next() {
                Ok(event) => {
                    if let Some(sight) = meaning(&event) {
                        sink(sight);
                    }
                }
                Err(Errno::AGAIN) => return Ok(Drained::All),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Watches {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }
}

fn meaning<'a>(event: &'a Event<'_>) -> Option<Sight<'a>> {
    let (watch, flags) = (event.wd(), event.events());
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(Sight::Overflow);
    }
    if flags.contains(ReadFlags::IGNORED) {
        return Some(Sight::WatchGone(watch));
    }
    if flags.contains(ReadFlags::MOVE_SELF) {
        return Some(Sight::FolderMoved(watch));
    }
    let name = OsStr::from_bytes(event.file_name()?.to_bytes());
    let what = if !flags.contains(ReadFlags::ISDIR) {
        What::File
    } else if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        What::FolderCame
    } else if flags.contains(ReadFlags::MOVED_FROM) {
        What::FolderLeft
    } else {
        What::FolderGone
    };
    Some(Sight::Entry { watch, name, what })
}
