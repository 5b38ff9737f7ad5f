//! What an agent says, however it is reached: each event is written down before anything is done about it.

use std::time::Duration;

use ostler_agent::agent::Order;
use ostler_agent::completion::hopeless;
use ostler_agent::event::{AgentEvent, Blocked, Failure, FailureClass, TurnOutcome};
use ostler_agent::policy;
use ostler_agent::run_event::{Channel, RunEventKind};
use ostler_agent::source;
use ostler_agent::stopping::{self, StopReason};
use ostler_agent::waiting;
use ostler_agent::watchdog::{Input, State};

use super::transcript::is_work;
use super::{Life, Round};
use crate::journal::JournalError;
use crate::run::clock;

/// How often it is written down that there is life on a channel.
const SEEN_EVERY: Duration = Duration::from_secs(5);

impl Round<'_, '_> {
    /// Life that leaves no event of its own, which whoever reads the journal should see.
    pub(super) fn seen(&mut self, channel: Channel) -> Result<(), JournalError> {
        let now = self.run.desk.now();
        let last = self.seen.get(&channel);
        if last.is_none_or(|last| now.saturating_sub(*last) >= SEEN_EVERY) {
            self.seen.insert(channel, now);
            self.run.desk.tell(RunEventKind::Seen { channel })?;
        }
        Ok(())
    }

    pub(super) async fn heard(&mut self, event: AgentEvent) -> Result<(), JournalError> {
        self.remember(&event);
        let limit = self.run.ledger.enter(&event);
        let (input, answer) = (Input::of(&event), self.answer(&event));
        let failure = match &event {
            AgentEvent::Blocked(blocked) => hopeless(blocked).or_else(|| policy::unanswerable(blocked)),
            AgentEvent::Unpriced { model } => self.run.plan.budget.cannot_hold(model),
            _ => None,
        };
        let is_end = matches!(event, AgentEvent::TurnEnded(_));
        let wait = waiting::Input::of(&event);
        // A wait that it ends is over before it is told.
        if wait == waiting::Input::Heard {
            self.wait(wait).await?;
        }
        let denials = self.run.note_denials(&event);
        self.run.desk.tell(RunEventKind::Agent(event))?;
        for denial in denials {
            self.run.desk.tell(denial)?;
        }
        self.watch(input).await?;
        if wait != waiting::Input::Heard {
            self.wait(wait).await?;
        }
        if let Some(answer) = answer {
            self.say(&answer)?;
        }
        if is_end {
            self.run.capture_turn();
            self.turn_ended().await?;
        }
        for reason in [limit.map(|limit| StopReason::Limit { limit }), failure].into_iter().flatten() {
            self.begin(reason).await?;
        }
        Ok(())
    }

    fn remember(&mut self, event: &AgentEvent) {
        // A failed turn does not show what was done in it.
        let is_failure =
            matches!(event, AgentEvent::TurnEnded(TurnOutcome::Failed(_) | TurnOutcome::Interrupted));
        self.run.has_worked |= is_work(event) && !is_failure;
        self.note_retry(event);
        self.run.calls.on_event(event);
        self.run.sayings.on_event(event);
        self.run.waits.on_event(event);
        match event {
            AgentEvent::Started { session, model } => {
                self.run.session = Some(session.clone());
                self.run.model = model.clone().or(self.run.model.take());
                let plan = self.run.plan;
                if let Some(pipes) = self.contact.pipes() {
                    pipes.transcript.follow(plan, session);
                }
                self.turn = None;
            }
            AgentEvent::TurnEnded(turn) => {
                self.turn = Some(turn.clone());
                self.note_source(source::Input::Ended);
            }
            // A further turn, which nobody need have asked for.
            AgentEvent::Asked { .. }
            | AgentEvent::Said { within: None, .. }
            | AgentEvent::ToolStarted { within: None, .. } => self.turn = None,
            _ => {}
        }
    }

    /// Keeps the failure after which the agent waits to try again, until it does something else.
    fn note_retry(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Blocked(Blocked::Retrying { delay, reason, class, .. }) => {
                let at = |delay: Duration| clock::now().saturating_add_unsigned(delay.as_secs());
                let resets_at = delay.filter(|_| *class == FailureClass::Quota).map(at);
                let (class, detail) = (*class, reason.clone());
                self.retrying = Some(Failure { class, detail, resets_at, cut_short: None });
            }
            // These do not show that the request succeeded.
            AgentEvent::Noted { .. }
            | AgentEvent::Spent(_)
            | AgentEvent::SpentSoFar(_)
            | AgentEvent::Unpriced { .. }
            | AgentEvent::Unknown { .. } => {}
            AgentEvent::TurnEnded(TurnOutcome::Interrupted) => {}
            _ => self.retrying = None,
        }
    }

    /// What policy says to a question.
    fn answer(&self, event: &AgentEvent) -> Option<Order> {
        match event {
            AgentEvent::Blocked(blocked) => policy::answer(self.run.plan.answered_permissions(), blocked),
            _ => None,
        }
    }

    async fn turn_ended(&mut self) -> Result<(), JournalError> {
        self.climb(stopping::Input::TurnEnded).await?;
        // Somebody else's turn: ours is yet to begin.
        if self.has_a_prompt() {
            self.watch(Input::Prompted).await?;
        }
        self.end_if_over()
    }

    /// Ends a session whose turn is over, unless somebody is at its terminal, who may want another, or the task itself is
    /// yet to be typed, because somebody was.
    pub(super) fn end_if_over(&mut self) -> Result<(), JournalError> {
        // With work open beside the turn the agent will go on by itself.
        let is_over = self.run.dog.state() == State::Ending
            && self.ladder.reason().is_none()
            && self.life == Life::Running;
        if is_over && !self.is_held() && !self.has_a_prompt() {
            self.say(&Order::End)?;
        }
        Ok(())
    }
}
