//! The configuration: defaults < the user's `config.toml` < the project's `.ostler/config.toml` < `OSTLER_CFG__…`
//! variables < flags.
//!
//! Each layer is read strictly by itself, so that a mistake is told where it was made; then the layers are laid over
//! each other value by value, and each effective value remembers where it came from.

mod file;
mod layers;
mod sections;
mod tightening;
mod trust;
mod values;
mod variables;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ostler_agent::agent::Agent;
use ostler_agent::agents::AGENTS;
use ostler_agent::document::Mistake;
use ostler_agent::repository_config::name_some;
use ostler_process::trust::store;

pub(crate) use file::read as read_small;
pub(crate) use sections::{
    ColorWhen, Config, PriceSection, ProbeAt, Run as RunSection, Serve as ServeSection,
};
pub(crate) use trust::{Trust, TrustError, folder};
#[cfg(target_os = "linux")]
pub(crate) use values::FilePath;
use values::Switch;
pub(crate) use values::{Count, Money, Span, TerminalSize};

use crate::surroundings::Surroundings;
use layers::Layer;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: Option<usize> },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File { path, line: Some(line) } => write!(out, "{}, line {line}", path.display()),
            Self::File { path, line: None } => write!(out, "{}", path.display()),
            Self::Variable(name) => out.write_str(name),
            Self::Flag(name) => out.write_str(name),
        }
    }
}

/// One effective value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Effective {
    pub(crate) value: toml::Value,
    pub(crate) origin: Origin,
}

/// The configuration in force.
#[derive(Debug)]
pub(crate) struct Settings {
    /// As types.
    pub(crate) config: Config,
    /// As dotted keys, sorted, to be shown: without secrets.
    pub(crate) values: BTreeMap<String, Effective>,
    /// The files that were read, lowest first.
    pub(crate) files: Vec<PathBuf>,
    /// What a project's file sets in vain.
    pub(crate) ignored: Option<Ignored>,
}

/// Keys of a project's file that are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ignored {
    /// The file.
    pub(crate) file: PathBuf,
    /// The project.
    pub(crate) project: PathBuf,
    /// The keys, dotted.
    pub(crate) keys: Vec<String>,
    pub(crate) reason: IgnoredBecause,
}

/// Why keys of a project's file are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoredBecause {
    /// The project is not trusted.
    Untrusted,
    /// No project may set them.
    UsersOwn,
}

impl Ignored {
    /// What a person should know, and do about it.
    pub(crate) fn warning(&self) -> String {
        let (verb, project) = (if self.keys.len() == 1 { "is" } else { "are" }, self.project.display());
        let reason = match self.reason {
            IgnoredBecause::Untrusted => format!(
                "a project that is not trusted may only tighten limits and permissions; `ostler trust {project}` shows \
                 and trusts it"
            ),
            IgnoredBecause::UsersOwn => {
                "only your own config.toml can let a program run outside the jail".to_owned()
            }
        };
        format!("{} in {} {verb} ignored: {reason}", name_some(&self.keys), self.file.display())
    }
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error(transparent)]
    Mistake(#[from] Mistake),
    #[error("could not read {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    TrustStore(#[from] store::TrustError),
}

impl ConfigError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Mistake(mistake) => mistake.hint(),
            Self::Read { .. } => Some("check that it is a text file that you may read".to_owned()),
            Self::Trust(error) => error.hint(),
            Self::TrustStore(error) => error.hint(),
        }
    }
}

impl Settings {
    /// Reads all layers. The first mistake in the lowest layer is reported.
    pub(crate) fn load(here: &Surroundings) -> Result<Self, ConfigError> {
        let mut layers = vec![Layer::defaults()?];
        layers.extend(Layer::user(here.home.user_config())?);
        let mut ignored = None;
        if let Some(project) = project_of(&here.cwd, here.home.user_config()) {
            let (below, _) = layers::merge(&layers)?;
            let (layer, in_vain) = Layer::project(&project, here, &below)?;
            layers.push(layer);
            ignored = in_vain;
        }
        layers.extend(variables::layers(&here.variables)?);
        layers.extend(here.color.map(Layer::color_flag).transpose()?);
        let files = layers.iter().filter_map(Layer::file_path).map(Path::to_owned).collect();
        let (config, values) = layers::merge(&layers)?;
        Ok(Self { config, values, files, ignored })
    }

    /// What holds when nothing is set, for those who must go on although something is set wrongly.
    pub(crate) fn defaults() -> Result<Self, ConfigError> {
        let (config, values) = layers::merge(&[Layer::defaults()?])?;
        Ok(Self { config, values, files: Vec::new(), ignored: None })
    }

    /// Where a value came from, by its dotted key.
    pub(crate) fn origin(&self, key: &str) -> Origin {
        self.values.get(key).map_or(Origin::Default, |effective| effective.origin.clone())
    }

    /// Whether the program of an MCP server runs in the jail of a run. To let it out, the user's own file must name the
    /// program: a project could name another one. `program_from` is where the program is named.
    pub(crate) fn is_mcp_jailed(&self, server: &str, program_from: &Origin, user_config: &Path) -> bool {
        let is_let_out = self.config.mcp.get(server).and_then(|server| server.jail) == Some(Switch(false));
        let is_users_own = match program_from {
            Origin::File { path, .. } => path == user_config,
            Origin::Default | Origin::Variable(_) | Origin::Flag(_) => true,
        };
        !(is_let_out && is_users_own)
    }

    /// The program that the user chose for an agent. Agents of one package have one binary, so that what is set for
    /// `claude` holds for `claude-headless` too, unless that has its own.
    pub(crate) fn program(&self, agent: &dyn Agent) -> Option<PathBuf> {
        self.chosen(agent).map(|(_, program)| program)
    }

    /// The dotted key by which the user chose it.
    pub(crate) fn program_key(&self, agent: &dyn Agent) -> Option<String> {
        self.chosen(agent).map(|(name, _)| format!("agents.{name}.program"))
    }

    fn chosen(&self, agent: &dyn Agent) -> Option<(&'static str, PathBuf)> {
        let slot = agent.package().slot;
        let kin = AGENTS.iter().filter(|other| other.package().slot == slot).map(|other| other.name());
        std::iter::once(agent.name())
            .chain(kin)
            .find_map(|name| Some((name, self.config.agents.program(name)?)))
    }
}

/// The nearest folder at or above `cwd` with a `.ostler/config.toml`; the user's own file is not a project's.
pub(crate) fn project_of(cwd: &Path, user_config: &Path) -> Option<PathBuf> {
    let is_project = |folder: &&Path| {
        let file = project_file(folder);
        // Whatever it is: what is not a file is refused when it is read, not passed over.
        file.exists() && !is_same(&file, user_config)
    };
    cwd.ancestors().find(is_project).map(Path::to_owned)
}

/// Whether two paths lead to one file, whatever links and `..` are on the way.
fn is_same(left: &Path, right: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(left) == real(right)
}

/// A project's configuration, from the project's folder.
pub(crate) const PROJECT_CONFIG: &str = ".ostler/config.toml";

/// A project's configuration.
pub(crate) fn project_file(project: &Path) -> PathBuf {
    project.join(PROJECT_CONFIG)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
