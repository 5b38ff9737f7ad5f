//! An answer that is written down while it is told. Every word goes into the journal of its conversation before it is
//! handed on, so that whoever goes on at once finds it there.

use std::task::{Context, Poll};

use ostler_agent::event::AgentEvent;
use tokio::sync::mpsc;

use super::questions::Questions;
use crate::conversations::Recorder;
use crate::pool::{Answer, BrokenOff, Reply, TurnError};

/// An answer, and where it is written.
pub(super) struct Recorded {
    answer: Answer,
    recorder: Recorder,
    asking: Option<(Questions, mpsc::Sender<Reply>)>,
}

impl Recorded {
    pub(super) fn new(
        answer: Answer,
        recorder: Recorder,
        asking: Option<(Questions, mpsc::Sender<Reply>)>,
    ) -> Self {
        recorder.conversation().stoppable(recorder.turn(), answer.stopper());
        Self { answer, recorder, asking }
    }

    /// Who broke the turn off, if anybody did.
    pub(super) fn broken_off(&self) -> Option<BrokenOff> {
        self.answer.broken_off()
    }

    /// What comes next. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<AgentEvent, TurnError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<AgentEvent, TurnError>>> {
        let event = std::task::ready!(self.answer.poll_next(context));
        if matches!(&event, Some(Ok(AgentEvent::TurnEnded(_)) | Err(_))) {
            // What is still asked then is settled before the turn is told to be over.
            self.nobody_waits();
        }
        match &event {
            Some(Ok(event)) => {
                self.recorder.hear(event);
                if let Some((questions, answers)) = &self.asking {
                    questions.hear(event, &self.recorder, answers);
                }
            }
            Some(Err(error)) => self.recorder.failed(&error.to_string()),
            None => {}
        }
        Poll::Ready(event)
    }

    fn nobody_waits(&self) {
        if let Some((questions, _)) = &self.asking {
            questions.over(self.recorder.turn());
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.nobody_waits();
    }
}
