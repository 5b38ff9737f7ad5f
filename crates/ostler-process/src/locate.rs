//! Where an agent's program is: as configured, else as installed by Ostler, else on `PATH`.
//!
//! npm puts a wrapper on `PATH`: killing one leaves the real agent running, and it costs a Node.js. Where the native
//! program is beside the wrapper, that one is found instead. Nothing here starts a program.

use std::env::consts;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ostler_agent::agent::Agent;
use ostler_agent::package::Package;

use crate::install::{installed_link, installed_program};

mod unusable;

pub(crate) use unusable::file_kind;
use unusable::find_fault;
pub use unusable::{FileKind, Unusable};

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// The program that the user named. If there is one, nothing else is considered.
    pub configured: Option<PathBuf>,
    /// The folder that Ostler installs agents into.
    pub agents: PathBuf,
    /// The value of `PATH`.
    pub path: Option<OsString>,
}

/// How a program was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Named in the configuration.
    Configured,
    /// Installed by Ostler.
    Installed,
    /// On `PATH`.
    OnPath,
}

impl Origin {
    /// The word for it in tables and messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Configured => "config",
            Self::Installed => "ostler",
            Self::OnPath => "PATH",
        }
    }
}

/// What kind of file a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Started by the kernel itself.
    Native,
    /// Text that an interpreter runs: stopping it may not stop the agent.
    Script,
}

/// A program that was found. It exists and may be executed; whether it starts, only [`crate::probe`] can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What to start, without symbolic links.
    pub path: PathBuf,
    /// How it was found.
    pub origin: Origin,
    /// What kind of file it is.
    pub form: Form,
}

/// Why there is no program to start.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocateError {
    /// Nowhere.
    #[error(
        "agent `{agent}` is not installed: Ostler has not installed it, and there is no `{program}` on PATH"
    )]
    NotInstalled {
        /// The agent's name.
        agent: &'static str,
        /// The command that would be on `PATH`.
        program: &'static str,
    },
    /// The configuration names a path where nothing is.
    #[error("agent `{agent}` is not installed where the configuration says: {} does not exist", .path.display())]
    NotThere {
        /// The agent's name.
        agent: &'static str,
        /// What the configuration says.
        path: PathBuf,
    },
    /// There is something, but it is no program that can be started. Nothing else is used or fetched in its place.
    #[error("agent `{agent}` cannot be started: {} {fault}", .path.display())]
    Unusable {
        /// The agent's name.
        agent: &'static str,
        /// Where.
        path: PathBuf,
        /// How it was found.
        origin: Origin,
        /// What it is.
        fault: Unusable,
    },
}

impl LocateError {
    /// What to try, for the error printer.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotInstalled { agent, .. } => format!(
                "`ostler agents install {agent}`, or set `agents.{agent}.program` in config.toml to where it is"
            ),
            Self::NotThere { agent, .. } => format!(
                "correct `agents.{agent}.program` (`ostler config show --origin` tells where it is set), or remove it"
            ),
            Self::Unusable { agent, path, origin, fault } => {
                let executable = match fault {
                    Unusable::NotExecutable(_) => format!("`chmod +x {}`, or ", path.display()),
                    _ => String::new(),
                };
                match origin {
                    Origin::Configured => format!(
                        "{executable}correct `agents.{agent}.program` (`ostler config show --origin` says where it is \
                         set)"
                    ),
                    Origin::Installed => format!("`ostler agents install {agent}` installs it again"),
                    Origin::OnPath => format!(
                        "{executable}remove it, or `ostler agents install {agent}`, which Ostler uses before PATH"
                    ),
                }
            }
        })
    }

    /// The path that cannot be started, if there is something at it.
    pub fn unusable_path(&self) -> Option<&Path> {
        match self {
            Self::Unusable { path, .. } => Some(path),
            Self::NotInstalled { .. } | Self::NotThere { .. } => None,
        }
    }
}

