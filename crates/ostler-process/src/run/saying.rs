//! What somebody says to an agent that does not listen while it works: it waits until the agent's turn has ended, and is
//! told in a further one.

use ostler_agent::completion::{Cause, Decision};
use ostler_agent::run_event::RunEventKind;

use super::Run;
use super::requests::{Said, Unsaid};
use crate::journal::JournalError;

/// Sayings that may wait for the end of a turn. Whoever says more is refused: somebody repeats himself.
const MOST_QUEUED: usize = 16;

impl Run<'_> {
    /// Keeps it for a further turn, if the agent has sessions that can be gone on with.
    pub(super) fn queue(&mut self, text: String) -> Result<Result<Said, Unsaid>, JournalError> {
        if !self.plan.agent.writes_records() {
            return Ok(Err(Unsaid::Deaf));
        }
        if self.queued.len() >= MOST_QUEUED {
            return Ok(Err(Unsaid::Full));
        }
        self.desk.tell(RunEventKind::Queued { text: text.clone() })?;
        self.queued.push(text);
        Ok(Ok(Said::NextTurn))
    }

    /// What becomes of the run with what waits to be said. That it is done was claimed before that was heard.
    pub(super) fn hear_out(&mut self, decision: Decision) -> Result<Decision, JournalError> {
        if self.queued.is_empty() {
            return Ok(decision);
        }
        let words = std::mem::take(&mut self.queued).join("\n\n");
        let may_go_on = self.requests.stop.is_none()
            && self.ledger.forbids_a_turn().is_none()
            && self.resumable().is_some();
        match decision {
            Decision::Complete { .. } if may_go_on => {
                self.resumes = self.resumes.saturating_add(1);
                Ok(Decision::Resume { prompt: words, missing: Vec::new(), cause: Cause::Said })
            }
            Decision::Resume { prompt, missing, cause } => {
                Ok(Decision::Resume { prompt: format!("{prompt}\n\n{words}"), missing, cause })
            }
            Decision::Park { until, prompt } => {
                Ok(Decision::Park { until, prompt: format!("{prompt}\n\n{words}") })
            }
            over @ (Decision::Complete { .. } | Decision::Outcome(_)) => {
                let text = format!("the run is over, and its agent was never told: {words}");
                self.desk.tell(RunEventKind::Warn { text })?;
                Ok(over)
            }
        }
    }
}
