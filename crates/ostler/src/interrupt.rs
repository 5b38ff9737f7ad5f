//! Ctrl-C and its relatives: they end a command by dropping its work, which cleans up after itself.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// A shell adds this to the number of the signal that ended a program.
const SIGNALLED: u8 = 128;

/// By what a command was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Interrupted {
    #[error("cancelled by Ctrl-C")]
    CtrlC,
    #[error("cancelled by SIGTERM")]
    Term,
    #[error("cancelled because the terminal was closed")]
    Hangup,
}

impl Interrupted {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::CtrlC => SIGNALLED + 2,
            Self::Term => SIGNALLED + 15,
            Self::Hangup => SIGNALLED + 1,
        }
    }
}

/// Does the work, unless a signal comes first: then the work is dropped. Use it where dropping is safe, that is where
/// the future promises to clean up.
pub(crate) async fn unless_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    tokio::select! {
        biased;
        by = signals.next() => Err(by.into()),
        done = work => done,
    }
}

/// The signals that ask to end, caught from `listen` on.
pub(crate) struct Signals {
    ctrl_c: Signal,
    term: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            ctrl_c: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Interrupted {
        tokio::select! {
            _ = self.ctrl_c.recv() => Interrupted::CtrlC,
            _ = self.term.recv() => Interrupted::Term,
            _ = self.hangup.recv() => Interrupted::Hangup,
        }
    }
}
