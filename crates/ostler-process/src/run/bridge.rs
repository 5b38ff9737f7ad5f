//! The bridge, as a run uses it: what was handed over there decides, what happens there is written down.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use ostler_agent::bridge::{Access, AnswerError, BridgeEvent, Contact, Question, Tools, briefing};
use ostler_agent::run_event::RunEventKind;
use ostler_agent::standing::Standing;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Plan, Run};
use crate::journal::JournalError;

/// What a run asks of its bridge. The bridge lives in this process: none of it blocks, but for the end.
pub trait Bridge: Sync {
    /// How the agent reaches it.
    fn access(&self) -> Access<'_>;
    /// The kinds of artifacts that must be handed over.
    fn required(&self) -> &[String];
    /// What was handed over.
    fn standing(&self) -> Standing;
    /// What happened between the agent and the bridge so far.
    fn contact(&self) -> Contact;
    /// Takes the agent's claim back: it was found not to be so.
    fn unclaim(&self);
    /// Puts a sentence into every answer from now on.
    fn set_notice(&self, notice: String);
    /// Answers a question. Whether it was still open.
    fn answer(&self, question: u64, text: String) -> Answering;
    /// What is kept of it in the outcome: where the receipts end, so that a later reader sees an edit.
    fn head(&self) -> Value;
    /// Looks whether the receipts on disk are still what was written; if not, says so in a sentence.
    fn audit(&self) -> Result<(), String>;
    /// Looks whether the accepted documents on disk are still what was accepted, and says of each that is not what became
    /// of it. Those that are go to where copies are wanted, if anywhere.
    fn hand_out(&self) -> HandedOut;
    /// Ends it, with every process that was started for it. Answers how many could not be ended. Idempotent.
    fn close(&self) -> Pin<Box<dyn Future<Output = u32> + '_>>;
}

/// What became of the documents that were handed over, each trouble in a sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandedOut {
    /// Those that are no longer what was accepted.
    pub changed: Vec<String>,
    /// Where copies were wanted.
    pub folder: Option<PathBuf>,
    /// Kinds that were copied.
    pub copied: Vec<String>,
    /// Those that could not be.
    pub failed: Vec<String>,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// The agent gets it.
    Given,
    /// No such question is open.
    NotOpen,
}

/// Why an answer was not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// There is nothing to answer.
    #[error("no question is open")]
    NoQuestion,
    /// It was answered, or its time is over.
    #[error("that question is not open")]
    NotOpen,
    /// The question does not take it.
    #[error(transparent)]
    Refused(#[from] AnswerError),
}

/// A run's side of its bridge.
pub(super) struct BridgeSide<'a> {
    pub(super) bridge: &'a dyn Bridge,
    pub(super) tools: Tools,
    events: mpsc::Receiver<BridgeEvent>,
    questions: BTreeMap<u64, Question>,
    /// Artifacts that were accepted since the last decision.
    accepted: u64,
    /// That the agent never connected is told once.
    is_absence_told: bool,
}

impl<'a> BridgeSide<'a> {
    /// Nothing, if the agent cannot use a bridge or there is none.
    pub(super) fn new(plan: &Plan<'a>, events: Option<mpsc::Receiver<BridgeEvent>>) -> Option<Self> {
        let (bridge, tools) = (plan.bridge?, Tools::of(plan.agent)?);
        Some(Self {
            bridge,
            tools,
            events: events?,
            questions: BTreeMap::new(),
            accepted: 0,
            is_absence_told: false,
        })
    }

    /// Remembers which questions are open, and what came in.
    pub(super) fn note(&mut self, event: &BridgeEvent) {
        match event {
            BridgeEvent::Asked(question) => drop(self.questions.insert(question.id, question.clone())),
            BridgeEvent::Settled { question, .. } => drop(self.questions.remove(question)),
            BridgeEvent::Accepted { .. } => self.accepted += 1,
            _ => {}
        }
    }

