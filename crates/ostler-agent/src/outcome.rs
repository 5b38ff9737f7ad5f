//! How a run ended. Total: each outcome has one word, one exit code and one sentence. An outcome is a value, never an
//! error: errors are for what Ostler could not do itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::FailureClass;
use crate::quiet_cause::QuietCause;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// There is evidence that the task is done.
    Completed,
    /// The agent reported a failure, or broke.
    AgentFailed {
        /// What kind.
        class: FailureClass,
        /// In the agent's words.
        detail: String,
    },
    /// It ended normally and something is still missing.
    Incomplete {
        /// What.
        missing: Vec<String>,
    },
    /// A liveness rule fired.
    Stalled {
        /// Which.
        rule: Rule,
        /// How long nothing was heard.
        quiet: Duration,
        /// Why, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<QuietCause>,
    },
    /// The hard ceiling, or a budget.
    TimedOut {
        /// Which limit.
        limit: Limit,
    },
    /// No such program.
    NotInstalled {
        /// How to get it.
        hint: String,
    },
    /// The process never came up.
    NeverStarted {
        /// Why.
        reason: String,
    },
    /// A question that policy does not answer.
    Blocked {
        /// What it asks.
        dialog: String,
    },
    /// A usage limit or a rate limit is reached.
    Quota {
        /// When it ends, as seconds since 1970, where the agent says so.
        resets_at: Option<i64>,
        /// In the agent's words.
        detail: String,
    },
    /// Somebody stopped it.
    Cancelled {
        /// Who.
        by: CancelledBy,
    },
}

/// A rule of the watchdog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Nothing was heard since the start.
    Start,
    /// Nothing was heard while no call was open.
    Silence,
    /// Nothing was heard while a call was open.
    OpenCall,
    /// The same call with the same result, again and again.
    Loop,
    /// The result was there and the process stayed.
    AfterResult,
    /// The process was gone and its descendants held the pipe.
    AfterExit,
    /// The hard ceiling.
    Ceiling,
    /// The run was parked for too long.
    MaxWait,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Start,
        Self::Silence,
        Self::OpenCall,
        Self::Loop,
        Self::AfterResult,
        Self::AfterExit,
        Self::Ceiling,
        Self::MaxWait,
    ];

    /// The word for it in outcomes and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Silence => "silence",
            Self::OpenCall => "open_call",
            Self::Loop => "loop",
            Self::AfterResult => "after_result",
            Self::AfterExit => "after_exit",
            Self::Ceiling => "ceiling",
            Self::MaxWait => "max_wait",
        }
    }
}

/// A limit that ends a run whatever the agent does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Limit {
    /// Time in which an agent process lived.
    Ceiling {
        /// How long.
        time: Duration,
    },
    /// Time in which the run was parked.
    MaxWait {
        /// How long.
        time: Duration,
    },
    /// Money.
    MaxCost {
        /// US dollars.
        usd: f64,
    },
    /// Tokens read and written.
    MaxTokens {
        /// How many.
        tokens: u64,
    },
    /// Turns.
    MaxTurns {
        /// How many.
        turns: u32,
    },
}

/// Who stopped a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelledBy {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal was closed.
    Hangup,
    /// `ostler stop`.
    Client,
}

impl RunOutcome {
    /// The one word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::AgentFailed { .. } => "agent_failed",
            Self::Incomplete { .. } => "incomplete",
            Self::Stalled { .. } => "stalled",
            Self::TimedOut { .. } => "timed_out",
            Self::NotInstalled { .. } => "not_installed",
            Self::NeverStarted { .. } => "never_started",
            Self::Blocked { .. } => "blocked",
            Self::Quota { .. } => "quota",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// The one exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::AgentFailed { .. } => 10,
            Self::Incomplete { .. } => 11,
            Self::Stalled { .. } => 12,
            Self::TimedOut { .. } => 13,
            Self::NotInstalled { .. } | Self::NeverStarted { .. } => 14,
            Self::Blocked { .. } => 15,
            Self::Quota { .. } => 16,
            Self::Cancelled { by: CancelledBy::Interrupt } => 130,
            Self::Cancelled { by: CancelledBy::Terminate | CancelledBy::Hangup | CancelledBy::Client } => 143,
        }
    }
}
