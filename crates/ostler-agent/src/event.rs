//! What an agent said, decoded: the one event that watchdog, display, journal and completion all read.
//!
//! Foreign records become these in `agents/*`; nothing here knows a wire format. No clock, no ids of ours.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that an agent said about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AgentEvent {
    /// A session is there. May come again with every turn; after a turn's end it is a further turn, which nobody need
    /// have asked for: a background task that ended starts one.
    Started {
        /// The agent's own id of the session.
        session: String,
        /// The model it means to use, where it says so.
        model: Option<String>,
    },
    /// The agent took a prompt.
    Asked {
        /// The prompt as the agent shows it.
        text: String,
    },
    /// Words for the reader.
    Said {
        /// The words.
        text: String,
        /// A piece, or the whole.
        part: Part,
        /// The call of the sub-agent that says it.
        within: Option<String>,
    },
    /// Words of the model to itself.
    Thought {
        /// The words; empty where the agent only says that it thinks.
        text: String,
    },
    /// A tool or sub-agent call was opened.
    ToolStarted {
        /// The agent's id of the call.
        call: String,
        /// The tool, as the agent names it.
        tool: String,
        /// What it is called with.
        input: Value,
        /// The call of the sub-agent that makes it.
        within: Option<String>,
    },
    /// A call was closed.
    ToolEnded {
        /// The agent's id of the call.
        call: String,
        /// How it went.
        result: ToolResult,
    },
    /// Work that goes on beside the turn: a background command, a sub-agent. Keeps the session from being over.
    TaskOpened {
        /// The agent's id of the task.
        task: String,
    },
    /// Such work ended.
    TaskClosed {
        /// The agent's id of the task.
        task: String,
    },
    /// Tokens were used. Never cumulative: what this event adds. Takes the place of every [`Self::SpentSoFar`] before it.
    Spent(Usage),
    /// What the model calls of the current turn used, before the turn ends: everything since the last
    /// [`Self::Spent`] or the last end of a turn. A later one takes the place of an earlier one.
    SpentSoFar(Usage),
    /// The agent uses a model whose price neither the agent nor the configuration has.
    Unpriced {
        /// The model.
        model: String,
    },
    /// The agent waits for something that is not a tool.
    Blocked(Blocked),
    /// A remark about itself that asks for nothing: a compaction, another model, a warning.
    Noted {
        /// In the agent's words where it has some.
        text: String,
    },
    /// The turn is over.
    TurnEnded(TurnOutcome),
    /// New to us: counts as life, is kept, is never fatal.
    Unknown {
        /// The record's kind, as far as it has one. Written under another name: a line of the journal has its own
        /// `kind`.
        #[serde(rename = "record")]
        kind: String,
    },
}

/// Whether words are a piece of what will come whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A piece; the whole will follow.
    Delta,
    /// All of it.
    Whole,
}

/// How a call went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Whether the agent calls it a failure.
    pub failed: bool,
    /// The exit code of a command, where the agent tells it.
    pub exit_code: Option<i64>,
    /// What came of it, as text.
    pub text: String,
}

/// Tokens and money, as far as the agent tells them: absent is not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, those from a cache included.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Tokens read from a cache.
    pub cached_tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

/// Both together. What is not told by either is not known.
pub fn sum(one: Usage, other: Usage) -> Usage {
    let add = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
    };
    let cost = match (one.cost_usd, other.cost_usd) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
    };
    Usage {
        input_tokens: add(one.input_tokens, other.input_tokens),
        output_tokens: add(one.output_tokens, other.output_tokens),
        cached_tokens: add(one.cached_tokens, other.cached_tokens),
        cost_usd: cost,
    }
}

/// What an agent waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "blocked", rename_all = "snake_case")]
pub enum Blocked {
    /// The provider failed and the agent will try again.
    Retrying {
        /// Which try failed, from 1.
        attempt: u32,
        /// How many it will make, where it says so.
        limit: Option<u32>,
        /// How long it waits.
        delay: Option<Duration>,
        /// Why, in the agent's words.
        reason: String,
        /// What kind of failure it is.
        class: FailureClass,
    },
    /// It asks for permission and can be answered.
    Permission {
        /// The id to answer with.
        request: String,
        /// The tool.
        tool: String,
        /// What it would be called with.
        input: Value,
    },
    /// It asks a person something, and goes on if it is told that nobody answers.
    Question {
        /// The id to answer with.
        request: String,
        /// What it asks.
        text: String,
    },
    /// It waits for what only a person can give: a form, a sign-in, a choice.
    Dialog {
        /// What it asks.
        text: String,
    },
    /// It speaks to a server of ours on its own pipe, by MCP, and waits for the answer.
    Routed {
        /// The id to answer with.
        request: String,
        /// What it says: JSON-RPC.
        message: Value,
    },
    /// The question with this id was taken back: no answer is awaited any more.
    Withdrawn {
        /// The id of the question.
        request: String,
    },
    /// It was refused something and went on.
    Denied {
        /// The tool.
        tool: String,
        /// The reason given.
        reason: String,
    },
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "turn", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The agent's positive end marker.
    Done {
        /// Its last words.
        text: String,
    },
    /// It called tools of whoever asked, and waits for what comes of them: it goes on once that is handed over.
    Called,
    /// It was interrupted.
    Interrupted,
    /// It failed.
    Failed(Failure),
}

/// A failure that the agent reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind.
    pub class: FailureClass,
    /// In the agent's words.
    pub detail: String,
    /// For a used-up quota: when it is there again, as seconds since 1970, where it is said.
    pub resets_at: Option<i64>,
    /// How the model itself ended its answer, where that is what the agent calls a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<CutShort>,
}

/// How a model ends an answer that is not all that could have been said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutShort {
    /// It would not, or its provider held the answer back.
    Refusal,
    /// The answer became too long.
    MaxTokens,
}

/// Kinds of failure, by what a person would do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Log in, or mend the key.
    Auth,
    /// Wait for the quota, or pay.
    Quota,
    /// Try again later.
    Overloaded,
    /// The provider's fault, or the way to it.
    Provider,
    /// The model, the prompt or the context: another request is needed.
    Model,
    /// The program itself broke.
    Crashed,
    /// The agent's own limit on turns or money.
    Limit,
    /// Not told.
    Unknown,
}
