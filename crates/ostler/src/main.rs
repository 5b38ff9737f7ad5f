//! The binary: arguments, config, wiring, words for people. One file per command in `commands/`.

mod account;
mod advice;
mod args;
mod commands;
mod config;
mod display;
mod failure;
mod home;
mod interrupt;
mod jailing;
#[cfg(target_os = "linux")]
mod kept_keys;
mod log;
mod programs;
mod progress;
mod report;
mod session_memory;
mod status_line;
mod surroundings;
mod teller;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    // A guardian or a shim needs nothing of what follows, and is there for every run.
    #[cfg(target_os = "linux")]
    if let Some(play) = ostler_process::contain::role(std::env::args_os().nth(1)) {
        return play();
    }
    if let Some(ended) = commands::hook::answer(std::env::args_os()) {
        return ended;
    }
    let words: Vec<_> = std::env::args_os().collect();
    let (cli, format) = match args::parse(&words) {
        Ok(parsed) => parsed,
        Err((refusal, format)) => return report::refuse(&refusal, format),
    };
    commands::run(cli).unwrap_or_else(|failure| report::report(&failure, format))
}
