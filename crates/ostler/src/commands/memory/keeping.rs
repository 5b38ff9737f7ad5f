//! What is kept, what waits, and putting the one to the other.

use std::process::ExitCode;

use ostler_memory::place::Place;
use ostler_memory::private::PrivateFolder;
use ostler_memory::store::{PATIENT, Store};
use ostler_memory::{daemon, drain};
use serde_json::json;

use super::{MemoryError, key};
use crate::display;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory drain\n  ostler memory drain --json")]
pub(super) struct DrainArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory status\n  ostler memory status --json")]
pub(super) struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn drain(args: DrainArgs, place: &Place) -> Result<ExitCode, Failure> {
    let mut store = Store::open(place, PATIENT).map_err(MemoryError::from)?;
    let done = drain::drain(place, &mut store, None).map_err(MemoryError::from)?;
    if args.json {
        display::json(&json!({
            "files": done.files, "left": done.left, "inserted": done.inserted, "already_known": done.known,
            "quarantined": done.quarantined,
        }))?;
    } else {
        display::text(&format!(
            "{} files drained, {} left; {} inserted, {} already known, {} quarantined\n",
            done.files, done.left, done.inserted, done.known, done.quarantined
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn status(args: StatusArgs, place: &Place) -> Result<ExitCode, Failure> {
    let totals = match Store::open_to_read(place, PATIENT).map_err(MemoryError::from)? {
        Some(store) => store.totals().map_err(MemoryError::from)?,
        None => ostler_memory::store::Totals::default(),
    };
    let count =
        |folder| PrivateFolder::open(folder).and_then(|folder| folder.names()).map_or(0, |names| names.len());
    let (waiting, aside) = (count(&place.deferred()), count(&place.quarantine()));
    let bytes = std::fs::metadata(place.store()).map_or(0, |about| about.len());
    let found = Store::protection(place).map_err(MemoryError::from)?;
    let pid = daemon::status(place).map(|answer| answer.pid);
    if args.json {
        display::json(&json!({
            "store": place.store(), "bytes": bytes, "sessions": totals.sessions, "messages": totals.messages,
            "facts": totals.facts, "vectors": totals.vectors, "deferred": waiting, "quarantined": aside,
            "daemon": pid, "encrypted": !found.is_plain && bytes > 0,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    display::text(&format!(
        "store        {} ({} kB)\nkey          {}\nkept         {} messages in {} sessions, {} facts, {} vectors\nwaiting      {waiting} files\n\
         quarantined  {aside}\ndaemon       {}\n",
        display::short(&place.store()),
        bytes / 1024,
        key::told(&found, place),
        totals.messages,
        totals.sessions,
        totals.facts,
        totals.vectors,
        pid.map_or_else(|| "none; not needed".to_owned(), |pid| format!("process {pid}")),
    ))?;
    Ok(ExitCode::SUCCESS)
}
