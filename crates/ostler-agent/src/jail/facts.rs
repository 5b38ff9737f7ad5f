//! What the decision about a jail is made from. `ostler-process` gathers it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::JailKind;
use crate::agent::{Agent, Permissions};

/// A permission level that a jail enforces. `all` has no jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JailLevel {
    /// The workspace can be read.
    Deny,
    /// The workspace can be changed, but for what is guarded.
    Edits,
}

impl JailLevel {
    /// The level of a run's permissions, if a jail enforces it.
    pub fn of(permissions: Permissions) -> Option<Self> {
        match permissions {
            Permissions::Deny => Some(Self::Deny),
            Permissions::Edits => Some(Self::Edits),
            Permissions::All => None,
        }
    }
}

/// Whether files that an agent or git loads as configuration can be changed in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigWrites {
    /// They are read-only.
    Guarded,
    /// `--allow-config-writes`.
    Allowed,
}

/// Whose agent a jail is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resident {
    /// The user's own: it sees their toolchains, and what they made readable.
    User,
    /// A tenant's: nothing of the user's home is visible, but for the agent's program.
    Tenant,
}

/// How builds write to the caches of toolchains without changing the user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheLayers<'a> {
    /// An overlay over each cache. The layers are below this directory, which belongs to one project.
    Overlay(&'a Path),
    /// Environment variables that point each toolchain below this directory, which belongs to one project.
    Variables(&'a Path),
}

/// What the policy of a run's jail is decided from. Paths are absolute.
#[derive(Clone, Copy)]
pub struct JailFacts<'a> {
    /// The wall.
    pub kind: JailKind,
    /// The agent.
    pub agent: &'a dyn Agent,
    /// Whose agent it is.
    pub resident: Resident,
    /// What it may do.
    pub level: JailLevel,
    /// Whether configuration in the workspace can be changed.
    pub config_writes: ConfigWrites,
    /// Where it works: links resolved.
    pub workspace: &'a Path,
    /// The repository around the workspace, and those in it.
    pub git: &'a GitFacts,
    /// `HOME` of the agent. In a rehearsal and for a tenant it is one of [`JailFacts::own`].
    pub home: &'a Path,
    /// The home directory of the user who runs Ostler. Only in a rehearsal and for a tenant is it another one.
    pub user_home: &'a Path,
    /// The variables that the agent is started with.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Ostler's own directory.
    pub ostler_home: &'a Path,
    /// Where else Ostler keeps what a run must not see: the directory of `config.toml`, the directory of sockets.
    pub ostler_elsewhere: &'a [PathBuf],
    /// The private directory of the run. It is visible at its own path.
    pub private: &'a Path,
    /// Other directories that Ostler made for this run or session alone, visible at their own paths, in Ostler's directory
    /// or not: the home of a rehearsal, the workspace of a served session.
    pub own: &'a [PathBuf],
    /// The agent's program: links resolved.
    pub program: &'a Path,
    /// Our own binary, which the agent may call.
    pub ostler_program: &'a Path,
    /// `[jail] read`, with `~` resolved.
    pub read: &'a [PathBuf],
    /// `[jail] hide`, with `~` resolved.
    pub hide: &'a [PathBuf],
    /// Where the caches of toolchains are written.
    pub caches: CacheLayers<'a>,
    /// [`super::JailPolicy::canary`].
    pub canary: &'a Path,
    /// A path with its links resolved; `None` if it does not exist.
    pub real_path: &'a dyn Fn(&Path) -> Option<PathBuf>,
    /// The names in a directory; none if it cannot be read.
    pub entries: &'a dyn Fn(&Path) -> Vec<OsString>,
}

/// The repositories that a workspace has to do with. Nothing here was believed because a file in the workspace says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitFacts {
    /// The one that the workspace is in, or is.
    pub repository: Option<Repository>,
    /// Repositories below the workspace.
    pub nested: Vec<NestedRepository>,
    /// Files and directories below the workspace, not directly in it, that agents load as configuration.
    pub configuration: Vec<PathBuf>,
    /// Whether the whole workspace was searched for the last two.
    pub is_complete: bool,
}

/// A repository. All paths have their links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The directory with `.git` in it. A bare repository is its own.
    pub root: PathBuf,
    /// `.git` in it, a directory or a file. A bare repository itself.
    pub dot_git: PathBuf,
    /// The directory that `.git` is or names.
    pub git_dir: PathBuf,
    /// The directory that linked worktrees share with the main one. Often the same.
    pub common_dir: PathBuf,
    /// The git directories of submodules, below `modules`.
    pub modules: Vec<PathBuf>,
    /// The git directories of linked worktrees, below `worktrees`.
    pub worktrees: Vec<PathBuf>,
    /// `core.hooksPath`, if that is a directory in the repository.
    pub hooks_path: Option<PathBuf>,
}

/// A repository below a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NestedRepository {
    /// A git directory: `.git`, or a bare repository.
    Directory(PathBuf),
    /// A `.git` file, which names a git directory.
    File(PathBuf),
}
