//! Where a fake agent stands: its stdout and stderr, its ears on stdin, and the signals sent to it.
//!
//! Everything that takes time goes through here, so that a fake agent which waits, for whatever reason, still hears
//! what a real one would hear. Writing is unbuffered: one call is one write. No dialect touches the process's own
//! streams.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until};

pub(super) mod ears;
mod output;
pub(super) mod signals;

use ears::{Ears, Framing};
use output::Output;
use signals::{Signal, Signals};

/// Why playing stopped before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// The host asked for the turn to end.
    Interrupted,
    /// The process ends, with this exit code.
    Exit(u8),
    /// The fake agent could not do its own job.
    Failed(anyhow::Error),
}

/// The end of anything that is played.
pub(super) type Played<T = ()> = Result<T, Stop>;

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Something that happened while waiting.
#[derive(Debug)]
pub(super) enum Input {
    /// A line or a piece of stdin.
    Heard(Vec<u8>),
    /// Stdin ended.
    Closed,
    /// SIGINT.
    Interrupt,
    /// The time waited for has come.
    Elapsed,
}

/// The process's streams and signals.
pub(super) struct Stage {
    output: Output,
    ears: Ears,
    signals: Signals,
    stdout: Stdout,
    interrupts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stdout {
    Open,
    /// Nothing is printed any more; the descriptor stays open.
    Dropped,
    /// The next record is written in two pieces.
    Split {
        gap: Duration,
    },
}

impl Stage {
    /// Takes the process's streams; `signals` says which signals the agent played has its own answer to.
    pub(super) fn new(signals: &[Signal]) -> anyhow::Result<Self> {
        Ok(Self {
            output: Output::start()?,
            ears: Ears::default(),
            signals: Signals::watch(signals)?,
            stdout: Stdout::Open,
            interrupts: 0,
        })
    }

    /// Starts to read stdin. Idempotent: the first framing stays.
    pub(super) fn listen_by(&mut self, framing: Framing) -> anyhow::Result<()> {
        self.ears.open(framing)
    }

    /// Whether stdin has ended and its end was heard: nothing will ever come from it.
    pub(super) fn has_heard_all(&self) -> bool {
        matches!(self.ears, Ears::Closed)
    }

    /// Prints nothing more on stdout.
    pub(super) fn drop_stdout(&mut self) {
        self.stdout = Stdout::Dropped;
    }

    /// Writes the next record that can be split in two pieces, `gap` apart.
    pub(super) fn split_next(&mut self, gap: Duration) {
        if self.stdout == Stdout::Open {
            self.stdout = Stdout::Split { gap };
        }
    }

    /// Takes no notice of a signal from here on.
    pub(super) fn ignore(&mut self, signal: Signal) -> anyhow::Result<()> {
        self.signals.ignore(signal)
    }

    /// Writes one JSON record as a line to stdout.
    pub(super) async fn record(&mut self, record: &Value) -> Played {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.write(line).await
    }

    /// Writes bytes to stdout as they are. Waits for as long as nobody reads them.
    pub(super) async fn write(&mut self, bytes: Vec<u8>) -> Played {
        match self.stdout {
            Stdout::Dropped => Ok(()),
            Stdout::Open => self.put(bytes).await,
            Stdout::Split { gap } => match middle_of_a_character(&bytes) {
                None => self.put(bytes).await,
                Some(cut) => {
                    self.stdout = Stdout::Open;
                    let rest = bytes[cut..].to_vec();
                    self.put(bytes[..cut].to_vec()).await?;
                    tokio::time::sleep(gap).await;
                    self.put(rest).await
                }
            },
        }
    }

    /// Writes a line to stderr.
    pub(super) async fn complain(&mut self, line: &str) -> Played {
        let written = self.output.stderr(format!("{line}\n").into_bytes());
        Self::unless_told_to_end(&mut self.signals, &mut self.interrupts, written).await
    }

    /// What happens next, at the latest when `until` comes. SIGTERM and SIGHUP end the process from here.
    pub(super) async fn listen(&mut self, until: Option<Instant>) -> Played<Input> {
        if self.interrupts > 0 {
            self.interrupts -= 1;
            return Ok(Input::Interrupt);
        }
        let (ears, signals) = (&mut self.ears, &mut self.signals);
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::Interrupt => Ok(Input::Interrupt),
                Signal::Terminate | Signal::Hangup => Err(Stop::Exit(signal.exit_code())),
            },
            heard = ears.next() => Ok(heard.map_or(Input::Closed, Input::Heard)),
            () = until_then(until) => Ok(Input::Elapsed),
        }
    }

    async fn put(&mut self, bytes: Vec<u8>) -> Played {
        let written = self.output.stdout(bytes);
        Self::unless_told_to_end(&mut self.signals, &mut self.interrupts, written).await
    }

    /// A full pipe must not make us deaf to SIGTERM; SIGINT is kept for the next `listen`.
    async fn unless_told_to_end(
        signals: &mut Signals,
        interrupts: &mut u32,
        written: impl Future<Output = std::io::Result<()>>,
    ) -> Played {
        tokio::pin!(written);
        loop {
            tokio::select! {
                biased;
                done = &mut written => return done.map_err(unwritten),
                signal = signals.next() => match signal {
                    Signal::Interrupt => *interrupts += 1,
                    Signal::Terminate | Signal::Hangup => return Err(Stop::Exit(signal.exit_code())),
                },
            }
        }
    }
}

/// Whoever read us is gone: the real agents end then, and none of them calls it a failure of its own.
fn unwritten(error: std::io::Error) -> Stop {
    let is_gone = rustix::io::Errno::from_io_error(&error)
        .is_some_and(|errno| matches!(errno, rustix::io::Errno::PIPE | rustix::io::Errno::IO));
    if is_gone { Stop::Exit(1) } else { Stop::Failed(error.into()) }
}

async fn until_then(until: Option<Instant>) {
    match until {
        // tokio's clock has steps of a millisecond: what is over must not cost one.
        Some(instant) if instant <= Instant::now() => {}
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// The first place that is inside a character of several bytes.
fn middle_of_a_character(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| byte & 0b1100_0000 == 0b1000_0000)
}
