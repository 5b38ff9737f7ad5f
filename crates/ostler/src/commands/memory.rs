//! `ostler memory`: what was said in any session, taken down by hooks and found again.

mod backfill;
mod capture;
mod daemon;
mod doctor;
mod exchange;
mod facts;
mod failure;
mod hooks;
mod keeping;
mod key;
mod mcp;
mod model;
mod passphrase;
mod recall;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Subcommand;
pub(crate) use failure::MemoryError;
use ostler_agent::jail::JAIL_VARIABLE;
use ostler_agent::remembering::{HOOKS_OFF, HOOKS_VARIABLE};
use ostler_memory::place::Place;
use ostler_memory::store::{PATIENT, Store};

use crate::failure::Failure;
use crate::home::Home;
use crate::surroundings::Surroundings;

/// Arguments of `ostler memory`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory hooks install            let the agents here be remembered
  ostler memory recall \"retry limit\"     what was said about it
  ostler memory backfill                 take in what agents have kept already
  ostler memory status

Hooks write small files and exit within milliseconds; they start nothing. What they wrote
goes into the store with the next `recall`, `drain` or session.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Debug, Subcommand)]
enum MemoryCommand {
    /// Take down what is new in an agent's own record.
    CaptureTranscript(capture::CaptureArgs),
    /// What the installed hooks call: reads the agent's JSON on stdin. Always exits with 0.
    Hook(capture::HookArgs),
    /// Put our hooks into the settings of agents, look at them, take them out.
    Hooks(hooks::Args),
    /// Find what was said.
    Recall(recall::RecallArgs),
    /// What was said before and after a message.
    Timeline(recall::TimelineArgs),
    /// One message, whole.
    Show(recall::ShowArgs),
    /// Keep a fact.
    Remember(facts::RememberArgs),
    /// Say what is true instead of a message: found first from then on.
    Correct(facts::CorrectArgs),
    /// Have a message told to every new session of its project.
    Pin(facts::PinArgs),
    /// Remove for good.
    Forget(facts::ForgetArgs),
    /// Put into the store what hooks took down.
    Drain(keeping::DrainArgs),
    /// What is kept, and what waits.
    Status(keeping::StatusArgs),
    /// Print all messages, one JSON line each.
    Export(exchange::ExportArgs),
    /// Take in what `export` printed.
    Import(exchange::ImportArgs),
    /// Take in the sessions that agents have kept on this machine.
    Backfill(backfill::BackfillArgs),
    /// What the store is encrypted with: look at it, change it.
    Key(key::Args),
    /// Tell what is wrong with memory, and what to do about it.
    Doctor(doctor::DoctorArgs),
    /// The model that finds by meaning what shares no word with a question.
    Model(model::Args),
    /// An MCP server on standard input and output, for agents to search with.
    Mcp(mcp::McpArgs),
    /// An optional accelerator: takes in what hooks hand over, at once.
    Daemon(daemon::Args),
}

impl MemoryCommand {
    /// Whether the store is opened on behalf of whoever sits at the terminal.
    fn opens(&self) -> bool {
        match self {
            Self::Hooks(_) | Self::CaptureTranscript(_) | Self::Hook(_) => false,
            Self::Key(args) => args.opens(),
            Self::Daemon(args) => args.opens(),
            Self::Recall(_)
            | Self::Timeline(_)
            | Self::Show(_)
            | Self::Remember(_)
            | Self::Correct(_)
            | Self::Pin(_)
            | Self::Forget(_)
            | Self::Drain(_)
            | Self::Status(_)
            | Self::Export(_)
            | Self::Import(_)
            | Self::Backfill(_)
            | Self::Doctor(_)
            | Self::Model(_)
            | Self::Mcp(_) => true,
        }
    }
}

impl Args {
    /// What an agent waits for.
    pub(crate) fn hasty(&self) -> Option<capture::Hasty<'_>> {
        match &self.command {
            MemoryCommand::CaptureTranscript(args) => Some(capture::Hasty::Capture(args)),
            MemoryCommand::Hook(args) => Some(capture::Hasty::Hook(args)),
            _ => None,
        }
    }
}

