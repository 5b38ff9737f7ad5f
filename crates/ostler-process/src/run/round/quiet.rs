//! Why nothing is received from the agent: its process and its last events are looked at while it is quiet, and what they
//! show is written down once, for `ostler runs why`.

use std::time::Duration;

use ostler_agent::quiet_cause::QuietCause;
use ostler_agent::run_event::RunEventKind;
use ostler_agent::watchdog::{Channel, State};

use super::{Life, Round};
use crate::journal::JournalError;

/// How long an agent is quiet before it is looked at, and then between two looks.
const LONGEST_BETWEEN_LOOKS: Duration = Duration::from_secs(10);
const SHORTEST_BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// The part of the watchdog's `silence` that this may take.
const PART_OF_SILENCE: u32 = 8;

/// What was found out in a stretch of quiet.
pub(super) struct QuietWatch {
    /// When it was last looked, since the run began; at first, when the process was started.
    looked: Duration,
    /// What was written down, and when.
    told: Option<(Duration, QuietCause)>,
}

impl QuietWatch {
    pub(super) fn new(now: Duration) -> Self {
        Self { looked: now, told: None }
    }

    /// What was found last, if nothing was received after it.
    pub(super) fn into_cause(self) -> Option<QuietCause> {
        self.told.map(|(_, cause)| cause).filter(|cause| *cause != QuietCause::Unknown)
    }
}

impl Round<'_, '_> {
    /// When to look next.
    pub(super) fn looks_at(&self) -> Option<Duration> {
        let is_waiting = self.life == Life::Running && self.ladder.reason().is_none();
        let state = self.run.dog.state();
        let is_judged = matches!(state, State::Starting | State::Working | State::Waiting);
        (is_waiting && is_judged).then(|| {
            let between = self.run.plan.policy.limits.silence / PART_OF_SILENCE;
            let between = between.clamp(SHORTEST_BETWEEN_LOOKS, LONGEST_BETWEEN_LOOKS);
            self.watch.looked.max(self.last_life()).saturating_add(between)
        })
    }

    /// Looks at the process and at what the agent last reported, and writes down what is new.
    pub(super) fn look_for_cause(&mut self) -> Result<(), JournalError> {
        let now = self.run.desk.now();
        self.watch.looked = now;
        let last_life = self.last_life();
        // A cause that was found before the last sign of life no longer holds.
        self.watch.told = self.watch.told.take().filter(|(at, _)| *at >= last_life);
        let found = self.cause();
        let told = self.watch.told.as_ref().map(|(_, cause)| cause);
        let cause = match (found, told) {
            (None, None) => return Ok(()),
            (Some(cause), told) if told == Some(&cause) => return Ok(()),
            (None, Some(QuietCause::Unknown)) => return Ok(()),
            (None, Some(_)) => QuietCause::Unknown,
            (Some(cause), _) => cause,
        };
        self.watch.told = Some((now, cause.clone()));
        self.run.desk.tell(RunEventKind::Quiet(cause))
    }

    fn cause(&mut self) -> Option<QuietCause> {
        if self.child.is_stopped() {
            return Some(QuietCause::ProcessStopped { pid: self.child.pid() });
        }
        let answer = self.contact.decoder().answer().cloned();
        self.run.waits.cause(answer.as_ref())
    }

    /// When something that the agent did itself was last seen.
    fn last_life(&self) -> Duration {
        let channels = [Channel::Record, Channel::Transcript, Channel::Bridge];
        channels.iter().filter_map(|channel| self.run.dog.last_seen(*channel)).max().unwrap_or_default()
    }
}
