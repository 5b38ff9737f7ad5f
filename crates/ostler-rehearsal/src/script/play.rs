//! A script that was checked: what can be played.

use std::collections::BTreeMap;
use std::time::Duration;

use regex_lite::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Expect, When};

/// Longest text of one item, all its repetitions together. A script that says more is mistaken; a server that tried
/// would run out of memory.
pub const LONGEST_TEXT: usize = 64 * 1024 * 1024;

/// A script, ready to be played.
#[derive(Debug)]
pub struct Play {
    /// What messages call it: a built-in name or a path.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// At least one.
    pub conversations: Vec<Conversation>,
}

/// What the model says to one kind of prompt.
#[derive(Debug)]
pub struct Conversation {
    /// Its name, or its number.
    pub name: String,
    /// A later prompt with this text goes on where it stood.
    pub goes_on: Option<String>,
    /// At least one.
    pub steps: Vec<Step>,
}

/// One answer of the model.
#[derive(Debug)]
pub struct Step {
    /// The step exists only if this holds.
    pub when: Option<When>,
    /// What the request must say.
    pub expect: Expect,
    /// `expect.matches`, compiled.
    pub pattern: Option<Regex>,
    /// How many rounds in a row it is played.
    pub repeat: usize,
    /// What is answered.
    pub reply: Vec<Item>,
}

/// A place in a play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cue {
    /// Which conversation, from 0.
    pub conversation: usize,
    /// Which of its steps, from 0.
    pub step: usize,
    /// How many rounds were played since the prompt.
    pub round: usize,
}

/// One item of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Said or thought.
    Content(Content),
    /// A call of a tool by its own name.
    Tool {
        /// The tool's name.
        name: String,
        /// Named arguments, or free text.
        input: Input,
    },
    /// A call of whatever tool the agent has for a role.
    Role(Role),
    /// Something that goes wrong.
    Fault {
        /// What.
        fault: Fault,
        /// How often.
        limit: Limit,
    },
    /// Why the answer ends.
    Stop(StopReason),
    /// Tokens to report.
    Usage(Usage),
}

/// What a tool is called with.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Named arguments.
    Arguments(BTreeMap<String, Value>),
    /// Free text.
    Text(String),
}

/// Text that is said or thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Thought, not said.
    pub aside: Aside,
    /// The text, with templates.
    pub text: String,
    /// Characters a delta.
    pub chunk: usize,
    /// Pause between deltas.
    pub gap: Duration,
    /// How many times.
    pub repeat: usize,
}

/// Whether text is meant for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
    /// Said.
    No,
    /// Thought.
    Yes,
}

/// What a tool is for, whatever the agent calls it.
#[derive(Debug, Clone, PartialEq)]
pub enum Role {
    /// Runs a command.
    Shell {
        /// The command line.
        command: String,
    },
    /// Writes a file.
    WriteFile {
        /// Relative to the workspace, or absolute.
        path: String,
        /// The whole file.
        content: String,
    },
    /// Reads a file.
    ReadFile {
        /// Relative to the workspace, or absolute.
        path: String,
    },
    /// Calls an MCP server's tool.
    Mcp {
        /// The server, where given.
        server: Option<String>,
        /// The tool as the server calls it.
        tool: String,
        /// Its arguments.
        arguments: BTreeMap<String, Value>,
    },
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// An HTTP error instead of an answer.
    Http(HttpFault),
    /// Silence.
    Stall {
        /// Where.
        place: Where,
        /// How long; until the client leaves if not said.
        duration: Option<Duration>,
        /// How often a keep-alive is sent meanwhile.
        keep_alive: Option<Duration>,
    },
    /// The connection is dropped.
    Cut {
        /// Where.
        place: Where,
    },
}

/// An HTTP error.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpFault {
    /// 400 to 599.
    pub status: u16,
    /// Seconds.
    pub retry_after: Option<u32>,
    /// What the error says.
    pub message: Option<String>,
    /// The whole body.
    pub body: Option<Value>,
    /// Further headers, checked to be valid.
    pub headers: Vec<(String, String)>,
}

/// How often a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Every time.
    Always,
    /// The first few times.
    Times(u32),
}

/// Where in an answer a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Where {
    /// Before the first byte of the answer.
    BeforeHeaders,
    /// Where the item stands among the others.
    MidText,
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model is done.
    EndTurn,
    /// It wants the results of its calls.
    ToolUse,
    /// It ran out of tokens.
    MaxTokens,
    /// It declines.
    Refusal,
    /// It pauses a long turn.
    PauseTurn,
}

/// Tokens that an answer reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Read, those from a cache included.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from a cache.
    #[serde(default)]
    pub cached: u64,
}

impl Item {
    /// Whether the agent will come back with a result.
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Tool { .. } | Self::Role(_))
    }
}

impl Step {
    /// Whether the agent will come back with results, so that a next step can be reached.
    pub fn calls_tools(&self) -> bool {
        self.reply.iter().any(Item::is_call)
    }
}
