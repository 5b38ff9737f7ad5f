//! Why a run cannot be jailed as requested, and what to do about it.

use std::path::PathBuf;

/// Why a run cannot be jailed as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JailRefusal {
    /// A jail around the workspace would show what must not be visible.
    #[error("the workspace {} cannot be jailed: {reason}", .workspace.display())]
    Workspace {
        /// The workspace.
        workspace: PathBuf,
        /// What is wrong with it.
        reason: WorkspaceFault,
    },
    /// The home directory cannot be replaced by a private one.
    #[error("HOME is {}, which cannot be replaced by a private directory", .home.display())]
    Home {
        /// The value.
        home: PathBuf,
    },
    /// `[jail] read` names what it cannot open.
    #[error("invalid [jail] read: {} {reason}", .path.display())]
    Read {
        /// The entry.
        path: PathBuf,
        /// What is wrong with it.
        reason: EntryFault,
    },
    /// `[jail] hide` names what cannot be hidden.
    #[error("invalid [jail] hide: {} {reason}", .path.display())]
    Hide {
        /// The entry.
        path: PathBuf,
        /// What is wrong with it.
        reason: EntryFault,
    },
    /// The directory of the agent's own files contains what must not be visible, or is in it.
    #[error("the agent keeps its files in {}, which would show {}", .path.display(), .shows.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// What must not be visible.
        shows: PathBuf,
    },
    /// A path that the agent writes to leads out of the agent's own directory.
    #[error("{} is a link to {}, outside the agent's own directory", .path.display(), .target.display())]
    StateElsewhere {
        /// The path.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
}

/// Why a workspace cannot be jailed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceFault {
    /// `/`.
    #[error("it is the root of the file system")]
    Root,
    /// The home directory or one above it.
    #[error("it contains the home directory {}", .0.display())]
    AboveHome(PathBuf),
    /// Ostler's directory or one above it.
    #[error("it contains Ostler's own directory {}", .0.display())]
    AboveOstler(PathBuf),
    /// In Ostler's directory.
    #[error("it is in Ostler's own directory {}", .0.display())]
    InOstler(PathBuf),
    /// In a directory that no jailed process sees.
    #[error("it is in {}, which a jailed agent never sees", .0.display())]
    NeverVisible(PathBuf),
    /// In a directory that the configuration hides.
    #[error("it is in {}, which [jail] hide hides", .0.display())]
    HiddenByConfig(PathBuf),
    /// In the directory of the agent's own files, which the agent changes at every level.
    #[error("it is in the agent's own directory {}", .0.display())]
    AgentsOwn(PathBuf),
    /// A directory that all programs of the machine share.
    #[error("it is shared by all programs of this machine")]
    Shared,
}

/// Why an entry of the configuration is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// Relative.
    #[error("is not an absolute path")]
    Relative,
    /// Not there.
    #[error("does not exist")]
    Missing,
    /// It or something below it is never visible.
    #[error("would show {}, which a jailed agent never sees", .0.display())]
    Shows(PathBuf),
    /// In a directory of the kernel or of the machine's services.
    #[error("is not a directory of files")]
    NoFiles,
    /// A link, which a jailed agent may have made.
    #[error("leads to {}", .0.display())]
    Link(PathBuf),
    /// The run needs it.
    #[error("would hide {}, which every run needs", .0.display())]
    Needed(PathBuf),
}

impl JailRefusal {
    /// What to do instead.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Workspace { reason, .. } => reason.hint(),
            Self::Home { .. } => "set HOME to a directory of its own, or use --no-jail".to_owned(),
            Self::Read { reason, .. } => match reason {
                EntryFault::Relative => "write the path in full, beginning with `/` or `~/`".to_owned(),
                EntryFault::Missing => "correct the path, or remove it from [jail] read".to_owned(),
                EntryFault::Link(target) => format!("write {} instead", target.display()),
                EntryFault::Shows(_) | EntryFault::NoFiles | EntryFault::Needed(_) => {
                    "name only the directories that the agent needs, or use --no-jail".to_owned()
                }
            },
            Self::Hide { reason, .. } => match reason {
                EntryFault::Relative => "write the path in full, beginning with `/` or `~/`".to_owned(),
                EntryFault::Missing
                | EntryFault::Shows(_)
                | EntryFault::NoFiles
                | EntryFault::Link(_)
                | EntryFault::Needed(_) => "name a directory that the agent can do without".to_owned(),
            },
            Self::State { .. } => "give the agent a directory of its own, or use --no-jail".to_owned(),
            Self::StateElsewhere { path, .. } => {
                format!("replace the link {} by what it leads to, or use --no-jail", path.display())
            }
        })
    }
}

impl WorkspaceFault {
    fn hint(&self) -> String {
        match self {
            Self::Root | Self::AboveHome(_) | Self::AboveOstler(_) => {
                "use --cwd with the directory of one project, or --no-jail"
            }
            Self::InOstler(_) | Self::NeverVisible(_) | Self::AgentsOwn(_) => {
                "use --cwd with another directory, or --no-jail"
            }
            Self::HiddenByConfig(_) => "use --cwd with another directory, or remove it from [jail] hide",
            Self::Shared => "use --cwd with a directory below it, or --no-jail",
        }
        .to_owned()
    }
}
