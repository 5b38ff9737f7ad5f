//! `ostler answer`: answer a question that the agent of a live run asks.

use std::process::ExitCode;

use ostler_process::control::{Op, call};
use ostler_process::journal::find;

use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// Arguments of `ostler answer`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler answer last \"use the second one\"
  ostler answer 0198 2                     the second of the options
  ostler answer last --question 3 yes

An agent asks with the tool `ask_human` of the bridge. If the question offers options, any other
answer is refused with exit code 2 and the list of options. Without an answer in time the agent
continues with the default that it named.")]
pub(crate) struct Args {
    /// The run: its id, the beginning of it, or `last`.
    #[arg(value_name = "RUN")]
    run: String,

    /// Give this answer: a text; or one of the offered options, or its number; empty for the default.
    #[arg(value_name = "TEXT")]
    text: String,

    /// Which question, if several are open [default: the oldest].
    #[arg(long, value_name = "N")]
    question: Option<u64>,
}

/// Runs it.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let kept = find(&here.home.runs(), &args.run)?;
    call(&kept, Op::Answer { text: args.text, question: args.question }).await?;
    display::text(&format!("the agent of run {} was answered\n", kept.facts.run))?;
    Ok(ExitCode::SUCCESS)
}
