//! Questions to a person: each waits for its answer, for its time, or for the agent to go away.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Answering, Room, locked};
use crate::event::{BridgeEvent, Question, Settled};

/// Questions that are open at once. More is an agent that does not wait for answers.
const MOST_OPEN: usize = 32;

/// The open questions of a run.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    asked: u64,
    waiting: BTreeMap<u64, oneshot::Sender<String>>,
}

impl Questions {
    fn open_one(&self) -> Option<(u64, oneshot::Receiver<String>)> {
        let mut open = locked(&self.0);
        if open.waiting.len() >= MOST_OPEN {
            return None;
        }
        open.asked += 1;
        let (sender, receiver) = oneshot::channel();
        let id = open.asked;
        open.waiting.insert(id, sender);
        Some((id, receiver))
    }

    pub(super) fn answer(&self, id: u64, text: String) -> Answering {
        let waiting = locked(&self.0).waiting.remove(&id);
        match waiting.map(|sender| sender.send(text)) {
            Some(Ok(())) => Answering::Given,
            Some(Err(_)) | None => Answering::NotOpen,
        }
    }

    pub(super) fn open(&self) -> Vec<u64> {
        locked(&self.0).waiting.keys().copied().collect()
    }
}

/// Takes a question off the list, however its call ends.
struct Listed<'a> {
    questions: &'a Questions,
    id: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        locked(&self.questions.0).waiting.remove(&self.id);
    }
}

/// What is asked.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) text: String,
    pub(crate) options: Vec<String>,
    pub(crate) default: Option<String>,
    pub(crate) within: Duration,
}

/// There are too many questions already.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Room {
    /// Asks a person, and waits. Ends after `within` at the latest, and when `cancelled` or the route is closed.
    pub(crate) async fn ask(
        &self,
        asking: Asking,
        cancelled: &CancellationToken,
    ) -> Result<Settled, TooMany> {
        let (id, answer) = self.questions.open_one().ok_or(TooMany)?;
        let listed = Listed { questions: &self.questions, id };
        let Asking { text, options, default, within } = asking;
        self.telling.tell(BridgeEvent::Asked(Question { id, text, options, default, within })).await;
        let how = tokio::select! {
            biased;
            () = cancelled.cancelled() => Settled::Withdrawn,
            () = self.closed.cancelled() => Settled::Withdrawn,
            answer = answer => answer.map_or(Settled::Withdrawn, Settled::Answered),
            () = tokio::time::sleep(within) => Settled::TimedOut,
        };
        drop(listed);
        self.telling.tell(BridgeEvent::Settled { question: id, how: how.clone() }).await;
        Ok(how)
    }
}
