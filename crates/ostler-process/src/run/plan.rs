//! What is to be done in a run: the task, its terms, and how each process of it is started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::agent::{Activity, Agent, Enforcement, Launch, Permissions, Refusal, Session, Task};
use ostler_agent::bridge::BridgeEvent;
use ostler_agent::budget::Budget;
use ostler_agent::completion::{Marker, Policy};
use ostler_agent::endpoint::Provider;
use ostler_agent::prices::Prices;
use ostler_agent::typing::Prepared;
use tokio::sync::mpsc;

use super::attempt::Attempt;
use super::bridge::Bridge;
use super::environment::users_settings;
use super::jailing::PlannedJail;
use super::report::RunError;
use super::requests::Request;
use super::session_capture::SessionCapture;
use crate::contain::Ahead;
use crate::journal::Past;
use crate::terminal::pty::Size;
use crate::trust::store::TrustError;
use crate::trust::{Decision, Gate};

/// How long nothing is watched, at most.
const LONGEST_UNWATCHED: Duration = Duration::from_secs(2);

/// The part of the watchdog's `silence` that this may take.
const PART_OF_SILENCE: u32 = 8;

/// How a run begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Beginning {
    /// With its prompt.
    New,
    /// In the session that it had. If the agent never told of one, with its prompt again.
    GoneOn {
        /// What it had come to.
        past: Box<Past>,
        /// What the agent is told, if not only to go on.
        prompt: Option<String>,
        /// How long ago it began.
        age: Duration,
    },
}

/// What is to be done, with what, and how far it may go.
pub struct Plan<'a> {
    /// The agent.
    pub agent: &'a dyn Agent,
    /// Its program.
    pub program: PathBuf,
    /// What it is asked.
    pub prompt: &'a str,
    /// Where it works: absolute, with links resolved.
    pub workspace: PathBuf,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// Who enforces that. The kernel, if there is a jail.
    pub enforcement: Enforcement,
    /// Further rules of what it may do, in its own syntax.
    pub allow: &'a [String],
    /// The model, if not its own choice.
    pub model: Option<&'a str>,
    /// What is added to its own system prompt.
    pub system_prompt: Option<&'a str>,
    /// Further arguments for it, handed on as they are.
    pub extra: &'a [String],
    /// The id that its session is to have, if not its own choice.
    pub session_id: Option<String>,
    /// The whole environment that it is started in, but for what its launch adds.
    pub env: Vec<(OsString, OsString)>,
    /// How it says that it is done.
    pub marker: Marker,
    /// How far the run may go.
    pub policy: Policy,
    /// What it may spend.
    pub budget: Budget,
    /// What models cost, for an agent that does not report it.
    pub prices: Prices,
    /// The address of its provider, to distinguish an offline machine from a failed agent. `None` if that is not
    /// known, or if the run would not wait for it.
    pub probe: Option<Provider>,
    /// What the host tries itself when the agent says that it is done.
    pub checks: Checks<'a>,
    /// The wall around the agent and what the host runs for it, or none.
    pub jail: Option<Arc<PlannedJail>>,
    /// Where the host captures the agent's sessions, if it does instead of the agent's own hooks.
    pub capture: Option<Arc<dyn SessionCapture>>,
    /// What the agent should know of earlier sessions, if its own hooks do not say so.
    pub context: Option<String>,
    /// Our own binary, which guards the agent.
    pub guard: PathBuf,
    /// Where the agent hands over and declares completion, if it can.
    pub bridge: Option<&'a dyn Bridge>,
    /// What a person should know before it starts.
    pub warnings: Vec<String>,
    /// Decides whether the agent may load what the repository brings.
    pub gate: Gate,
    /// How large its terminal is, if it has one.
    pub terminal_size: Size,
    /// When the workspace is watched.
    pub watching: Watching,
}

/// When files are watched. To take watches away costs the end of a process 10 to 20 ms, which an agent that is done in
/// a second need not be charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watching {
    /// As soon as the agent starts: for whoever wants to hear of everything.
    AtOnce,
    /// Once the run has lasted a while.
    Later,
}

/// What comes in from outside while a run lasts.
pub struct Incoming {
    /// A guardian for its first process, if one waits already.
    pub ahead: Option<Ahead>,
    /// What is asked of it.
    pub requests: mpsc::Receiver<Request>,
    /// What happens at its bridge. It is read for as long as the run lasts.
    pub bridge: Option<mpsc::Receiver<BridgeEvent>>,
}

