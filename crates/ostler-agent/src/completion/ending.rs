//! How a process of the agent ended, and all that is known when a run is decided about.

use std::time::Duration;

use super::evidence::{Evidence, Marker};
use crate::agent::Exit;
use crate::bridge::Tools;
use crate::event::{Failure, TurnOutcome};
use crate::outcome::{Limit, Rule};
use crate::quiet_cause::QuietCause;
use crate::standing::Standing;
use crate::stopping::StopReason;
use crate::waiting::Reach;

/// Exit codes with which a shell reports that a signal ended its program: `SIGILL`, `SIGABRT`, `SIGBUS`, `SIGFPE`,
/// `SIGKILL`, `SIGSEGV`. A program may be a wrapper script.
const KILLED: [i32; 6] = [132, 134, 135, 136, 137, 139];

/// How a process of the agent ended, and what is known then.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// How the last turn ended, if no further one began.
    pub turn: Option<&'a TurnOutcome>,
    /// How this agent says that it is done.
    pub marker: Marker,
    /// How the process ended. None if its guardian was ended before it.
    pub exit: Option<Exit>,
    /// Why it was stopped, if it was.
    pub stop: Option<&'a StopReason>,
    /// The failure that the agent last reported before it waited to try again, if nothing else came since.
    pub retrying: Option<&'a Failure>,
    /// The agent's id of the session, without which nothing can be resumed.
    pub session: Option<&'a str>,
    /// Whether the agent did something of its task.
    pub work: Work,
    /// Whether it got on since the last decision.
    pub progress: Progress,
    /// What is required and was not found.
    pub missing: &'a [String],
    /// What was found besides the agent's own word.
    pub found: &'a [Evidence],
    /// What was handed over at the bridge, if the agent has one.
    pub bridge: Option<Handed<'a>>,
    /// The budget that forbids another turn.
    pub forbidden: Option<Limit>,
    /// Why the limit on costs forbids it, if that is not known to be reached.
    pub unknown_cost: Option<&'a str>,
    /// Whether the provider can be reached from here, where the end leaves that in doubt.
    pub reach: Reach,
    /// How long nothing was heard.
    pub quiet: Duration,
    /// Why, where that is known.
    pub cause: Option<&'a QuietCause>,
    /// What was lost that no resume can bring back.
    pub lost: Option<&'a str>,
    /// The time on the wall.
    pub wall: Wall,
}

/// What was handed over at the bridge.
#[derive(Debug, Clone, Copy)]
pub struct Handed<'a> {
    /// What is in, and what is not.
    pub standing: &'a Standing,
    /// What the agent's tools are called.
    pub tools: &'a Tools,
}

impl Ending<'_> {
    /// What shows how far the agent came, the best first.
    pub fn evidence(&self) -> Vec<Evidence> {
        let handed = self.bridge.map(|handed| handed.standing.evidence()).unwrap_or_default();
        let is_done = match (self.turn, self.exit, self.marker) {
            (Some(TurnOutcome::Done { .. }), _, _) => true,
            (None, Some(Exit::Code(0)), Marker::ExitCode) => self.stop.is_none_or(is_by_itself),
            (Some(TurnOutcome::Failed(_) | TurnOutcome::Interrupted | TurnOutcome::Called) | None, _, _) => {
                false
            }
        };
        let word = is_done.then(|| self.marker.evidence());
        let mut evidence: Vec<Evidence> =
            handed.into_iter().chain(word).chain(self.found.iter().cloned()).collect();
        evidence.sort_by_key(|evidence| std::cmp::Reverse(evidence.grade));
        evidence
    }

    /// All that is missing, for people.
    pub(super) fn missing(&self) -> Vec<String> {
        let handed = self.bridge.map(|handed| handed.standing.missing_to_complete()).unwrap_or_default();
        handed.into_iter().chain(self.missing.iter().cloned()).collect()
    }

    /// Whether the session can be resumed, or the task given again. A task without a session is given again only if
    /// nothing of it was done, which is unknown for a program that writes no records.
    pub(super) fn can_go_on(&self) -> bool {
        let is_untouched =
            self.work == Work::None && self.progress == Progress::None && self.marker != Marker::ExitCode;
        self.session.is_some() || is_untouched
    }

    /// Whether a signal that Ostler did not send ended the process.
    pub(super) fn is_killed(&self) -> bool {
        // These two stop a process that lives.
        let is_ours =
            matches!(self.stop, Some(StopReason::Completed | StopReason::Rule { rule: Rule::AfterResult }));
        match self.exit {
            Some(Exit::Signal(_)) => !is_ours,
            Some(Exit::Code(code)) => KILLED.contains(&code) && !is_ours,
            None => false,
        }
    }

    /// Whether the bridge has recorded, in this run, all that makes it complete.
    pub(super) fn is_proven(&self) -> bool {
        self.bridge.is_some() && self.missing().is_empty()
    }
}

/// Whether a process that was stopped for this had ended by itself.
fn is_by_itself(reason: &StopReason) -> bool {
    matches!(reason, StopReason::Exited | StopReason::Rule { rule: Rule::AfterResult | Rule::AfterExit })
}

/// Whether an agent got on: a new artifact, a new receipt, a change in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It did.
    Made,
    /// It did not.
    None,
}

/// Whether an agent worked on its task: emitted text, or called a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Nothing is known of.
    None,
    /// It began.
    Begun,
}

/// The time on the wall, for waits that end at a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wall {
    /// Seconds since 1970.
    pub now: i64,
    /// What is added at most to a time at which many will come back.
    pub jitter: Duration,
    /// How long the run may still be parked.
    pub patience: Duration,
}
