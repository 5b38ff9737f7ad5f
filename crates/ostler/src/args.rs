//! The command line's frame: what stands above all commands. Each command's own arguments are in its file.

use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    agents, answer, attach, completions, config, doctor, memory, rehearse, run, runs, say, sessions, smoke,
    stop, trust,
};
#[cfg(target_os = "linux")]
use crate::commands::{keys, serve};
use crate::config::ColorWhen;
use crate::report::ErrorFormat;

/// Runs coding agents for you: supervised, scriptable, remembered.
#[derive(Debug, Parser)]
#[command(
    name = "ostler",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  ostler run \"make the tests pass\" one supervised task, to its outcome
  ostler runs                    what was run, and how it ended
  ostler agents                  which agents are here, in which version
  ostler agents install codex    get one, in the version Ostler was proven with
  ostler smoke                   does Ostler still drive them? with a scripted model
  ostler rehearse --script tools play a scripted model, and say how to point each agent at it
  ostler memory recall \"retries\" what was said about it, in any session
  ostler serve                   an API in front of your agent
  ostler doctor                  what is fine here, what is missing, what to do

State is kept in OSTLER_HOME (default: ~/.local/share/ostler).
OSTLER_LOG=debug tells what is being done."
)]
pub(crate) struct Cli {
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<ColorWhen>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one supervised task to its outcome.
    Run(Box<run::Args>),
    /// List runs, and show what happened and why.
    Runs(runs::Args),
    /// Stop a live run.
    Stop(stop::Args),
    /// Send a message to the agent of a live run.
    Say(say::Args),
    /// Answer a question of the agent of a live run.
    Answer(answer::Args),
    /// Watch the terminal of a live run's agent, or take it over.
    Attach(attach::Args),
    /// List live agent sessions, and show their terminals.
    Sessions(sessions::Args),
    /// List, install and check agents.
    Agents(agents::Args),
    /// Test whether Ostler still drives the installed agents: no account, no tokens.
    Smoke(smoke::Args),
    /// Play a scripted model for real agents: no account, no tokens.
    Rehearse(rehearse::Args),
    /// Capture and search past agent sessions.
    Memory(memory::Args),
    /// Serve your agent to programs through the APIs they already speak.
    #[cfg(target_os = "linux")]
    Serve(serve::Args),
    /// Manage API keys for `ostler serve`.
    #[cfg(target_os = "linux")]
    Keys(keys::Args),
    /// Report what works here, what is missing, and what to do about it.
    Doctor(doctor::Args),
    /// Let agents load what a repository brings: hooks, plugins, MCP servers.
    Trust(trust::Args),
    /// Show and check the configuration.
    Config(config::Args),
    /// Print completions for a shell.
    Completions(completions::Args),
}

impl Command {
    /// Whether this is what people turn to when their settings are wrong: then it must run with wrong settings.
    pub(crate) fn helps_to_repair(&self) -> bool {
        match self {
            Self::Doctor(_) | Self::Config(_) | Self::Trust(_) | Self::Completions(_) => true,
            Self::Run(_)
            | Self::Runs(_)
            | Self::Stop(_)
            | Self::Say(_)
            | Self::Answer(_)
            | Self::Attach(_)
            | Self::Sessions(_)
            | Self::Agents(_)
            | Self::Smoke(_)
            | Self::Memory(_)
            | Self::Rehearse(_) => false,
            #[cfg(target_os = "linux")]
            Self::Serve(_) | Self::Keys(_) => false,
        }
    }
}

impl Command {
    /// Whether it does something else if a project's settings are ignored. A run reports that among its own warnings.
    pub(crate) fn obeys_settings(&self) -> bool {
        match self {
            Self::Agents(_) | Self::Smoke(_) | Self::Rehearse(_) => true,
            #[cfg(target_os = "linux")]
            Self::Serve(_) => true,
            _ => false,
        }
    }
}

/// Parses the words of the command line, the program's own name first. Either way it says how errors are printed.
pub(crate) fn parse(words: &[OsString]) -> Result<(Cli, ErrorFormat), (clap::Error, ErrorFormat)> {
    let refused = |error| (error, format_of_words(words));
    let matches = Cli::command().try_get_matches_from(words).map_err(refused)?;
    let cli = Cli::from_arg_matches(&matches).map_err(refused)?;
    Ok((cli, if has_json(&matches) { ErrorFormat::Json } else { ErrorFormat::Text }))
}

/// Whether `--json` was given to the command, or to the one below it.
fn has_json(matches: &ArgMatches) -> bool {
    let own = matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or_default();
    own || matches.subcommand().is_some_and(|(_, below)| has_json(below))
}

/// The same, for words that cannot be parsed. What follows `--`, and what is an argument of the agent, is not ours.
fn format_of_words(words: &[OsString]) -> ErrorFormat {
    let mut before = None;
    for word in words.iter().skip(1).take_while(|word| *word != "--") {
        if word == "--json" && before.is_none_or(|before| before != "--agent-arg") {
            return ErrorFormat::Json;
        }
        before = Some(word);
    }
    ErrorFormat::Text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_all_commands_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_is_asked_for_by_the_flag_and_not_by_a_value_that_looks_like_it() {
        let table: [(&[&str], ErrorFormat); 9] = [
            (&["agents", "--json"], ErrorFormat::Json),
            (&["runs", "show", "last", "--json"], ErrorFormat::Json),
            (&["run", "--json", "x"], ErrorFormat::Json),
            (&["run", "x"], ErrorFormat::Text),
            (&["run", "--", "--json"], ErrorFormat::Text),
            (&["run", "--agent-arg", "--json", "x"], ErrorFormat::Text),
            (&["run", "--bogus", "--json"], ErrorFormat::Json),
            (&["run", "--bogus", "--agent-arg", "--json"], ErrorFormat::Text),
            (&["run", "--bogus", "--", "--json"], ErrorFormat::Text),
        ];
        for (words, want) in table {
            let all: Vec<OsString> = std::iter::once(&"ostler").chain(words).map(Into::into).collect();
            let format = match parse(&all) {
                Ok((_, format)) | Err((_, format)) => format,
            };
            assert_eq!(format, want, "{words:?}");
        }
    }
}
