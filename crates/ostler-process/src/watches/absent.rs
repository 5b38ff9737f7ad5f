//! Where there is no inotify there are no watches: whoever wants them looks for himself, from time to time.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::{Drained, Interest, Sight};

/// Cannot be had.
#[derive(Debug)]
pub(crate) struct Watches(Infallible);

impl Watches {
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn add(&self, _folder: &Path, _interest: Interest) -> io::Result<i32> {
        match self.0 {}
    }

    pub(crate) fn remove(&self, _watch: i32) {
        match self.0 {}
    }

    pub(crate) fn drain(&mut self, _sink: impl FnMut(Sight<'_>)) -> io::Result<Drained> {
        match self.0 {}
    }
}

impl AsFd for Watches {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
