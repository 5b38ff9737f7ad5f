//! Everything that can make a command fail: one variant per family of errors, and the exit code that each has.

use std::io;

use ostler_process::control::CallError;
use ostler_process::install::InstallError;
use ostler_process::journal::JournalError;
use ostler_process::locate::LocateError;
use ostler_process::probe::ProbeError;
use ostler_process::run::RunError;

use crate::commands::attach::AttachError;
use crate::commands::memory::MemoryError;
use crate::commands::rehearse::RehearseError;
use crate::commands::run::{BridgeUsage, RunUsage};
#[cfg(target_os = "linux")]
use crate::commands::serve::ServeError;
use crate::commands::smoke::{NOT_GREEN, SmokeError};
use crate::config::{ConfigError, TrustError};
use crate::home::HomeError;
use crate::interrupt::Interrupted;
#[cfg(target_os = "linux")]
use crate::kept_keys::KeysError;
use crate::log::LogError;
use crate::programs::UnknownAgent;

/// Ostler could not do its own job.
const INTERNAL: u8 = 1;
/// What was asked for cannot be asked for.
const USAGE: u8 = 2;
/// There is no such program, or it does not start.
pub(crate) const NOT_INSTALLED: u8 = 14;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error(transparent)]
    BridgeUsage(#[from] BridgeUsage),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error(transparent)]
    Locate(#[from] LocateError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(transparent)]
    Rehearse(#[from] RehearseError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    RunUsage(#[from] RunUsage),
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Smoke(#[from] SmokeError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    UnknownAgent(#[from] UnknownAgent),
    #[error("could not tell the current directory")]
    CurrentDir(#[source] io::Error),
    #[error("could not write the output")]
    Output(#[source] io::Error),
    #[error("could not start working")]
    Runtime(#[source] io::Error),
}

impl Failure {
    /// What to try.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Attach(error) => error.hint(),
            Self::BridgeUsage(error) => error.hint(),
            Self::Call(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::Home(error) => error.hint(),
            Self::Install(error) => error.hint(),
            Self::Journal(error) => error.hint(),
            #[cfg(target_os = "linux")]
            Self::Keys(error) => error.hint(),
            Self::Locate(error) => error.hint(),
            Self::Log(error) => error.hint(),
            Self::Memory(error) => error.hint(),
            Self::Probe(error) => error.hint(),
            Self::Rehearse(error) => error.hint(),
            Self::Run(error) => error.hint(),
            Self::RunUsage(error) => error.hint(),
            #[cfg(target_os = "linux")]
            Self::Serve(error) => error.hint(),
            Self::Smoke(error) => error.hint(),
            Self::Trust(error) => error.hint(),
            Self::UnknownAgent(error) => error.hint(),
            Self::CurrentDir(_) => Some("change to a folder that exists".to_owned()),
            Self::Interrupted(_) | Self::Output(_) | Self::Runtime(_) => None,
        }
    }

    /// The code to end with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Attach(AttachError::NoTerminal(_)) => USAGE,
            Self::BridgeUsage(_) | Self::Config(_) | Self::Log(_) | Self::UnknownAgent(_) => USAGE,
            Self::RunUsage(error) if error.is_usage() => USAGE,
            Self::Journal(
                JournalError::Unknown { .. } | JournalError::Several { .. } | JournalError::Busy { .. },
            )
            | Self::Run(RunError::Refused(_)) => USAGE,
            Self::Install(InstallError::NotAVersion { .. } | InstallError::NoSuchVersion { .. }) => USAGE,
            Self::Trust(TrustError::NoFolder { .. } | TrustError::Mistake(_)) => USAGE,
            Self::Call(CallError::NotLive { .. } | CallError::Refused { .. }) => USAGE,
            Self::Rehearse(error) if error.is_usage() => USAGE,
            Self::Memory(error) if error.is_usage() => USAGE,
            Self::Home(HomeError::Format(_)) => USAGE,
            Self::Locate(_) | Self::Probe(_) => NOT_INSTALLED,
            Self::Smoke(error) if error.is_answer() => NOT_GREEN,
            Self::Interrupted(by) => by.exit_code(),
            #[cfg(target_os = "linux")]
            Self::Keys(error) if error.is_usage() => USAGE,
            #[cfg(target_os = "linux")]
            Self::Serve(_) | Self::Keys(_) => INTERNAL,
            Self::Attach(_)
            | Self::Call(_)
            | Self::CurrentDir(_)
            | Self::Home(_)
            | Self::Install(_)
            | Self::Journal(_)
            | Self::Memory(_)
            | Self::Output(_)
            | Self::Rehearse(_)
            | Self::Run(_)
            | Self::RunUsage(_)
            | Self::Runtime(_)
            | Self::Smoke(_)
            | Self::Trust(_) => INTERNAL,
        }
    }

    /// Whoever read our output has seen enough: `ostler … | head`.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
