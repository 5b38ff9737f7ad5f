//! What goes over the wire of the native API. The OpenAPI document is made from these.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why something was not done.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Trouble {
    /// The status of the answer.
    pub(crate) status: u16,
    /// What kind of problem it is, in one word.
    pub(crate) title: String,
    /// What happened, for a person.
    pub(crate) detail: String,
    /// The field, header or parameter that is wrong.
    pub(crate) field: Option<String>,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SessionState {
    /// A turn is under way.
    InFlight,
    /// Its process waits for it to go on.
    Idle,
    /// It is on disk; the next turn takes it up.
    Parked,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Session {
    /// Its id: also what `x-ostler-conversation` says.
    pub(crate) id: String,
    /// What it does.
    pub(crate) state: SessionState,
    /// The turn under way.
    pub(crate) turn: Option<String>,
    /// The key that it belongs to.
    pub(crate) key: String,
    /// The API that it was begun with.
    pub(crate) origin: String,
    /// The model, as it was named.
    pub(crate) model: String,
    /// How the agent is driven.
    pub(crate) engine: String,
    /// The folder that it works in; nothing for one of its own.
    pub(crate) cwd: Option<String>,
    /// What the agent may do without asking.
    pub(crate) permissions: String,
    /// Whether what the agent asks is asked of a client.
    pub(crate) ask: bool,
    /// When it began, in milliseconds since 1970.
    pub(crate) opened_at: i64,
    /// When something last happened.
    pub(crate) touched_at: i64,
    /// How long it has been there, in seconds.
    pub(crate) age_seconds: u64,
    /// The number of its last event.
    pub(crate) last_event: u64,
    /// Turns that were begun.
    pub(crate) turns: u32,
    /// Tokens read, as far as the agent told them.
    pub(crate) input_tokens: Option<u64>,
    /// Tokens written.
    pub(crate) output_tokens: Option<u64>,
    /// US dollars.
    pub(crate) cost_usd: Option<f64>,
    /// Why the last turn failed, if it did.
    pub(crate) last_error: Option<String>,
    /// Its live process, if it has one.
    pub(crate) process: Option<Process>,
}

/// The live process of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Process {
    /// Its id in the system.
    pub(crate) pid: Option<u32>,
    /// How long it lives, in seconds.
    pub(crate) age_seconds: u64,
    /// Turns that this process had.
    pub(crate) turns: u32,
    /// Memory that it has in use, in bytes.
    pub(crate) memory_bytes: u64,
    /// Time that it has used of a processor, in seconds.
    pub(crate) cpu_seconds: Option<f64>,
    /// Its terminal, if people can sit down at it.
    pub(crate) terminal: Option<Terminal>,
    /// What the kernel keeps it from; null without a jail.
    pub(crate) jail: Option<Jail>,
}

/// What the kernel keeps a process from.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Jail {
    /// `namespace` or `landlock`.
    pub(crate) kind: String,
    /// The version of Landlock's interface that is in force.
    pub(crate) abi: Option<u32>,
    /// What it can reach in the network; null if that is not limited.
    pub(crate) net: Option<String>,
    /// What the level wants and this wall cannot keep.
    pub(crate) not_enforced: Vec<String>,
}

/// A terminal.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Terminal {
    /// How wide it is.
    pub(crate) columns: u16,
    /// How high.
    pub(crate) rows: u16,
    /// How many watch.
    pub(crate) viewers: usize,
    /// Whether a person holds it.
    pub(crate) held: bool,
}

/// A page of the sessions that a key sees.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Sessions {
    /// The one that was touched last first.
    pub(crate) sessions: Vec<Session>,
    /// How many sessions of each kind the key sees, on all pages and whatever the filter.
    pub(crate) counts: Counts,
    /// Pass this as `after` to get the next page; nothing on the last one.
    pub(crate) next: Option<String>,
}

/// How many sessions there are.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Counts {
    /// With a turn under way.
    pub(crate) in_flight: usize,
    /// With a process that waits.
    pub(crate) idle: usize,
    /// On disk.
    pub(crate) parked: usize,
    /// Processes that wait for a conversation.
    pub(crate) spare: usize,
}

