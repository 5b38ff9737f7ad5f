//! What shows that a task is done, and how much that is worth.

use serde::{Deserialize, Serialize};

/// How much a piece of evidence is worth. The greater, the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// There is none.
    Absent,
    /// Somebody says so: an exit code, a sentence.
    Reported,
    /// The workspace shows it.
    Workspace,
    /// The agent's own transcript shows it.
    Transcript,
    /// It was seen on the wire between the agent and Ostler.
    Wire,
    /// Ostler itself tried it.
    Checked,
}

/// A fact, and how it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What.
    pub fact: String,
    /// How.
    pub grade: Grade,
}

/// How an agent says that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// By a record on its standard output.
    Record,
    /// By a record in its transcript.
    Transcript,
    /// By its exit code alone: programs of which nothing else is known.
    ExitCode,
}

impl Marker {
    /// What its word is worth.
    pub fn evidence(self) -> Evidence {
        let (fact, grade) = match self {
            Self::Record => ("the agent ended its turn as done", Grade::Reported),
            Self::Transcript => ("the agent's transcript ends its turn as done", Grade::Transcript),
            Self::ExitCode => ("the program exited with code 0", Grade::Reported),
        };
        Evidence { fact: fact.to_owned(), grade }
    }
}
