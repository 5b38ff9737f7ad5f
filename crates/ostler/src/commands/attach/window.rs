//! The window of a person: the terminal that `ostler` was started on, in raw mode while it is taken.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use ostler_process::terminal::painter::Painter;
use ostler_process::terminal::pty::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::retry_on_intr;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::net::unix::pipe;

/// Keys that are read at once.
const CHUNK: usize = 4096;

/// How long a window may take to show the last of it. One that is gone takes nothing.
const LAST_PAINT: Duration = Duration::from_secs(2);

/// A terminal that tells no size has this one.
const USUAL: Size = Size { columns: 80, rows: 24 };

/// The terminal, as it was found.
///
/// It is opened anew, so that what is set on it, but for its modes, is not seen by whoever else has it. The runtime has a
/// safe way to wait for pipes alone; to the kernel a terminal is the same.
#[derive(Debug)]
pub(super) struct Window {
    reads: pipe::Receiver,
    writes: pipe::Sender,
}

/// The terminal while it shows another. Dropping it makes it as it was.
#[derive(Debug)]
pub(super) struct Taken {
    window: Window,
    found: Termios,
    unpainted: Vec<u8>,
    leave: Vec<u8>,
}

impl Window {
    /// The terminal of this process.
    pub(super) fn open() -> io::Result<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags.cast_signed());
        let tty = OwnedFd::from(options.open("/dev/tty")?);
        let reads = pipe::Receiver::from_owned_fd_unchecked(tty.try_clone()?)?;
        Ok(Self { reads, writes: pipe::Sender::from_owned_fd_unchecked(tty)? })
    }

    /// How large it is.
    pub(super) fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(&self.writes)?;
        match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => Ok(USUAL),
            (columns, rows) => Ok(Size { columns, rows }),
        }
    }

    /// Takes it over.
    pub(super) fn take(self, painter: &Painter) -> io::Result<Taken> {
        let found = tcgetattr(&self.writes)?;
        let mut raw = found.clone();
        raw.make_raw();
        tcsetattr(&self.writes, OptionalActions::Now, &raw)?;
        let unpainted = painter.enter().to_vec();
        Ok(Taken { window: self, found, unpainted, leave: painter.leave() })
    }
}

impl Taken {
    /// How large it is.
    pub(super) fn size(&self) -> io::Result<Size> {
        self.window.size()
    }

    /// The next keys. A terminal that is gone fails. Cancel safe.
    pub(super) async fn keys(&self) -> io::Result<Vec<u8>> {
        let mut keys = vec![0; CHUNK];
        loop {
            self.window.reads.readable().await?;
            match self.window.reads.try_read(&mut keys) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    keys.truncate(count);
                    return Ok(keys);
                }
            }
        }
    }

    /// Adds what is to be painted.
    pub(super) fn show(&mut self, bytes: Vec<u8>) {
        self.unpainted.extend(bytes);
    }

    /// What is to be written when it is left.
    pub(super) fn note(&mut self, leave: Vec<u8>) {
        self.leave = leave;
    }

    pub(super) fn has_unpainted(&self) -> bool {
        !self.unpainted.is_empty()
    }

    /// Paints some of what waits, and answers how much. Cancel safe.
    pub(super) async fn paint(&self) -> io::Result<usize> {
        loop {
            self.window.writes.writable().await?;
            match self.window.writes.try_write(&self.unpainted) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }

    /// So much was painted.
    pub(super) fn painted(&mut self, count: usize) {
        self.unpainted.drain(..count);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let tty = self.window.writes.as_fd();
        // What was painted in part is painted whole: half a sequence would swallow what comes after it.
        let mut rest = std::mem::take(&mut self.unpainted);
        rest.append(&mut self.leave);
        // A window that is gone needs nothing.
        let _ = write_all(tty, &rest);
        // Keys that were pressed for the agent, and what the window tells of the mouse, are not for the shell.
        let _ = tcsetattr(tty, OptionalActions::Flush, &self.found);
    }
}

fn write_all(tty: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    let patience = Timespec::try_from(LAST_PAINT).map_err(io::Error::other)?;
    while !bytes.is_empty() {
        match rustix::io::write(tty, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let mut tty = [PollFd::new(&tty, PollFlags::OUT)];
                if retry_on_intr(|| poll(&mut tty, Some(&patience)))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
