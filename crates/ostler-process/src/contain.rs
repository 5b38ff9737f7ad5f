//! An agent that is started so that nothing it starts outlives its run, not even when Ostler is killed.
//!
//! ```text
//! ostler ──lifeline── ostler __guard ── ostler __shim, which becomes the agent ── whatever it starts
//! ```
//!
//! The guardian stands between Ostler and the agent. It adopts every orphan, and when the lifeline closes, for whatever
//! reason, it kills all and goes. The shim waits until it is contained before it becomes the agent, so nothing is
//! started outside. Why so, and what was rejected: `docs/adr/0009`.
//!
//! Invariant: a process is signalled through a pidfd whose process was checked after it was opened, or as an unreaped
//! child; never by a number that was only remembered.

mod connections;
mod contained;
mod ending;
mod error;
mod family;
mod guardian;
mod launch;
mod leaf;
mod plan;
mod sampler;
mod shim;
mod standby;
pub(crate) mod wire;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::jail::Jail;
use crate::terminal::pty::Size;

pub(crate) use connections::Diagnosis;
pub use contained::{Contained, Guard};
pub use error::StartError;
pub use launch::Ahead;
pub use leaf::anticipate;
pub use sampler::Sampler;
pub use standby::Standby;

/// Forces a tier, for tests: the value is a [`Tier`]'s name.
pub const FORCE_TIER: &str = "OSTLER_FORCE_TIER";

/// The variable that every process of a run inherits. Its value is different for every start.
pub const MARK: &str = "OSTLER_RUN_MARK";

const GUARD: &str = "__guard";
const SHIM: &str = "__shim";

/// How the processes of a run are kept together. In every tier the guardian also adopts orphans and looks for
/// descendants and marks; the tier names what holds beyond that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// A control group of its own: killed as one, and known to be empty from the kernel.
    Cgroup,
    /// A PID namespace whose first process is the guardian: the kernel kills all when it ends.
    PidNs,
    /// Nothing beyond: descendants, orphans and marks are looked for in `/proc`.
    Sweep,
}

impl Tier {
    /// All, the best first.
    pub const ALL: [Self; 3] = [Self::Cgroup, Self::PidNs, Self::Sweep];

    /// As it is recorded and forced.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::PidNs => "pidns",
            Self::Sweep => "sweep",
        }
    }

    /// The tier of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }
}

/// What the agent reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// A pipe from us.
    Piped,
    /// Nothing: the end at once.
    Null,
    /// A terminal of this size, to which it also writes. It is the agent's controlling terminal, and nobody else's.
    Terminal(Size),
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Spawn<'a> {
    /// A path, or a name to be found on the `PATH` of `env`.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<OsString>,
    /// The whole environment: nothing is inherited. [`MARK`] is added, and `PWD` is set to `cwd` with links resolved.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// What it reads.
    pub stdin: Stdin,
    /// The run, for the names of what is made. Need not be unique.
    pub run: &'a str,
    /// This tier or a failure; else what [`FORCE_TIER`] says; else the best that works.
    pub tier: Option<Tier>,
    /// The wall around it, or none.
    pub jail: Option<Jail>,
    /// Our own binary: it is started with the words that [`role`] knows.
    pub guard: PathBuf,
}

/// How the leader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody knows: its guardian was killed, and only a parent is told.
    Unknown,
}

/// A signal that asks to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT, as Ctrl-C sends it.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// How many processes of a run could not be ended. Zero, unless one is stuck in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Survivors(pub u32);

/// What the processes of a run other than the leader have used up. Compare two of them: any difference is life. Not
/// monotone, because what an orphan used is forgotten when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeSample {
    /// Processor time, also of children that have ended.
    pub cpu: Duration,
    /// Bytes read and written, to files, pipes and terminals alike.
    pub io_bytes: u64,
    /// How many processes there are.
    pub processes: usize,
}

/// What this process is, if it was started to be a part of the containment: ask before anything else.
pub fn role(first_argument: Option<OsString>) -> Option<fn() -> ExitCode> {
    match first_argument?.to_str()? {
        GUARD => Some(guardian::guard),
        SHIM => Some(shim::shim),
        _ => None,
    }
}
