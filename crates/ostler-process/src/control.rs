//! A live run answers on a unix socket: what it is, what it should be told, that it should stop.
//!
//! One request a line, one answer a line, JSON, version 1:
//! `{"v":1,"op":"status"}`, `{"v":1,"op":"stop"}`, `{"v":1,"op":"say","text":"…"}`, `{"v":1,"op":"answer","text":"…"}`;
//! answers have `ok`, and `error` if it is false. The socket is its owner's alone. Its path is in the run's folder, so
//! that whoever asks need not share the environment of whoever runs.
//!
//! After `{"v":1,"op":"attach","manner":"view","rows":24,"columns":80}` the connection is that of a viewer of the agent's
//! terminal: see [`attached`].

mod address;
pub mod attached;
mod call;
mod door;

use serde::{Deserialize, Serialize};

use crate::terminal::painter::Manner;

pub use call::{CallError, attach, call};
pub use door::{About, AboutTerminal, Door};

/// Version of a line's shape.
const VERSION: u32 = 1;

/// Longest line: a prompt has room in it, a mistake has an end.
const LONGEST_LINE: usize = 8 * 1024 * 1024;

/// In the run's folder: where the socket is.
const WHERE: &str = "socket";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// What is known of the run.
    Status,
    /// To stop. The first time the agent is asked, the second time it is killed.
    Stop,
    /// To tell the agent something.
    Say {
        /// What.
        text: String,
    },
    /// To answer a question of the agent.
    Answer {
        /// The answer.
        text: String,
        /// Which question; the oldest that is open if not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<u64>,
    },
    /// To be shown the agent's terminal, from now on.
    Attach {
        /// Whether to type too.
        manner: Manner,
        /// How high the window of whoever types is.
        rows: u16,
        /// How wide.
        columns: u16,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    v: u32,
    #[serde(flatten)]
    op: Op,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    v: u32,
    /// Whether it was done.
    pub ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For [`Op::Say`]: whether it waits until the agent's turn has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// For [`Op::Status`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<About>,
}

impl Answer {
    fn done() -> Self {
        Self { v: VERSION, ok: true, error: None, queued: false, run: None }
    }

    fn refused(error: impl ToString) -> Self {
        Self { ok: false, error: Some(error.to_string()), ..Self::done() }
    }
}

#[cfg(all(test, target_os = "linux"))]
#[path = "control_tests.rs"]
mod tests;
