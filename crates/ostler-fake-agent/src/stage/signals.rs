//! Signals that the agent played answers itself, or takes no notice of. All others keep their default action.

use tokio::signal::unix::{self, SignalKind};

/// A signal that agents answer in their own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Terminate,
    Interrupt,
    Hangup,
}

impl Signal {
    /// The exit code of an agent that ends by this signal in an orderly way.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Hangup => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }

    fn kind(self) -> SignalKind {
        match self {
            Self::Terminate => SignalKind::terminate(),
            Self::Interrupt => SignalKind::interrupt(),
            Self::Hangup => SignalKind::hangup(),
        }
    }
}

#[derive(Default)]
enum Watch {
    #[default]
    Default,
    Heard(unix::Signal),
    Ignored,
}

/// What becomes of each signal.
#[derive(Default)]
pub(crate) struct Signals {
    terminate: Watch,
    interrupt: Watch,
    hangup: Watch,
}

impl Signals {
    /// Listens for the given signals.
    pub(crate) fn watch(signals: &[Signal]) -> anyhow::Result<Self> {
        let mut watched = Self::default();
        for signal in signals {
            *watched.slot(*signal) = Watch::Heard(unix::signal(signal.kind())?);
        }
        Ok(watched)
    }

    /// Takes no notice of a signal from here on.
    pub(crate) fn ignore(&mut self, signal: Signal) -> anyhow::Result<()> {
        // tokio's handler stays once it is installed, so dropping the stream swallows the signal.
        drop(unix::signal(signal.kind())?);
        *self.slot(signal) = Watch::Ignored;
        Ok(())
    }

    /// The next signal that is listened for. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            () = self.terminate.heard() => Signal::Terminate,
            () = self.hangup.heard() => Signal::Hangup,
            () = self.interrupt.heard() => Signal::Interrupt,
        }
    }

    fn slot(&mut self, signal: Signal) -> &mut Watch {
        match signal {
            Signal::Terminate => &mut self.terminate,
            Signal::Interrupt => &mut self.interrupt,
            Signal::Hangup => &mut self.hangup,
        }
    }
}

impl Watch {
    async fn heard(&mut self) {
        match self {
            Self::Heard(stream) => {
                stream.recv().await;
            }
            Self::Default | Self::Ignored => std::future::pending().await,
        }
    }
}
