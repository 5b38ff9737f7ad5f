//! What the agent did in the workspace by the bridge's own tools, and what it was kept from.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Something that was done in the workspace, or refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Touched {
    /// A file was written.
    Wrote {
        /// Which, from the top of the workspace.
        path: String,
        /// How long it is now.
        bytes: usize,
    },
    /// A program was run, and nothing of it is left.
    Ran {
        /// What was run.
        command: String,
        /// How it ended.
        ended: ProgramEnd,
        /// For how long it ran.
        took: Duration,
        /// How it was contained.
        containment: String,
        /// How many processes it had left running, which were ended.
        left: usize,
        /// How many of them could not be ended.
        survivors: u32,
    },
    /// A path was not gone to.
    Barred {
        /// By which tool.
        tool: String,
        /// The path as it was given, cut to what a journal should hold.
        path: String,
        /// Why.
        why: Barred,
    },
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnd {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody knows: its guardian was killed.
    Unknown,
    /// It was ended because its time was over.
    TimedOut,
    /// It was ended because the call was taken back, or the run was over.
    Withdrawn,
}

/// Why a path is not gone to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Barred {
    /// It begins at the top of the machine.
    Absolute,
    /// It goes up.
    Parent,
    /// A link in it leads out of the workspace.
    Outside,
    /// It leads through a link where none is followed, or in circles.
    Link,
    /// What is there is neither a file nor a folder: a pipe, a socket, a device.
    Special,
    /// It is part of a git repository's own folder, and was to be written.
    Repository,
}

impl fmt::Display for Barred {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Absolute => "is absolute",
            Self::Parent => "goes up by `..`",
            Self::Outside => "leads out of the workspace",
            Self::Link => "leads through a link that is not followed",
            Self::Special => "is neither a file nor a folder",
            Self::Repository => "belongs to git itself",
        })
    }
}
