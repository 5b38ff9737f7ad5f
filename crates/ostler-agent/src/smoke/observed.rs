//! What was observed of one run of the smoke task. Values only: whoever looked at files and processes made it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::run_event::Channel;

/// All that the facts are judged from.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// How the run ended.
    pub ended: Ended,
    /// The file that the agent was asked for.
    pub file: FileSeen,
    /// What else is different where the agent worked and beside it.
    pub strays: Vec<String>,
    /// The agent's own id of its session.
    pub session: Option<String>,
    /// The id that it was told to use.
    pub minted: Option<String>,
    /// Whether it is done, by whose word.
    pub claim: Claim,
    /// What became of the artifact that is required.
    pub artifact: Handed,
    /// The receipts as they are on disk.
    pub chain: ChainSeen,
    /// Whether it found the bridge.
    pub bridge: AtBridge,
    /// How many events its records came to.
    pub events: u64,
    /// Kinds of records that are not known.
    pub unknown: Vec<NewKind>,
    /// Its calls of tools.
    pub calls: Calls,
    /// Lines that it said, blank ones aside.
    pub lines: usize,
    /// The first of them, as they are quoted.
    pub quoted: Vec<String>,
    /// What it asked a person for, or was refused.
    pub prompts: Vec<String>,
    /// Where life was heard.
    pub channels: BTreeSet<Channel>,
    /// Processes that could not be ended; nothing if nobody knows.
    pub survivors: Option<u64>,
    /// Turns that ended.
    pub turns: u64,
    /// How often it was resumed.
    pub resumes: u64,
    /// How long it took from the start of its process to its first event.
    pub first_event: Option<Duration>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With an outcome.
    Outcome {
        /// Its word.
        outcome: String,
        /// The exit code of the run.
        code: u64,
        /// What else is said of it.
        detail: Option<String>,
        /// What was missing in the end.
        missing: Vec<String>,
    },
    /// Without one: it was refused, or broke.
    Nothing {
        /// What was said instead.
        said: String,
        /// What was said to try.
        try_this: Option<String>,
    },
}

impl Observed {
    /// Nothing was observed, because nothing could be run.
    pub fn nothing(said: String, try_this: Option<String>) -> Self {
        super::Gathered::default().observed(said, try_this)
    }

    /// Whether an agent ran at all.
    pub fn ran(&self) -> bool {
        self.events > 0 || matches!(self.ended, Ended::Outcome { .. })
    }
}

/// A file that should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSeen {
    /// It is not.
    Absent,
    /// It was read by the program that would run it.
    Parsed,
    /// It is there; nobody here can read it.
    Unread {
        /// Why not.
        why: String,
    },
    /// It is there, and cannot be read.
    Broken {
        /// What is wrong with it.
        why: String,
    },
}

/// By whose word it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It called `declare_complete`, and this is the receipt.
    Receipt(String),
    /// It ended its turn as done, and that is all.
    Word,
    /// Nobody's.
    Nobody,
}

/// What became of the artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handed {
    /// It was accepted in this run.
    Accepted {
        /// The receipt.
        receipt: String,
        /// What is stored.
        document: Document,
    },
    /// The newest draft was rejected.
    Rejected {
        /// For this.
        faults: Vec<String>,
    },
    /// A document lies in its place, for which this run has no receipt.
    Stale,
    /// Nothing was handed over.
    Nothing,
}

/// A stored document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// The bytes of the receipt, without a fault.
    Valid,
    /// With faults.
    Faulty(Vec<String>),
    /// Other bytes than the receipt is for.
    Changed,
    /// Not there.
    Gone,
}

/// The chain of receipts on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainSeen {
    /// Every line fits, and it ends where the outcome says.
    Whole {
        /// How many lines.
        lines: u64,
    },
    /// It was changed.
    Broken {
        /// Where and how.
        why: String,
    },
    /// There is none.
    Absent,
}

/// Whether an agent found the bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtBridge {
    /// It came in.
    Came,
    /// Somebody came and was not let in.
    TurnedAway {
        /// Why.
        why: String,
    },
    /// Nobody came.
    Nobody,
}

/// A kind of record that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKind {
    /// The kind, as far as it has one.
    pub kind: String,
    /// The beginning of such a record.
    pub sample: String,
}

/// Calls of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Opened, by the agent's own record.
    pub opened: u64,
    /// Closed, by the same.
    pub closed: u64,
    /// Answered at the bridge.
    pub answered: u64,
}
