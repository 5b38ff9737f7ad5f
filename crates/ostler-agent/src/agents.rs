//! The agents Ostler knows: one file each. To add one: a file, a folder of recordings, one word in `AGENTS`.

mod claude;
mod codex;
mod opencode;

pub use claude::{CLAUDE, Claude, ClaudeTerminal};
pub use codex::{CODEX, Codex};
pub use opencode::{OPENCODE, OpenCode};

use crate::agent::Agent;

/// Every agent, in the order in which they are listed and preferred.
pub static AGENTS: &[&dyn Agent] = &[&ClaudeTerminal, &Claude, &Codex, &OpenCode];
