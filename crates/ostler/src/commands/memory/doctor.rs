//! What is wrong with memory, and what to do about it.

use std::fmt::Write as _;
use std::process::ExitCode;

use ostler_memory::daemon;
use ostler_memory::place::Place;
use ostler_memory::private::PrivateFolder;
use ostler_memory::store::{PATIENT, Store, StoreError};

use super::{home_dir, key};
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory doctor")]
pub(super) struct DoctorArgs {}

/// Whether all is well, and how that is told.
struct Finding {
    is_fine: bool,
    text: String,
}

pub(super) fn run(_args: DoctorArgs, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    let mut findings = vec![folder(place), key(place), store(place), waiting(place), aside(place)];
    findings.push(match daemon::status(place) {
        Some(answer) => fine(format!("a daemon answers, process {}", answer.pid)),
        None => fine("no daemon answers; none is needed".to_owned()),
    });
    let claude = home_dir(here).join(".claude");
    if claude.is_dir() {
        findings.push(fine(format!(
            "`ostler memory hooks status` tells which agents are remembered ({} is there)",
            display::short(&claude)
        )));
    }
    let mut text = String::new();
    for finding in &findings {
        let _ = writeln!(text, "{:7} {}", if finding.is_fine { "ok" } else { "problem" }, finding.text);
    }
    display::text(&text)?;
    Ok(if findings.iter().all(|finding| finding.is_fine) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fine(text: String) -> Finding {
    Finding { is_fine: true, text }
}

fn problem(text: String) -> Finding {
    Finding { is_fine: false, text }
}

fn folder(place: &Place) -> Finding {
    let told = display::short(place.root());
    if !place.root().exists() {
        return fine(format!("{told} is not there yet: nothing was remembered"));
    }
    match PrivateFolder::open(place.root()) {
        Ok(_) => fine(format!("{told} is for its owner alone")),
        Err(error) => problem(format!("{told}: {error}; it must be a folder of yours, and no link")),
    }
}

fn key(place: &Place) -> Finding {
    if key::is_open_to_others(place) {
        return problem(format!("{} can be read by others; chmod 600", display::short(&place.key())));
    }
    match Store::protection(place) {
        Ok(found) => fine(format!("key: {}", key::told(&found, place))),
        Err(error) => problem(with_hint(&error)),
    }
}

fn with_hint(error: &StoreError) -> String {
    let hint = error.hint().unwrap_or_default();
    format!("{}; try: {hint}", display::with_causes(error))
}

fn store(place: &Place) -> Finding {
    let opened = match Store::open_to_read(place, PATIENT) {
        Ok(None) => return fine("there is no store yet".to_owned()),
        Ok(Some(store)) => store,
        Err(error) => return problem(with_hint(&error)),
    };
    match opened.check() {
        Ok(word) if word == "ok" => fine("the store is sound".to_owned()),
        Ok(word) => {
            problem(format!("the store is damaged: {word}; move it aside, then `ostler memory backfill`"))
        }
        Err(error) => problem(display::with_causes(&error)),
    }
}

fn waiting(place: &Place) -> Finding {
    let count = PrivateFolder::open(&place.deferred())
        .and_then(|folder| folder.names())
        .map_or(0, |names| names.len());
    fine(format!("{count} files wait to be drained"))
}

fn aside(place: &Place) -> Finding {
    match PrivateFolder::open(&place.quarantine())
        .and_then(|folder| folder.names())
        .map_or(0, |names| names.len())
    {
        0 => fine("nothing was put aside".to_owned()),
        count => problem(format!(
            "{count} things were put aside in {}; each says why",
            display::short(&place.quarantine())
        )),
    }
}
