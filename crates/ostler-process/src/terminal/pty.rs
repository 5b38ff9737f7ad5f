//! A pseudoterminal: our end of it, and the one that becomes the agent's controlling terminal.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::net::unix::pipe;

/// How large a terminal is, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// How wide.
    pub columns: u16,
    /// How high.
    pub rows: u16,
}

impl Size {
    /// What an agent gets unless told otherwise: wide enough that its menus are not cut.
    pub const USUAL: Self = Self { columns: 120, rows: 40 };
}

impl Default for Size {
    fn default() -> Self {
        Self::USUAL
    }
}

impl From<Size> for Winsize {
    fn from(size: Size) -> Self {
        Self { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// Our end of a terminal. Dropping it hangs up: whoever has it as controlling terminal gets SIGHUP.
///
/// The runtime has no safe way to wait for any descriptor; for a pipe it has, and to the kernel the two are the same. So
/// it gets two descriptors of the terminal, as if of pipes.
#[derive(Debug)]
pub struct Pty {
    reads: pipe::Receiver,
    writes: pipe::Sender,
}

impl Pty {
    /// A new terminal of that size, and the end for the agent. To be called within a runtime that has its driver for I/O.
    pub fn open(size: Size) -> io::Result<(Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        // Not by its name: in another mount namespace that is another file.
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        tcsetwinsize(&slave, size.into())?;
        rustix::io::ioctl_fionbio(&master, true)?;
        let reads = pipe::Receiver::from_owned_fd_unchecked(master.try_clone()?)?;
        let writes = pipe::Sender::from_owned_fd_unchecked(master)?;
        Ok((Self { reads, writes }, slave))
    }

    /// What was written to it since; nothing once nobody has its other end any more. Cancel safe.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.reads.readable().await?;
            match self.reads.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // So the kernel says that the last holder of the other end is gone.
                Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return Ok(0),
                done => return done,
            }
        }
    }

    /// Writes some of it, as if it were typed, and answers how much. Waits until there is room. Cancel safe.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.writes.writable().await?;
            match self.writes.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }

    /// Changes its size, which the programs on it are told by SIGWINCH. Never blocks.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        Ok(tcsetwinsize(self.writes.as_fd(), size.into())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_typed_is_read_and_what_is_printed_is_seen() {
        let (pty, slave) = Pty::open(Size { columns: 80, rows: 24 }).unwrap();
        assert_eq!(rustix::termios::tcgetwinsize(&slave).unwrap().ws_col, 80);
        assert_eq!(pty.write(b"hello\n").await.unwrap(), 6);
        let mut read = [0; 64];
        let count = rustix::io::read(&slave, &mut read).unwrap();
        assert_eq!(&read[..count], b"hello\n");
        let mut seen = Vec::new();
        rustix::io::write(&slave, b"there").unwrap();
        while !seen.ends_with(b"there") {
            let count = pty.read(&mut read).await.unwrap();
            seen.extend_from_slice(&read[..count]);
        }
        pty.resize(Size { columns: 40, rows: 12 }).unwrap();
        assert_eq!(rustix::termios::tcgetwinsize(&slave).unwrap().ws_row, 12);
        drop(slave);
        assert_eq!(pty.read(&mut read).await.unwrap(), 0);
    }
}
