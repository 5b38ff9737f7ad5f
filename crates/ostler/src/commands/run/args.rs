//! What can be asked of `ostler run`.

use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::network::NetAccess;

/// Arguments of `ostler run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler run -a codex \"make the tests pass\"
  ostler run --rehearse=tools --permissions all \"try it out\"
  ostler run --resume last                 go on with what was cut off
  ostler run --require-artifact plan \"plan the move to SQLite\"
  ostler run --check \"cargo test\" \"mend the parser\"
  git diff | ostler run --json - > events.ndjson

Everything the agent writes is kept: `ostler runs` lists runs, `ostler runs why`
tells what the watchdog thinks of one. The first Ctrl-C asks the agent to stop,
the second kills it. Exit codes: 0 completed, 1 Ostler could not do its job,
2 refused, 10 agent failed, 11 incomplete, 12 stalled, 13 a limit was reached,
14 not installed or not started, 15 blocked, 16 quota, 130 Ctrl-C,
143 SIGTERM, a closed terminal or `ostler stop`.")]
pub(crate) struct Args {
    /// Do this task; `-` reads it from standard input.
    #[arg(value_name = "PROMPT", required_unless_present_any = ["prompt_file", "resume"])]
    pub(super) prompt: Option<String>,

    /// Read the task from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt", help_heading = "Task")]
    pub(super) prompt_file: Option<PathBuf>,

    /// Use this agent, and after a slash its model; or `command:` and any program [default: the
    /// configured one, else the first that is installed].
    #[arg(short, long, value_name = "NAME[/MODEL]", conflicts_with = "resume", help_heading = "Agent")]
    pub(super) agent: Option<String>,

    /// Drive the agent this way, where there are two.
    #[arg(long, value_name = "ENGINE", conflicts_with = "resume", help_heading = "Agent")]
    pub(super) engine: Option<EngineName>,

    /// Work in this folder [default: the current one].
    #[arg(long, value_name = "DIR", conflicts_with = "resume", help_heading = "Task")]
    pub(super) cwd: Option<PathBuf>,

    /// Resume a run in the agent's own session: an id, the beginning of one, or `last`. Unspecified
    /// options keep their previous values; without a prompt the agent is asked to continue.
    #[arg(long, value_name = "RUN", help_heading = "Task")]
    pub(super) resume: Option<String>,

    /// Give the agent's session this id, if the agent takes one.
    #[arg(long, value_name = "UUID", conflicts_with = "resume", help_heading = "Agent")]
    pub(super) session_id: Option<uuid::Uuid>,

    /// Use a scripted model instead of the provider: a built-in name or a file; bare: todo.
    #[arg(long, value_name = "SCRIPT", num_args = 0..=1, require_equals = true, default_missing_value = "todo", conflicts_with = "resume", help_heading = "Agent")]
    pub(super) rehearse: Option<String>,

    /// Allow the agent this much without asking [default: edits].
    #[arg(long, value_name = "LEVEL", help_heading = "Permissions")]
    pub(super) permissions: Option<Level>,

    /// Also allow this, in the agent's own syntax (repeatable).
    #[arg(long, value_name = "RULE", help_heading = "Permissions")]
    pub(super) allow: Vec<String>,

    /// Let the agent enforce its permissions by its own means, without a jail around it.
    #[arg(long, help_heading = "Permissions")]
    pub(super) no_jail: bool,

    /// Allow changes of files that agents and git load as configuration: .claude, .git/hooks, .mcp.json …
    #[arg(long, help_heading = "Permissions")]
    pub(super) allow_config_writes: bool,

    /// Let a jailed agent reach its provider, also these hosts (`hosts=a.example,*.b.example:8443`), or
    /// everything (`all`) [default: provider].
    #[arg(long, value_name = "ACCESS", help_heading = "Permissions")]
    pub(super) net: Option<NetAccess>,

    /// Stop if the agent gives no sign of life within this time [default: 2m].
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Limits")]
    pub(super) start: Option<Duration>,

    /// Stop after this time without a sign of life while no tool runs [default: 6m].
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Limits")]
    pub(super) silence: Option<Duration>,

    /// Stop after this time without a sign of life while a tool runs [default: 30m].
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Limits")]
    pub(super) open_call: Option<Duration>,

    /// Stop when the same call returned the same result N times [default: 20].
    #[arg(long = "loop", value_name = "N", value_parser = clap::value_parser!(u32).range(2..), help_heading = "Limits")]
    pub(super) repeats: Option<u32>,

    /// Stop after this time with a running agent, its retries included [default: 1h].
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Limits")]
    pub(super) ceiling: Option<Duration>,

    /// Wait until a usage or rate limit is reset instead of ending with `quota`.
    #[arg(long, help_heading = "Limits")]
    pub(super) wait_for_quota: bool,

    /// Wait no longer than this for a quota, the network, the provider or a person; not counted by
    /// --ceiling [default: 12h].
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Limits")]
    pub(super) max_wait: Option<Duration>,

