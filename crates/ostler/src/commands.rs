//! One file per command. A command is a struct of arguments and one `run`; it decides what to print and with which
//! exit code to end, and leaves every failure to `report.rs`.

pub(crate) mod agents;
pub(crate) mod answer;
pub(crate) mod attach;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod hook;
#[cfg(target_os = "linux")]
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod rehearse;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod say;
#[cfg(target_os = "linux")]
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod smoke;
pub(crate) mod stop;
pub(crate) mod trust;

use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::home::HomeError;
use crate::surroundings::Surroundings;
use crate::{display, log};

/// How many tasks are polled before new connections and data are looked for. While bodies of megabytes are read, every poll
/// takes a tenth of a millisecond: with the usual 61 another client waited for 6 ms.
const EVENT_INTERVAL: u32 = 4;

/// Runs the command that was asked for, to its end.
pub(crate) fn run(cli: Cli) -> Result<ExitCode, Failure> {
    display::set_color(cli.color);
    // An agent waits for it: no settings are read, and no runtime is made.
    if let Command::Memory(args) = &cli.command
        && let Some(hasty) = args.hasty()
    {
        return Ok(memory::hasty(hasty));
    }
    let here = Surroundings::of_process(cli.color)?;
    if !cli.command.helps_to_repair() {
        here.home.check_format().map_err(HomeError::from)?;
    }
    // A broken configuration is told by the commands that need one, not by those that help to repair it.
    if let Ok(settings) = here.settings() {
        display::set_color(Some(settings.config.display.color));
        match log::start(&settings) {
            Err(error) if !cli.command.helps_to_repair() => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        if let Some(ignored) = settings.ignored.filter(|_| cli.command.obeys_settings()) {
            display::tell(&format!("warning: {}", ignored.warning()));
        }
    }
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().event_interval(EVENT_INTERVAL).build();
    let runtime = runtime.map_err(Failure::Runtime)?;
    runtime.block_on(async {
        match cli.command {
            Command::Run(args) => run::run(*args, &here).await,
            Command::Runs(args) => runs::run(args, &here).await,
            Command::Stop(args) => stop::run(args, &here).await,
            Command::Say(args) => say::run(args, &here).await,
            Command::Answer(args) => answer::run(args, &here).await,
            Command::Attach(args) => attach::run(args, &here).await,
            Command::Sessions(args) => sessions::run(args, &here).await,
            Command::Agents(args) => agents::run(args, &here).await,
            Command::Smoke(args) => smoke::run(args, &here).await,
            Command::Rehearse(args) => rehearse::run(args, &here).await,
            Command::Memory(args) => memory::run(args, &here).await,
            #[cfg(target_os = "linux")]
            Command::Serve(args) => serve::run(args, &here).await,
            #[cfg(target_os = "linux")]
            Command::Keys(args) => keys::run(args, &here),
            Command::Doctor(args) => doctor::run(args, &here).await,
            Command::Trust(args) => trust::run(&args, trust::CalledAs::Trust, &here),
            Command::Config(args) => config::run(args, &here),
            Command::Completions(args) => completions::run(args),
        }
    })
}
