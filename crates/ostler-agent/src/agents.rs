//! The agents Ostler knows: one file each. To add one: a file, a folder of recordings, one word in `AGENTS`.

mod claude;
mod codex;
mod command;
mod opencode;
mod reading;
mod rules;
mod tool_line;

pub use claude::{CLAUDE, Claude, ClaudeTerminal};
pub use codex::{CODEX, Codex};
pub use command::{COMMAND, Command};
pub use opencode::{OPENCODE, OpenCode};
pub use reading::failure_of_exit;

pub(crate) use claude::remembered as claude_remembered;
pub(crate) use codex::remembered as codex_remembered;
pub(crate) use opencode::remembered as opencode_remembered;

use crate::agent::Agent;

/// Every agent, in the order in which they are listed and preferred. A [`Command`] is none of them: it is made from
/// words.
pub static AGENTS: &[&dyn Agent] = &[&ClaudeTerminal, &Claude, &Codex, &OpenCode];