/// Finds an agent's program. Reads the file system only.
pub fn locate(agent: &dyn Agent, search: &Search) -> Result<Program, LocateError> {
    let (name, package) = (agent.name(), agent.package());
    let unusable = |path: &Path, origin, fault| match (fault, origin) {
        (Unusable::Missing, Origin::Configured) => {
            LocateError::NotThere { agent: name, path: path.to_owned() }
        }
        (fault, origin) => LocateError::Unusable { agent: name, path: path.to_owned(), origin, fault },
    };
    if let Some(configured) = &search.configured {
        return match executable(configured) {
            Some(path) => Ok(program(package, path, Origin::Configured)),
            None => {
                let fault = find_fault(configured).unwrap_or(Unusable::Missing);
                Err(unusable(configured, Origin::Configured, fault))
            }
        };
    }
    if let Some(path) = installed_program(&search.agents, package) {
        return Ok(Program { form: form(&path), path, origin: Origin::Installed });
    }
    // A damaged install is reported: to use or fetch another one in its place would hide the damage.
    if let Some(link) = installed_link(&search.agents, package)
        && let Some(fault) = find_fault(&link)
    {
        let path = link.canonicalize().unwrap_or(link);
        return Err(unusable(&path, Origin::Installed, fault));
    }
    if let Some(path) = on_path(package.program, search.path.as_deref()) {
        return Ok(program(package, path, Origin::OnPath));
    }
    Err(match unusable_on_path(package.program, search.path.as_deref()) {
        Some((path, fault)) => unusable(&path, Origin::OnPath, fault),
        None => LocateError::NotInstalled { agent: name, program: package.program },
    })
}

/// The first file of that name on `PATH` that cannot be started. Folders do not count, as they do not for a shell.
fn unusable_on_path(program: &str, path: Option<&OsStr>) -> Option<(PathBuf, Unusable)> {
    let folders = std::env::split_paths(path?).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(program)).find_map(|file| match find_fault(&file) {
        None | Some(Unusable::Missing | Unusable::Folder | Unusable::Unreadable(_)) => None,
        Some(fault) => Some((file, fault)),
    })
}

/// The first executable file of that name in the absolute folders of `PATH`. Relative ones do not count: a project
/// must not bring its own agent by being the current directory.
pub fn on_path(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let folders = std::env::split_paths(path?).filter(|folder| folder.is_absolute());
    let absolute = std::env::join_paths(folders).ok()?;
    which::which_in_global(program, Some(absolute)).ok()?.next()
}

fn program(package: &Package, found: PathBuf, origin: Origin) -> Program {
    let real = found.canonicalize().unwrap_or(found);
    let path = match form(&real) {
        Form::Native => real,
        Form::Script => native_beside(package, &real).unwrap_or(real),
    };
    Program { form: form(&path), path, origin }
}

/// The native program of the `node_modules` that a wrapper is in.
fn native_beside(package: &Package, wrapper: &Path) -> Option<PathBuf> {
    let modules = wrapper.ancestors().find(|folder| {
        folder.file_name() == Some(OsStr::new("node_modules"))
            && wrapper.starts_with(folder.join(package.npm))
    })?;
    native_in(package, modules).into_iter().next()
}

/// The native programs for this machine that are below a `node_modules`, the preferred one first.
pub(crate) fn native_in(package: &Package, modules: &Path) -> Vec<PathBuf> {
    let paths = package.native_paths(consts::OS, consts::ARCH);
    paths.into_iter().filter_map(|path| executable(&modules.join(path))).collect()
}

/// The file without symbolic links, if it may be executed.
pub(crate) fn executable(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    let may_start = real.is_file() && rustix::fs::access(&real, rustix::fs::Access::EXEC_OK).is_ok();
    may_start.then_some(real)
}

/// A file that begins with an executable's magic number is native; anything else needs an interpreter. (An npm
/// package whose install script did not run has a plain text without `#!` in place of its program.)
fn form(path: &Path) -> Form {
    let mut magic = [0_u8; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    match (read, magic) {
        // ELF; Mach-O of one processor, either word size; Mach-O of several.
        (Ok(()), [0x7f, b'E', b'L', b'F'] | [0xce | 0xcf, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe]) => {
            Form::Native
        }
        _ => Form::Script,
    }
}

#[cfg(test)]
#[path = "locate_tests.rs"]
mod tests;
