//! `ostler agents`: which are here, getting one, and whether they start.

mod check;
mod install;
mod list;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;
use crate::interrupt::unless_interrupted;
use crate::surroundings::Surroundings;

/// Arguments of `ostler agents`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  ostler agents                  the same as `ostler agents list`
  ostler agents install codex    in the version that Ostler was proven with
  ostler agents check --json

An agent's program is the one that the configuration names
(agents.NAME.program), else the one Ostler installed, else the one on PATH.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<AgentsCommand>,

    #[command(flatten)]
    list: list::Args,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    /// List the agents that Ostler knows, and what of them is here.
    #[command(after_help = "Examples:
  ostler agents list
  ostler agents list --json | jq -r '.[] | select(.installed) | .name'")]
    List(list::Args),
    /// Install agents from npm into Ostler's own folder.
    Install(install::Args),
    /// Start agents, and compare their versions with those that Ostler was proven with.
    Check(check::Args),
}

/// Runs one of them. All clean up when they are dropped.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let work = async {
        match args.command.unwrap_or(AgentsCommand::List(args.list)) {
            AgentsCommand::List(args) => list::run(&args, here).await,
            AgentsCommand::Install(args) => install::run(&args, here).await,
            AgentsCommand::Check(args) => check::run(&args, here).await,
        }
    };
    unless_interrupted(work).await
}
