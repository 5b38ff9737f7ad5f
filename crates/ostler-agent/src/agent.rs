//! What Ostler must know about one agent program. An agent is knowledge, not activity: nothing here starts one.

mod launch;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::canonical::Message;
use crate::endpoint::{Configuration, Provider};
use crate::event::{AgentEvent, Usage};
use crate::jail::{AgentState, StatePlaces};
use crate::network::AgentNetwork;
use crate::package::Package;
use crate::prices::{Observed, Prices};
use crate::quiet_cause::Answer;
use crate::repository_config::{ConfigEntry, Content, InstructionFiles};
use crate::source::Twins;
use crate::tenant::{AccessRefusal, TenantAccess};
use crate::terminal::Interactive;
pub use launch::{Activity, AsRoot, Enforcement, Launch, Permissions, Refusal, Session, Stdin, Task};

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

/// Where a rehearsal takes place: a scripted model on loopback, and an isolated home. A tenant's agent has the same, with
/// Ostler's proxy instead of the model.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The scripted model, without a path: `http://127.0.0.1:4321`.
    pub url: String,
    /// The key that the agent sends there.
    pub key: String,
    /// A private home directory. The agent's settings and sessions go below it, and nowhere else.
    pub home: PathBuf,
}

/// What makes an agent use the scripted model instead of its provider, and keep to its private home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// Variables to set. They say where the provider and the home are, and keep the agent from other hosts; what it may
    /// do and how it is driven are the same in a real run, and so belong to [`Launch`].
    pub env: Vec<(String, String)>,
    /// Folders that must exist before the agent starts, all below the stage's home.
    pub folders: Vec<PathBuf>,
    /// Files that must exist before the agent starts, all below the stage's home.
    pub files: Vec<PrivateFile>,
}

/// The shortest way for a person to give an agent a prompt in a rehearsal: no screen to fill, and every permission
/// granted, since the model does what the script says and nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByHand {
    /// Arguments after the program.
    pub args: Vec<String>,
    /// Variables besides those of [`Setup`].
    pub env: Vec<(String, String)>,
}

impl Stage {
    /// A rehearsal, in which any key will do.
    pub fn new(url: impl Into<String>, home: impl Into<PathBuf>) -> Self {
        Self { url: url.into(), key: DUMMY_KEY.to_owned(), home: home.into() }
    }

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

/// Something to tell an agent that listens on its standard input.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// A further prompt.
    Prompt(String),
    /// A further prompt that is more than words: content as it is written for a provider.
    Content(Value),
    /// Stop the turn.
    Interrupt,
    /// End the session and exit.
    End,
    /// Answer what it said to a server of ours.
    Routed {
        /// The request's id.
        request: String,
        /// The answer: JSON-RPC.
        message: Value,
    },
    /// Answer a request for permission.
    Answer {
        /// The request's id.
        request: String,
        /// Whether it may.
        decision: Decision,
    },
}

/// The answer to a request for permission.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It may, with this input.
    Allow(Value),
    /// It may not, for this reason.
    Deny(String),
}

/// Where a record was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// On the agent's standard output.
    Stdout,
    /// In the agent's own transcript file.
    Transcript,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Reads one agent's records. Remembers what it needs to: totals that the agent only reports as sums, the last reason
/// for a step's end. Never fails and never panics on any record; an unknown one becomes `AgentEvent::Unknown`.
pub trait Decoder: Send {
    /// What one JSON record means.
    fn events(&mut self, source: Source, record: &Value) -> Vec<AgentEvent>;
    /// What it means that the process ended, given the end of its standard error: for agents whose end is their last
    /// record, or that fail before the first one. Empty if all was said.
    fn exited(&mut self, exit: Exit, stderr_tail: &str) -> Vec<AgentEvent>;
    /// What a line means that is not a record. Nothing, for agents that write records.
    fn noise(&mut self, _text: &str) -> Vec<AgentEvent> {
        Vec::new()
    }
    /// What a line of its standard error means. Nothing, for agents that only log there.
    fn stderr_line(&mut self, _line: &str) -> Vec<AgentEvent> {
        Vec::new()
    }
    /// What it keeps back because it came before what it follows from: told when nothing came for a while.
    fn quiet(&mut self) -> Vec<AgentEvent> {
        Vec::new()
    }
    /// Whether the last answer that it read says that nothing follows. What it keeps back does not count.
    fn stands(&self) -> bool {
        false
    }
    /// What it means that a turn is over, which was told by something else than a record: its end, if a turn is open,
    /// after all that was kept back.
    fn over(&mut self, _interrupted: bool) -> Vec<AgentEvent> {
        Vec::new()
    }
    /// How far the model's answer has come; nothing between two answers, or if the agent does not report it.
    fn answer(&self) -> Option<&Answer> {
        None
    }
    /// Sets what the machine's clock shows, for agents that print local times, times without a date, or how long to
    /// wait. Called again before records are decoded.
    fn clock(&mut self, _clock: Clock) {}
    /// Sets what models cost, for agents that report no cost of their own.
    fn set_prices(&mut self, _prices: Prices) {}
    /// The model calls of the run whose cost is known, for the processes that follow.
    fn observed(&self) -> Observed {
        Observed::default()
    }
    /// What a record of the transcript says about tokens, models and cost, while the standard output reports everything else:
    /// for agents whose standard output reports usage only when a turn ends.
    fn usage(&mut self, _record: &Value) -> Vec<AgentEvent> {
        Vec::new()
    }
}

