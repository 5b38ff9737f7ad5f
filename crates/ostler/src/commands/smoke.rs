//! `ostler smoke`: does Ostler still drive the agents that are installed here?

mod inner;
mod looking;
mod matrix;
mod progress;
mod report;
mod table;
mod task;
mod told;
mod trying;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use ostler_agent::agent::Agent;
use ostler_agent::agents::AGENTS;
use ostler_rehearsal::script::{self, BUILTIN};

use crate::commands::rehearse::RehearseError;
use crate::commands::run::RunUsage;
use crate::display;
use crate::failure::Failure;
use crate::interrupt::Signals;
use crate::programs::{self, Sighting, survey};
use crate::surroundings::Surroundings;

use matrix::Matrix;
use progress::Progress;
use told::{Model, Smoked, Told};
use trying::Trial;

/// What the model is unless somebody says otherwise.
const SCRIPT: &str = "smoke";

/// Not every agent passed.
pub(crate) const NOT_GREEN: u8 = 20;

/// Arguments of `ostler smoke`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler smoke                          every installed agent in every engine, with a scripted model
  ostler smoke codex opencode           these two
  ostler smoke claude                   Claude Code's own terminal program
  ostler smoke --report smoke.md        a report to keep, or to attach to an issue
  ostler smoke --json | jq -r '.results[] | .agent + \" \" + .verdict'
  ostler smoke claude-headless --live   with your own account: this spends tokens

Each agent is given a small task by `ostler run`, one after the other: write one
file, hand over an artifact, declare completion. What is then seen is judged as
twelve facts. The last result that was green is kept, and a new version is
compared with it. Nothing is spent unless --live is given.
Exit code 0 if every agent passes, 20 if not.")]
pub(crate) struct Args {
    /// Try these agents [default: every installed one, Claude Code over pipes and in its terminal].
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,

    /// With the real provider and your own account, instead of a scripted model. This spends tokens.
    #[arg(long)]
    live: bool,

    /// Another script for the model, to see what the test makes of it: a built-in name or a file.
    #[arg(long, value_name = "SCRIPT", conflicts_with = "live")]
    script: Option<String>,

    /// Also write a report, in Markdown.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Print the JSON Schema of what --json prints, and end.
    #[arg(long, conflicts_with_all = ["agents", "live", "script", "report", "json"])]
    schema: bool,
}

/// Why nothing was tried, or not told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SmokeError {
    #[error("no agent is installed, so there is nothing to try")]
    NoAgent,
    #[error("could not make a place to try an agent in")]
    Yard(#[source] io::Error),
    #[error("could not write the report to {}", .path.display())]
    Report {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl SmokeError {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoAgent => "`ostler agents install claude-headless`, or codex, or opencode".to_owned(),
            Self::Yard(_) => "set TMPDIR to a folder that you can write to".to_owned(),
            Self::Report { .. } => "name a file in a folder that exists and that you can write to".to_owned(),
        })
    }

    /// Whether this is an answer: not green.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::NoAgent)
    }
}

