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
    /// Give an agent a task, and see it through to an outcome.
    Run(Box<run::Args>),
    /// Look at runs: what happened, and why.
    Runs(runs::Args),
    /// Ask a live run to stop.
    Stop(stop::Args),
    /// Tell the agent of a live run something.
    Say(say::Args),
    /// Answer a question that the agent of a live run asks.
    Answer(answer::Args),
    /// Watch the terminal of a live run's agent, or take it over.
    Attach(attach::Args),
    /// List the agents that are at work now, and show what their terminals show.
    Sessions(sessions::Args),
    /// List, install and check agents.
    Agents(agents::Args),
    /// Try out whether Ostler still drives the agents that are installed: no account, no tokens.
    Smoke(smoke::Args),
    /// Play a scripted model for real agents: no account, no tokens.
    Rehearse(rehearse::Args),
    /// What was said in any session on this machine: taken down by hooks, and found again.
    Memory(memory::Args),
    /// Let programs talk to your agent through the APIs they already speak.
    #[cfg(target_os = "linux")]
    Serve(serve::Args),
    /// Who may talk to what is served, and what each may do.
    #[cfg(target_os = "linux")]
    Keys(keys::Args),
    /// Tell what is fine here, what is missing, and what to do about it.
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
