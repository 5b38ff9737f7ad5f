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

/// Questions that may wait at once. A further one is denied at once, and so is one of a key that has its share.
const MOST_QUESTIONS: usize = 1024;

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

/// How questions of a turn are answered.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub(super) questions: Questions,
    pub(super) answers: mpsc::Sender<Reply>,
    /// How many questions of its key may wait; nothing for any number.
    pub(super) most_of_key: Option<u32>,
}

/// All questions that wait, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Questions {
    waiting: Arc<Mutex<BTreeMap<String, Question>>>,
    timers: TaskTracker,
    /// Nothing is waited for any more, whatever waits.
    closing: CancellationToken,
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

    /// Why one more of this tenant cannot wait.
    fn refusal(&self, tenant: &str, most_of_key: Option<u32>) -> Option<&'static str> {
        let waiting = self.waiting();
        let of_key = waiting.values().filter(|question| question.tenant == tenant).count();
        if most_of_key.is_some_and(|most| of_key >= most as usize) {
            return Some("too many questions of this key wait for an answer; go on without it");
        }
        let is_full = waiting.len() >= MOST_QUESTIONS;
        is_full.then_some("too many questions wait for an answer; go on without it")
    }

    /// Answers one. False if it does not wait any more.
    pub(super) fn settle(&self, id: &str, decision: Decision, outcome: Settled) -> bool {
        let Some(question) = self.waiting().remove(id) else { return false };
        question.over.cancel();
        let is_heard = question.reply(decision);
        settled(&question.conversation, &question.turn, id, outcome);
        is_heard
    }

    /// Withdraws the open questions of a turn that has ended, and notifies the clients that follow it.
    pub(super) fn over(&self, turn: &str) {
        self.withdraw(|asked| asked.turn == turn);
    }

    /// When it returns nothing waits any more.
    pub(super) async fn close(&self) {
        self.withdraw(|_| true);
        self.closing.cancel();
        self.timers.close();
        self.timers.wait().await;
    }

    /// Withdraws open questions without an answer.
    fn withdraw(&self, is_gone: impl Fn(&Question) -> bool) {
        let mut gone = Vec::new();
        self.waiting().retain(|_, asked| {
            let is_gone = is_gone(asked);
            if is_gone {
                gone.push(asked.clone());
            }
            !is_gone
        });
        for question in gone {
            question.over.cancel();
            settled(&question.conversation, &question.turn, &question.id, Settled::Withdrawn);
        }
    }
}

impl Asking {
    /// Takes notice of what an agent said in a turn whose questions are answered by clients.
    pub(super) fn hear(&self, event: &AgentEvent, recorder: &Recorder) {
        let AgentEvent::Blocked(blocked) = event else { return };
        match blocked {
            Blocked::Permission { request, tool, input } => {
                let (tool, input) = (Some(tool.clone()), Some(input.clone()));
                self.ask(recorder, request, (tool, input, None));
            }
            Blocked::Question { request, text } => {
                self.ask(recorder, request, (None, None, Some(text.clone())));
            }
            Blocked::Withdrawn { request } => {
                self.questions.withdraw(|asked| asked.request == *request && asked.turn == recorder.turn());
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
            answer: self.answers.clone(),
            over: CancellationToken::new(),
        };
        let Question { id, tool, input, text, over, .. } = question.clone();
        let questions = self.questions.clone();
        if let Some(why) = questions.refusal(&question.tenant, self.most_of_key) {
            question.reply(Decision::Deny(why.to_owned()));
            return;
        }
        questions.waiting().insert(id.clone(), question);
        if recorder.asked(&id, tool, input, text).is_err() {
            // The turn ends soon: there is no room for what it says.
            questions.waiting().remove(&id);
            return;
        }
        let closing = questions.closing.clone();
        self.questions.timers.spawn(async move {
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                () = closing.cancelled() => {}
                () = tokio::time::sleep(PATIENCE) => {
                    questions.settle(&id, Decision::Deny(NOBODY_CAME.to_owned()), Settled::Expired);
                }
            }
        });
    }
}

impl Question {
    /// False if nobody hears it.
    fn reply(&self, decision: Decision) -> bool {
        self.answer.try_send(Reply { request: self.request.clone(), decision }).is_ok()
    }
}
