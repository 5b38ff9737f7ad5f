//! What a run that is gone on with had come to, from its events.

use ostler_agent::budget::{Budget, Ledger};
use ostler_agent::call_log::CallLog;
use ostler_agent::event::{AgentEvent, Usage};
use ostler_agent::run_event::RunEventKind;

use super::{JournalError, Kept};
use crate::run::Sayings;

/// What a run had come to when it ended or was left.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Past {
    /// The number of its last event.
    pub seq: u64,
    /// The time of its last event.
    pub ms: u64,
    /// How many processes of the agent it had.
    pub attempts: u32,
    /// The agent's id of the session, if it ever told one.
    pub session: Option<String>,
    /// What was used, as far as the agent told it.
    pub spent: Option<Usage>,
    /// US dollars that it may have spent besides: processes ended before they reported their cost.
    pub reserved: f64,
    /// How many turns ended.
    pub turns: u32,
    /// How often the session was resumed.
    pub resumes: u32,
    /// Its last tool calls.
    pub calls: CallLog,
    /// What was said to its agent.
    pub sayings: Sayings,
}

impl Past {
    /// Reads the events one by one: they may be many.
    pub(super) fn read(kept: &Kept) -> Result<Self, JournalError> {
        let mut past = Self::default();
        // Each process was allowed what was left of the limit.
        let mut ledger = Ledger::new(Budget { max_cost: kept.facts.given.max_cost, ..Budget::default() });
        for event in kept.events()? {
            (past.seq, past.ms) = (event.seq, event.ms);
            match event.kind {
                RunEventKind::Spawned { attempt, .. } => {
                    ledger.settle();
                    ledger.on_spawn();
                    past.attempts = past.attempts.max(attempt);
                    past.calls.on_spawn();
                    past.sayings.settle(|_| None);
                    let _ = past.sayings.give(past.session.as_deref());
                }
                RunEventKind::Queued { text } => past.sayings.queue(text),
                RunEventKind::Resumed { .. } => past.resumes = past.resumes.saturating_add(1),
                RunEventKind::Agent(event) => {
                    // Nothing is limited here.
                    let _ = ledger.enter(&event);
                    past.calls.on_event(&event);
                    past.sayings.on_event(&event);
                    if let AgentEvent::Started { session, .. } = event {
                        past.session = Some(session);
                    }
                }
                _ => {}
            }
        }
        ledger.settle();
        (past.spent, past.turns, past.reserved) = (ledger.spent(), ledger.turns(), ledger.reserved());
        Ok(past)
    }
}
