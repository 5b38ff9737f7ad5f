//! Where Ostler keeps its state and the user's configuration. Asking creates nothing.

mod format;

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy as _, Xdg};

pub(crate) use format::FormatError;

/// Folders are readable by their owner only.
const PRIVATE: u32 = 0o700;

/// `OSTLER_HOME`, or the XDG folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    root: PathBuf,
    config: PathBuf,
    is_named: bool,
}

/// Why there is no home.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("could not tell where to keep Ostler's state")]
    Nowhere(#[source] etcetera::HomeDirError),
    #[error("could not use `{}` as Ostler's home", .path.display())]
    Path {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl HomeError {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Format(error) => return error.hint(),
            Self::Nowhere(_) => "set HOME, or OSTLER_HOME to a folder of your choice".to_owned(),
            Self::Path { .. } => "set OSTLER_HOME to a folder that you can write to".to_owned(),
        })
    }
}

impl Home {
    /// `OSTLER_HOME` if it is set to something, else the XDG data folder; the configuration goes with the former.
    pub(crate) fn resolve(ostler_home: Option<&OsStr>, cwd: &Path) -> Result<Self, HomeError> {
        if let Some(named) = ostler_home.filter(|named| !named.is_empty()) {
            let root = cwd.join(named);
            return Ok(Self { config: root.join("config.toml"), root, is_named: true });
        }
        let folders = Xdg::new().map_err(HomeError::Nowhere)?;
        Ok(Self {
            root: folders.data_dir().join("ostler"),
            config: folders.config_dir().join("ostler").join("config.toml"),
            is_named: false,
        })
    }

    /// The folder itself. It may not exist.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where agents are installed.
    pub(crate) fn agents(&self) -> PathBuf {
        self.root.join("agents")
    }

    /// Where runs are kept.
    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Where what was said is kept.
    pub(crate) fn memory(&self) -> PathBuf {
        self.root.join("memory")
    }

    /// The user's configuration file. It may not exist.
    pub(crate) fn user_config(&self) -> &Path {
        &self.config
    }

    /// The repositories that the user trusts, by the content of their files. It may not exist.
    pub(crate) fn trusted_repositories(&self) -> PathBuf {
        self.root.join("trusted-repositories.json")
    }

    /// The list of projects that 0.1 trusted by their paths. It may not exist.
    pub(crate) fn trusted(&self) -> PathBuf {
        self.root.join("trusted.json")
    }

    /// Which version each program was when it was last asked. It may not exist.
    pub(crate) fn versions(&self) -> PathBuf {
        self.root.join("versions.json")
    }

    /// Who may talk to what is served. It may not exist.
    pub(crate) fn keys(&self) -> PathBuf {
        self.root.join("keys.json")
    }

    /// Where programs are tried. Not there unless one is being tried.
    pub(crate) fn probes(&self) -> PathBuf {
        self.root.join("probes")
    }

    /// The last results of smoke tests that were green. It may not exist.
    pub(crate) fn smoke_matrix(&self) -> PathBuf {
        self.root.join("smoke-matrix.json")
    }

    /// Where live runs have their sockets: with all else if `OSTLER_HOME` says where that is, so that homes do not meet,
    /// else where the session keeps such things.
    pub(crate) fn sockets(&self, runtime: Option<&OsStr>) -> PathBuf {
        let runtime = runtime.map(Path::new).filter(|runtime| runtime.is_absolute() && runtime.is_dir());
        match (self.is_named, runtime) {
            (false, Some(runtime)) => runtime.join("ostler"),
            (true, _) | (false, None) => self.root.join("sockets"),
        }
    }

    /// Refuses a folder that a newer Ostler wrote. Writes nothing.
    pub(crate) fn check_format(&self) -> Result<(), FormatError> {
        format::check(&self.root)
    }

    /// Makes sure that the folder exists, readable by its owner only, and may be written by this build.
    pub(crate) fn create(&self) -> Result<(), HomeError> {
        self.check_format()?;
        DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE)
            .create(&self.root)
            .map_err(|source| HomeError::Path { path: self.root.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ostler_home_moves_everything_and_may_be_relative() {
        let home = Home::resolve(Some(OsStr::new("there")), Path::new("/place")).unwrap();
        assert_eq!(home.root(), Path::new("/place/there"));
        assert_eq!(home.user_config(), Path::new("/place/there/config.toml"));
    }

    #[test]
    fn an_empty_ostler_home_is_none() {
        let home = Home::resolve(Some(OsStr::new("")), Path::new("/place")).unwrap();
        assert!(home.root().ends_with("ostler") && home.root() != Path::new("/place"));
    }
}
