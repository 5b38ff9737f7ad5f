//! What is kept, what waits, and putting the one to the other.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ostler_memory::embedding::{Cores, MiniLm};
use ostler_memory::filling::fill;
use ostler_memory::place::Place;
use ostler_memory::private::PrivateFolder;
use ostler_memory::store::{PATIENT, Store};
use ostler_memory::{daemon, drain, model};
use serde_json::json;

use super::{MemoryError, key};
use crate::display;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ostler memory drain\n  ostler memory drain --for 10m\n  ostler memory drain --json"
)]
pub(super) struct DrainArgs {
    /// How long vectors may be made, if a model is installed; what is left is for the next time.
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    vectors_for: Duration,

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
    let made = vectors(&args, place, &mut store)?;
    let missing = match model::installed(place) {
        Some(_) => store.vectors_missing().map_err(MemoryError::from)?,
        None => 0,
    };
    if args.json {
        display::json(&json!({
            "files": done.files, "left": done.left, "inserted": done.inserted, "already_known": done.known,
            "quarantined": done.quarantined, "vectors_made": made, "vectors_missing": missing,
        }))?;
    } else {
        let vectors = match (made, missing) {
            (0, 0) => String::new(),
            (made, 0) => format!("{made} messages got their vectors\n"),
            (made, missing) => {
                format!("{made} messages got their vectors, {missing} wait; again, or --for 10m\n")
            }
        };
        display::text(&format!(
            "{} files drained, {} left; {} inserted, {} already known, {} quarantined\n{vectors}",
            done.files, done.left, done.inserted, done.known, done.quarantined
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes vectors of new messages, if there is a model and as long as may be.
fn vectors(args: &DrainArgs, place: &Place, store: &mut Store) -> Result<u64, MemoryError> {
    let Some(found) = model::installed(place) else { return Ok(0) };
    let begun = store.reached()?.is_some_and(|reached| reached.model == found.digest());
    if begun && store.vectors_missing()? == 0 {
        return Ok(0);
    }
    let until = Instant::now() + args.vectors_for;
    let mut embedder = MiniLm::load(&found, Cores::All)?;
    Ok(fill(store, &mut embedder, Some(until), &mut |_| {})?.done)
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
            "store": place.store().to_string_lossy(), "bytes": bytes, "sessions": totals.sessions, "messages": totals.messages,
            "facts": totals.facts, "vectors": totals.vectors, "deferred": waiting, "quarantined": aside,
            "daemon": pid, "encrypted": !found.is_plain && bytes > 0,
            "model": model::installed(place).map(|model| model.digest()),
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
