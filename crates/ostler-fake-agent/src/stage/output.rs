//! The one writer: a thread that does blocking writes, so that a full pipe blocks it and not the agent.

use std::io;
use std::os::fd::BorrowedFd;
use std::thread;

use tokio::sync::{mpsc, oneshot};

/// One write is under way at a time and its writer waits for it, so a longer queue would stay empty.
const QUEUE: usize = 1;

enum Stream {
    Stdout,
    Stderr,
}

struct Job {
    stream: Stream,
    bytes: Vec<u8>,
    done: oneshot::Sender<io::Result<()>>,
}

/// Our side of the writing thread.
pub(super) struct Output {
    jobs: mpsc::Sender<Job>,
}

impl Output {
    /// Starts the thread. It is never joined: it may be blocked for ever on a pipe that nobody reads, and it holds
    /// nothing that is not written, because every writer waits for its bytes.
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, mut inbox) = mpsc::channel::<Job>(QUEUE);
        thread::Builder::new().name("output".to_owned()).spawn(move || {
            while let Some(job) = inbox.blocking_recv() {
                let written = match job.stream {
                    Stream::Stdout => write_all(rustix::stdio::stdout(), &job.bytes),
                    Stream::Stderr => write_all(rustix::stdio::stderr(), &job.bytes),
                };
                // The waiter may be gone because the process is ending.
                let _ = job.done.send(written);
            }
        })?;
        Ok(Self { jobs })
    }

    /// Writes bytes to stdout; done when the kernel has them all.
    pub(super) async fn stdout(&self, bytes: Vec<u8>) -> io::Result<()> {
        self.write(Stream::Stdout, bytes).await
    }

    /// Writes bytes to stderr; done when the kernel has them all.
    pub(super) async fn stderr(&self, bytes: Vec<u8>) -> io::Result<()> {
        self.write(Stream::Stderr, bytes).await
    }

    async fn write(&self, stream: Stream, bytes: Vec<u8>) -> io::Result<()> {
        let (done, waiter) = oneshot::channel();
        let gone = || io::Error::other("the output thread is gone");
        self.jobs.send(Job { stream, bytes, done }).await.map_err(|_| gone())?;
        waiter.await.map_err(|_| gone())?
    }
}

fn write_all(stream: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(stream, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
