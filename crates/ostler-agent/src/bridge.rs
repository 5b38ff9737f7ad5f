//! The bridge, as everybody who is not the bridge knows it: what happened there, what an agent's tools are called, and
//! what an agent is told about them.
//!
//! The bridge itself, which listens and keeps, is in `ostler-bridge`.

mod event;
mod telling;
mod touched;

pub use event::{AnswerError, BridgeEvent, Contact, Ended, Question, Refusal, Settled};
pub use telling::{Tools, briefing, going_on, notice};
pub use touched::{Barred, ProgramEnd, Touched};

use std::fmt;

/// The name under which agents know the bridge among their MCP servers.
pub const SERVER: &str = "ostler";

/// How long an agent should wait for an answer of the bridge: longer than the longest question to a person.
pub(crate) const LONGEST_CALL_SECONDS: u64 = 3_700;

/// How long an agent should wait for the bridge when it starts. It listens before the agent does.
pub(crate) const CONNECT_SECONDS: u64 = 30;

/// How an agent reaches the bridge of its run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Access<'a> {
    /// Where.
    pub url: &'a str,
    /// What it shows there. A secret: never an argument, never in the journal.
    pub token: &'a str,
}

impl fmt::Debug for Access<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Access({})", self.url)
    }
}
