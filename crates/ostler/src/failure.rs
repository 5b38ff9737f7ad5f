//! Everything that can make a command fail: one variant per family of errors, and the exit code that each has.

use std::error::Error;
use std::io;
use std::iter::successors;

use ostler_process::control::CallError;
use ostler_process::install::InstallError;
use ostler_process::journal::JournalError;
use ostler_process::locate::LocateError;
use ostler_process::probe::ProbeError;
use ostler_process::run::RunError;
use ostler_process::trust::store;

use crate::commands::attach::AttachError;
use crate::commands::memory::MemoryError;
use crate::commands::rehearse::RehearseError;
use crate::commands::run::{BridgeUsage, RunUsage};
#[cfg(target_os = "linux")]
use crate::commands::serve::ServeError;
use crate::commands::smoke::{NOT_GREEN, SmokeError};
use crate::commands::trust::TrustUsage;
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
    TrustStore(#[from] store::TrustError),
    #[error(transparent)]
    TrustUsage(#[from] TrustUsage),
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
        // A full disk is the cause wherever it is met, and no folder that can be written to helps.
        if is_disk_full(self) {
            return Some(format!("the disk is full: free some space, or {}", self.elsewhere()));
        }
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
            Self::TrustStore(error) => error.hint(),
            Self::TrustUsage(error) => error.hint(),
            Self::UnknownAgent(error) => error.hint(),
            Self::CurrentDir(_) => Some("change to a folder that exists".to_owned()),
            Self::Interrupted(_) | Self::Output(_) | Self::Runtime(_) => None,
        }
    }

    /// What else to do on a full disk: use another one.
    fn elsewhere(&self) -> &'static str {
        match self {
            Self::Output(_) => "write the output elsewhere",
            Self::Probe(_)
            | Self::Smoke(SmokeError::Yard(_))
            | Self::Rehearse(RehearseError::Stage { .. }) => "set TMPDIR to a folder on another disk",
            Self::Smoke(SmokeError::Report { .. }) | Self::Rehearse(RehearseError::Log { .. }) => {
                "name a file on another disk"
            }
            _ => "move OSTLER_HOME",
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
            Self::Trust(
                TrustError::NoFolder { .. } | TrustError::NotUtf8 { .. } | TrustError::Mistake(_),
            )
            | Self::TrustStore(store::TrustError::Mistake(_))
            | Self::Run(RunError::Trust(store::TrustError::Mistake(_)))
            | Self::TrustUsage(_) => USAGE,
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
            Self::Serve(error) if error.is_usage() => USAGE,
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
            | Self::Trust(_)
            | Self::TrustStore(_) => INTERNAL,
        }
    }

    /// Whoever read our output has seen enough: `ostler … | head`.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// SQLite's own message for a full disk, which every wrapper repeats.
const SQLITE_FULL: &str = "database or disk is full";

/// Whether an error was caused by a disk, a quota or a file-size limit that is used up.
fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    successors(Some(error), |cause| (*cause).source()).any(|cause| match cause.downcast_ref::<io::Error>() {
        Some(error) => matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge),
        None => cause.to_string().ends_with(SQLITE_FULL),
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// One failure of every place that writes, with that cause.
    fn failures(cause: impl Fn() -> io::Error) -> Vec<(Failure, &'static str)> {
        let path = || PathBuf::from("/x");
        vec![
            (JournalError::Create { path: path(), source: cause() }.into(), "move OSTLER_HOME"),
            (JournalError::Write { path: path(), source: cause() }.into(), "move OSTLER_HOME"),
            (Failure::Run(JournalError::Write { path: path(), source: cause() }.into()), "move OSTLER_HOME"),
            (HomeError::Path { path: path(), source: cause() }.into(), "move OSTLER_HOME"),
            (TrustError::Write { path: path(), source: cause() }.into(), "move OSTLER_HOME"),
            (
                InstallError::Folder { action: "write", path: path(), source: cause() }.into(),
                "move OSTLER_HOME",
            ),
            (Failure::Output(cause()), "write the output elsewhere"),
            (ProbeError::Home { program: path(), source: cause() }.into(), "set TMPDIR"),
            (SmokeError::Yard(cause()).into(), "set TMPDIR"),
            (SmokeError::Report { path: path(), source: cause() }.into(), "name a file on another disk"),
            (RehearseError::Stage { path: path(), source: cause() }.into(), "set TMPDIR"),
            (RehearseError::Log { path: path(), source: cause() }.into(), "name a file on another disk"),
        ]
    }

    #[test]
    fn a_full_disk_is_named_wherever_something_is_written() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge] {
            for (failure, want) in failures(|| kind.into()) {
                let hint = failure.hint().unwrap();
                assert!(hint.starts_with("the disk is full: free some space, or "), "{failure}: {hint}");
                assert!(hint.contains(want), "{failure}: {hint}");
            }
        }
        for (failure, _) in failures(|| io::ErrorKind::PermissionDenied.into()) {
            assert!(!failure.hint().unwrap_or_default().contains("full"), "{failure}");
        }
    }

    #[test]
    fn a_full_disk_is_known_by_its_number_and_by_what_sqlite_says() {
        // ENOSPC, EDQUOT and EFBIG of Linux.
        for number in [28, 122, 27] {
            assert!(is_disk_full(&io::Error::from_raw_os_error(number)), "{number}");
        }
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Other(&'static str);
        assert!(is_disk_full(&Other("database or disk is full")));
        assert!(!is_disk_full(&Other("the moon is full")));
    }
}
