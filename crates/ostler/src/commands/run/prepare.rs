//! Everything that must be known and made before an agent is started. What cannot be run is refused before anything is
//! written.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ostler_agent::agent::{Agent, Engine};
use ostler_agent::agents::{AGENTS, Command};
use ostler_agent::budget::Budget;
use ostler_agent::completion::{Marker, OnQuota, Policy};
use ostler_agent::watchdog::Limits;
use ostler_process::journal::{Facts, Journal};
use ostler_process::locate::LocateError;
use ostler_process::probe;
use ostler_process::run::{Plan, RunError, inherited, limits_json};
use ostler_rehearsal::script::{self, Play};

use super::args::Args;
use super::rehearsal::Rehearsed;
use crate::commands::rehearse::RehearseError;
use crate::config::Settings;
use crate::failure::Failure;
use crate::programs;
use crate::surroundings::Surroundings;

/// What begins the words of an agent that Ostler knows nothing of.
const COMMAND: &str = "command:";

/// What cannot be asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunUsage {
    #[error("could not read the prompt from {from}")]
    Prompt {
        from: String,
        #[source]
        source: io::Error,
    },
    #[error("the prompt is empty")]
    Empty,
    #[error("there is no folder {}", .path.display())]
    Workspace {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("agent `{name}` is a terminal program, which cannot be run yet")]
    Terminal { name: &'static str },
    #[error("a program that Ostler does not know cannot be rehearsed: how it takes its model is not known")]
    NotRehearsed,
    #[error("no agent can be run")]
    NoAgent,
    #[error("could not tell which program this is")]
    Guard(#[source] io::Error),
}

impl RunUsage {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Prompt { .. } => "give a file that you may read, in UTF-8".to_owned(),
            Self::Empty => "say what to do: `ostler run \"make the tests pass\"`".to_owned(),
            Self::Workspace { .. } => "name a folder that exists".to_owned(),
            Self::Terminal { .. } => "`-a claude-headless` is the same agent without its screen".to_owned(),
            Self::NotRehearsed => {
                "leave out --rehearse, or start `ostler rehearse` and point it there".to_owned()
            }
            Self::NoAgent => "`ostler agents install codex`".to_owned(),
            Self::Guard(_) => return None,
        })
    }

    /// Whether what was asked for cannot be asked for.
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(self, Self::Guard(_))
    }
}

/// Who does what, where. Nothing is written yet.
pub(super) struct Chosen {
    agent: Picked,
    /// As it is called in the journal.
    name: String,
    model: Option<String>,
    program: PathBuf,
    version: Option<String>,
    prompt: String,
    workspace: PathBuf,
}

enum Picked {
    Known(&'static dyn Agent),
    Command(Command),
}

impl Picked {
    fn agent(&self) -> &dyn Agent {
        match self {
            Self::Known(agent) => *agent,
            Self::Command(command) => command,
        }
    }

    /// Of a program that is not known, only its exit code can be read.
    fn marker(&self) -> Marker {
        match self {
            Self::Known(_) => Marker::Record,
            Self::Command(_) => Marker::ExitCode,
        }
    }
}

/// A run that can begin.
pub(super) struct Prepared<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) facts: Facts,
    pub(super) journal: Journal,
    pub(super) rehearsed: Option<Rehearsed>,
}

/// Finds out who does what, where, and what the model will say if it is scripted.
pub(super) async fn choose(
    args: &Args,
    prompt: String,
    here: &Surroundings,
) -> Result<(Chosen, Option<Play>), Failure> {
    let settings = here.settings()?;
    let workspace = here.cwd.join(args.cwd.as_deref().unwrap_or(Path::new("")));
    let workspace = workspace.canonicalize();
    let workspace = workspace.map_err(|source| RunUsage::Workspace {
        path: args.cwd.clone().unwrap_or_else(|| here.cwd.clone()),
        source,
    })?;
    let script = args.rehearse.as_deref().map(script::load).transpose().map_err(RehearseError::from)?;
    let (name, model) = match args.agent.as_deref() {
        Some(named) if named.starts_with(COMMAND) => (named, None),
        Some(named) => {
            named.split_once('/').map_or((named, None), |(name, model)| (name, Some(model.to_owned())))
        }
        None => (by_default(&settings, here)?, None),
    };
    let name = name.to_owned();
    let (agent, program, version) = match name.strip_prefix(COMMAND) {
        Some(_) if script.is_some() => return Err(RunUsage::NotRehearsed.into()),
        Some(words) => {
            let command = Command::parse(words).map_err(RunError::from)?;
            let program = PathBuf::from(command.program().unwrap_or_default());
            (Picked::Command(command), program, None)
        }
        None => {
            let agent = programs::agent(&name)?;
            if agent.engine() == Engine::Terminal {
                return Err(RunUsage::Terminal { name: agent.name() }.into());
            }
            let program = programs::find(agent, &settings, here)?.path;
            let version = probe::version(agent.package(), &program).await?;
            (Picked::Known(agent), program, Some(version))
        }
    };
    Ok((Chosen { agent, name, model, program, version, prompt, workspace }, script))
}

