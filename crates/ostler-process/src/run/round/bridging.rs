//! What happens at the bridge while a process lives.

use std::time::Duration;

use ostler_agent::bridge::{BridgeEvent, notice};
use ostler_agent::completion::AFTER_CLAIM;
use ostler_agent::stopping::StopReason;
use ostler_agent::waiting as waits;
use ostler_agent::watchdog::{Input, State};

use super::Round;
use crate::journal::JournalError;

impl Round<'_, '_> {
    /// Written down first; then it is a sign of life, a wait for a person, or the end of the task.
    pub(super) async fn bridged(&mut self, event: BridgeEvent) -> Result<(), JournalError> {
        let is_life = event.is_life();
        let wait = match &event {
            BridgeEvent::Asked(question) => {
                Some(waits::Input::Asked { question: question.id, within: question.within })
            }
            BridgeEvent::Settled { question, .. } => Some(waits::Input::Settled { question: *question }),
            _ => None,
        };
        let is_claim = matches!(event, BridgeEvent::Completed { .. });
        let knows_tools = event == BridgeEvent::ToolsListed;
        self.run.tell_bridge(event)?;
        if knows_tools {
            self.tools_are_known();
        }
        if is_life {
            self.watch(Input::BridgeCall).await?;
        }
        if let Some(wait) = wait
            && self.ladder.reason().is_none()
        {
            self.wait(wait).await?;
        }
        if is_claim {
            self.claimed = Some(self.run.desk.now());
        }
        Ok(())
    }

    /// When an agent that declared completion has had its time to end by itself. Not while a person has its terminal.
    pub(super) fn claim_wakes_at(&self) -> Option<Duration> {
        let waits = self.ladder.reason().is_none() && self.run.dog.state() != State::Held;
        self.claimed.filter(|_| waits).map(|at| at.saturating_add(AFTER_CLAIM))
    }

    /// Stops an agent that declared completion and goes on, unless something came to be missing since.
    pub(super) async fn end_claimed(&mut self) -> Result<(), JournalError> {
        self.claimed = None;
        let standing = self.run.bridge.as_ref().map(|side| side.bridge.standing());
        match standing {
            Some(standing) if standing.missing_to_complete().is_empty() => {
                self.begin(StopReason::Completed).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The run's time is nearly over: the agent is told with every answer.
    pub(super) fn wrap_up(&self, left: Duration) {
        if let Some(side) = &self.run.bridge {
            side.bridge.set_notice(notice(&side.tools, left));
        }
    }
}
