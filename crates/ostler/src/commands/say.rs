//! `ostler say`: tell the agent of a live run something.

use std::process::ExitCode;

use ostler_process::control::{Op, call};
use ostler_process::journal::find;

use crate::commands::run::RunUsage;
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// Arguments of `ostler say`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler say last \"leave the tests as they are\"

Claude Code is told at once. Agents that take one prompt a process (Codex, OpenCode) are told
when their turn has ended, in a further turn of the same session.")]
pub(crate) struct Args {
    /// The run: its id, the beginning of it, or `last`.
    #[arg(value_name = "RUN")]
    run: String,

    /// What to tell it.
    #[arg(value_name = "TEXT")]
    text: String,
}

/// Runs it.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    if args.text.trim().is_empty() {
        return Err(RunUsage::Empty.into());
    }
    let kept = find(&here.home.runs(), &args.run)?;
    let answer = call(&kept, Op::Say { text: args.text }).await?;
    let when = if answer.queued { "will be told when its turn has ended" } else { "was told" };
    display::text(&format!("the agent of run {} {when}\n", kept.facts.run))?;
    Ok(ExitCode::SUCCESS)
}