/// The configuration's agent, else the first that is installed and can be run.
fn by_default(settings: &Settings, here: &Surroundings) -> Result<&'static str, Failure> {
    if let Some(name) = settings.config.agents.default.as_deref() {
        return Ok(programs::agent(name)?.name());
    }
    let mut nowhere: Option<LocateError> = None;
    for agent in AGENTS.iter().filter(|agent| agent.engine() == Engine::Stream) {
        match programs::find(*agent, settings, here) {
            Ok(_) => return Ok(agent.name()),
            Err(error) => nowhere = nowhere.or(Some(error)),
        }
    }
    Err(nowhere.map_or(RunUsage::NoAgent.into(), Failure::from))
}

/// What to do, from wherever it was said to be.
pub(super) fn prompt(args: &Args) -> Result<String, RunUsage> {
    let failed = |from: String| move |source| RunUsage::Prompt { from, source };
    let text = match (&args.prompt_file, args.prompt.as_deref()) {
        (Some(file), _) => std::fs::read_to_string(file).map_err(failed(file.display().to_string()))?,
        (None, Some("-")) => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(failed("standard input".to_owned()))?;
            text
        }
        (None, prompt) => prompt.unwrap_or_default().to_owned(),
    };
    if text.trim().is_empty() { Err(RunUsage::Empty) } else { Ok(text) }
}

/// Makes the run's folder, and sets the stage if it is a rehearsal.
pub(super) async fn prepare<'a>(
    args: &'a Args,
    chosen: &'a Chosen,
    script: Option<Play>,
    here: &Surroundings,
) -> Result<Prepared<'a>, Failure> {
    let limits = limits(args);
    let mut plan = Plan {
        agent: chosen.agent.agent(),
        program: chosen.program.clone(),
        prompt: &chosen.prompt,
        workspace: chosen.workspace.clone(),
        permissions: args.permissions.permissions(),
        allow: &args.allow,
        model: chosen.model.as_deref(),
        env: Vec::new(),
        marker: chosen.agent.marker(),
        policy: Policy { max_resumes: args.max_resumes, quota: OnQuota::Report, limits },
        budget: Budget { max_cost: args.max_cost, max_tokens: args.max_tokens, max_turns: args.max_turns },
        guard: std::env::current_exe().map_err(RunUsage::Guard)?,
    };
    let facts = facts(args, chosen, &limits);
    let folder = here.home.runs().join(&facts.run);
    plan.launch(&folder.join("private")).map_err(RunError::from)?;
    here.home.create()?;
    let journal = Journal::create(&here.home.runs(), &facts).map_err(RunError::from)?;
    let rehearsed = match script {
        Some(play) => Some(Rehearsed::start(play, plan.agent, &folder, &chosen.workspace).await?),
        None => None,
    };
    let ours = here.variables.clone();
    plan.env = match &rehearsed {
        Some(rehearsed) => rehearsed.environment(ours),
        None => inherited(ours),
    };
    plan.env.retain(|(name, _)| args.env.iter().all(|(set, _)| name.to_str() != Some(set)));
    plan.env.extend(args.env.iter().map(|(name, value)| (name.into(), value.into())));
    Ok(Prepared { plan, facts, journal, rehearsed })
}

fn limits(args: &Args) -> Limits {
    let defaults = Limits::default();
    Limits {
        start: args.start.unwrap_or(defaults.start),
        silence: args.silence.unwrap_or(defaults.silence),
        open_call: args.open_call.unwrap_or(defaults.open_call),
        ceiling: args.ceiling.unwrap_or(defaults.ceiling),
        ..defaults
    }
}

fn facts(args: &Args, chosen: &Chosen, limits: &Limits) -> Facts {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Facts {
        v: 1,
        run: uuid::Uuid::now_v7().to_string(),
        agent: chosen.name.clone(),
        engine: chosen.agent.agent().engine().name().to_owned(),
        program: chosen.program.clone(),
        agent_version: chosen.version.clone(),
        cwd: chosen.workspace.clone(),
        began_at: i64::try_from(now).unwrap_or(i64::MAX),
        prompt: chosen.prompt.clone(),
        rehearse: args.rehearse.clone(),
        permissions: args.permissions.name().to_owned(),
        limits: limits_json(limits),
    }
}
