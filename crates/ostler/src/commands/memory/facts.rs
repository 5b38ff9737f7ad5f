//! What a person wants known, corrected, or forgotten.

use std::path::PathBuf;
use std::process::ExitCode;

use ostler_memory::capture::policy;
use ostler_memory::place::Place;
use ostler_memory::store::{Fact, Forgotten};

use super::{MemoryError, drained, now, parse_id, project};
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ostler memory remember \"releases are cut on Thursdays\"\n  ostler memory remember --everywhere \"I prefer tabs\""
)]
pub(super) struct RememberArgs {
    /// What.
    #[arg(value_name = "TEXT")]
    text: String,

    /// Not for this project alone.
    #[arg(long)]
    everywhere: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory correct m12 \"the port is 8080\"")]
pub(super) struct CorrectArgs {
    /// What is not true any more.
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: i64,

    /// What is true.
    #[arg(value_name = "TEXT")]
    text: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory pin m12\n  ostler memory pin --off m12")]
pub(super) struct PinArgs {
    /// The message.
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: i64,

    /// Take the pin out.
    #[arg(long)]
    off: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory forget m12
  ostler memory forget --session 0198…
  ostler memory forget --before 90d

What is forgotten is removed from the file, and is not taken in again.")]
#[group(id = "what", required = true, multiple = false)]
pub(super) struct ForgetArgs {
    /// One message.
    #[arg(value_name = "ID", value_parser = parse_id, group = "what")]
    id: Option<i64>,

    /// A session, by the agent's own id.
    #[arg(long, value_name = "ID", group = "what")]
    session: Option<String>,

    /// All of a project: a folder.
    #[arg(long, value_name = "DIR", group = "what")]
    project: Option<PathBuf>,

    /// All that was said before: 90d, or a day.
    #[arg(long, value_name = "TIME", group = "what")]
    before: Option<String>,
}

pub(super) fn remember(args: RememberArgs, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    let mut store = drained(place)?;
    let cwd = if args.everywhere { String::new() } else { project(&here.cwd, here) };
    let fact = Fact { text: &args.text, cwd: &cwd, now: now(), policy: policy(place) };
    let id = store.remember(fact).map_err(MemoryError::from)?;
    display::text(&format!("kept as m{id}\n"))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn correct(args: CorrectArgs, place: &Place) -> Result<ExitCode, Failure> {
    let mut store = drained(place)?;
    let fact = Fact { text: &args.text, cwd: "", now: now(), policy: policy(place) };
    let id = store.correct(args.id, fact).map_err(MemoryError::from)?;
    display::text(&format!("m{} is corrected by m{id}\n", args.id))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn pin(args: PinArgs, place: &Place) -> Result<ExitCode, Failure> {
    let store = drained(place)?;
    if !store.pin(args.id, !args.off).map_err(MemoryError::from)? {
        return Err(MemoryError::Unknown(args.id).into());
    }
    display::text(&format!("m{} is {}\n", args.id, if args.off { "not pinned any more" } else { "pinned" }))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn forget(args: ForgetArgs, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    let what = match args {
        ForgetArgs { id: Some(id), .. } => Forgotten::Message(id),
        ForgetArgs { session: Some(session), .. } => Forgotten::Session(session),
        ForgetArgs { project: Some(folder), .. } => Forgotten::Project(project(&folder, here)),
        ForgetArgs { before, .. } => Forgotten::Before(super::recall::time(&before.unwrap_or_default())?),
    };
    let mut store = drained(place)?;
    let count = store.forget(&what).map_err(MemoryError::from)?;
    match what {
        Forgotten::Message(id) if count == 0 => Err(MemoryError::Unknown(id).into()),
        _ => {
            display::text(&format!("{count} forgotten\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
