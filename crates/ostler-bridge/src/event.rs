//! What happened at the bridge, for the run: its journal, its watchdog, and whoever watches.

use std::time::Duration;

use ostler_agent::artifact::Diagnostic;
use tokio::sync::mpsc;

/// Events that wait for the run to read them. When it is full, calls wait: the journal loses nothing, and an agent that
/// calls faster than the run reads is slowed down. The run must read until the route is closed.
pub const MOST_EVENTS: usize = 256;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BridgeEvent {
    /// The agent's first request with its token.
    Connected {
        /// What it calls itself in the request, if it does.
        client: String,
    },
    /// A client of the agent said hello. A second one with the same token is served alike, and told here.
    Greeted {
        /// Its name and version.
        client: String,
        /// The revision of the protocol that was agreed on.
        protocol: String,
    },
    /// The agent asked for the list of tools.
    ToolsListed,
    /// A tool was called.
    Called {
        /// Which.
        tool: String,
    },
    /// A call was answered, or given up.
    Answered {
        /// Of which tool.
        tool: String,
        /// How.
        ended: Ended,
    },
    /// An artifact was accepted.
    Accepted {
        /// Its kind.
        kind: String,
        /// Its receipt.
        receipt: String,
        /// How long it is.
        bytes: usize,
    },
    /// An artifact was rejected.
    Rejected {
        /// Its kind.
        kind: String,
        /// Why.
        faults: Vec<Diagnostic>,
    },
    /// The agent's claim that it is done was taken.
    Completed {
        /// What it says.
        summary: String,
        /// The receipt.
        receipt: String,
    },
    /// The agent's claim was refused.
    ClaimRefused {
        /// What is missing.
        missing: Vec<String>,
    },
    /// The agent says how far it is.
    Progressed {
        /// In its words.
        text: String,
        /// In percent.
        percent: Option<u8>,
    },
    /// The agent asks a person.
    Asked(Question),
    /// A question is no longer open.
    Settled {
        /// Which.
        question: u64,
        /// How.
        how: Settled,
    },
    /// Somebody came to this run's door and was not let in.
    Refused {
        /// Why.
        why: Refusal,
    },
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// As asked.
    Done,
    /// With a sentence that says what to do.
    Failed,
    /// The client took it back, or went away.
    Cancelled,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its number in this run.
    pub id: u64,
    /// What is asked.
    pub text: String,
    /// What may be chosen, if it is a choice.
    pub options: Vec<String>,
    /// What the agent gets if nobody answers.
    pub default: Option<String>,
    /// How long it waits.
    pub within: Duration,
}

/// How a question was settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// A person answered this.
    Answered(String),
    /// Nobody did in time.
    TimedOut,
    /// The agent no longer wants to know.
    Withdrawn,
}

/// Why somebody was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The name of the host is not that of the door: a page may have had it resolved to here.
    Host,
    /// The request comes from a web page.
    Origin,
    /// The token is missing or wrong.
    Token,
    /// There is a query, where a token could stand and be logged.
    Query,
    /// The request has more bytes than are read.
    TooLong,
    /// The request is no message of the protocol.
    Garbled,
}

/// The run's side of the events, as the bridge uses it.
#[derive(Debug, Clone)]
pub(crate) struct Telling(mpsc::Sender<BridgeEvent>);

impl Telling {
    pub(crate) fn new() -> (Self, mpsc::Receiver<BridgeEvent>) {
        let (sender, receiver) = mpsc::channel(MOST_EVENTS);
        (Self(sender), receiver)
    }

    /// Tells the run. Waits while it has not read the events before. A run that no longer listens is not waited for.
    pub(crate) async fn tell(&self, event: BridgeEvent) {
        let _ = self.0.send(event).await;
    }

    /// Room for one event, so that a fact and its event cannot be parted by a client that goes away in between.
    pub(crate) async fn room(&self) -> Room<'_> {
        Room(self.0.reserve().await.ok())
    }

    /// Tells the run if there is room. For what strangers cause: they must not be able to hold up anything.
    pub(crate) fn mention(&self, event: BridgeEvent) {
        if self.0.try_send(event).is_err() {
            tracing::debug!(target: "ostler::mcp", "a refusal was not told: the run has not read the events before");
        }
    }
}

/// Room for one event.
pub(crate) struct Room<'a>(Option<mpsc::Permit<'a, BridgeEvent>>);

impl Room<'_> {
    pub(crate) fn tell(self, event: BridgeEvent) {
        if let Some(permit) = self.0 {
            permit.send(event);
        }
    }
}
