//! Why an agent could not be started: each cause told apart, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use ostler_agent::jail::JailKind;
use rustix::io::Errno;

use super::wire::{Refusal, Step};
use super::{FORCE_TIER, Tier};

/// Why there is no agent. Nothing was left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No such file, or no such name on `PATH`.
    #[error("there is no program `{}`", .program.display())]
    NoProgram {
        /// What was to be started.
        program: PathBuf,
    },
    /// A script whose first line names an interpreter that is not there, or a program without its loader.
    #[error("`{}` needs an interpreter that is not there", .program.display())]
    NoInterpreter {
        /// What was to be started.
        program: PathBuf,
    },
    /// It may not be executed by us.
    #[error("`{}` may not be executed", .program.display())]
    NotExecutable {
        /// What was to be started.
        program: PathBuf,
    },
    /// A folder is not a program.
    #[error("`{}` is a folder, not a program", .program.display())]
    Directory {
        /// What was to be started.
        program: PathBuf,
    },
    /// The kernel does not know what to do with it.
    #[error("`{}` is neither a program for this machine nor a script", .program.display())]
    NotAProgram {
        /// What was to be started.
        program: PathBuf,
    },
    /// The kernel has a limit for both together, and one for each.
    #[error("the arguments and the environment for `{}` are too long", .program.display())]
    TooLong {
        /// What was to be started.
        program: PathBuf,
    },
    /// Arguments and variables end at a NUL.
    #[error("an argument or a variable for `{}` contains a NUL character", .program.display())]
    Nul {
        /// What was to be started.
        program: PathBuf,
    },
    /// The folder to start in is not there.
    #[error("there is no folder {} to start in", .folder.display())]
    NoFolder {
        /// Where the program was to be started.
        folder: PathBuf,
    },
    /// The folder to start in cannot be entered.
    #[error("{} cannot be entered", .folder.display())]
    Folder {
        /// Where the program was to be started.
        folder: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Something rarer.
    #[error("`{}` does not start", .program.display())]
    Program {
        /// What was to be started.
        program: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The tier that was asked for does not work here.
    #[error("runs cannot be contained by `{}` here", .tier.name())]
    Tier {
        /// What was asked for.
        tier: Tier,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The wall cannot be set here.
    #[error("the jail does not hold here ({}): {detail}", .kind.name())]
    Jail {
        /// The wall.
        kind: JailKind,
        /// What failed.
        detail: String,
        /// Why. None if a call succeeded that must not.
        #[source]
        source: Option<io::Error>,
    },
    /// A layer that takes the changes of a directory cannot be mounted here.
    #[error("changes cannot be kept apart here: {detail}")]
    Layer {
        /// What failed.
        detail: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A tier of that name does not exist.
    #[error("{FORCE_TIER} is `{name}`, which is no way to contain a run")]
    UnknownTier {
        /// What was asked for.
        name: String,
    },
    /// Our own part failed.
    #[error("the guardian `{}` does not start", .guard.display())]
    Guard {
        /// Our own binary.
        guard: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl StartError {
    /// What to try, for the error printer.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoProgram { .. } => "install it, or say where it is".to_owned(),
            Self::NoInterpreter { program } => {
                format!("install what the first line of {} names", program.display())
            }
            Self::NotExecutable { program } => {
                format!("chmod +x {}, or check that its disk is not mounted `noexec`", program.display())
            }
            Self::Directory { .. } => "name the program in it".to_owned(),
            Self::NotAProgram { .. } => {
                "install the build for this machine; a script begins with `#!` and its interpreter".to_owned()
            }
            Self::TooLong { .. } => "give the prompt on stdin or in a file".to_owned(),
            Self::Nul { .. } => "remove it: no program can be given one".to_owned(),
            Self::NoFolder { folder } => format!("mkdir -p {}, or name another folder", folder.display()),
            Self::Folder { folder, .. } => {
                format!("check that {} is a folder that you may enter", folder.display())
            }
            Self::Program { .. } => "start it by hand to see more".to_owned(),
            Self::Tier { .. } | Self::UnknownTier { .. } => {
                let names = Tier::ALL.map(Tier::name).join(", ");
                format!("unset {FORCE_TIER}, or set it to another of: {names}")
            }
            Self::Jail { .. } | Self::Layer { .. } => {
                "`ostler doctor` shows which walls this machine has".to_owned()
            }
            Self::Guard { .. } => {
                "start Ostler again: its binary may have been replaced meanwhile".to_owned()
            }
        })
    }

    /// What a refusal by the guardian or the shim means.
    pub(super) fn refused(refusal: Refusal, what: Attempt<'_>) -> Self {
        let Refusal { step, errno, detail } = refusal;
        let source = io::Error::from_raw_os_error(errno);
        let program = || what.program.to_owned();
        let folder = || what.folder.to_owned();
        match (step, Errno::from_raw_os_error(errno)) {
            (Step::Guard, _) => Self::Guard { guard: what.guard.to_owned(), source },
            (Step::Contain, _) => Self::Tier { tier: what.tier, source },
            (Step::Jail, _) => Self::Jail {
                kind: what.jail.unwrap_or(JailKind::Namespace),
                detail: detail.unwrap_or_else(|| "could not map the user of the agent".to_owned()),
                source: (errno != 0).then_some(source),
            },
            (Step::Layer, _) => Self::Layer { detail: detail.unwrap_or_default(), source },
            (Step::Folder, Errno::NOENT) => Self::NoFolder { folder: folder() },
            (Step::Folder, _) => Self::Folder { folder: folder(), source },
            (Step::Program, Errno::NOENT) if what.folder.join(what.program).is_file() => {
                Self::NoInterpreter { program: program() }
            }
            (Step::Program, Errno::NOENT | Errno::NOTDIR) => Self::NoProgram { program: program() },
            (Step::Program, Errno::ACCESS | Errno::PERM) => Self::NotExecutable { program: program() },
            (Step::Program, Errno::ISDIR) => Self::Directory { program: program() },
            (Step::Program, Errno::NOEXEC) => Self::NotAProgram { program: program() },
            (Step::Program, Errno::TOOBIG) => Self::TooLong { program: program() },
            (Step::Program, _) => Self::Program { program: program(), source },
        }
    }
}

/// What was tried.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) guard: &'a Path,
    pub(super) tier: Tier,
    pub(super) jail: Option<JailKind>,
}
