//! The binary: arguments, config, wiring, words for people. One file per command in `commands/`.

mod args;
mod commands;
mod config;
mod display;
mod failure;
mod home;
mod interrupt;
mod log;
mod programs;
mod progress;
mod report;
mod surroundings;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(refusal) => return report::refuse(&refusal),
    };
    commands::run(cli).unwrap_or_else(|failure| report::report(&failure))
}
