//! Sessions that do what their prompt says, and write down what is done with them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ostler_agent::canonical::Message;
use ostler_agent::event::{AgentEvent, Failure, FailureClass, Part, TurnOutcome};
use ostler_agent::leasing::Terms;
use ostler_gateway::live::{LiveSession, Phase, SessionFailure, Start};
use serde_json::Value;
use tokio::sync::Notify;

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// What each session was told before it began.
    pub(crate) started: Vec<Vec<Value>>,
    /// Which session was asked what.
    pub(crate) asked: Vec<(u32, String)>,
    pub(crate) interrupted: Vec<u32>,
    pub(crate) closed: Vec<u32>,
    pub(crate) dropped: Vec<u32>,
}

/// Starts such sessions.
#[derive(Clone, Default)]
pub(crate) struct Stage {
    pub(crate) log: Arc<Mutex<Log>>,
    /// What `wait` waits for.
    pub(crate) gate: Arc<Notify>,
}

impl Stage {
    pub(crate) fn log<T>(&self, read: impl FnOnce(&mut Log) -> T) -> T {
        read(&mut self.log.lock().unwrap())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Waiting,
    /// It says nothing more until it is interrupted.
    Hanging,
    /// Not even then.
    Deaf,
    /// It waits for the gate.
    AtGate,
    Dead,
}

pub(crate) struct Scripted {
    stage: Stage,
    pid: u32,
    doing: Doing,
    ready: VecDeque<AgentEvent>,
    is_closed: bool,
}

impl Start for Stage {
    type Session = Scripted;

    async fn start(&self, terms: &Terms, prior: &[Message]) -> Result<Scripted, SessionFailure> {
        if terms.model.as_deref() == Some("unstartable") {
            return Err(failure(Phase::Start));
        }
        // As a real one does, it takes more than one look.
        tokio::task::yield_now().await;
        let pid = self.log(|log| {
            log.started.push(prior.iter().map(Message::written).collect());
            u32::try_from(log.started.len()).unwrap()
        });
        let (ready, stage) = (VecDeque::new(), self.clone());
        Ok(Scripted { stage, pid, doing: Doing::Waiting, ready, is_closed: false })
    }
}

fn failure(phase: Phase) -> SessionFailure {
    SessionFailure { phase, detail: "as the script says".to_owned(), hint: None }
}

fn said(text: &str, part: Part) -> AgentEvent {
    AgentEvent::Said { text: text.to_owned(), part, within: None }
}

impl LiveSession for Scripted {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn memory(&self) -> u64 {
        1
    }

    /// `say X`, `say X and die`, `hang`, `deaf`, `wait`, `fail`, `die`, `task`.
    async fn ask(&mut self, message: &Message) -> Result<(), SessionFailure> {
        let text = message.text();
        self.stage.log(|log| log.asked.push((self.pid, text.clone())));
        if self.doing == Doing::Dead {
            return Err(failure(Phase::Ask));
        }
        let done = AgentEvent::TurnEnded(TurnOutcome::Done { text: String::new() });
        match text.split_once(' ').unwrap_or((&text, "")) {
            ("hang", _) => {
                self.ready.push_back(said("half", Part::Delta));
                self.doing = Doing::Hanging;
            }
            ("deaf", _) => self.doing = Doing::Deaf,
            ("wait", _) => self.doing = Doing::AtGate,
            ("die", _) => self.doing = Doing::Dead,
            ("fail", _) => {
                let failure =
                    Failure { class: FailureClass::Overloaded, detail: "busy".to_owned(), resets_at: None };
                self.ready.push_back(AgentEvent::TurnEnded(TurnOutcome::Failed(failure)));
            }
            ("task", _) => {
                self.ready.extend([AgentEvent::TaskOpened { task: "t".to_owned() }, done]);
            }
            (_, words) => {
                self.ready.extend([said(words, Part::Delta), said(words, Part::Whole), done]);
                if words.ends_with("and die") {
                    self.doing = Doing::Dead;
                }
            }
        }
        Ok(())
    }

    async fn interrupt(&mut self) -> Result<(), SessionFailure> {
        self.stage.log(|log| log.interrupted.push(self.pid));
        if matches!(self.doing, Doing::Hanging | Doing::AtGate) {
            self.doing = Doing::Waiting;
            self.ready.push_back(AgentEvent::TurnEnded(TurnOutcome::Interrupted));
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<AgentEvent, SessionFailure> {
        if let Some(event) = self.ready.pop_front() {
            return Ok(event);
        }
        match self.doing {
            Doing::Dead => Err(failure(Phase::Answer)),
            Doing::AtGate => {
                self.stage.gate.notified().await;
                self.doing = Doing::Waiting;
                Ok(AgentEvent::TurnEnded(TurnOutcome::Done { text: "waited".to_owned() }))
            }
            Doing::Waiting | Doing::Hanging | Doing::Deaf => std::future::pending().await,
        }
    }

    async fn unasked(&mut self) -> Option<Result<AgentEvent, SessionFailure>> {
        // That it is dead is noticed now and then only when it is asked, as with a real one.
        (self.doing == Doing::Dead && self.pid.is_multiple_of(2)).then(|| Err(failure(Phase::Answer)))
    }

    async fn close(mut self) {
        tokio::task::yield_now().await;
        self.is_closed = true;
        self.stage.log(|log| log.closed.push(self.pid));
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        if !self.is_closed {
            self.stage.log(|log| log.dropped.push(self.pid));
        }
    }
}
