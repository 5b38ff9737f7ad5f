//! What the watchdog thinks of a run: its events are played to a watchdog with the run's limits.

use std::fmt::Write as _;
use std::time::Duration;

use ostler_agent::run_event::{Channel, ResumedBy, RunEventKind};
use ostler_agent::watchdog::{EventKind, Input, Verdict, Watchdog};
use ostler_process::journal::{JournalError, Kept, State};
use ostler_process::run::limits_from;
use serde_json::{Value, json};

/// A verdict, and what it is about.
pub(super) struct Why {
    run: String,
    state: String,
    detail: Option<String>,
    verdict: Verdict,
}

/// For a live run, as of now; for one that was stopped, as of then; else as of its last event.
pub(super) fn why(kept: &Kept, now: i64) -> Result<Why, JournalError> {
    let mut dog = Watchdog::new(limits_from(&kept.facts.limits));
    let (mut at, mut stopped, mut stopping) = (Duration::ZERO, None, None);
    for event in kept.events()? {
        at = Duration::from_millis(event.ms);
        // A person gave it new limits on time.
        if let RunEventKind::Resumed { by: ResumedBy::Person, .. } = event.kind {
            dog = Watchdog::new(limits_from(&kept.facts.limits));
        }
        for input in inputs(&event.kind) {
            // What it would do was done, or not, when it happened.
            let _ = dog.step(at, input);
        }
        match event.kind {
            RunEventKind::Spawned { .. } => (stopped, stopping) = (None, None),
            RunEventKind::Stopping { reason, .. } => {
                stopped.get_or_insert_with(|| dog.why(at));
                stopping = Some(reason);
            }
            _ => {}
        }
    }
    let (state, detail) = match &kept.state {
        State::Live => {
            let since = u64::try_from(now.saturating_sub(kept.facts.began_at)).unwrap_or(0);
            at = at.max(Duration::from_secs(since));
            ("live".to_owned(), None)
        }
        State::Abandoned => ("abandoned".to_owned(), Some(deserted(stopping))),
        State::Ended(outcome) => {
            let word = |name: &str| outcome[name].as_str().map(str::to_owned);
            (word("outcome").unwrap_or_default(), word("detail"))
        }
    };
    let verdict = stopped.unwrap_or_else(|| dog.why(at));
    Ok(Why { run: kept.facts.run.clone(), state, detail, verdict })
}

/// Why a run has no outcome.
fn deserted(stopping: Option<String>) -> String {
    let meanwhile = stopping.map(|reason| format!(", while it stopped the agent ({reason})"));
    let meanwhile = meanwhile.unwrap_or_default();
    format!(
        "Ostler ended before the run had an outcome{meanwhile}: it was killed, or could not write its journal"
    )
}

/// What an event of a run told its watchdog.
pub(crate) fn inputs(kind: &RunEventKind) -> Vec<Input> {
    match kind {
        RunEventKind::Spawned { .. } => vec![Input::Spawned],
        RunEventKind::Agent(event) => vec![Input::of(event)],
        RunEventKind::Garbled { .. } => vec![Input::Event(EventKind::Unknown)],
        RunEventKind::Seen { channel } => vec![match channel {
            Channel::Stdout => Input::Event(EventKind::Noted),
            Channel::Transcript => Input::TranscriptGrew,
            Channel::Bridge => Input::BridgeCall,
            Channel::Tree => Input::TreeBusy,
            Channel::Workspace => Input::WorkspaceChanged,
        }],
        RunEventKind::Parked { .. } => vec![Input::Parked],
        RunEventKind::Unparked => vec![Input::Unparked],
        RunEventKind::Exited { .. } => vec![Input::Exited, Input::Eof],
        RunEventKind::Noise { .. }
        | RunEventKind::Warn { .. }
        | RunEventKind::Stopping { .. }
        | RunEventKind::Resumed { .. }
        | RunEventKind::Changes(_)
        | RunEventKind::Outcome(_) => vec![Input::Tick],
    }
}

impl Why {
    pub(super) fn json(&self) -> Value {
        json!({
            "v": 1,
            "run": self.run,
            "state": self.state,
            "detail": self.detail,
            "verdict": self.verdict,
        })
    }

    pub(super) fn words(&self) -> String {
        let verdict = &self.verdict;
        let since = |time: Duration| format!("{:.1}s", time.as_secs_f64());
        let mut text = format!("run      {}\nstate    {}\n", self.run, self.state);
        if let Some(detail) = &self.detail {
            let detail: String = detail.chars().filter(|letter| !letter.is_control()).collect();
            let _ = writeln!(text, "detail   {detail}");
        }
        let _ = writeln!(
            text,
            "watchdog {}, {} after the start; nothing heard for {}",
            word(&verdict.state),
            since(verdict.at),
            since(verdict.quiet)
        );
        for seen in &verdict.seen {
            let _ = writeln!(text, "seen     {} at {}", word(&seen.channel), since(seen.at));
        }
        for call in &verdict.open_calls {
            let tool: String = call.tool.chars().filter(|letter| !letter.is_control()).collect();
            let _ = writeln!(text, "open     {tool}, since {}", since(call.since));
        }
        if let Some(rule) = verdict.fired {
            let _ = writeln!(text, "fired    rule `{}`", rule.name());
        }
        if let Some(next) = verdict.next {
            let _ = writeln!(text, "next     rule `{}` at {}", next.rule.name(), since(next.at));
        }
        text
    }
}

/// The word that something has in JSON.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
