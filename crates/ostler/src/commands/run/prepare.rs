//! Everything that must be known and made before an agent is started. What cannot be run is refused before anything is
//! written.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_agent::agent::{Agent, Enforcement, Engine};
use ostler_agent::budget::Ledger;
use ostler_agent::endpoint::Provider;
use ostler_agent::jail::Resident;
use ostler_agent::prices::Prices;
use ostler_process::contain::Ahead;
use ostler_process::jail::Canary;
use ostler_process::journal::{Facts, Journal, State};
use ostler_process::locate::LocateError;
use ostler_process::probe::ProbeError;
use ostler_process::run::{
    Beginning, Checks, Plan, Watching, agent_network, configured_provider, exempt_loopback, inherited,
    limits_json,
};
use ostler_process::terminal::pty::Size;
use ostler_process::trust::Decision;
use ostler_rehearsal::script::Play;
use rustix::fs::{Access, access};
use serde_json::Value;

use super::args::{Args, Level};
use super::bridge::Wanted;
use super::choice::{Choice, Picked};
use super::fetch::fetch;
use super::rehearsal::Rehearsed;
use super::terms::Terms;
use super::trusting;
use crate::config::Settings;
use crate::failure::Failure;
use crate::interrupt::{Interrupted, Signals};
use crate::jailing::{JailFault, Prisoner, Wall, limit_network, plan_jail};
use crate::programs;
use crate::surroundings::Surroundings;

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
    #[error("the prompt from {from} has a NUL character, at byte {at}")]
    Nul { from: String, at: usize },
    #[error("there is no folder {}", .path.display())]
    Workspace {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the folder that the run worked in is gone: {}", .path.display())]
    WorkspaceGone {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a folder", .path.display())]
    NotAFolder { path: PathBuf },
    #[error("could not work in {}", .path.display())]
    Closed {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the name of {what} {} is not UTF-8", .path.display())]
    NotUtf8 { what: &'static str, path: PathBuf },
    #[error("nothing can be changed in {}", .path.display())]
    ReadOnly {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("agent `{name}` is a terminal program that Ostler cannot drive")]
    Terminal { name: &'static str },
    #[error("agent `{name}` cannot be driven that way")]
    NoSuchEngine { name: &'static str },
    #[error("a program that Ostler does not know cannot be rehearsed: how it takes its model is not known")]
    NotRehearsed,
    #[error("no agent can be run")]
    NoAgent,
    #[error("the run was given the variable `{name}`, whose value is not kept: it may be a secret")]
    Variable { name: String },
    #[error("run {run} is completed: nothing is left to do")]
    Done { run: String },
    #[error("run {run} has a bridge, at which its agent declares completion")]
    Bridged { run: String },
    #[error("run {run} has used up what it may use")]
    Spent { run: String },
    #[error(
        "run {run} may have used up what it may use: its agent ended before it reported what its model calls cost"
    )]
    CostUnknown { run: String },
    #[error("--max-cost cannot be enforced: {agent} reports no cost{}", of_model(.model.as_deref()))]
    NoCost { agent: &'static str, model: Option<String> },
    #[error("--max-tokens cannot be enforced: {agent} reports no tokens")]
    NoTokens { agent: &'static str },
    #[error("--net {net} needs a jail")]
    NetWithoutJail { net: String },
    #[error(transparent)]
    Jail(#[from] JailFault),
    #[error("could not make a directory for temporary files")]
    Temporary(#[source] io::Error),
    #[error("could not tell which program this is")]
    Guard(#[source] io::Error),
}

impl RunUsage {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Prompt { .. } => "give a file that you may read, in UTF-8".to_owned(),
            Self::Empty => "say what to do: `ostler run \"make the tests pass\"`".to_owned(),
            Self::Nul { .. } => "remove it: agents read text".to_owned(),
            Self::Workspace { .. } | Self::NotAFolder { .. } => "name a folder that exists".to_owned(),
            Self::WorkspaceGone { .. } => {
                "bring it back; or begin a new run elsewhere, with --cwd DIR and what to do".to_owned()
            }
            Self::NotUtf8 { .. } => {
                "rename it, or use one whose whole path is UTF-8: a run is kept as JSON, which has no \
                                     other names"
                    .to_owned()
            }
            Self::NetWithoutJail { .. } => {
                "use it with --permissions deny or edits, and without --no-jail".to_owned()
            }
            Self::Closed { .. } => "name a folder that you may read and enter".to_owned(),
            Self::ReadOnly { .. } => {
                "`--permissions deny` only reads; `--permissions all` may work elsewhere".to_owned()
            }
            Self::Terminal { .. } => "`-a claude-headless` is the same agent without its screen".to_owned(),
            Self::NoSuchEngine { .. } => "leave out --engine; `ostler agents` lists what there is".to_owned(),
            Self::NotRehearsed => {
                "leave out --rehearse, or start `ostler rehearse` and point it there".to_owned()
            }
            Self::NoAgent => "`ostler agents install codex`".to_owned(),
            Self::Variable { name } => format!("set it again: --env {name}=VALUE"),
            Self::Done { run } => {
                format!("to go on in its session, say with what: `ostler run --resume {run} \"and now …\"`")
            }
            Self::Bridged { .. } => "leave out --no-bridge: what counts was recorded there".to_owned(),
            Self::Spent { .. } | Self::CostUnknown { .. } => {
                "allow it more: --max-cost, --max-tokens, --max-turns".to_owned()
            }
            Self::NoCost { agent: "command", .. } | Self::NoTokens { .. } => {
                "leave it out, and limit the time instead: --ceiling".to_owned()
            }
            Self::NoCost { agent, model } => {
                let model = model.as_deref().unwrap_or("MODEL");
                let other = match *agent {
                    "claude" => "use `-a claude-headless`, which reports its cost",
                    _ => "limit the tokens instead: --max-tokens",
                };
                format!(
                    "set [prices.\"{model}\"] in config.toml, with `input` and `output` in US dollars per million tokens; or {other}"
                )
            }
            Self::Jail(fault) => return fault.hint(),
            Self::Temporary(_) => "set TMPDIR to a directory that you can write to".to_owned(),
            Self::Guard(_) => return None,
        })
    }

    /// Whether what was asked for cannot be asked for.
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(self, Self::Guard(_) | Self::Temporary(_))
    }
}

fn of_model(model: Option<&str>) -> String {
    model.map(|model| format!(" for the model `{model}`")).unwrap_or_default()
}

/// The program of an agent, and its version.
pub(super) struct Found {
    pub(super) program: PathBuf,
    pub(super) version: Option<String>,
}

/// A run that can begin.
pub(super) struct Prepared<'a> {
    pub(super) plan: Plan<'a>,
    /// What will guard its first process.
    pub(super) ahead: Option<Ahead>,
    pub(super) facts: Facts,
    pub(super) beginning: Beginning,
    pub(super) journal: Journal,
    pub(super) rehearsed: Option<Rehearsed>,
    /// The bridge that is to be opened.
    pub(super) wanted: Option<Wanted>,
    /// What its last outcome kept of the bridge.
    pub(super) kept: Option<Value>,
}

/// Why there is no program to run.
pub(super) enum Unlocated {
    Failed(Failure),
    /// Somebody did not want to wait for it.
    Cancelled {
        by: Interrupted,
        /// Processes that could not be ended.
        survivors: u32,
    },
}

impl<E: Into<Failure>> From<E> for Unlocated {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Where the agent's program is, and that it starts. A rehearsal fetches it if it is not there.
pub(super) async fn locate(
    choice: &Choice,
    settings: &Settings,
    signals: &mut Signals,
    here: &Surroundings,
) -> Result<Found, Unlocated> {
    match &choice.agent {
        Picked::Known(agent) => {
            if choice.script.is_some() && !is_there(*agent, settings, here) {
                tokio::select! {
                    biased;
                    by = signals.next() => return Err(Unlocated::Cancelled { by, survivors: 0 }),
                    fetched = fetch(*agent, settings, here) => fetched?,
                }
            }
            let program = programs::find(*agent, settings, here)?.path;
            utf8("the program", &program)?;
            let mut stopped = None;
            let stop = async { stopped = Some(signals.next().await) };
            let version = match (programs::version(*agent, &program, here, stop).await, stopped) {
                (Err(error @ ProbeError::Stopped { .. }), Some(by)) => {
                    return Err(Unlocated::Cancelled { by, survivors: error.survivors() });
                }
                (version, _) => version?,
            };
            Ok(Found { program, version: Some(version) })
        }
        Picked::Command(command) => {
            let program = command.program().unwrap_or_default();
            Ok(Found { program: program.into(), version: None })
        }
    }
}

/// Whether it is here, or meant to be: where the configuration says that it is, nothing is installed.
fn is_there(agent: &dyn Agent, settings: &Settings, here: &Surroundings) -> bool {
    !matches!(programs::find(agent, settings, here), Err(LocateError::NotInstalled { .. }))
}

/// Refuses a path that cannot be written down: `run.json` and every record are JSON.
pub(super) fn utf8(what: &'static str, path: &Path) -> Result<(), RunUsage> {
    match path.to_str() {
        Some(_) => Ok(()),
        None => Err(RunUsage::NotUtf8 { what, path: path.to_owned() }),
    }
}

/// Refuses a folder in which nothing can be done.
pub(super) fn usable(workspace: &Path, permissions: Level) -> Result<(), RunUsage> {
    utf8("the folder", workspace)?;
    let path = workspace.to_owned();
    if !workspace.is_dir() {
        return Err(RunUsage::NotAFolder { path });
    }
    if let Err(error) = access(workspace, Access::READ_OK | Access::EXEC_OK) {
        return Err(RunUsage::Closed { path, source: error.into() });
    }
    match (permissions, access(workspace, Access::WRITE_OK)) {
        (Level::Edits, Err(error)) => Err(RunUsage::ReadOnly { path, source: error.into() }),
        (Level::Edits, Ok(())) | (Level::Deny | Level::All, _) => Ok(()),
    }
}

/// What to do, from wherever it was said to be. Nothing, if a run is gone on with and nothing is said.
pub(super) fn prompt(args: &Args) -> Result<Option<String>, RunUsage> {
    let (from, text) = match (&args.prompt_file, args.prompt.as_deref()) {
        (Some(file), _) => (file.display().to_string(), std::fs::read_to_string(file)),
        (None, Some("-")) => {
            let mut text = String::new();
            let read = io::stdin().read_to_string(&mut text);
            ("standard input".to_owned(), read.map(|_| text))
        }
        (None, Some(prompt)) => ("the command line".to_owned(), Ok(prompt.to_owned())),
        (None, None) => return Ok(None),
    };
    let text = match text {
        Ok(text) => text,
        Err(source) => return Err(RunUsage::Prompt { from, source }),
    };
    match text.find('\0') {
        // A program that takes it as text would read half of it, without a word.
        Some(at) => Err(RunUsage::Nul { from, at }),
        None if text.trim().is_empty() => Err(RunUsage::Empty),
        None => Ok(Some(text)),
    }
}

/// Makes the run's folder, or opens it again, and sets the stage if it is a rehearsal.
pub(super) async fn prepare<'a>(
    args: &'a Args,
    choice: &'a Choice,
    found: &Found,
    terms: &'a Terms,
    (play, wanted, prices, wall): (Option<Play>, Option<Wanted>, Prices, Option<Wall>),
    here: &Surroundings,
) -> Result<Prepared<'a>, Failure> {
    // The record of a terminal session is found by its id, which is known at once if it is ours.
    let is_on_terminal = choice.agent.agent().engine() == Engine::Terminal;
    let session_id = args.session_id.or_else(|| is_on_terminal.then(uuid::Uuid::new_v4));
    let session_id = session_id.map(|id| id.to_string());
    let size = terms.terminal_size.map(|size| Size { columns: size.columns, rows: size.rows });
    let mut plan = Plan {
        agent: choice.agent.agent(),
        program: found.program.clone(),
        prompt: &choice.prompt,
        workspace: choice.workspace.clone(),
        permissions: terms.permissions.permissions(),
        enforcement: if wall.is_some() { Enforcement::Kernel } else { Enforcement::Agent },
        allow: &terms.allow,
        model: choice.model.as_deref(),
        system_prompt: terms.system_prompt.as_deref(),
        extra: &terms.agent_args,
        session_id,
        env: Vec::new(),
        marker: choice.agent.marker(),
        policy: terms.policy,
        budget: terms.budget,
        prices,
        probe: None,
        checks: Checks::default(),
        jail: None,
        capture: None,
        context: None,
        guard: std::env::current_exe().map_err(RunUsage::Guard)?,
        bridge: None,
        warnings: wall.as_ref().and_then(|wall| wall.warning.clone()).into_iter().collect(),
        gate: trusting::gate(wall.as_ref(), here),
        terminal_size: size.unwrap_or_default(),
        watching: if args.watch_at_once { Watching::AtOnce } else { Watching::Later },
    };
    let mut facts = facts(choice, found, terms);
    facts.given.bridge = wanted.is_some();
    let kept = choice.earlier.as_ref().and_then(|(kept, _)| match &kept.state {
        State::Ended(outcome) => Some(outcome["bridge"].clone()),
        State::Live | State::Abandoned => None,
    });
    let folder = here.home.runs().join(&facts.run);
    plan.launch(&folder.join("private"))?;
    // It gets ready while the run's folder is made.
    let ahead = Ahead::begin(&plan.guard);
    here.home.create()?;
    let (journal, beginning) = open(choice, &facts, terms, here)?;
    if let Some(wanted) = &wanted {
        wanted.keep(journal.folder())?;
    }
    let rehearsed = match play {
        Some(play) => Some(Rehearsed::start(play, plan.agent, &folder, &choice.workspace).await?),
        None => None,
    };
    let ours = here.variables.clone();
    plan.checks = Checks { commands: &terms.checks, env: inherited(ours.clone()) };
    plan.env = match &rehearsed {
        Some(rehearsed) => rehearsed.environment(ours),
        None => inherited(ours),
    };
    plan.env.retain(|(name, _)| args.env.iter().all(|(set, _)| name.to_str() != Some(set)));
    plan.env.extend(args.env.iter().map(|(name, value)| (name.into(), value.into())));
    if let Some(wall) = wall {
        Canary::remove_left(journal.folder());
        let prisoner = Prisoner {
            resident: Resident::User,
            agent: plan.agent,
            permissions: plan.permissions,
            workspace: &plan.workspace,
            program: &plan.program,
            ostler: &plan.guard,
            env: &plan.env,
            folder: journal.folder(),
            terms: &terms.jail,
            private: &journal.folder().join("private"),
            own: &[journal.folder().join("home")],
            has_layers: true,
        };
        // A run that was refused is no run.
        let forget = |beginning: &Beginning| {
            if matches!(beginning, Beginning::New) {
                let _ = std::fs::remove_dir_all(journal.folder());
            }
        };
        let jail = plan_jail(&prisoner, wall.kind, here);
        let jail = jail.map_err(RunUsage::from).inspect_err(|_| forget(&beginning))?;
        let trust = plan.decide_trust()?;
        // What the agent does not load is not obeyed here either: there is nothing in the run's own folder.
        let is_loaded = matches!(trust, Decision::Nothing | Decision::Trusted(_));
        let project = if is_loaded { &plan.workspace } else { &folder };
        let network = agent_network(plan.agent, &plan.env, project, plan.extra);
        let jail = jail.map(|jail| limit_network(jail, &terms.jail.net, &network, &plan.env)).transpose();
        let jail = jail.map_err(RunUsage::from).inspect_err(|_| forget(&beginning))?;
        let private = journal.folder().join("private");
        plan.jail = jail.map(|jail| Arc::new(jail.with_masks(trust.masks(), &private)));
        plan.warnings.extend(plan.jail.iter().flat_map(|jail| jail.decision.warnings.clone()));
    }
    // The probe must take the same way to the provider as the agent.
    exempt_loopback(&mut plan.env);
    plan.probe = match &terms.probe {
        // A run that may not be resumed ends with the failure that it has.
        _ if plan.policy.max_resumes == 0 => None,
        Some(set) => {
            set.endpoint().map(|set| Provider::at(set, "`network.probe` of the configuration".to_owned()))
        }
        None => {
            // What the agent does not load is not obeyed here either: there is nothing in the run's own folder.
            let is_loaded = matches!(plan.decide_trust()?, Decision::Nothing | Decision::Trusted(_));
            let workspace = if is_loaded { &plan.workspace } else { &folder };
            configured_provider(plan.agent, &plan.env, workspace, plan.extra)
        }
    };
    Ok(Prepared { plan, ahead, facts, beginning, journal, rehearsed, wanted, kept })
}

fn open(
    choice: &Choice,
    facts: &Facts,
    terms: &Terms,
    here: &Surroundings,
) -> Result<(Journal, Beginning), Failure> {
    let Some((kept, prompt)) = &choice.earlier else {
        return Ok((Journal::create(&here.home.runs(), facts)?, Beginning::New));
    };
    let past = kept.past()?;
    let ledger = Ledger::going_on(terms.budget, past.spent, past.turns, past.reserved);
    if ledger.forbids_a_turn().is_some() {
        let run = facts.run.clone();
        let is_known = past.reserved == 0.0;
        return Err(if is_known { RunUsage::Spent { run } } else { RunUsage::CostUnknown { run } }.into());
    }
    let (journal, past) = Journal::go_on(kept, facts)?;
    // By the clock on the wall, which may have been set back since.
    let age = Duration::from_secs(u64::try_from(now().saturating_sub(facts.began_at)).unwrap_or(0));
    let age = age.max(Duration::from_millis(past.ms));
    Ok((journal, Beginning::GoneOn { past: Box::new(past), prompt: prompt.clone(), age }))
}

pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// What is known of a run before it starts. What it is called and when it began stay as they were.
pub(super) fn facts(choice: &Choice, found: &Found, terms: &Terms) -> Facts {
    let earlier = choice.earlier.as_ref().map(|(kept, _)| &kept.facts);
    Facts {
        v: 1,
        run: earlier.map_or_else(|| uuid::Uuid::now_v7().to_string(), |facts| facts.run.clone()),
        agent: choice.name.clone(),
        engine: choice.agent.agent().engine().name().to_owned(),
        program: found.program.clone(),
        agent_version: found.version.clone(),
        cwd: choice.workspace.clone(),
        began_at: earlier.map_or_else(now, |facts| facts.began_at),
        prompt: choice.prompt.clone(),
        rehearse: choice.script.clone(),
        permissions: terms.permissions.name().to_owned(),
        limits: limits_json(&terms.policy.limits),
        given: terms.given(choice.model.as_deref()),
    }
}
