//! A task for an agent, and how the agent is started for it.

use std::path::Path;

use super::PrivateFile;
use crate::bridge::Access;
use crate::offering::Own;
use crate::profile::Profile;
use crate::repository_config::RepositoryTrust;

/// One prompt for an agent, and under which conditions.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// What to do. Without a word an agent that listens waits for an [`super::Order`].
    pub prompt: &'a str,
    /// The directory to do it in: absolute, with links resolved.
    pub workspace: &'a Path,
    /// Which session it belongs to.
    pub session: Session<'a>,
    /// What the agent may do without asking.
    pub permissions: Permissions,
    /// Who enforces that.
    pub enforcement: Enforcement,
    /// Further rules of what it may do, in the agent's own syntax.
    pub allow: &'a [String],
    /// The model, if not the agent's own choice.
    pub model: Option<&'a str>,
    /// What is added to the agent's own system prompt.
    pub system_prompt: Option<&'a str>,
    /// Further arguments, handed on as they are.
    pub extra: &'a [String],
    /// A folder that is the run's alone, below which [`Launch::files`] are.
    pub private: &'a Path,
    /// The bridge of the run, if it has one.
    pub bridge: Option<Access<'a>>,
    /// Our own binary, for an agent that asks by calling a program. Without it such an agent asks on its screen.
    pub answerer: Option<&'a Path>,
    /// Whether the client's tools are offered to it, and its own besides. They are sent over its own pipe.
    pub offered: Option<Own>,
    /// The US dollars that this process may spend, for an agent that limits itself.
    pub max_cost: Option<f64>,
    /// What the user has set in the [`Agent::settings_variable`].
    pub users_settings: Option<&'a str>,
    /// When it may act.
    pub activity: Activity,
    /// Whether it may load what the repository brings for it.
    pub repository: RepositoryTrust<'a>,
}

/// When an agent may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Also after a turn: it may leave work in the background and continue when that ends.
    AfterTurns,
    /// Only while it answers a prompt. What would act later (timers, wake-ups, background work) is not offered to it.
    InTurns,
}

impl<'a> Task<'a> {
    /// A prompt in a new session, with nothing else set. The agent has its default permissions.
    pub fn new(prompt: &'a str, workspace: &'a Path, private: &'a Path) -> Self {
        Self {
            prompt,
            workspace,
            session: Session::New,
            permissions: Permissions::Edits,
            enforcement: Enforcement::Agent,
            allow: &[],
            model: None,
            system_prompt: None,
            extra: &[],
            private,
            bridge: None,
            answerer: None,
            offered: None,
            max_cost: None,
            users_settings: None,
            activity: Activity::AfterTurns,
            repository: RepositoryTrust::Nothing,
        }
    }
}

/// Which session a task belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session<'a> {
    /// A new one, with an id of the agent's choice.
    New,
    /// A new one with this id (a UUID), for agents that take one.
    Minted(&'a str),
    /// The one with the agent's own id.
    Resumed(&'a str),
}

/// What an agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permissions {
    /// Read only.
    Deny,
    /// Change files in the workspace.
    Edits,
    /// Everything.
    All,
}

impl Permissions {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Edits => "edits",
            Self::All => "all",
        }
    }

    /// By its word.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Deny, Self::Edits, Self::All].into_iter().find(|level| level.name() == name)
    }
}

/// Who enforces what an agent may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// The agent itself, by its own rules and sandbox.
    Agent,
    /// The kernel: the agent is in a jail.
    Kernel,
}

/// What the agent finds on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: `/dev/null`. Several agents wait for ever on an open pipe.
    Null,
    /// This text, then end of file.
    Text(String),
    /// These lines; then it stays open, and `speak` says what else is written.
    Spoken(Vec<String>),
    /// A terminal. What it reads is typed once it is ready, the prompt too.
    Terminal,
}

/// How to start an agent for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Arguments after the program. Every user of the machine can read them: never a secret, a prompt or a system prompt.
    pub args: Vec<String>,
    /// Variables to set besides those of the surroundings.
    pub env: Vec<(String, String)>,
    /// What it reads.
    pub stdin: Stdin,
    /// Files that must exist before it starts, below the task's private folder.
    pub files: Vec<PrivateFile>,
    /// Settings in the agent's own configuration folder, for this process alone.
    pub profile: Option<Profile>,
    /// What a person should know before it starts.
    pub warnings: Vec<String>,
    /// What else holds where the agent runs as root.
    pub as_root: AsRoot,
}

/// What is different for root. Whether somebody is root is not known here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AsRoot {
    /// Further variables.
    pub env: Vec<(String, String)>,
    /// Further warnings.
    pub warnings: Vec<String>,
}

impl Launch {
    pub(crate) fn new(args: Vec<String>, stdin: Stdin) -> Self {
        Self {
            args,
            env: Vec::new(),
            stdin,
            files: Vec::new(),
            profile: None,
            warnings: Vec::new(),
            as_root: AsRoot::default(),
        }
    }
}

impl Enforcement {
    /// What an agent with these permissions may do as far as it and our answers decide. In a jail that is everything where
    /// the jail lets it change files: commands of any kind are then useful, and their effects are confined. Where it may
    /// only read, its own rules save it attempts that would fail.
    pub fn granted(self, permissions: Permissions) -> Permissions {
        match (self, permissions) {
            (Self::Kernel, Permissions::Edits) => Permissions::All,
            (Self::Kernel | Self::Agent, level) => level,
        }
    }
}

impl Task<'_> {
    /// The permissions that the launch gives the agent.
    pub(crate) fn granted(&self) -> Permissions {
        self.enforcement.granted(self.permissions)
    }

    /// That the session has an id of our choice is more than most agents take.
    pub(crate) fn refuse_minted(&self, agent: &'static str) -> Result<(), Refusal> {
        match self.session {
            Session::New | Session::Resumed(_) => Ok(()),
            Session::Minted(_) => Err(Refusal {
                agent,
                reason: "it chooses the id of a session itself".to_owned(),
                hint: "leave out --session-id; `ostler runs show` tells the id it chose".to_owned(),
            }),
        }
    }
}

/// What an agent cannot express is refused, never approximated upward.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{agent} cannot be run this way: {reason}")]
pub struct Refusal {
    /// The agent.
    pub agent: &'static str,
    /// Why.
    pub reason: String,
    /// What to do instead.
    pub hint: String,
}