/// Whether an agent reports what its model calls cost.
#[derive(Debug, Clone, Copy)]
pub enum CostReports {
    /// For every model, and it can limit itself to [`Task::max_cost`].
    Always,
    /// For models that its own settings have a price for.
    ByModel(&'static dyn ModelPrices),
    /// Never.
    Never,
}

/// How to find out, before it starts, whether an agent has a price for a model.
pub trait ModelPrices: Sync {
    /// The arguments with which it prints its settings.
    fn settings_args(&self) -> Vec<String>;
    /// The default model in its settings.
    fn default_model(&self, settings: &str) -> Option<String>;
    /// The arguments with which it prints what it knows of models like this one.
    fn models_args(&self, model: &str) -> Vec<String>;
    /// Whether it has a price for the model; `None` if its output does not show that.
    fn is_priced(&self, models: &str, model: &str) -> Option<bool>;
}

impl std::fmt::Debug for dyn ModelPrices {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ModelPrices")
    }
}

/// What a clock on the wall shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// Seconds since 1970; nothing if that is not known.
    pub now: Option<i64>,
    /// How many seconds it is east of UTC.
    pub east: i64,
}

/// What an agent's own record of a session is found by.
#[derive(Clone, Copy)]
pub struct Whereabouts<'a> {
    /// The home directory of whoever runs the agent.
    pub home: &'a Path,
    /// The variables that the agent is started with.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The directory it is started in: absolute, with links resolved.
    pub workspace: &'a Path,
    /// The agent's own id of the session.
    pub session: &'a str,
}

impl Whereabouts<'_> {
    /// The folder that a variable names, or one below the home directory.
    pub(crate) fn folder(&self, variable: &str, below_home: &str) -> PathBuf {
        let named = (self.variable)(variable).filter(|value| !value.is_empty());
        named.map_or_else(|| self.home.join(below_home), PathBuf::from)
    }
}

/// What a session is to know that did not happen in it.
pub struct Seed<'a> {
    /// The agent's own id of the session: a UUID.
    pub session: &'a str,
    /// The directory it will be gone on with in: absolute, with links resolved.
    pub workspace: &'a Path,
    /// The model that said it. Without one the agent's own choice is left to it.
    pub model: Option<&'a str>,
    /// What was said ([`crate::history::History::sound`]).
    pub messages: &'a [Message],
    /// When, in RFC 3339 with milliseconds and `Z`.
    pub at: &'a str,
    /// Makes ids: each time another UUID.
    pub id: &'a dyn Fn() -> String,
}

/// Where an agent's own record of a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TranscriptPlace {
    /// Records of [`Source::Transcript`] in one file, which need not exist before the first prompt.
    File {
        /// The file.
        path: PathBuf,
        /// A folder with more of them, one for each sub-agent, likewise.
        beside: Option<PathBuf>,
    },
    /// The same, in the file below a folder, at any depth, whose name ends like this.
    Below {
        /// The folder.
        folder: PathBuf,
        /// The end of the file's name.
        suffix: String,
    },
    /// Files that grow while it works, in a form that is not read.
    Growth {
        /// The files, that with the sessions last.
        files: Vec<PathBuf>,
    },
}

