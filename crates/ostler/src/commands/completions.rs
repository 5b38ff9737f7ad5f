//! `ostler completions SHELL`.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::display;
use crate::failure::Failure;

/// Arguments of `ostler completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler completions bash > ~/.local/share/bash-completion/completions/ostler
  ostler completions zsh > ~/.zfunc/_ostler
  ostler completions fish > ~/.config/fish/completions/ostler.fish")]
pub(crate) struct Args {
    /// Which shell.
    shell: Shell,
}

/// Prints the completions.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ostler", &mut script);
    display::bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
