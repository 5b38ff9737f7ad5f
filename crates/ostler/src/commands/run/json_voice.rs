//! A run for programs: the lines of its journal, all of them, on standard output.
//!
//! Nothing waits in memory. Lines go through a file that has no name: a program that is slow, or sleeps for the whole run,
//! gets every line in the end, and the agent is never held up by it. Not through the journal itself, which the agent can
//! write to: what it puts there must not be taken for an outcome.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_process::journal::JournalError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use tokio::sync::{oneshot, watch};

use crate::display;
use crate::failure::Failure;
use crate::interrupt::Signals;

/// Printed at once. Small, because progress shows after each: a reader that takes so much within [`PATIENCE`] is not
/// given up.
const PIECE: usize = 8 * 1024;

/// How long the end of a run waits for a reader who takes nothing at all. It cannot wait for ever: a pipe that nobody
/// reads and nobody closes would keep a run that is over in the list of processes, and whoever waits for its exit code
/// with it. The exit code is right then, and the journal has what was not read.
const PATIENCE: Duration = Duration::from_secs(30);

/// Prints the journal as it grows, on a thread of its own.
pub(super) struct JsonVoice {
    shared: Arc<Shared>,
    spool: File,
    /// A line could not be passed on: no later one may follow.
    is_torn: bool,
    /// Where what is printed ends.
    printed: watch::Receiver<u64>,
    done: oneshot::Receiver<io::Result<()>>,
}

/// What the run tells the thread.
struct Shared {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Clone, Copy)]
struct Known {
    /// Where the last whole line ends.
    whole: u64,
    is_over: bool,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known());
        self.changed.notify_one();
    }

    /// Waits until there is more than so much, or nothing more to come. Answers where it ends.
    fn more_than(&self, read: u64) -> u64 {
        let wait = self.changed.wait_while(self.known(), |known| known.whole <= read && !known.is_over);
        wait.unwrap_or_else(PoisonError::into_inner).whole
    }
}

impl JsonVoice {
    /// Begins with what will be written after now.
    pub(super) fn start(folder: &Path) -> Result<Self, Failure> {
        let made = tempfile::tempfile_in(folder).and_then(|file| Ok((file.try_clone()?, file)));
        let (spool, file) =
            made.map_err(|source| JournalError::Create { path: folder.to_owned(), source })?;
        let begin = 0;
        let out = display::unbuffered().map_err(Failure::Output)?;
        let known = Mutex::new(Known { whole: begin, is_over: false });
        let shared = Arc::new(Shared { known, changed: Condvar::new() });
        let (progress, printed) = watch::channel(begin);
        let (end, done) = oneshot::channel();
        let theirs = Arc::clone(&shared);
        // It ends by itself when the run is over and all is printed; if nobody reads, with the process.
        std::thread::spawn(move || {
            let _ = end.send(print(&file, out, begin, &theirs, &progress));
        });
        Ok(Self { shared, spool, is_torn: false, printed, done })
    }

    /// A line was written down. What cannot be passed on is in the journal, and the reader is told so at the end.
    pub(super) fn tell(&mut self, line: &str) {
        if self.is_torn {
            return;
        }
        match self.spool.write_all(format!("{line}\n").as_bytes()) {
            Ok(()) => self.shared.tell(|known| known.whole += line.len() as u64 + 1),
            Err(error) => {
                self.is_torn = true;
                display::tell(&format!("warning: lines are missing from standard output: {error}"));
            }
        }
    }

    /// Waits until all is printed, for as long as somebody reads and nobody asks to stop waiting.
    pub(super) async fn finish(mut self, signals: &mut Signals) -> Result<(), Failure> {
        self.shared.tell(|known| known.is_over = true);
        loop {
            tokio::select! {
                biased;
                ended = &mut self.done => return ended.unwrap_or(Ok(())).map_err(Failure::Output),
                _ = signals.next() => break,
                moved = tokio::time::timeout(PATIENCE, self.printed.changed()) => if moved.is_err() { break },
            }
        }
        display::tell("note: not everything was read from standard output; the journal has all of it");
        Ok(())
    }
}

/// Prints whole lines until the run is over and nothing is left.
fn print(
    file: &File,
    mut out: File,
    begin: u64,
    shared: &Shared,
    progress: &watch::Sender<u64>,
) -> io::Result<()> {
    let (mut at, mut piece) = (begin, vec![0; PIECE]);
    loop {
        let whole = shared.more_than(at);
        if whole <= at {
            return Ok(());
        }
        while at < whole {
            let wanted = usize::try_from(whole - at).unwrap_or(PIECE).min(PIECE);
            file.read_exact_at(&mut piece[..wanted], at)?;
            write(&mut out, &piece[..wanted])?;
            at += wanted as u64;
            progress.send_replace(at);
        }
    }
}

/// Writes all of it, also where somebody who shares our standard output has made it one that does not block.
fn write(out: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut out = [PollFd::new(&*out, PollFlags::OUT)];
                retry_on_intr(|| poll(&mut out, None))?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