    /// Answers a question, the oldest one if none is named.
    fn answer(&self, question: Option<u64>, text: &str) -> Result<(), Unanswered> {
        let question = match question {
            Some(id) => self.questions.get(&id).ok_or(Unanswered::NotOpen)?,
            None => self.questions.values().next().ok_or(Unanswered::NoQuestion)?,
        };
        let text = question.resolve_answer(text)?;
        match self.bridge.answer(question.id, text) {
            Answering::Given => Ok(()),
            Answering::NotOpen => Err(Unanswered::NotOpen),
        }
    }
}

/// Waits for what happens at the bridge; for ever if there is none. Cancel safe.
pub(super) async fn next(side: Option<&mut BridgeSide<'_>>) -> BridgeEvent {
    match side {
        Some(side) => match side.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

impl Plan<'_> {
    /// What the agent's system prompt has besides its own: what the person wants there, how the bridge is used, and what
    /// is remembered of earlier sessions.
    pub(super) fn appendix(&self) -> Option<String> {
        let tools = Tools::of(self.agent);
        let told = self.bridge.zip(tools).map(|(bridge, tools)| briefing(&tools, bridge.required()));
        let parts = [self.system_prompt, told.as_deref(), self.context.as_deref()];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

impl Run<'_> {
    /// Writes down what happened at the bridge while nobody listened: between processes, and after the last.
    pub(super) fn catch_up(&mut self) -> Result<(), JournalError> {
        while let Some(event) = self.bridge.as_mut().and_then(|side| side.events.try_recv().ok()) {
            self.tell_bridge(event)?;
        }
        Ok(())
    }

    pub(super) fn tell_bridge(&mut self, event: BridgeEvent) -> Result<(), JournalError> {
        if let Some(side) = &mut self.bridge {
            side.note(&event);
        }
        self.desk.tell(RunEventKind::Bridge(event))
    }

    /// An agent that was given a bridge and never came: something is wrong with its settings, or with the machine.
    pub(super) fn tell_absence(&mut self) -> Result<(), JournalError> {
        let Some(side) = &mut self.bridge else { return Ok(()) };
        if side.is_absence_told || side.bridge.contact() != Contact::None {
            return Ok(());
        }
        side.is_absence_told = true;
        let text = "the agent never connected to the bridge, so it could not hand over anything or declare completion";
        self.desk.tell(RunEventKind::Warn { text: text.to_owned() })
    }

    /// Whether artifacts came in since the last time that this was asked. A claim alone is no progress.
    pub(super) fn has_new_artifacts(&mut self) -> bool {
        self.bridge.as_mut().is_some_and(|side| std::mem::take(&mut side.accepted) > 0)
    }

    /// A person answers a question of the agent.
    pub(super) fn answer(&self, question: Option<u64>, text: &str) -> Result<(), Unanswered> {
        self.bridge.as_ref().ok_or(Unanswered::NoQuestion)?.answer(question, text)
    }

    /// Ends the bridge, and says what is kept of it. A chain that somebody changed is told.
    pub(super) async fn close_bridge(&mut self) -> Result<Value, JournalError> {
        let Some(side) = &self.bridge else { return Ok(Value::Null) };
        let bridge = side.bridge;
        let left = bridge.close().await;
        self.count_survivors(Some(left));
        self.catch_up()?;
        let (broken, handed) = (bridge.audit().err(), bridge.hand_out());
        for wrong in broken.iter().chain(&handed.changed) {
            let text = format!("{wrong}; what counts is what the run itself remembered");
            self.desk.tell(RunEventKind::Warn { text })?;
        }
        let exported = handed.folder.as_ref().map(|folder| {
            let (copied, failed) = (&handed.copied, &handed.failed);
            json!({"folder": folder.to_string_lossy(), "copied": copied, "failed": failed})
        });
        for failed in &handed.failed {
            let text = format!("not everything was exported: {failed}");
            self.desk.tell(RunEventKind::Warn { text })?;
        }
        Ok(json!({
            "contact": bridge.contact(),
            "receipts": bridge.head(),
            "broken": broken,
            "changed": handed.changed,
            "exported": exported,
        }))
    }
}
