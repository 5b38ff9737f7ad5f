//! What agents ask and nobody has answered yet. Each question waits for ten minutes at most; then it is denied, as it
//! would have been without anybody to ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_agent::agent::Decision;
use ostler_agent::event::{AgentEvent, Blocked};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::conversations::{Conversation, Recorder, Settled, settled};
use crate::pool::Reply;

/// How long a question waits.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Questions that may wait at once. A further one is denied at once.
const MOST_QUESTIONS: usize = 256;

/// Answers that may wait for one agent: it asks a few things at once at most.
pub(super) const UNREAD_ANSWERS: usize = 32;

/// What an agent is told that nobody answered.
const NOBODY_CAME: &str = "nobody answered in time; go on without it";

/// A question that waits.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// What it is answered by.
    pub(super) id: String,
    /// Whose conversation it is.
    pub(super) tenant: String,
    pub(super) conversation: Arc<Conversation>,
    pub(super) turn: String,
    /// The tool, and what it would be called with; nothing where something else is asked.
    pub(super) tool: Option<String>,
    pub(super) input: Option<Value>,
    pub(super) text: Option<String>,
    /// The agent's own id of it.
    request: String,
    answer: mpsc::Sender<Reply>,
    over: CancellationToken,
}

/// All questions that wait, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Questions {
    waiting: Arc<Mutex<BTreeMap<String, Question>>>,
    timers: TaskTracker,
}

impl Questions {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Question>> {
        // Nothing under the lock can panic half-way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of a tenant, or all.
    pub(super) fn list(&self, tenant: Option<&str>) -> Vec<Question> {
        let is_its = |question: &&Question| tenant.is_none_or(|tenant| question.tenant == tenant);
        self.waiting().values().filter(is_its).cloned().collect()
    }

    /// Takes notice of what an agent said in a turn whose questions are answered by clients.
    pub(super) fn hear(&self, event: &AgentEvent, recorder: &Recorder, answer: &mpsc::Sender<Reply>) {
        let AgentEvent::Blocked(blocked) = event else { return };
        match blocked {
            Blocked::Permission { request, tool, input } => {
                let (tool, input) = (Some(tool.clone()), Some(input.clone()));
                self.ask(recorder, answer, request, (tool, input, None));
            }
            Blocked::Question { request, text } => {
                self.ask(recorder, answer, request, (None, None, Some(text.clone())));
            }
            Blocked::Withdrawn { request } => {
                let mut waiting = self.waiting();
                let found =
                    waiting.values().find(|asked| asked.request == *request && asked.turn == recorder.turn());
                if let Some(id) = found.map(|question| question.id.clone()) {
                    waiting.remove(&id);
                    drop(waiting);
                    recorder.settled(&id, Settled::Withdrawn);
                }
            }
            Blocked::Retrying { .. }
            | Blocked::Dialog { .. }
            | Blocked::Routed { .. }
            | Blocked::Denied { .. } => {}
        }
    }

    fn ask(
        &self,
        recorder: &Recorder,
        answer: &mpsc::Sender<Reply>,
        request: &str,
        (tool, input, text): (Option<String>, Option<Value>, Option<String>),
    ) {
        let question = Question {
            // They sort by when they were asked.
            id: Uuid::now_v7().simple().to_string(),
            tenant: recorder.conversation().opening.tenant.clone(),
            conversation: recorder.conversation().clone(),
            turn: recorder.turn().to_owned(),
            tool,
            input,
            text,
            request: request.to_owned(),
            answer: answer.clone(),
            over: CancellationToken::new(),
        };
        let Question { id, tool, input, text, over, .. } = question.clone();
        if self.waiting().len() >= MOST_QUESTIONS {
            question
                .reply(Decision::Deny("too many questions wait for an answer; go on without it".to_owned()));
            return;
        }
        self.waiting().insert(id.clone(), question);
        recorder.asked(&id, tool, input, text);
        let questions = self.clone();
        self.timers.spawn(async move {
            if tokio::time::timeout(PATIENCE, over.cancelled()).await.is_err() {
                questions.settle(&id, Decision::Deny(NOBODY_CAME.to_owned()), Settled::Expired);
            }
        });
    }

    /// Answers one. False if it does not wait any more.
    pub(super) fn settle(&self, id: &str, decision: Decision, outcome: Settled) -> bool {
        let Some(question) = self.waiting().remove(id) else { return false };
        question.over.cancel();
        let is_heard = question.reply(decision);
        settled(&question.conversation, &question.turn, id, outcome);
        is_heard
    }

    /// A turn is over: nobody waits for an answer to what was asked in it.
    pub(super) fn over(&self, turn: &str) {
        let mut waiting = self.waiting();
        let gone: Vec<String> =
            waiting.values().filter(|asked| asked.turn == turn).map(|asked| asked.id.clone()).collect();
        for id in gone {
            if let Some(question) = waiting.remove(&id) {
                question.over.cancel();
            }
        }
    }

    /// When it returns nothing waits any more.
    pub(super) async fn close(&self) {
        for question in std::mem::take(&mut *self.waiting()).into_values() {
            question.over.cancel();
        }
        self.timers.close();
        self.timers.wait().await;
    }
}

impl Question {
    /// False if nobody hears it.
    fn reply(&self, decision: Decision) -> bool {
        self.answer.try_send(Reply { request: self.request.clone(), decision }).is_ok()
    }
}
