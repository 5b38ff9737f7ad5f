//! What can be asked of `ostler run`.

use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::agent::Permissions;

/// Arguments of `ostler run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler run -a codex \"make the tests pass\"
  ostler run --rehearse=tools --permissions all \"try it out\"
  git diff | ostler run --json - > events.ndjson

Everything the agent writes is kept: `ostler runs` lists runs, `ostler runs why`
tells what the watchdog thinks of one. The first Ctrl-C asks the agent to stop,
the second kills it. Exit codes: 0 completed, 10 agent failed, 11 incomplete,
12 stalled, 13 a limit was reached, 14 not installed or not started,
15 blocked, 16 quota, 130 Ctrl-C.")]
pub(crate) struct Args {
    /// What to do; `-` reads it from standard input.
    #[arg(value_name = "PROMPT", required_unless_present = "prompt_file")]
    pub(super) prompt: Option<String>,

    /// Read what to do from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(super) prompt_file: Option<PathBuf>,

    /// The agent, and after a slash its model; or `command:` and any program [default: the
    /// configuration's, else the first that is installed].
    #[arg(short, long, value_name = "NAME[/MODEL]")]
    pub(super) agent: Option<String>,

    /// Where to work [default: here].
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,

    /// A scripted model instead of the provider: a built-in name or a file.
    #[arg(long, value_name = "SCRIPT", num_args = 0..=1, require_equals = true, default_missing_value = "todo")]
    pub(super) rehearse: Option<String>,

    /// What the agent may do without asking.
    #[arg(long, value_name = "LEVEL", default_value = "edits")]
    pub(super) permissions: Level,

    /// Also allow this, in the agent's own syntax; may be repeated.
    #[arg(long, value_name = "RULE")]
    pub(super) allow: Vec<String>,

    /// Stop if nothing is heard of it after its start [default: 2m].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) start: Option<Duration>,

    /// Stop if nothing is heard while no tool runs [default: 6m].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) silence: Option<Duration>,

    /// Stop if nothing is heard while a tool runs [default: 30m].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) open_call: Option<Duration>,

    /// Stop after this time, whatever happens [default: 1h].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) ceiling: Option<Duration>,

    /// How often a session that ended early is resumed.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(super) max_resumes: u32,

    /// Stop when so much is spent, as soon as the agent tells.
    #[arg(long, value_name = "USD")]
    pub(super) max_cost: Option<f64>,

    /// Stop when so many tokens are used, as soon as the agent tells.
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<u64>,

    /// Stop after so many turns.
    #[arg(long, value_name = "N")]
    pub(super) max_turns: Option<u32>,

    /// Set a variable for the agent; may be repeated.
    #[arg(long, value_name = "K=V", value_parser = variable)]
    pub(super) env: Vec<(String, String)>,

    /// Print only how it ended.
    #[arg(long, conflicts_with = "json")]
    pub(super) quiet: bool,

    /// Print JSON, one object a line, the outcome last.
    #[arg(long)]
    pub(super) json: bool,
}

/// What an agent may do without asking: `deny` reads only, `edits` changes files in the workspace.
// The variants have no comments of their own: clap would print a paragraph on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Level {
    Deny,
    Edits,
    All,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Edits => "edits",
            Self::All => "all",
        }
    }

    pub(super) fn permissions(self) -> Permissions {
        match self {
            Self::Deny => Permissions::Deny,
            Self::Edits => Permissions::Edits,
            Self::All => Permissions::All,
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

impl Args {
    pub(super) fn voice(&self) -> Voice {
        match (self.json, self.quiet) {
            (true, _) => Voice::Json,
            (false, true) => Voice::Quiet,
            (false, false) => Voice::Words,
        }
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".to_owned()),
    }
}