/// What the host tries itself.
#[derive(Default)]
pub struct Checks<'a> {
    /// Commands for the shell, run in the workspace.
    pub commands: &'a [String],
    /// The whole environment of them: the person's, not the agent's.
    pub env: Vec<(OsString, OsString)>,
}

impl Plan<'_> {
    /// What policy answers when the agent asks. In a jail the kernel refuses what it may not do.
    pub(super) fn answered_permissions(&self) -> Permissions {
        self.enforcement.granted(self.permissions)
    }

    /// Whether costs are to be found out from prices.
    pub(super) fn needs_prices(&self) -> bool {
        self.budget.max_cost.is_some() || !self.prices.is_empty()
    }

    /// How long nothing that the agent writes is watched. A small part of the time that it may be silent; not at all
    /// where it may tell what is spent.
    pub(super) fn watch_after(&self) -> Duration {
        if self.budget.max_cost.is_some() || self.budget.max_tokens.is_some() {
            return Duration::ZERO;
        }
        self.longest_unwatched()
    }

    fn longest_unwatched(&self) -> Duration {
        (self.policy.limits.silence / PART_OF_SILENCE).min(LONGEST_UNWATCHED)
    }

    /// The same, for the folder that it works in.
    pub(super) fn watch_workspace_after(&self) -> Duration {
        match self.watching {
            Watching::AtOnce => Duration::ZERO,
            Watching::Later => self.longest_unwatched(),
        }
    }

    /// How the agent would be started, or why it cannot be: for whoever wants to know before anything is written.
    pub fn launch(&self, private: &Path) -> Result<Launch, RunError> {
        let decision = self.decide_trust()?;
        Ok(self.launch_of(&Attempt::first(self.prompt), self.budget.max_cost, private, &decision)?)
    }

    /// Whether the agent may load what the repository brings. Asked anew for every process: the one before may have changed
    /// the files.
    pub fn decide_trust(&self) -> Result<Decision, TrustError> {
        self.gate.decide(self.agent, &self.workspace)
    }

    /// How a process is started that may spend `max_cost`.
    pub(super) fn launch_of(
        &self,
        attempt: &Attempt,
        max_cost: Option<f64>,
        private: &Path,
        decision: &Decision,
    ) -> Result<Launch, Refusal> {
        let appendix = self.appendix();
        let users_settings = users_settings(self.agent, &self.env);
        let task = Task {
            prompt: &attempt.prompt,
            workspace: &self.workspace,
            session: match (attempt.resumed.as_deref(), self.session_id.as_deref()) {
                (Some(session), _) => Session::Resumed(session),
                (None, Some(id)) if attempt.number == 1 => Session::Minted(id),
                (None, _) => Session::New,
            },
            permissions: self.permissions,
            enforcement: self.enforcement,
            allow: self.allow,
            model: self.model,
            system_prompt: appendix.as_deref(),
            extra: self.extra,
            private,
            bridge: self.bridge.map(Bridge::access),
            answerer: Some(&self.guard),
            offered: None,
            max_cost,
            users_settings: users_settings.as_deref(),
            // A run lasts until its background work is done.
            activity: Activity::AfterTurns,
            repository: decision.as_trust(),
        };
        if self.agent.interactive().is_some() {
            self.typed(&attempt.prompt)?;
        }
        self.agent.launch(&task)
    }

    /// The session of an attempt, where it is known before the agent says so.
    pub(super) fn session_of(&self, attempt: &Attempt) -> Option<String> {
        let minted = self.session_id.clone().filter(|_| attempt.number == 1);
        attempt.resumed.clone().or(minted)
    }

    /// A prompt as it is typed, for an agent on a terminal. Not every text can be.
    pub(super) fn typed(&self, prompt: &str) -> Result<Prepared, Refusal> {
        let refused = |reason: String, hint: Option<String>| Refusal {
            agent: self.agent.name(),
            reason,
            hint: hint.unwrap_or_default(),
        };
        match self.agent.interactive() {
            None => Err(refused("it has no terminal program".to_owned(), None)),
            Some(interactive) => {
                let typed = interactive.sendable(prompt);
                typed.map_err(|unsendable| refused(unsendable.to_string(), unsendable.hint()))
            }
        }
    }
}
