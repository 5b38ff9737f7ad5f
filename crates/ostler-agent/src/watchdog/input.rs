//! What the watchdog is told, and how an event of an agent becomes that.
//!
//! What does not count as life has no input at all: chatter on stderr, heartbeats.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::Value;

use crate::event::{AgentEvent, Blocked, ToolResult};

/// One thing that the watchdog is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A process of the agent was started: the first one, or one that resumes the session.
    Spawned,
    /// The living process was given a further prompt.
    Prompted,
    /// The agent said something that is none of the following.
    Event(EventKind),
    /// A request of the agent failed, and it announced when it tries again. Only silence is counted from then on: the
    /// time until then is the agent's own, and the ceiling holds.
    Retrying {
        /// After how long.
        delay: Duration,
    },
    /// A tool or sub-agent call was opened.
    CallOpened {
        /// The agent's id of the call.
        call: String,
        /// The tool, as the agent names it.
        tool: String,
        /// What is called, and with what.
        signature: Signature,
        /// Who calls.
        by: Speaker,
    },
    /// A call was closed. One that was never opened is harmless: after a resume its start may lie in the past.
    CallClosed {
        /// The agent's id of the call.
        call: String,
        /// What came of it.
        result: ResultHash,
    },
    /// Work beside the turn began: a background command, a sub-agent.
    TaskOpened {
        /// The agent's id of the task.
        task: String,
    },
    /// Such work ended.
    TaskClosed {
        /// The agent's id of the task.
        task: String,
    },
    /// The agent called our bridge.
    BridgeCall,
    /// The agent's transcript grew, or a sub-agent's.
    TranscriptGrew,
    /// The screen of the agent's terminal shows other text. Counts while a turn is under way.
    ScreenText,
    /// Only a spinner moved there. Counts while a turn is under way and no call is open, and no longer than the limit on
    /// an open call: it also turns over a dead connection.
    ScreenSpinner,
    /// What the agent's processes did since the previous sample, or since the start.
    TreeSample {
        /// Processor time that its descendants used. The leader is left out: it is never quite idle.
        cpu: Duration,
        /// Bytes that its descendants read and wrote.
        io: u64,
        /// Bytes that the leader's connections received from a server that it sent a request to.
        received: u64,
    },
    /// Such a sample showed that they are busy: for whoever knows no more of it than that.
    TreeBusy,
    /// Such a sample showed that an answer streams: for callers that have no figures.
    AnswerReceived,
    /// Such a sample showed that the connections received no more than keep-alives have: the same.
    KeepAliveReceived,
    /// A file of the workspace changed.
    WorkspaceChanged,
    /// From now on the run waits for something that is not the agent: a quota, the network, a person. Nothing that the
    /// agent does by itself, a retry say, parks a run.
    Parked,
    /// That wait is over.
    Unparked,
    /// A person took the agent's terminal. Until they give it back no rule about quiet holds, only the ceiling does.
    Held,
    /// They gave it back. Harmless if nobody had it.
    Released,
    /// The turn is over, well or badly.
    ResultSeen,
    /// The agent's standard output was closed.
    Eof,
    /// The agent's process ended.
    Exited,
    /// Time passed.
    Tick,
}

/// What kind of event it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A session is there; after a result, a further turn.
    Started,
    /// A prompt was taken.
    Asked,
    /// Words of the agent.
    Said,
    /// Thoughts of the agent.
    Thought,
    /// Words of a sub-agent, which may go on after the turn.
    SubAgent,
    /// Tokens were used.
    Spent,
    /// It waits for something, or was refused something.
    Blocked,
    /// A remark about itself.
    Noted,
    /// New to us.
    Unknown,
}

/// Whose call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The agent's own.
    Agent,
    /// A sub-agent's.
    SubAgent,
}

impl Input {
    /// What an event tells the watchdog.
    pub fn of(event: &AgentEvent) -> Self {
        match event {
            AgentEvent::Started { .. } => Self::Event(EventKind::Started),
            AgentEvent::Asked { .. } => Self::Event(EventKind::Asked),
            AgentEvent::Said { within: None, .. } => Self::Event(EventKind::Said),
            AgentEvent::Said { within: Some(_), .. } => Self::Event(EventKind::SubAgent),
            AgentEvent::Thought { .. } => Self::Event(EventKind::Thought),
            AgentEvent::ToolStarted { call, tool, input, within } => Self::CallOpened {
                call: call.clone(),
                tool: tool.clone(),
                signature: Signature::of(tool, input),
                by: if within.is_some() { Speaker::SubAgent } else { Speaker::Agent },
            },
            AgentEvent::ToolEnded { call, result } => {
                Self::CallClosed { call: call.clone(), result: ResultHash::of(result) }
            }
            AgentEvent::TaskOpened { task } => Self::TaskOpened { task: task.clone() },
            AgentEvent::TaskClosed { task } => Self::TaskClosed { task: task.clone() },
            AgentEvent::Spent(_) | AgentEvent::SpentSoFar(_) => Self::Event(EventKind::Spent),
            AgentEvent::Blocked(Blocked::Retrying { delay: Some(delay), .. }) => {
                Self::Retrying { delay: *delay }
            }
            AgentEvent::Blocked(_) => Self::Event(EventKind::Blocked),
            AgentEvent::TurnEnded(_) => Self::ResultSeen,
            AgentEvent::Noted { .. } | AgentEvent::Unpriced { .. } => Self::Event(EventKind::Noted),
            AgentEvent::Unknown { .. } => Self::Event(EventKind::Unknown),
        }
    }
}

/// A complete call: the tool and its canonical arguments, without the call's id. Comparable within one process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature(u64);

impl Signature {
    /// The signature of a call.
    pub fn of(tool: &str, input: &Value) -> Self {
        Self(hash(&(tool, canonical(input))))
    }
}

/// What came of a call. Comparable within one process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultHash(u64);

impl ResultHash {
    /// The hash of a result.
    pub fn of(result: &ToolResult) -> Self {
        Self(hash(&(result.failed, result.exit_code, &result.text)))
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// JSON without spaces and with the keys of every object in order: equal values give equal texts, whatever order an
/// agent wrote them in.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            // A String takes every write.
            let _ = write!(text, "{value}");
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(index, text);
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            // Sorted here, because whether serde_json sorts depends on who else uses it.
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, item)) in fields.into_iter().enumerate() {
                separate(index, text);
                let _ = write!(text, "{}:", Value::String(key.clone()));
                write_canonical(item, text);
            }
            text.push('}');
        }
    }
}

fn separate(index: usize, text: &mut String) {
    if index > 0 {
        text.push(',');
    }
}