/// Runs what an agent waits for. Ends with 0, whatever happens.
pub(crate) fn hasty(what: capture::Hasty<'_>) -> ExitCode {
    let began = Instant::now();
    let is_off = std::env::var_os(HOOKS_VARIABLE).is_some_and(|value| value == HOOKS_OFF);
    if what.is_hook() && (is_off || std::env::var_os(JAIL_VARIABLE).is_some()) {
        capture::ignore();
        return ExitCode::SUCCESS;
    }
    // A directory that was removed has no path.
    let cwd = std::env::current_dir().ok();
    let base = cwd.as_deref().unwrap_or(Path::new("/"));
    if let Ok(home) = Home::resolve(std::env::var_os("OSTLER_HOME").as_deref(), base)
        && home.check_format().is_ok()
    {
        capture::run(what, &Place::new(home.memory()), cwd.as_deref(), began);
    }
    ExitCode::SUCCESS
}

/// Runs it.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let is_asked = args.command.opens();
    let place = passphrase::opened(Place::new(here.home.memory()), here, is_asked)?;
    match args.command {
        MemoryCommand::CaptureTranscript(args) => Ok(hasty(capture::Hasty::Capture(&args))),
        MemoryCommand::Hook(args) => Ok(hasty(capture::Hasty::Hook(&args))),
        MemoryCommand::Hooks(args) => hooks::run(args, here, &place),
        MemoryCommand::Recall(args) => recall::recall(args, here, &place),
        MemoryCommand::Timeline(args) => recall::timeline(args, &place),
        MemoryCommand::Show(args) => recall::show(args, &place),
        MemoryCommand::Remember(args) => facts::remember(args, here, &place),
        MemoryCommand::Correct(args) => facts::correct(args, &place),
        MemoryCommand::Pin(args) => facts::pin(args, &place),
        MemoryCommand::Forget(args) => facts::forget(args, here, &place),
        MemoryCommand::Drain(args) => keeping::drain(args, &place),
        MemoryCommand::Status(args) => keeping::status(args, &place),
        MemoryCommand::Export(args) => exchange::export(args, &place),
        MemoryCommand::Import(args) => exchange::import(args, &place),
        MemoryCommand::Backfill(args) => backfill::run(args, here, &place),
        MemoryCommand::Key(args) => key::run(args, here, &place),
        MemoryCommand::Doctor(args) => doctor::run(args, here, &place),
        MemoryCommand::Model(args) => model::run(args, here, &place).await,
        MemoryCommand::Mcp(args) => mcp::run(args, here, place),
        MemoryCommand::Daemon(args) => daemon::run(args, here, &place),
    }
}

/// The store, with all in it that was taken down so far. That another one writes is no reason not to look.
fn drained(place: &Place) -> Result<Store, MemoryError> {
    let mut store = Store::open(place, PATIENT)?;
    match ostler_memory::drain::drain(place, &mut store, None) {
        Ok(_) | Err(ostler_memory::store::StoreError::Busy) => Ok(store),
        Err(error) => Err(error.into()),
    }
}

/// `m12` or `12`.
fn parse_id(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix('m').unwrap_or(text);
    digits.parse().map_err(|_| format!("`{text}` is not an id: `ostler memory recall` tells them, like m12"))
}

/// A project as it is kept: the top of the repository that a folder is in.
fn project(path: &Path, here: &Surroundings) -> String {
    let path = here.cwd.join(path);
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    ostler_memory::project::of(&path.display().to_string())
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn home_dir(here: &Surroundings) -> PathBuf {
    here.user_home().unwrap_or_else(|| PathBuf::from("/"))
}

fn set(value: Option<&OsStr>) -> Option<PathBuf> {
    value.filter(|value| !value.is_empty()).map(PathBuf::from)
}
