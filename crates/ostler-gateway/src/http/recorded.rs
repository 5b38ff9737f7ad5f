//! An answer that is written down while it is told. Every word goes into the journal of its conversation before it is
//! handed on, so that whoever goes on at once finds it there.

use std::task::{Context, Poll, ready};

use ostler_agent::event::AgentEvent;

use super::questions::Asking;
use crate::conversations::{QuotaExceeded, Recorder};
use crate::live::{Phase, SessionFailure};
use crate::pool::{Answer, BrokenOff, Progress, TurnError};

/// An answer, and where it is written.
pub(super) struct Recorded {
    answer: Answer,
    recorder: Recorder,
    asking: Option<Asking>,
    /// The turn was cancelled because its journal could not be written.
    is_over: bool,
}

impl Recorded {
    pub(super) fn new(answer: Answer, recorder: Recorder, asking: Option<Asking>) -> Self {
        recorder.conversation().stoppable(recorder.turn(), answer.stopper());
        Self { answer, recorder, asking, is_over: false }
    }

    /// Who broke the turn off, if anybody did.
    pub(super) fn broken_off(&self) -> Option<BrokenOff> {
        self.answer.broken_off()
    }

    /// Waits until the turn is refused or not. It is refused at once or never.
    pub(super) async fn admitted(&mut self) -> Result<(), TurnError> {
        match std::future::poll_fn(|context| self.poll_step(context)).await {
            Some(Progress::Event(Err(error))) => Err(error),
            Some(Progress::Admitted | Progress::Asked | Progress::Event(Ok(_))) | None => Ok(()),
        }
    }

    /// The client knows the turn by its id: it is written down, whatever becomes of it.
    pub(super) fn commit(&mut self) {
        self.recorder.commit();
    }

    /// What comes next. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<AgentEvent, TurnError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<AgentEvent, TurnError>>> {
        loop {
            match ready!(self.poll_step(context)) {
                Some(Progress::Admitted | Progress::Asked) => {}
                Some(Progress::Event(event)) => return Poll::Ready(Some(event)),
                None => return Poll::Ready(None),
            }
        }
    }

    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Option<Progress>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let progress = ready!(self.answer.poll_progress(context));
        if matches!(&progress, Some(Progress::Event(Ok(AgentEvent::TurnEnded(_)) | Err(_)))) {
            // What is still asked then is settled before the turn is told to be over.
            self.withdraw_questions();
        }
        match &progress {
            Some(Progress::Asked) => self.recorder.commit(),
            Some(Progress::Event(Ok(event))) => {
                if let Err(exceeded) = self.recorder.hear(event) {
                    return Poll::Ready(Some(self.cancel(exceeded)));
                }
                if let Some(asking) = &self.asking {
                    asking.hear(event, &self.recorder);
                }
            }
            Some(Progress::Event(Err(error))) => {
                if is_refusal(error) {
                    self.recorder.refused();
                }
                self.recorder.failed(&error.to_string());
            }
            Some(Progress::Admitted) | None => {}
        }
        Poll::Ready(progress)
    }

    /// Cancels the turn, whose output exceeds the quota. The session continues.
    fn cancel(&mut self, exceeded: QuotaExceeded) -> Progress {
        self.is_over = true;
        self.answer.stopper().cancel();
        self.withdraw_questions();
        Progress::Event(Err(exceeded.into()))
    }

    fn withdraw_questions(&self) {
        if let Some(Asking { questions, .. }) = &self.asking {
            questions.over(self.recorder.turn());
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.withdraw_questions();
    }
}

/// Whether the request, not the agent, is why a turn has no session.
fn is_refusal(error: &TurnError) -> bool {
    match error {
        TurnError::Unpaired(_) | TurnError::Refused(..) => true,
        TurnError::Session(SessionFailure { phase, .. }) => {
            matches!(phase, Phase::Prompt | Phase::TooLong | Phase::Forbidden | Phase::Held)
        }
        TurnError::TooLong(..)
        | TurnError::BrokenOff(..)
        | TurnError::Blocked(_)
        | TurnError::Unwritable(_) => false,
    }
}
