//! The command line's frame: what stands above all commands. Each command's own arguments are in its file.

use clap::{Parser, Subcommand};

use crate::commands::{
    agents, answer, attach, completions, config, doctor, memory, rehearse, run, runs, say, sessions, smoke,
    stop,
};
#[cfg(target_os = "linux")]
use crate::commands::{keys, serve};
use crate::config::ColorWhen;

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
    /// Show and check the configuration.
    Config(config::Args),
    /// Print completions for a shell.
    Completions(completions::Args),
}

impl Command {
    /// Whether this is what people turn to when their settings are wrong: then it must run with wrong settings.
    pub(crate) fn helps_to_repair(&self) -> bool {
        match self {
            Self::Doctor(_) | Self::Config(_) | Self::Completions(_) => true,
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_of_all_commands_fit_together() {
        super::Cli::command().debug_assert();
    }
}