/// Tries them all, and tells.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    if args.schema {
        display::json(&told::schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let began = Instant::now();
    let settings = here.settings()?;
    let agents = wanted(&args.agents)?;
    let model = model(&args, here)?;
    if let Some(path) = &args.report {
        // Now, and not when everything was tried and paid for.
        write_report(&here.cwd.join(path), None)?;
    }
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let surveyed = tokio::select! {
        biased;
        by = signals.next() => return Err(by.into()),
        surveyed = survey(&agents, &settings, here) => surveyed?,
    };
    let sightings: Vec<Sighting> = surveyed
        .into_iter()
        .filter(|sighting| !args.agents.is_empty() || sighting.path().is_some())
        .collect();
    if sightings.is_empty() {
        if args.json {
            display::json(&Told::new(Vec::new()))?;
        }
        return Err(SmokeError::NoAgent.into());
    }
    if model == Model::Live {
        tell_costs(&sightings);
    }
    here.home.create()?;
    let (mut matrix, wrong) = Matrix::open(&here.home.smoke_matrix());
    if let Some(wrong) = wrong {
        display::tell(&format!("warning: {wrong}"));
    }
    let trial = Trial { model: &model, here, guard: std::env::current_exe().map_err(RunUsage::Guard)? };
    let mut results = Vec::new();
    // One after the other: the time to the first event is compared, and two at once would take each other's.
    for (index, sighting) in sightings.iter().enumerate() {
        let mut progress = Progress::begin(sighting, index + 1, sightings.len());
        let tried = Box::pin(trial.smoke(sighting, &mut matrix, &mut signals, &mut progress)).await;
        let smoked = tried.inspect_err(|_| progress.clear())?;
        progress.end(&smoked);
        results.push(smoked);
    }
    tell(&args, results, &model, began, here)
}

/// Prints the results, and gives the code to end with.
fn tell(
    args: &Args,
    results: Vec<Smoked>,
    model: &Model,
    began: Instant,
    here: &Surroundings,
) -> Result<ExitCode, Failure> {
    let is_green = results.iter().all(Smoked::is_green);
    let told = Told::new(results);
    if let Some(path) = &args.report {
        let text = report::markdown(&told.results, model, began.elapsed());
        write_report(&here.cwd.join(path), Some(&text))?;
    }
    if args.json {
        display::json(&told)?;
    } else {
        display::text(&table::text(&told.results, model, began.elapsed(), display::columns_or_endless()))?;
    }
    Ok(if is_green { ExitCode::SUCCESS } else { ExitCode::from(NOT_GREEN) })
}

/// The agents of those names, each once. If there are no names: all, in every engine that they have.
fn wanted(names: &[String]) -> Result<Vec<&'static dyn Agent>, Failure> {
    if names.is_empty() {
        return Ok(AGENTS.to_vec());
    }
    let mut agents: Vec<&'static dyn Agent> = Vec::new();
    for name in names {
        let agent = programs::agent(name)?;
        if agents.iter().all(|known| known.name() != agent.name()) {
            agents.push(agent);
        }
    }
    Ok(agents)
}

/// Who the model is. A script with a mistake is told before anything is started.
fn model(args: &Args, here: &Surroundings) -> Result<Model, Failure> {
    if args.live {
        return Ok(Model::Live);
    }
    let wished = args.script.as_deref().unwrap_or(SCRIPT);
    let script = match BUILTIN.iter().any(|builtin| builtin.name == wished) {
        true => wished.to_owned(),
        false => here.cwd.join(wished).display().to_string(),
    };
    script::load(&script).map_err(RehearseError::from)?;
    Ok(Model::Script(script))
}

/// Whoever asks for it gets it, but not without having been told.
fn tell_costs(sightings: &[Sighting]) {
    // One agent may be tried in two engines, which have one title.
    let names: Vec<String> = sightings
        .iter()
        .filter(|sighting| sighting.version().is_some())
        .map(|sighting| format!("{} ({})", sighting.agent.title(), sighting.agent.name()))
        .collect();
    if !names.is_empty() {
        display::tell(&format!(
            "note: --live asks the real provider with your own account and spends your tokens: one small task each for \
             {}. Ctrl-C stops it.",
            names.join(", ")
        ));
    }
}

/// How to get an agent that is not here.
fn install(agent: &dyn Agent) -> String {
    format!("`ostler agents install {}`", agent.name())
}

/// Makes sure that the report can be written, and then writes it.
fn write_report(path: &Path, text: Option<&str>) -> Result<(), SmokeError> {
    let failed = |source| SmokeError::Report { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(text.is_some());
    let mut file = options.open(path).map_err(failed)?;
    file.write_all(text.unwrap_or_default().as_bytes()).map_err(failed)
}
