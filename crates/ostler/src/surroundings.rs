//! What a process finds around itself, read once: variables, current directory, Ostler's home, flags above commands.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use ostler_process::trust::Gate;

use crate::config::{ColorWhen, ConfigError, Settings};
use crate::failure::Failure;
use crate::home::Home;

/// What every command is given.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// The environment.
    pub(crate) variables: BTreeMap<OsString, OsString>,
    /// The current directory.
    pub(crate) cwd: PathBuf,
    /// Where Ostler keeps its state.
    pub(crate) home: Home,
    /// What `--color` says.
    pub(crate) color: Option<ColorWhen>,
}

impl Surroundings {
    /// This process's.
    pub(crate) fn of_process(color: Option<ColorWhen>) -> Result<Self, Failure> {
        let variables: BTreeMap<_, _> = std::env::vars_os().collect();
        let cwd = std::env::current_dir().map_err(Failure::CurrentDir)?;
        let home = Home::resolve(variables.get(OsStr::new("OSTLER_HOME")).map(OsString::as_os_str), &cwd)?;
        Ok(Self { variables, cwd, home, color })
    }

    /// One variable.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The home of the user: as the variable says, or as the system knows it.
    pub(crate) fn user_home(&self) -> Option<PathBuf> {
        let said = self.variable("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        said.or_else(std::env::home_dir)
    }

    /// Decides whether agents may load what a repository brings.
    pub(crate) fn gate(&self) -> Gate {
        Gate::new(self.home.trusted_repositories(), self.user_home())
    }

    /// The configuration, from all its layers. Reads files, writes none.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        Settings::load(self)
    }
}
