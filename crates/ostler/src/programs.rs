//! Agents by name, and their programs: where each is on this machine, and whether it starts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_agent::agent::{self, Agent};
use ostler_agent::agents::AGENTS;
use ostler_agent::document::nearest;
use ostler_process::locate::{LocateError, Program, Search, locate};
use ostler_process::probe::{self, Place, ProbeError, Remembered};
use tokio::task::JoinSet;

use crate::config::Settings;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// There is no agent of that name.
#[derive(Debug, thiserror::Error)]
#[error("no agent is called `{name}`")]
pub(crate) struct UnknownAgent {
    name: String,
}

impl UnknownAgent {
    pub(crate) fn hint(&self) -> Option<String> {
        let names = || AGENTS.iter().map(|agent| agent.name());
        Some(match nearest(&self.name, names()) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("one of {}", names().collect::<Vec<_>>().join(", ")),
        })
    }
}

/// The agent of that name.
pub(crate) fn agent(name: &str) -> Result<&'static dyn Agent, UnknownAgent> {
    agent::find(name).ok_or_else(|| UnknownAgent { name: name.to_owned() })
}

/// Where an agent's program is, by configuration, Ostler's own installs, and `PATH`, in this order.
pub(crate) fn find(
    agent: &dyn Agent,
    settings: &Settings,
    here: &Surroundings,
) -> Result<Program, LocateError> {
    let search = Search {
        configured: settings.program(agent),
        agents: here.home.agents(),
        path: here.variable("PATH").map(OsStr::to_owned),
    };
    locate(agent, &search)
}

/// Where programs are tried, guarded by ourselves.
pub(crate) fn place(here: &Surroundings) -> Place {
    Place { homes: here.home.probes(), guard: std::env::current_exe().ok() }
}

/// The version of an agent's program, unless `stop` comes first. Asked once: as long as the file is the same, so is the
/// answer.
pub(crate) async fn version(
    agent: &dyn Agent,
    program: &Path,
    here: &Surroundings,
    stop: impl Future<Output = ()>,
) -> Result<String, ProbeError> {
    probe::sweep(&here.home.probes());
    let memory = Remembered::at(&here.home.versions());
    if let Some(version) = memory.version_of(program) {
        return Ok(version);
    }
    // Without a home of ours the program is tried elsewhere, and asked again the next time.
    let has_home = here.home.create().is_ok();
    let version = probe::version_unless(agent.package(), program, &place(here), stop).await?;
    if has_home {
        memory.keep(program, &version);
    }
    Ok(version)
}

/// What was seen of one agent.
pub(crate) struct Sighting {
    pub(crate) agent: &'static dyn Agent,
    pub(crate) program: Result<Program, LocateError>,
    /// What its program answered; shared, because two agents may have one binary. `None` without a program.
    pub(crate) version: Option<Arc<Result<String, ProbeError>>>,
}

impl Sighting {
    /// The version, if it starts.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()?.as_deref().ok()
    }

    /// Where its program is, or what stands in its place.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.program {
            Ok(program) => Some(&program.path),
            Err(error) => error.unusable_path(),
        }
    }

    /// Whether there is a program, and it cannot be started.
    pub(crate) fn is_broken(&self) -> bool {
        self.path().is_some() && self.version().is_none()
    }

    /// Why it does not start, if that was tried.
    pub(crate) fn trouble(&self) -> Option<&ProbeError> {
        self.version.as_deref()?.as_ref().err()
    }
}

/// Finds the agents and starts each distinct program once, all at the same time. Takes no longer than
/// [`probe::PROBE_LIMIT`]; dropping it ends what it started.
pub(crate) async fn survey(
    agents: &[&'static dyn Agent],
    settings: &Settings,
    here: &Surroundings,
) -> Result<Vec<Sighting>, Failure> {
    let found: Vec<_> = agents.iter().map(|agent| (*agent, find(*agent, settings, here))).collect();
    let mut answers: BTreeMap<PathBuf, Arc<Result<String, ProbeError>>> = BTreeMap::new();
    let mut probes = JoinSet::new();
    let mut seen = std::collections::BTreeSet::new();
    for (agent, program) in &found {
        if let Ok(program) = program
            && seen.insert(program.path.clone())
        {
            let (package, path, place) = (agent.package(), program.path.clone(), place(here));
            probes.spawn(async move { (path.clone(), probe::version(package, &path, &place).await) });
        }
    }
    while let Some(answer) = probes.join_next().await {
        let (path, version) = answer.map_err(|error| Failure::Runtime(error.into()))?;
        answers.insert(path, Arc::new(version));
    }
    let sightings = found.into_iter().map(|(agent, program)| {
        let version = program.as_ref().ok().and_then(|program| answers.get(&program.path).cloned());
        Sighting { agent, program, version }
    });
    Ok(sightings.collect())
}
