//! The jail around an agent that may not do everything: which wall, and what it lets through.
//!
//! - `walls`: which wall this machine can set, tried and remembered.

mod walls;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, Permissions};
use ostler_agent::jail::{
    CacheLayers, ConfigWrites, JailFacts, JailKind, JailLevel, JailRefusal, Resident, RunJail,
};
use ostler_agent::network::{AgentNetwork, NetAccess, NetPolicy};
use ostler_process::egress::UserProxy;
use ostler_process::jail::facts::{git_facts, read_settings, real_path, state_entries};
use ostler_process::jail::layers::{LAYERS, Layers};
use ostler_process::jail::{Canary, CanaryError};
use ostler_process::run::PlannedJail;

pub(crate) use walls::{Wall, best_wall, choose_wall, forget_walls, remedy};

use crate::surroundings::Surroundings;

/// What a user decides about the jail.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JailTerms {
    /// Whether there is none: `--no-jail`.
    pub(crate) is_off: bool,
    pub(crate) config_writes: ConfigWrites,
    /// `[jail] read`.
    pub(crate) read: Vec<PathBuf>,
    /// `[jail] hide`.
    pub(crate) hide: Vec<PathBuf>,
    /// `--net`.
    pub(crate) net: NetAccess,
}

/// Why there is no jail.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JailFault {
    #[error(transparent)]
    Refused(#[from] JailRefusal),
    #[error(transparent)]
    Canary(#[from] CanaryError),
    #[error("`{}` is not a wall", .name)]
    Unknown { name: String },
    #[error(transparent)]
    NoWall(#[from] NoWall),
    #[error("{obstacle}")]
    Network { obstacle: String },
}

/// Why no wall can be set here.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "permission levels `deny` and `edits` need a jail, and none can be set here: namespaces ({namespace}), \
     Landlock ({landlock})"
)]
pub(crate) struct NoWall {
    namespace: String,
    landlock: String,
    /// What helps.
    remedies: Vec<String>,
}

impl NoWall {
    pub(crate) fn hint(&self) -> String {
        let without = "--no-jail, which leaves it to the agent to keep its permissions";
        let all: Vec<&str> = self.remedies.iter().map(String::as_str).chain([without]).collect();
        all.join("; or ")
    }
}

impl JailFault {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::Canary(_) => Some("set OSTLER_HOME to a folder that you can write to".to_owned()),
            Self::Unknown { .. } => {
                Some(format!("unset {}, or set it to namespace or landlock", walls::FORCE_JAIL))
            }
            Self::NoWall(no_wall) => Some(no_wall.hint()),
            Self::Network { .. } => None,
        }
    }
}

/// Limits the network of a jail to what its agent needs and the user permits, by the proxy that `env`
/// names.
pub(crate) fn limit_network(
    jail: PlannedJail,
    access: &NetAccess,
    network: &AgentNetwork,
    env: &[(OsString, OsString)],
) -> Result<PlannedJail, JailFault> {
    let Some(policy) = NetPolicy::decide(access, network) else { return Ok(jail) };
    match &network.obstacle {
        Some(obstacle) if jail.kind == JailKind::Namespace => {
            Err(JailFault::Network { obstacle: obstacle.clone() })
        }
        _ => Ok(jail.with_network(policy, UserProxy::from_variables(env))),
    }
}

/// What is to be jailed.
pub(crate) struct Prisoner<'a> {
    pub(crate) agent: &'a dyn Agent,
    pub(crate) resident: Resident,
    pub(crate) permissions: Permissions,
    pub(crate) workspace: &'a Path,
    pub(crate) program: &'a Path,
    pub(crate) ostler: &'a Path,
    pub(crate) env: &'a [(OsString, OsString)],
    /// The directory of the run.
    pub(crate) folder: &'a Path,
    /// The directory of what it alone needs.
    pub(crate) private: &'a Path,
    /// Other directories that Ostler made for it alone.
    pub(crate) own: &'a [PathBuf],
    /// Whether builds in it write to layers above the user's caches.
    pub(crate) has_layers: bool,
    pub(crate) terms: &'a JailTerms,
}

/// The jail of a run behind this wall; none if the run may do everything.
pub(crate) fn plan_jail(
    prisoner: &Prisoner<'_>,
    kind: JailKind,
    here: &Surroundings,
) -> Result<Option<PlannedJail>, JailFault> {
    let Some(level) = JailLevel::of(prisoner.permissions) else { return Ok(None) };
    let find = |name: &str| prisoner.env.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let variable = |name: &str| find(name).map(|value| value.to_string_lossy().into_owned());
    let user_home = here.user_home().unwrap_or_else(|| PathBuf::from("/"));
    let home = find("HOME").map_or_else(|| user_home.clone(), PathBuf::from);
    let root = real_path(here.home.root()).unwrap_or_else(|| here.home.root().to_owned());
    let folder = real_path(prisoner.folder).unwrap_or_else(|| prisoner.folder.to_owned());
    let sockets = here.home.sockets(here.variable("XDG_RUNTIME_DIR"));
    let config = here.home.user_config().parent().map(Path::to_owned);
    let elsewhere: Vec<PathBuf> = [Some(sockets), config].into_iter().flatten().collect();
    let own: Vec<PathBuf> = prisoner.own.iter().filter_map(|path| real_path(path)).collect();
    let private = real_or_expected(prisoner.private);
    let canary = Canary::create(&folder)?;
    let program = real_path(prisoner.program).unwrap_or_else(|| prisoner.program.to_owned());
    let git = git_facts(prisoner.workspace);
    let project = git.repository.as_ref().map_or(prisoner.workspace, |repository| &repository.common_dir);
    let layers = match kind {
        JailKind::Namespace if prisoner.has_layers => Layers::claim(&root.join(LAYERS), project),
        JailKind::Namespace | JailKind::Landlock => None,
    };
    let private_caches = private.join("caches");
    let facts = JailFacts {
        kind,
        agent: prisoner.agent,
        resident: prisoner.resident,
        level,
        config_writes: prisoner.terms.config_writes,
        workspace: prisoner.workspace,
        git: &git,
        home: &home,
        user_home: &user_home,
        variable: &variable,
        ostler_home: &root,
        ostler_elsewhere: &elsewhere,
        private: &private,
        own: &own,
        program: &program,
        ostler_program: prisoner.ostler,
        read: &prisoner.terms.read,
        hide: &prisoner.terms.hide,
        caches: match &layers {
            Some(layers) => CacheLayers::Overlay(layers.folder()),
            None => CacheLayers::Variables(&private_caches),
        },
        canary: &canary.path(),
        real_path: &real_path,
        entries: &state_entries,
    };
    let mut decision = RunJail::decide(&facts)?;
    let hidden: Vec<String> = decision
        .settings
        .iter()
        .filter_map(|file| Some((file, read_settings(file)?)))
        .flat_map(|(file, text)| decision.hidden_names(file, &text, &real_path))
        .collect();
    decision.warnings.extend(hidden);
    Ok(Some(PlannedJail::new(kind, decision, canary).with_layers(layers)))
}

/// A path with its links resolved, also if its last parts do not exist yet.
fn real_or_expected(path: &Path) -> PathBuf {
    let found = real_path(path);
    let parent = || Some(real_or_expected(path.parent()?).join(path.file_name()?));
    found.or_else(parent).unwrap_or_else(|| path.to_owned())
}
