//! Paths of sockets. The kernel takes 107 bytes; a longer one is reached through its folder.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

const LONGEST: usize = 107;

/// A path that the kernel takes, for as long as this lives.
pub(super) struct Address {
    pub(super) path: PathBuf,
    _folder: Option<File>,
}

impl Address {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("it has no folder"));
        };
        if path.as_os_str().len() <= LONGEST {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let folder = File::open(folder)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }
}