/// What a session is begun with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSession {
    /// The model, as `/v1/models` has it.
    pub(crate) model: String,
    /// A folder to work in: below one that is allowed. Without it the session has one of its own.
    pub(crate) cwd: Option<String>,
    /// What is added to the agent's own system prompt.
    pub(crate) system: Option<String>,
    /// How the agent is driven: `stream` or `terminal`.
    pub(crate) engine: Option<String>,
    /// `deny`, `edits`, `all`, never more than the key allows; or `ask`, to be asked.
    pub(crate) permissions: Option<String>,
}

/// What is asked in a turn.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTurn {
    /// Words; or else `content`.
    pub(crate) text: Option<String>,
    /// Blocks as the Anthropic Messages API has them, for more than words.
    pub(crate) content: Option<Vec<Value>>,
    /// Whether the answer is waited for.
    #[serde(default)]
    pub(crate) wait: bool,
}

/// A turn that was begun.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Turn {
    /// Its id.
    pub(crate) turn: String,
    /// Its session.
    pub(crate) session: String,
    /// Where it is: `in_flight`, `done`, `called`, `interrupted` or `failed`.
    pub(crate) state: String,
    /// The answer, once it is there.
    pub(crate) text: Option<String>,
    /// Why it failed.
    pub(crate) error: Option<String>,
    /// The event before the first of this turn: what to follow it from.
    pub(crate) after: u64,
}

/// What became of an order to stop.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Interrupted {
    /// The turn that was broken off; nothing if none was under way.
    pub(crate) turn: Option<String>,
}

/// A whole conversation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Transcript {
    /// The session.
    pub(crate) session: String,
    /// The model, as it was named.
    pub(crate) model: String,
    /// What was added to the agent's own system prompt.
    pub(crate) system: Option<String>,
    /// What was said, called and answered, as the Anthropic Messages API has it. A turn that failed is not in it.
    pub(crate) messages: Vec<Value>,
}

/// A question of an agent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Permission {
    /// What it is answered by.
    pub(crate) id: String,
    /// Its session.
    pub(crate) session: String,
    /// Its turn.
    pub(crate) turn: String,
    /// The tool that the agent wants to use; nothing where it asks something else.
    pub(crate) tool: Option<String>,
    /// What the tool would be called with.
    pub(crate) input: Option<Value>,
    /// What it asks, in words.
    pub(crate) text: Option<String>,
}

/// All questions that wait.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Permissions {
    /// The oldest first.
    pub(crate) permissions: Vec<Permission>,
}

/// An answer to a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verdict {
    /// What it may.
    pub(crate) decision: Ruling,
    /// What the agent is told: why not, or the answer to what it asked.
    pub(crate) message: Option<String>,
    /// What the tool is called with instead.
    pub(crate) input: Option<Value>,
}

/// What an agent may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ruling {
    /// Do it.
    Allow,
    /// Not do it.
    Deny,
    /// Go on with this answer: for questions that are not about a tool.
    Answer,
}

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Run {
    /// Its id.
    pub(crate) run: String,
    /// `live`, `abandoned`, or how it ended.
    pub(crate) state: String,
    /// The agent.
    pub(crate) agent: String,
    /// How it is driven.
    pub(crate) engine: String,
    /// What the program said when it was asked for its version.
    pub(crate) agent_version: Option<String>,
    /// The folder that it works in.
    pub(crate) cwd: String,
    /// When it began, in seconds since 1970.
    pub(crate) began_at: i64,
    /// What was asked.
    pub(crate) prompt: String,
    /// What the agent may do without asking.
    pub(crate) permissions: String,
    /// How it ended.
    pub(crate) outcome: Option<Value>,
}

/// Runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Runs {
    /// The newest first.
    pub(crate) runs: Vec<Run>,
}

/// What a terminal shows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Screen {
    /// How wide it is.
    pub(crate) columns: u16,
    /// How high.
    pub(crate) rows: u16,
    /// The title that the program gave it.
    pub(crate) title: String,
    /// What it shows, a line a line.
    pub(crate) text: String,
}
