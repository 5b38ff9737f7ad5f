//! Whether a turn is still alive: the watchdog of runs, with the limits of a turn.

use std::collections::VecDeque;
use std::time::Duration;

use ostler_agent::outcome::Rule;
use ostler_agent::watchdog::{Action, EventKind, Input, Limits, Watchdog};
use tokio::time::Instant;

use super::{FAR, Limit, Patience, TurnError};
use crate::live::LiveSession;

/// Watches one turn.
pub(super) struct Liveness {
    dog: Watchdog,
    limits: Limits,
    began: Instant,
}

impl Liveness {
    /// Of a turn that begins now, in a session that was asked.
    pub(super) fn new<S: LiveSession>(patience: &Patience, session: &S) -> Self {
        let start = patience.start.max(patience.silence);
        let limits = Limits { start, ..Limits::of_turn(patience.silence, patience.turn) };
        let mut dog = Watchdog::new(limits);
        let _ = dog.step(Duration::ZERO, Input::Spawned);
        if !session.starts_when_asked() {
            let _ = dog.step(Duration::ZERO, Input::Event(EventKind::Asked));
        }
        Self { dog, limits, began: Instant::now() }
    }

    /// When to pass on the time next.
    pub(super) fn wake_at(&self) -> Instant {
        let wake = self.dog.wake_at().and_then(|at| self.began.checked_add(at));
        wake.unwrap_or_else(|| Instant::now() + FAR)
    }

    /// Takes what happened, and looks at the session if that is due. An error is a limit that is reached. Cancel safe: a
    /// look that was not finished seems to have shown nothing.
    pub(super) async fn step<S: LiveSession>(
        &mut self,
        session: &mut S,
        input: Input,
    ) -> Result<(), TurnError> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            match self.dog.step(self.began.elapsed(), input) {
                Action::Nothing | Action::Warn(_) => {}
                Action::Sample => inputs.extend(session.sample().await),
                Action::Stop(rule) => return Err(self.too_long(rule)),
            }
        }
        Ok(())
    }

    fn too_long(&self, rule: Rule) -> TurnError {
        match rule {
            Rule::Ceiling => TurnError::TooLong(Limit::Turn, self.limits.ceiling),
            Rule::Start => TurnError::TooLong(Limit::Start, self.limits.start),
            Rule::OpenCall => TurnError::TooLong(Limit::Silence, self.limits.open_call),
            Rule::Silence | Rule::Loop | Rule::AfterResult | Rule::AfterExit | Rule::MaxWait => {
                TurnError::TooLong(Limit::Silence, self.limits.silence)
            }
        }
    }
}
