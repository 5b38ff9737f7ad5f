//! What can make `ostler memory` fail.

use std::io;
use std::path::PathBuf;

use ostler_memory::daemon::DaemonError;
use ostler_memory::embedding::EmbedError;
use ostler_memory::filling::FillError;
use ostler_memory::hooks::HooksError;
use ostler_memory::model::ModelError;
use ostler_memory::store::{CorrectError, StoreError};
use ostler_process::pip::PipError;

use super::model::HubError;

/// Why a command of memory failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemoryError {
    #[error(transparent)]
    Correct(#[from] CorrectError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    #[error(transparent)]
    Embed(#[from] EmbedError),
    #[error(transparent)]
    Fill(#[from] FillError),
    #[error(transparent)]
    Hooks(#[from] HooksError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Pip(#[from] PipError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no message m{0}")]
    Unknown(i64),
    #[error("`{0}` is not a time")]
    Time(String),
    #[error("could not read `{}`", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("line {line} of `{}` is not what `export` prints: {reason}", .path.display())]
    Line { path: PathBuf, line: usize, reason: String },
    #[error("could not tell where this program is")]
    Program(#[source] io::Error),
    #[error("could not write `{}`", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no daemon answers")]
    NoDaemon,
    #[error("the key was not changed: another process has the store open")]
    InUse,
    #[error("a passphrase has at least {} letters", ostler_memory::key::SHORTEST)]
    ShortPassphrase,
    #[error("these were two different passphrases")]
    DifferentPassphrases,
    #[error("there is no terminal to ask for a passphrase on")]
    NoPassphrase,
    #[error("could not ask for a passphrase")]
    Terminal(#[source] io::Error),
}

impl MemoryError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Correct(error) => error.hint(),
            Self::Daemon(error) => error.hint(),
            Self::Embed(error) => error.hint(),
            Self::Fill(error) => error.hint(),
            Self::Hooks(error) => error.hint(),
            Self::Hub(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Pip(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Unknown(_) => Some("`ostler memory recall` tells the ids".to_owned()),
            Self::Time(_) => Some("say how long ago, like 7d or 12h, or a day, like 2026-11-16".to_owned()),
            Self::Read { .. } | Self::Program(_) | Self::Write { .. } => None,
            Self::Line { .. } => {
                Some("what came before that line is in; mend it and import again".to_owned())
            }
            Self::ShortPassphrase | Self::DifferentPassphrases => {
                Some("nothing was changed; try again".to_owned())
            }
            Self::InUse => {
                Some("end the agents that search memory, or wait until they do not, and try again".to_owned())
            }
            Self::NoPassphrase => Some("set OSTLER_MEMORY_NEW_PASSPHRASE".to_owned()),
            Self::Terminal(_) => None,
            Self::NoDaemon => Some("`ostler memory daemon start`; nothing is lost without one".to_owned()),
        }
    }

    pub(crate) fn is_usage(&self) -> bool {
        match self {
            Self::Hooks(HooksError::Unreadable { .. })
            | Self::Correct(
                CorrectError::Unknown(_) | CorrectError::Already { .. } | CorrectError::Nothing,
            )
            | Self::Unknown(_)
            | Self::Time(_)
            | Self::Line { .. }
            | Self::ShortPassphrase
            | Self::DifferentPassphrases
            | Self::NoPassphrase
            | Self::Model(ModelError::Nothing { .. } | ModelError::Differs { .. })
            | Self::Daemon(DaemonError::Running) => true,
            Self::Correct(_)
            | Self::Daemon(_)
            | Self::Embed(_)
            | Self::Fill(_)
            | Self::Hooks(_)
            | Self::Hub(_)
            | Self::Pip(_)
            | Self::Store(_)
            | Self::Read { .. }
            | Self::Program(_)
            | Self::Write { .. }
            | Self::Terminal(_)
            | Self::InUse
            | Self::Model(_)
            | Self::NoDaemon => false,
        }
    }
}
