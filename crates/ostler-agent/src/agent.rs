//! What Ostler must know about one agent program. An agent is knowledge, not activity: nothing here starts one.

use std::path::{Path, PathBuf};

use crate::package::Package;

/// How a session with an agent is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Records over pipes.
    Stream,
    /// The real terminal program in a PTY.
    Terminal,
}

impl Engine {
    /// The word for it on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Terminal => "terminal",
        }
    }
}

/// Where a rehearsal takes place: a scripted model on loopback, and a home that is nobody's.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The scripted model, without a path: `http://127.0.0.1:4321`.
    pub url: String,
    /// A private home directory. The agent's settings and sessions go below it, and nowhere else.
    pub home: PathBuf,
}

/// What makes an agent use the scripted model instead of its provider, and keep to its private home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// Variables to set, besides the few that every program needs (`PATH`, `LANG`, `TERM`).
    pub env: Vec<(String, String)>,
    /// Folders that must exist before the agent starts, all below the stage's home.
    pub folders: Vec<PathBuf>,
    /// Files that must exist before the agent starts, all below the stage's home.
    pub files: Vec<PrivateFile>,
}

impl Stage {
    /// Where the agent's temporary files go, instead of among everybody's.
    pub fn temporary(&self) -> PathBuf {
        self.home.join("tmp")
    }
}

/// A settings file that Ostler writes for one rehearsal. Readable by its owner only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateFile {
    /// Where.
    pub path: PathBuf,
    /// What is in it.
    pub content: String,
}

/// One prompt for an agent.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// What to do.
    pub prompt: &'a str,
    /// The directory to do it in.
    pub workspace: &'a Path,
    /// The agent's own id of the session to go on with.
    pub resume: Option<&'a str>,
}

/// What the agent finds on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: `/dev/null`. Several agents wait for ever on an open pipe.
    Null,
    /// This text, then end of file.
    Text(String),
}

/// How to start an agent for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Arguments after the program.
    pub args: Vec<String>,
    /// What it reads.
    pub stdin: Stdin,
}

/// What Ostler must know about one agent program. Stateless; does no I/O.
pub trait Agent: Sync {
    /// The name on the command line: `claude-headless`.
    fn name(&self) -> &'static str;
    /// The name people know: `Claude Code`.
    fn title(&self) -> &'static str;
    /// How it is driven under this name.
    fn engine(&self) -> Engine;
    /// Where the program comes from.
    fn package(&self) -> &'static Package;
    /// One remark for `agents list`, or nothing.
    fn note(&self) -> &'static str {
        ""
    }
    /// What points it at a scripted model. The key it is given is a dummy.
    fn rehearsed(&self, stage: &Stage) -> Setup;
    /// The shortest arguments with which a person gives it a prompt in a rehearsal: no screen to fill, and every
    /// permission granted, since the model does what the script says and nothing else.
    fn by_hand(&self, prompt: &str) -> Vec<String>;
    /// How to start it for a task with nobody watching: JSON records on stdout, every permission granted.
    fn unattended(&self, task: &Task<'_>) -> Launch;
}

/// The agent of that name.
pub fn find(name: &str) -> Option<&'static dyn Agent> {
    crate::agents::AGENTS.iter().copied().find(|agent| agent.name() == name)
}

/// The key that rehearsed agents are given. Any non-empty one will do.
pub const DUMMY_KEY: &str = "rehearsal-key-not-a-secret";

pub(crate) fn pairs<const N: usize>(entries: [(&str, String); N]) -> Vec<(String, String)> {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn words<const N: usize>(entries: [&str; N]) -> Vec<String> {
    entries.into_iter().map(str::to_owned).collect()
}