impl TranscriptPlace {
    /// The same record, with its files elsewhere.
    pub fn relocate(self, place: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::File { path, beside } => {
                Self::File { path: place(&path), beside: beside.as_deref().map(place) }
            }
            Self::Below { folder, suffix } => Self::Below { folder: place(&folder), suffix },
            Self::Growth { files } => Self::Growth { files: files.iter().map(|file| place(file)).collect() },
        }
    }
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
    /// The program itself, for an agent that comes from no package.
    fn program(&self) -> Option<&str> {
        None
    }
    /// One remark for `agents list`, or nothing.
    fn note(&self) -> &'static str {
        ""
    }
    /// The variable in which Ostler gives it settings, and users may as well. Its launch merges them.
    fn settings_variable(&self) -> Option<&'static str> {
        None
    }
    /// The arguments with which it lets a person log in.
    fn login(&self) -> &'static [&'static str] {
        &[]
    }
    /// What points it at a scripted model. The key it is given is a dummy.
    fn rehearsed(&self, stage: &Stage) -> Setup;
    /// How a person gives it a prompt in a rehearsal.
    fn by_hand(&self, prompt: &str) -> ByHand;
    /// What the agent of a tenant needs to reach the owner's provider, or why it cannot.
    fn tenant_access(&self, _configuration: &Configuration<'_>) -> Result<TenantAccess, AccessRefusal> {
        Err(AccessRefusal::new(self.title(), "where it has its key is not known", ""))
    }
    /// What the agent of a tenant is started with: the proxy is at the stage's address.
    fn tenant_setup(&self, stage: &Stage, access: &TenantAccess) -> Setup {
        self.rehearsed(&Stage { url: access.first_url(&stage.url), ..stage.clone() })
    }
    /// How to start it for a task with nobody watching: JSON records on stdout.
    fn launch(&self, task: &Task<'_>) -> Result<Launch, Refusal>;
    /// What it executes or obeys of what a repository brings.
    fn repository_config(&self) -> &'static [ConfigEntry] {
        &[]
    }
    /// What of a repository's file was there before it edited that file by itself.
    fn before_own_edits(&self, _path: &str, _bytes: &[u8]) -> Content {
        Content::Whole
    }
    /// Instructions that it does not read by itself where the repository's configuration is kept from it.
    fn instruction_files(&self) -> InstructionFiles {
        InstructionFiles::default()
    }
    /// Whether it refuses a prompt for its length, whatever its model would take.
    fn is_too_long(&self, _prompt: &str) -> bool {
        false
    }
    /// What it calls a tool of the bridge, and so does its model; nothing if it cannot use a bridge.
    fn tool_name(&self, _tool: &str) -> Option<String> {
        None
    }
    /// The line that tells it `order`, for agents that listen on their standard input.
    fn speak(&self, _order: &Order) -> Option<String> {
        None
    }
    /// Whether what it writes are records; else every line is text.
    fn writes_records(&self) -> bool {
        true
    }
    /// Whether it reports what its model calls cost.
    fn cost_reports(&self) -> CostReports {
        CostReports::Never
    }
    /// Whether it reports how many tokens it uses.
    fn reports_tokens(&self) -> bool {
        true
    }
    /// A reader for its records. `before` is what the session had used before this process, nothing if it is a new
    /// one: some agents report sums over the session.
    fn decoder(&self, before: Option<Usage>) -> Box<dyn Decoder>;
    /// Where its provider is reached, as it is configured; nothing if that is not known.
    fn provider(&self, _configuration: &Configuration<'_>) -> Option<Provider> {
        None
    }
    /// What it reaches in the network, as it is configured: a jail lets nothing else through.
    fn network(&self, _configuration: &Configuration<'_>) -> AgentNetwork {
        AgentNetwork::default()
    }
    /// Whether a record of its transcript can be told from the same one on its standard output.
    fn twins(&self) -> Twins {
        Twins::Unnamed
    }
    /// How its terminal program is driven, if it is.
    fn interactive(&self) -> Option<&'static dyn Interactive> {
        None
    }
    /// Its own record of a session that knows a history, to be written before it is started with
    /// [`Session::Resumed`]; nothing if it cannot be given one.
    fn seed(&self, _seed: &Seed<'_>) -> Option<String> {
        None
    }
    /// What was said in a session, by its own record; nothing if that cannot be told.
    fn recorded(&self, _transcript: &str) -> Option<Vec<Message>> {
        None
    }
    /// Where its own record of a session is, if it keeps one.
    fn transcript(&self, _whereabouts: &Whereabouts<'_>) -> Option<TranscriptPlace> {
        None
    }
    /// What it keeps on disk for itself, and what of that a run may change.
    fn state(&self, _places: &StatePlaces<'_>) -> AgentState {
        AgentState::default()
    }
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
