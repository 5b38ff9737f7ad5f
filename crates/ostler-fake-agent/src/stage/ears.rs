//! The one reader of stdin: a thread that does blocking reads, opened only when the agent played would read.

use std::io::{self, BufRead, BufReader, Read};
use std::thread;

use tokio::sync::mpsc;

/// Pieces kept for a busy agent; when they are full the reader waits, and so does whoever writes to us.
const QUEUE: usize = 64;
/// As much as a terminal or a pipe hands over at once.
const PIECE_BYTES: usize = 64 * 1024;

/// How stdin is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By line, without the line's end.
    Lines,
    /// As it comes.
    Pieces,
}

/// Stdin as the agent hears it.
#[derive(Default)]
pub(crate) enum Ears {
    /// Not read.
    #[default]
    Shut,
    /// Read by the thread at the other end.
    Open(mpsc::Receiver<Vec<u8>>),
    /// Ended.
    Closed,
}

impl Ears {
    /// Starts to read. The thread is never joined: a blocking read of stdin cannot be called back.
    pub(crate) fn open(&mut self, framing: Framing) -> anyhow::Result<()> {
        if !matches!(self, Self::Shut) {
            return Ok(());
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        thread::Builder::new().name("ears".to_owned()).spawn(move || {
            // An unreadable stdin is an ended one: the real agents take a closed terminal so.
            let _ = match framing {
                Framing::Lines => read_lines(&sender),
                Framing::Pieces => read_pieces(&sender),
            };
        })?;
        *self = Self::Open(receiver);
        Ok(())
    }

    /// The next piece, or `None` once when stdin ended; after that, and when not open, never. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Open(receiver) => match receiver.recv().await {
                Some(piece) => Some(piece),
                None => {
                    *self = Self::Closed;
                    None
                }
            },
            Self::Shut | Self::Closed => std::future::pending().await,
        }
    }
}

fn read_lines(sender: &mpsc::Sender<Vec<u8>>) -> io::Result<()> {
    let mut stdin = BufReader::new(io::stdin());
    loop {
        let mut line = Vec::new();
        if stdin.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if sender.blocking_send(line).is_err() {
            return Ok(());
        }
    }
}

fn read_pieces(sender: &mpsc::Sender<Vec<u8>>) -> io::Result<()> {
    let mut stdin = io::stdin();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = stdin.read(&mut piece)?;
        if read == 0 || sender.blocking_send(piece[..read].to_vec()).is_err() {
            return Ok(());
        }
    }
}
