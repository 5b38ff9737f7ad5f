//! The optional daemon: in this process, or as a unit of the user's systemd with a socket.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use ostler_memory::daemon::{serve, sit, status, stop};
use ostler_memory::place::Place;

use super::{MemoryError, home_dir, set};
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory daemon                 serve here, until nobody calls any more
  ostler memory daemon install         units for systemd: it starts when a hook calls
  ostler memory daemon status

Hooks do without it: what they take down waits in files.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<DaemonCommand>,

    /// End when nobody has called for so long.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    idle: Duration,
}

#[derive(Debug, Subcommand)]
enum DaemonCommand {
    /// Write the units, and tell how to enable them.
    #[command(after_help = "Examples:\n  ostler memory daemon install")]
    Install,
    /// Serve here.
    #[command(after_help = "Examples:\n  ostler memory daemon start")]
    Start,
    /// Ask it to end.
    #[command(after_help = "Examples:\n  ostler memory daemon stop")]
    Stop,
    /// Tell whether one answers.
    #[command(after_help = "Examples:\n  ostler memory daemon status")]
    Status,
}

impl Args {
    /// Whether the store is opened.
    pub(super) fn opens(&self) -> bool {
        matches!(self.command, None | Some(DaemonCommand::Start))
    }
}

pub(super) fn run(args: Args, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    match args.command {
        None | Some(DaemonCommand::Start) => {
            let given = listenfd::ListenFd::from_env().take_unix_listener(0).ok().flatten();
            let seat = sit(place, given).map_err(MemoryError::from)?;
            serve(place, &seat, args.idle).map_err(MemoryError::from)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(DaemonCommand::Stop) => {
            if !stop(place) {
                return Err(MemoryError::NoDaemon.into());
            }
            display::text("it ends\n")?;
            Ok(ExitCode::SUCCESS)
        }
        Some(DaemonCommand::Status) => match status(place) {
            Some(answer) => {
                display::text(&format!("process {} answers\n", answer.pid))?;
                Ok(ExitCode::SUCCESS)
            }
            None => Err(MemoryError::NoDaemon.into()),
        },
        Some(DaemonCommand::Install) => install(here, place),
    }
}

fn install(here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe().map_err(MemoryError::Program)?;
    let config = set(here.variable("XDG_CONFIG_HOME")).unwrap_or_else(|| home_dir(here).join(".config"));
    let folder = config.join("systemd/user");
    let home = set(here.variable("OSTLER_HOME"))
        .map(|home| format!("Environment=\"OSTLER_HOME={}\"\n", here.cwd.join(home).display()))
        .unwrap_or_default();
    let socket = format!(
        "[Unit]\nDescription=Ostler memory\n\n[Socket]\nListenStream={}\nSocketMode=0600\nDirectoryMode=0700\n\n\
         [Install]\nWantedBy=sockets.target\n",
        place.socket().display()
    );
    let service = format!(
        "[Unit]\nDescription=Ostler memory\n\n[Service]\n{home}ExecStart=\"{}\" memory daemon start\nNice=10\n",
        program.display()
    );
    for (name, text) in [("ostler-memory.socket", socket), ("ostler-memory.service", service)] {
        write(&folder.join(name), &text)?;
    }
    display::text(&format!(
        "written to {}; now: systemctl --user daemon-reload && systemctl --user enable --now ostler-memory.socket\n",
        display::short(&folder)
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn write(path: &PathBuf, text: &str) -> Result<(), MemoryError> {
    let failed = |source| MemoryError::Write { path: path.clone(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}
