//! What was asked of the scripted model: one entry a request, for people, tests and the run's journal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

/// One request and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Version of this shape.
    pub v: u32,
    /// Number of the request, from 1.
    pub seq: u64,
    /// Milliseconds since the server began.
    pub ms: u64,
    /// HTTP method.
    pub method: String,
    /// Path, without the query.
    pub path: String,
    /// Wire format, where the path tells one.
    pub wire: Option<&'static str>,
    /// The model that was named.
    pub model: Option<String>,
    /// The agent's id of its session.
    pub session: Option<String>,
    /// Tools on offer.
    pub offered: Vec<String>,
    /// How many prompts stand in the conversation, this one included.
    pub prompts: usize,
    /// The beginning of the last message: the prompt, or a tool's result.
    pub last_message: Option<String>,
    /// HTTP status of the answer; 0 if the connection was dropped instead.
    pub status: u16,
    /// What was played, or why nothing was.
    pub played: Played,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Played {
    /// A step of the script.
    Step {
        /// The conversation's name.
        conversation: String,
        /// The step, from 1.
        step: usize,
        /// Rounds since the prompt.
        round: usize,
    },
    /// A plain answer to a request that the agent makes on its own.
    Side {
        /// Which.
        request: &'static str,
    },
    /// Something that needs no script: a list of models, a count of tokens.
    Plain,
    /// The script has no answer to it.
    Unmatched {
        /// What was expected and what came.
        problem: String,
    },
    /// Not a request that a model provider would take.
    Refused {
        /// Why.
        problem: String,
    },
}

type Sink = Box<dyn Fn(&Entry) + Send + Sync>;

/// Takes the entries. The sink is called on the server's thread, in the order of answers: it must be quick, and may
/// not block for long.
pub struct RequestLog {
    sink: Sink,
    began: Instant,
    requests: AtomicU64,
}

impl std::fmt::Debug for RequestLog {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RequestLog").field("requests", &self.requests).finish_non_exhaustive()
    }
}

impl RequestLog {
    /// A log that hands every entry to `sink`.
    pub fn new(sink: impl Fn(&Entry) + Send + Sync + 'static) -> Self {
        Self { sink: Box::new(sink), began: Instant::now(), requests: AtomicU64::new(0) }
    }

    /// A log that keeps nothing.
    pub fn none() -> Self {
        Self::new(|_| {})
    }

    pub(crate) fn entry(&self, method: &str, path: &str) -> Entry {
        Entry {
            v: 1,
            seq: self.requests.fetch_add(1, Ordering::Relaxed) + 1,
            ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            method: method.to_owned(),
            path: path.to_owned(),
            wire: None,
            model: None,
            session: None,
            offered: Vec::new(),
            prompts: 0,
            last_message: None,
            status: 0,
            played: Played::Plain,
        }
    }

    pub(crate) fn record(&self, entry: &Entry) {
        (self.sink)(entry);
    }
}
