//! A run whose agent is not there, or does not start: an outcome like any other, so that whoever looks in the morning
//! finds it.

use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::outcome::RunOutcome;
use ostler_agent::run_event::{RunEvent, RunEventKind};
use ostler_process::journal::Journal;
use ostler_process::locate::LocateError;
use ostler_process::run::{Unstarted, postponed, unstarted};
use serde_json::Value;

use super::args::Voice;
use super::by_whom;
use super::choice::Choice;
use super::prepare::{Found, Unlocated, facts};
use super::terms::Terms;
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// Writes it down, and tells programs. People are told by the failure. Answers where it is kept.
pub(super) fn keep(
    unlocated: &Unlocated,
    choice: &Choice,
    terms: &Terms,
    voice: Voice,
    here: &Surroundings,
) -> Result<Option<PathBuf>, Failure> {
    let Some((outcome, survivors)) = outcome(unlocated) else { return Ok(None) };
    // One that is gone on with keeps the outcome it had.
    if let Some((kept, _)) = &choice.earlier {
        if voice == Voice::Json {
            let line = postponed(kept, outcome, survivors)?;
            display::bytes(format!("{line}\n").as_bytes())?;
        }
        return Ok(None);
    }
    let facts = facts(choice, &Found { program: PathBuf::new(), version: None }, terms);
    here.home.create()?;
    let journal = Journal::create(&here.home.runs(), &facts)?;
    let folder = journal.folder().to_owned();
    let mut last = String::new();
    let ended = Unstarted { outcome, hint: None, bridge: Value::Null, survivors, age: Duration::ZERO };
    unstarted(&facts, journal, ended, &mut |event: &RunEvent, line: &str| {
        if let RunEventKind::Outcome(_) = event.kind {
            last = format!("{line}\n");
        }
    })?;
    match voice {
        Voice::Json => display::bytes(last.as_bytes())?,
        Voice::Words | Voice::Quiet => {}
    }
    Ok(Some(folder))
}

/// How such a run ended, and how many processes of what was tried could not be ended.
fn outcome(unlocated: &Unlocated) -> Option<(RunOutcome, u32)> {
    let failure = match unlocated {
        Unlocated::Failed(failure) => failure,
        Unlocated::Cancelled { by, survivors } => {
            return Some((RunOutcome::Cancelled { by: by_whom(*by) }, *survivors));
        }
    };
    let hint = failure.hint().unwrap_or_default();
    match failure {
        Failure::Locate(error @ LocateError::Unusable { .. }) => {
            Some((RunOutcome::NeverStarted { reason: error.to_string() }, 0))
        }
        Failure::Locate(_) => Some((RunOutcome::NotInstalled { hint }, 0)),
        Failure::Probe(error) => {
            let reason = display::with_causes(error);
            Some((RunOutcome::NeverStarted { reason }, error.survivors()))
        }
        _ => None,
    }
}
