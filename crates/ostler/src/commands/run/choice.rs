//! Who does what, where. Nothing is written yet.

use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, Engine};
use ostler_agent::agents::{AGENTS, Command};
use ostler_agent::completion::Marker;
use ostler_process::journal::{JournalError, Kept, State, find};
use ostler_process::run::RunError;
use ostler_rehearsal::script::{self, BUILTIN, Play};

use super::args::{Args, EngineName};
use super::fetch::QUICKEST;
use super::prepare::RunUsage;
use crate::commands::rehearse::RehearseError;
use crate::config::Settings;
use crate::failure::Failure;
use crate::programs;
use crate::surroundings::Surroundings;

/// What begins the words of an agent that Ostler knows nothing of.
const COMMAND: &str = "command:";

/// Who does what, where.
pub(super) struct Choice {
    pub(super) agent: Picked,
    /// As it is called in the journal.
    pub(super) name: String,
    pub(super) model: Option<String>,
    pub(super) workspace: PathBuf,
    /// What was asked when the run began.
    pub(super) prompt: String,
    /// The script's name or file.
    pub(super) script: Option<String>,
    /// The run that is gone on with, and what its agent is told.
    pub(super) earlier: Option<(Kept, Option<String>)>,
}

/// An agent.
pub(super) enum Picked {
    Known(&'static dyn Agent),
    Command(Command),
}

impl Picked {
    pub(super) fn agent(&self) -> &dyn Agent {
        match self {
            Self::Known(agent) => *agent,
            Self::Command(command) => command,
        }
    }

    /// Of a program that is not known, only its exit code can be read.
    pub(super) fn marker(&self) -> Marker {
        match self {
            Self::Known(_) => Marker::Record,
            Self::Command(_) => Marker::ExitCode,
        }
    }
}

impl Choice {
    /// What the arguments say, for a new run or for one that is gone on with.
    pub(super) fn of(
        args: &Args,
        prompt: Option<String>,
        settings: &Settings,
        here: &Surroundings,
    ) -> Result<(Self, Option<Play>), Failure> {
        match (&args.resume, prompt) {
            (Some(run), prompt) => Self::again(find(&here.home.runs(), run)?, prompt),
            (None, Some(prompt)) => Self::anew(args, prompt, settings, here),
            (None, None) => Err(RunUsage::Empty.into()),
        }
    }

    fn anew(
        args: &Args,
        prompt: String,
        settings: &Settings,
        here: &Surroundings,
    ) -> Result<(Self, Option<Play>), Failure> {
        let workspace = workspace(&here.cwd.join(args.cwd.as_deref().unwrap_or(Path::new(""))))?;
        let script = args.rehearse.as_deref().map(|script| named(script, &here.cwd));
        let (name, model) = match args.agent.as_deref() {
            Some(named) if named.starts_with(COMMAND) => (named.to_owned(), None),
            Some(named) => match named.split_once('/') {
                Some((name, model)) => (name.to_owned(), Some(model.to_owned())),
                None => (named.to_owned(), None),
            },
            None => (by_default(settings, here, script.as_deref())?.to_owned(), None),
        };
        let play = load(script.as_deref())?;
        let agent = picked(&name, args.engine, play.is_some())?;
        // Another engine of the same agent has a name of its own.
        let name = match &agent {
            Picked::Known(agent) => agent.name().to_owned(),
            Picked::Command(_) => name,
        };
        Ok((Self { agent, name, model, workspace, prompt, script, earlier: None }, play))
    }

    fn again(kept: Kept, prompt: Option<String>) -> Result<(Self, Option<Play>), Failure> {
        let (facts, run) = (&kept.facts, kept.facts.run.clone());
        match &kept.state {
            State::Live => return Err(JournalError::Busy { run }.into()),
            State::Ended(outcome) if outcome["outcome"] == "completed" && prompt.is_none() => {
                return Err(RunUsage::Done { run }.into());
            }
            State::Ended(_) | State::Abandoned => {}
        }
        let play = load(facts.rehearse.as_deref())?;
        let choice = Self {
            agent: picked(&facts.agent, None, play.is_some())?,
            name: facts.agent.clone(),
            model: facts.given.model.clone(),
            workspace: facts
                .cwd
                .canonicalize()
                .map_err(|source| RunUsage::WorkspaceGone { path: facts.cwd.clone(), source })?,
            prompt: facts.prompt.clone(),
            script: facts.rehearse.clone(),
            earlier: Some((kept, prompt)),
        };
        Ok((choice, play))
    }
}

fn workspace(path: &Path) -> Result<PathBuf, RunUsage> {
    path.canonicalize().map_err(|source| RunUsage::Workspace { path: path.to_owned(), source })
}

/// A file is named in full: the run may be gone on with from elsewhere.
fn named(script: &str, cwd: &Path) -> String {
    match BUILTIN.iter().any(|builtin| builtin.name == script) {
        true => script.to_owned(),
        false => cwd.join(script).display().to_string(),
    }
}

fn load(script: Option<&str>) -> Result<Option<Play>, RehearseError> {
    Ok(script.map(script::load).transpose()?)
}

fn picked(name: &str, engine: Option<EngineName>, rehearsed: bool) -> Result<Picked, Failure> {
    match (name.strip_prefix(COMMAND), engine.map(EngineName::engine)) {
        (Some(_), _) if rehearsed => Err(RunUsage::NotRehearsed.into()),
        (Some(_), Some(Engine::Terminal)) => Err(RunUsage::NoSuchEngine { name: "command" }.into()),
        (Some(words), _) => Ok(Picked::Command(Command::parse(words).map_err(RunError::from)?)),
        (None, engine) => {
            let agent = programs::agent(name)?;
            let driven = match engine {
                Some(engine) => kin(agent, engine).ok_or(RunUsage::NoSuchEngine { name: agent.name() })?,
                None => agent,
            };
            match (driven.engine(), driven.interactive()) {
                (Engine::Terminal, None) => Err(RunUsage::Terminal { name: driven.name() }.into()),
                (Engine::Terminal, Some(_)) | (Engine::Stream, _) => Ok(Picked::Known(driven)),
            }
        }
    }
}

/// The same program, driven this way.
fn kin(agent: &'static dyn Agent, engine: Engine) -> Option<&'static dyn Agent> {
    let slot = agent.package().slot;
    AGENTS.iter().copied().find(|other| other.package().slot == slot && other.engine() == engine)
}

/// The configuration's agent, else the first that is installed and can be run. If none is: the one that a rehearsal
/// fetches, else the first that could be installed.
fn by_default(
    settings: &Settings,
    here: &Surroundings,
    script: Option<&str>,
) -> Result<&'static str, Failure> {
    if let Some(name) = settings.config.agents.default.as_deref() {
        return Ok(programs::agent(name)?.name());
    }
    let mut runnable = AGENTS.iter().copied().filter(|agent| agent.engine() == Engine::Stream);
    let first = runnable.clone().next().ok_or(RunUsage::NoAgent)?;
    let installed = runnable.find(|agent| programs::find(*agent, settings, here).is_ok());
    Ok(match (installed, script) {
        (Some(agent), _) => agent.name(),
        (None, Some(_)) => QUICKEST.name(),
        (None, None) => first.name(),
    })
}
