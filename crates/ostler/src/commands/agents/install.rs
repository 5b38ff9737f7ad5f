//! `ostler agents install`.

use std::process::ExitCode;

use ostler_agent::agent::Agent;
use ostler_agent::package::Standing;
use ostler_process::install::{Change, Npm, Order, Wanted, install};
use serde::Serialize;

use crate::config::Settings;
use crate::display;
use crate::failure::Failure;
use crate::programs;
use crate::progress::Progress;
use crate::surroundings::Surroundings;

/// Arguments of `ostler agents install`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler agents install codex            the version Ostler was proven with
  ostler agents install codex@latest     the newest
  ostler agents install codex@0.160.0    that one, and use it from now on
  ostler agents install codex --json     what was done, for programs

Needs npm, and uses its settings (registry, proxy, certificates). Install
scripts are not run. Only OSTLER_HOME and npm's own cache are changed.")]
pub(crate) struct Args {
    /// The agent, and a version or tag if not the verified one.
    #[arg(value_name = "NAME[@VERSION]")]
    agent: String,
    /// Print JSON: what was done. How it goes on is told on stderr.
    #[arg(long)]
    json: bool,
}

/// The format of the JSON.
const VERSION: u32 = 1;

/// What was done, for programs.
#[derive(Debug, Serialize)]
struct Done<'a> {
    v: u32,
    name: &'static str,
    version: &'a str,
    last_verified_version: &'static str,
    path: String,
    change: &'static str,
    /// Whether this is the program that Ostler starts: a configured one outranks it.
    in_use: bool,
}

/// Installs, showing how it goes on.
pub(crate) async fn run(args: &Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let (name, version) = match args.agent.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (args.agent.as_str(), None),
    };
    let agent = programs::agent(name)?;
    let package = agent.package();
    let settings = here.settings()?;
    let npm = settings.config.install.npm.as_ref().map(|npm| npm.resolve());
    let order = Order {
        package,
        wanted: version.map_or_else(|| Ok(Wanted::verified(package)), Wanted::parse)?,
        agents: here.home.agents(),
        npm: Npm::find(npm.as_deref(), here.variable("PATH"))?,
        place: programs::place(here),
    };
    let mut progress = Progress::begin(agent.title());
    let installed = install(&order, &mut |step| progress.show(&step)).await;
    drop(progress);
    let installed = installed?;
    if args.json {
        display::json(&Done {
            v: VERSION,
            name: agent.name(),
            version: &installed.version,
            last_verified_version: package.verified,
            path: installed.program.display().to_string(),
            change: match installed.change {
                Change::Installed => "installed",
                Change::Switched => "switched",
                Change::None => "none",
            },
            in_use: settings.program(agent).is_none(),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let (title, version) = (agent.title(), &installed.version);
    let done = match installed.change {
        Change::Installed => format!("{title} {version} is installed"),
        Change::Switched => format!("{title} {version} was installed already, and is now the one in use"),
        Change::None => format!("{title} {version} is installed already"),
    };
    let verified = match package.standing(version) {
        Standing::Same => String::new(),
        Standing::Newer | Standing::Older | Standing::Incomparable => {
            format!("\nOstler was last verified with {}.", package.verified)
        }
    };
    let program = installed.program.display();
    display::text(&format!("{done}:\n  {program}{verified}{}\n", overruled(&settings, agent)))?;
    Ok(ExitCode::SUCCESS)
}

/// A configured program outranks the one just installed; better say so now than leave it to be wondered about.
fn overruled(settings: &Settings, agent: &dyn Agent) -> String {
    match settings.program(agent) {
        Some(program) => {
            format!("\nIt is not the one in use: the configuration names {}.", program.display())
        }
        None => String::new(),
    }
}
