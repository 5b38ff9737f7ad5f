//! What is asked of a run while it lasts: to stop, to tell its agent something, to answer it.

use ostler_agent::outcome::CancelledBy;
use tokio::sync::{mpsc, oneshot};

use super::bridge::Unanswered;
use crate::terminal::seat::Seat;

/// What is asked of a run while it lasts.
#[derive(Debug)]
pub enum Request {
    /// To stop. The first asks the agent, the second kills.
    Stop(CancelledBy),
    /// To tell the agent something.
    Say {
        /// What.
        text: String,
        /// Whether it could be told.
        told: oneshot::Sender<Result<Said, Unsaid>>,
    },
    /// To answer a question that the agent asked at the bridge.
    Answer {
        /// Which; the oldest that is open if not said.
        question: Option<u64>,
        /// The answer.
        text: String,
        /// Whether it could be given.
        told: oneshot::Sender<Result<(), Unanswered>>,
    },
    /// To be let to the agent's terminal.
    Terminal {
        /// A seat at it.
        told: oneshot::Sender<Result<Seat, NoTerminal>>,
    },
}

/// Why there is no terminal to sit at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTerminal {
    /// The agent has none.
    #[error("its agent has no terminal: it is driven over pipes")]
    Pipes,
    /// No process of the agent lives: it has not begun, or is between two.
    #[error("its agent has no terminal at this moment")]
    NotNow,
}

/// When an agent is told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Now: it listens while it works.
    Now,
    /// When its turn has ended, in a further one.
    NextTurn,
}

/// Why an agent cannot be told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsaid {
    /// It is a program without sessions: it takes one prompt, and no other.
    #[error("the agent does not listen while it works, and has no session to go on with")]
    Deaf,
    /// So much waits to be told already.
    #[error("much waits already until the agent's turn has ended")]
    Full,
    /// It is ending, or has not read what it was told before.
    #[error("the agent does not listen any more")]
    Ending,
}

/// What is asked, and whether somebody wants the run to stop.
pub(super) struct Requests {
    asked: mpsc::Receiver<Request>,
    pub(super) stop: Option<CancelledBy>,
}

impl Requests {
    pub(super) fn new(asked: mpsc::Receiver<Request>) -> Self {
        Self { asked, stop: None }
    }

    /// Waits for the next one. Never ends if nobody can ask any more. Cancel safe.
    pub(super) async fn next(&mut self) -> Request {
        match self.asked.recv().await {
            Some(request) => {
                if let Request::Stop(by) = &request {
                    self.stop = Some(*by);
                }
                request
            }
            None => std::future::pending().await,
        }
    }

    /// Waits for somebody to ask to stop. There is no agent that could be told anything. Cancel safe.
    pub(super) async fn stop(&mut self) {
        loop {
            match self.next().await {
                Request::Stop(_) => return,
                // Whoever asked may be gone.
                Request::Say { told, .. } => drop(told.send(Err(Unsaid::Ending))),
                Request::Answer { told, .. } => {
                    let _ = told.send(Err(Unanswered::NoQuestion));
                }
                Request::Terminal { told } => drop(told.send(Err(NoTerminal::NotNow))),
            }
        }
    }
}
