//! The agents Ostler knows: one file each. To add one: a file, a folder of recordings, one word in `AGENTS`.

mod claude;
mod codex;
mod opencode;

pub use claude::{CLAUDE, Claude, ClaudeTerminal};
pub use codex::{CODEX, Codex};
pub use opencode::{OPENCODE, OpenCode};

use serde_json::Value;

use crate::agent::{Agent, Decoder, Exit, Source};
use crate::event::AgentEvent;

/// Every agent, in the order in which they are listed and preferred.
pub static AGENTS: &[&dyn Agent] = &[&ClaudeTerminal, &Claude, &Codex, &OpenCode];

/// A reader that takes every record for an unknown one.
struct Unread;

impl Decoder for Unread {
    fn events(&mut self, _source: Source, record: &Value) -> Vec<AgentEvent> {
        vec![AgentEvent::Unknown { kind: record["type"].as_str().unwrap_or_default().to_owned() }]
    }
    fn exited(&mut self, _exit: Exit, _stderr_tail: &str) -> Vec<AgentEvent> {
        Vec::new()
    }
}
