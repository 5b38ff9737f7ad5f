//! Runs that end before an agent is started for them: kept like any other, or only told.

use std::time::Duration;

use ostler_agent::outcome::RunOutcome;
use ostler_agent::run_event::{RunEvent, RunEventKind};

use super::desk::{self, Desk};
use super::workplace::WorkspaceState;
use super::{Observer, Report, account};
use crate::journal::{Facts, Journal, JournalError, Kept};

/// How a run ended for which no agent could be started.
pub struct Unstarted {
    /// How.
    pub outcome: RunOutcome,
    /// What to try.
    pub hint: Option<String>,
    /// What is kept of its bridge.
    pub bridge: serde_json::Value,
    /// Processes of what was tried that could not be ended.
    pub survivors: u32,
    /// How long ago it began.
    pub age: Duration,
}

/// A run that ended before an agent could be started.
pub fn unstarted(
    facts: &Facts,
    journal: Journal,
    ended: Unstarted,
    observe: &mut Observer<'_>,
) -> Result<Report, JournalError> {
    let Unstarted { outcome, hint, bridge, survivors, age } = ended;
    let desk = Desk::new(journal, observe, age);
    let mut report = Report {
        hint,
        outcome,
        session: None,
        turns: 0,
        resumes: 0,
        usage: None,
        evidence: Vec::new(),
        survivors: Some(survivors),
        elapsed: desk.now(),
        checks: Vec::new(),
        bridge,
        workspace: WorkspaceState::Present,
        jail: None,
        denials: Vec::new(),
        denied_hosts: Vec::new(),
        json: serde_json::Value::Null,
    };
    report.json = account::outcome_json(facts, &report, desk.folder());
    desk.close(&report)?;
    Ok(report)
}

/// The last line for a run that cannot be gone on with now. It is told and not kept: the run stays as it was, so that it
/// can be gone on with later.
pub fn postponed(kept: &Kept, outcome: RunOutcome, survivors: u32) -> Result<String, JournalError> {
    let past = kept.past()?;
    let report = Report {
        hint: None,
        outcome,
        session: past.session,
        turns: past.turns,
        resumes: past.resumes,
        usage: past.spent,
        evidence: Vec::new(),
        survivors: Some(survivors),
        elapsed: Duration::from_millis(past.ms),
        checks: Vec::new(),
        bridge: serde_json::Value::Null,
        workspace: WorkspaceState::Present,
        jail: None,
        denials: Vec::new(),
        denied_hosts: Vec::new(),
        json: serde_json::Value::Null,
    };
    let json = account::outcome_json(&kept.facts, &report, &kept.folder);
    let event =
        RunEvent { seq: past.seq + 1, ms: past.ms, kind: RunEventKind::Outcome(desk::without_time(json)) };
    let failed =
        |error: serde_json::Error| JournalError::Write { path: kept.folder.clone(), source: error.into() };
    event.line().map_err(failed)
}
