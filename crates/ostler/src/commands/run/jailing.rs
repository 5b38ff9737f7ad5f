//! Decides on the wall around the processes of a run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, Permissions};
use ostler_agent::jail::{CacheLayers, ConfigWrites, JailFacts, JailKind, JailLevel, JailRefusal, RunJail};
use ostler_process::jail::facts::{git_facts, real_path};
use ostler_process::jail::{Canary, CanaryError};
use ostler_process::run::PlannedJail;

use crate::surroundings::Surroundings;

/// Puts a wall around runs, for tests: the value is a [`JailKind`]'s name. Without it they have none.
const FORCE_JAIL: &str = "OSTLER_FORCE_JAIL";

/// Why there is no wall.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JailFault {
    #[error(transparent)]
    Refused(#[from] JailRefusal),
    #[error(transparent)]
    Canary(#[from] CanaryError),
    #[error("{FORCE_JAIL} is `{name}`, which is no wall")]
    Unknown { name: String },
}

impl JailFault {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::Canary(_) => Some("set OSTLER_HOME to a folder that you can write to".to_owned()),
            Self::Unknown { .. } => Some(format!("unset {FORCE_JAIL}, or set it to namespace or landlock")),
        }
    }
}

/// What is to be jailed.
pub(super) struct Prisoner<'a> {
    pub(super) agent: &'a dyn Agent,
    pub(super) permissions: Permissions,
    pub(super) workspace: &'a Path,
    pub(super) program: &'a Path,
    pub(super) ostler: &'a Path,
    pub(super) env: &'a [(std::ffi::OsString, std::ffi::OsString)],
    /// The directory of the run.
    pub(super) folder: &'a Path,
}

/// The wall around a run, if it is to have one.
pub(super) fn plan_jail(
    prisoner: &Prisoner<'_>,
    here: &Surroundings,
) -> Result<Option<PlannedJail>, JailFault> {
    let Some(kind) = forced(here.variable(FORCE_JAIL))? else { return Ok(None) };
    let Some(level) = JailLevel::of(prisoner.permissions) else { return Ok(None) };
    let variable = |name: &str| {
        let found = prisoner.env.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.to_string_lossy().into_owned())
    };
    let user_home = here.user_home().unwrap_or_else(|| PathBuf::from("/"));
    let home = variable("HOME").map_or_else(|| user_home.clone(), PathBuf::from);
    let root = real_path(here.home.root()).unwrap_or_else(|| here.home.root().to_owned());
    let folder = real_path(prisoner.folder).unwrap_or_else(|| prisoner.folder.to_owned());
    let sockets = here.home.sockets(here.variable("XDG_RUNTIME_DIR"));
    let config = here.home.user_config().parent().map(Path::to_owned);
    let elsewhere: Vec<PathBuf> = [Some(sockets), config].into_iter().flatten().collect();
    let own: Vec<PathBuf> = [folder.join("home")].into_iter().filter(|home| home.is_dir()).collect();
    let canary = Canary::create(&folder)?;
    let program = real_path(prisoner.program).unwrap_or_else(|| prisoner.program.to_owned());
    let facts = JailFacts {
        agent: prisoner.agent,
        level,
        config_writes: ConfigWrites::Guarded,
        workspace: prisoner.workspace,
        git: &git_facts(prisoner.workspace),
        home: &home,
        user_home: &user_home,
        variable: &variable,
        ostler_home: &root,
        ostler_elsewhere: &elsewhere,
        private: &folder.join("private"),
        own: &own,
        program: &program,
        ostler_program: prisoner.ostler,
        read: &[],
        hide: &[],
        caches: CacheLayers::Variables(&folder.join("private").join("caches")),
        canary: &canary.path(),
        real_path: &real_path,
    };
    let decision = RunJail::decide(&facts)?;
    Ok(Some(PlannedJail { kind, decision, canary }))
}

fn forced(variable: Option<&OsStr>) -> Result<Option<JailKind>, JailFault> {
    let Some(name) = variable.filter(|name| !name.is_empty()) else { return Ok(None) };
    let known = [JailKind::Namespace, JailKind::Landlock].into_iter().find(|kind| name == kind.name());
    known.map(Some).ok_or_else(|| JailFault::Unknown { name: name.display().to_string() })
}
