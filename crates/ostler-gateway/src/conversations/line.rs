//! What a line of a conversation's journal says. Our own shape, versioned: what an agent's event is called inside may
//! change, what is on disk may not.

use ostler_agent::event::{AgentEvent, Usage};
use ostler_agent::fingerprint::{Fingerprint, Known, Reach};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of this shape.
pub(super) const VERSION: u32 = 1;

/// One thing that happened in a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// Version of this shape.
    pub v: u32,
    /// Its number: they go up by one.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What.
    pub happened: Happened,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Happened {
    /// It began.
    Opened {
        /// On what.
        opening: Opening,
    },
    /// Something was asked.
    TurnBegan {
        /// The turn.
        turn: String,
        /// The model, as it was named.
        model: String,
        /// What was said before and is not in this journal yet: the history that a program brought along.
        before: Vec<Value>,
        /// What was asked.
        asked: Value,
    },
    /// The agent did or said something.
    Agent {
        /// The turn.
        turn: String,
        /// What: its `event` tells which kind.
        #[schemars(with = "std::collections::BTreeMap<String, Value>")]
        event: AgentEvent,
    },
    /// The agent asks, and waits for an answer.
    PermissionAsked {
        /// The turn.
        turn: String,
        /// The id to answer it with.
        permission: String,
        /// The tool that it wants to use; nothing where it asks something else.
        tool: Option<String>,
        /// What the tool would be called with.
        input: Option<Value>,
        /// What it asks, in words.
        text: Option<String>,
    },
    /// It waits no more.
    PermissionSettled {
        /// The turn.
        turn: String,
        /// Which.
        permission: String,
        /// What became of it.
        outcome: Settled,
    },
    /// The turn is over.
    TurnEnded {
        /// The turn.
        turn: String,
        /// How.
        ending: Ending,
        /// Why it failed.
        error: Option<String>,
        /// What it added to the conversation. Nothing of a turn that failed counts, not even the question.
        added: Vec<Value>,
        /// What the conversation came to.
        so_far: SoFar,
    },
}

/// What a conversation began on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Opening {
    /// Its id.
    pub conversation: String,
    /// Whose it is: the id of a key.
    pub tenant: String,
    /// The model, as it was named.
    pub model: String,
    /// The folder that it works in; nothing for one of its own.
    pub cwd: Option<String>,
    /// What is added to the agent's own system prompt.
    pub system: Option<String>,
    /// The part of it that holds for whatever follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<String>,
    /// What the agent may do without asking: `deny`, `edits`, `all`.
    pub permissions: String,
    /// Whether what the agent asks is asked of a client, rather than denied.
    pub ask: bool,
    /// How the agent is driven: `stream` or `terminal`.
    pub engine: String,
    /// Where it came from: `messages`, `chat`, `responses` or `native`.
    pub origin: String,
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// It may.
    Allowed,
    /// It may not.
    Denied,
    /// It was told something.
    Answered,
    /// Nobody answered in time: it may not.
    Expired,
    /// The agent does not want to know any more, or its turn is over.
    Withdrawn,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All was said.
    Done,
    /// Tools of whoever asked were called: it goes on when what came of them is brought.
    Called,
    /// It was broken off.
    Interrupted,
    /// It failed.
    Failed,
}

/// What a conversation has come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SoFar {
    /// Turns that were begun.
    pub turns: u32,
    /// Tokens read, as far as the agent told them.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Why the last turn failed, if it did.
    pub last_error: Option<String>,
    /// What it is found by when a program sends it back.
    pub known: Option<KnownBy>,
}

impl SoFar {
    pub(super) fn spend(&mut self, usage: &Usage) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        add(&mut self.input_tokens, usage.input_tokens);
        add(&mut self.output_tokens, usage.output_tokens);
        if let Some(cost) = usage.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
    }
}

/// Fingerprints, as they are written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownBy {
    /// Of all of it, in hexadecimal.
    pub whole: String,
    /// Of its words.
    pub words: String,
    /// Whether it has calls of tools.
    pub calls: bool,
}

impl From<Known> for KnownBy {
    fn from(known: Known) -> Self {
        let hex = |print: Fingerprint| print.0.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { whole: hex(known.whole), words: hex(known.words), calls: known.reach == Reach::Calls }
    }
}

impl KnownBy {
    /// As it is compared; nothing if that is no fingerprint.
    pub(super) fn known(&self) -> Option<Known> {
        let print = |text: &str| {
            let (mut bytes, digits) = ([0; 32], text.as_bytes());
            if digits.len() != 64 {
                return None;
            }
            for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
                *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
            }
            Some(Fingerprint(bytes))
        };
        let reach = if self.calls { Reach::Calls } else { Reach::Words };
        Some(Known { whole: print(&self.whole)?, words: print(&self.words)?, reach })
    }
}
