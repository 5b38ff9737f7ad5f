//! What can become of a run, once a process of its agent has ended.

use std::time::Duration;

use super::evidence::Evidence;
use crate::event::FailureClass;
use crate::failure::LimitKind;
use crate::outcome::RunOutcome;

/// What becomes of the run.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Decision {
    /// It is done, and this shows it.
    Complete {
        /// The best first.
        evidence: Vec<Evidence>,
    },
    /// The session is resumed.
    Resume {
        /// With this.
        prompt: String,
        /// What is missing.
        missing: Vec<String>,
        /// Whose fault it was.
        cause: Cause,
    },
    /// The run is parked, then the session is resumed.
    Park {
        /// For what.
        until: Until,
        /// With this.
        prompt: String,
    },
    /// It is over.
    Outcome(RunOutcome),
}

/// What a parked run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// The quota, which is there again after this time.
    Quota {
        /// How long.
        wait: Duration,
        /// Whether the provider reported it.
        reset: Reset,
        /// Which limit it is.
        limit: LimitKind,
    },
    /// A provider that failed, or a machine on which the agent was killed: after this time it is tried again.
    Outage {
        /// How long.
        wait: Duration,
        /// What failed.
        class: FailureClass,
        /// In the agent's words.
        detail: String,
    },
    /// The provider can be reached again, within what is left of the longest wait.
    Reachable {
        /// How long that is.
        patience: Duration,
    },
}

/// Whether it is known when a quota resets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The agent reported it.
    Known,
    /// It is tried again after growing pauses.
    Unknown,
}

/// Why a session is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The agent stopped before it was done.
    Unfinished,
    /// It got no answer from its provider. Not its fault, so no sign that it does not get on.
    Environment,
    /// Somebody has something to say to it.
    Said,
}
