//! `ostler stop`: ask a live run to stop.

use std::process::ExitCode;

use ostler_process::control::{Op, call};
use ostler_process::journal::find;

use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// Arguments of `ostler stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler stop last
  ostler stop 0198

The agent is asked to stop, as by Ctrl-C; asked a second time, it is killed.")]
pub(crate) struct Args {
    /// The run: its id, the beginning of it, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
}

/// Runs it.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let kept = find(&here.home.runs(), &args.run)?;
    call(&kept, Op::Stop).await?;
    display::text(&format!("run {} was asked to stop\n", kept.facts.run))?;
    Ok(ExitCode::SUCCESS)
}