    /// Resume a session that ended early, after an outage of the provider or a crash of the agent, at
    /// most N times, with growing pauses [default: 3].
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(super) max_resumes: Option<u32>,

    /// Stop once the cost reaches this many US dollars; checked after every model call.
    #[arg(long, value_name = "USD", value_parser = money, help_heading = "Limits")]
    pub(super) max_cost: Option<f64>,

    /// Stop once this many tokens are used, read and written; checked after every model call.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits")]
    pub(super) max_tokens: Option<u64>,

    /// Stop after this many turns: prompts that the agent answered, resumes included. Model calls
    /// within a turn are not counted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub(super) max_turns: Option<u32>,

    /// Require an artifact of this kind (repeatable).
    #[arg(long, value_name = "TYPE", conflicts_with = "no_bridge", help_heading = "Completion")]
    pub(super) require_artifact: Vec<String>,

    /// Run this command in the folder when the agent declares completion, and resume the agent if it
    /// fails (repeatable).
    #[arg(long, value_name = "CMD", value_parser = clap::builder::NonEmptyStringValueParser::new(), help_heading = "Completion")]
    pub(super) check: Vec<String>,

    /// Copy accepted artifacts into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "no_bridge", help_heading = "Completion")]
    pub(super) export_artifacts: Option<PathBuf>,

    /// Offer these tools at the bridge [default: artifacts,progress,ask].
    #[arg(long, value_name = "LIST", conflicts_with = "no_bridge", help_heading = "Completion")]
    pub(super) capabilities: Option<String>,

    /// Pass the tools of an MCP server to the agent: its URL or its command (repeatable).
    #[arg(long, value_name = "NAME=URL|COMMAND", value_parser = server, conflicts_with = "no_bridge", help_heading = "Completion")]
    pub(super) mcp: Vec<String>,

    /// Give the agent no bridge: `completed` is then the agent's own word.
    #[arg(long, help_heading = "Completion")]
    pub(super) no_bridge: bool,

    /// Append the content of this file to the agent's own system prompt.
    #[arg(long, value_name = "FILE", help_heading = "Task")]
    pub(super) system_prompt_file: Option<PathBuf>,

    /// Pass an argument to the agent as it is (repeatable).
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, help_heading = "Agent")]
    pub(super) agent_arg: Vec<String>,

    /// Set a variable for the agent (repeatable).
    #[arg(long, value_name = "K=V", value_parser = variable, help_heading = "Agent")]
    pub(super) env: Vec<(String, String)>,

    /// Watch the workspace from the first moment, and not only once the run has lasted a while.
    #[arg(long, hide = true, help_heading = "Output")]
    pub(super) watch_at_once: bool,

    /// List everything that the jail denied, each with the setting that opens it.
    #[arg(long, help_heading = "Output")]
    pub(super) explain_denials: bool,

    /// Print only how it ended.
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(super) quiet: bool,

    /// Print JSON, one object a line, the outcome last.
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// What an agent may do without asking: `deny` reads only, `edits` changes files in the workspace.
// The variants have no comments of their own: clap would print a paragraph on each.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Deny,
    Edits,
    All,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Edits => "edits",
            Self::All => "all",
        }
    }

    /// By its name, as it is kept with a run.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Deny, Self::Edits, Self::All].into_iter().find(|level| level.name() == name)
    }

    pub(super) fn permissions(self) -> Permissions {
        match self {
            Self::Deny => Permissions::Deny,
            Self::Edits => Permissions::Edits,
            Self::All => Permissions::All,
        }
    }
}

/// How an agent is driven: records over pipes, or its own terminal program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum EngineName {
    Stream,
    Terminal,
}

impl EngineName {
    pub(super) fn engine(self) -> Engine {
        match self {
            Self::Stream => Engine::Stream,
            Self::Terminal => Engine::Terminal,
        }
    }
}

/// For whom it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// Programs.
    Json,
    /// People.
    Words,
    /// People who only want to know how it ended.
    Quiet,
}

/// How many of the jail's denials are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Explained {
    /// The first few.
    Some,
    /// All.
    All,
}

impl Args {
    pub(super) fn explained(&self) -> Explained {
        if self.explain_denials { Explained::All } else { Explained::Some }
    }

    pub(super) fn voice(&self) -> Voice {
        match (self.json, self.quiet) {
            (true, _) => Voice::Json,
            (false, true) => Voice::Quiet,
            (false, false) => Voice::Words,
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("it must be longer than zero".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}; write it as in 90s, 6m, 1h 30m")),
    }
}

fn money(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(usd) if f64::is_finite(usd) && usd > 0.0 => Ok(usd),
        Ok(_) | Err(_) => Err("write a number of US dollars, as in 2.50".to_owned()),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".to_owned()),
    }
}

fn server(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, place)) if !name.is_empty() && !place.trim().is_empty() => Ok(text.to_owned()),
        Some(_) | None => Err("write it as NAME=URL or NAME=COMMAND".to_owned()),
    }
}
