//! `ostler agents install`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use ostler_agent::agent::Agent;
use ostler_agent::package::Standing;
use ostler_process::install::{Change, HashSource, Installation, Integrity, Npm, Order, Wanted, install};
use serde::Serialize;

use crate::config::Settings;
use crate::display;
use crate::failure::Failure;
use crate::programs;
use crate::progress::Progress;
use crate::report::{self, ErrorDetail};
use crate::surroundings::Surroundings;
use crate::words::counted;

/// Arguments of `ostler agents install`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler agents install codex            the version Ostler was proven with
  ostler agents install codex opencode   several, one after the other
  ostler agents install codex@latest     the newest
  ostler agents install codex@0.160.0    that one, and use it from now on
  ostler agents install codex --json     what was done, for programs

Needs npm, and uses its settings (registry, proxy, certificates), but not those
of the current folder. Packages are verified by their sha512: Ostler has those
of the verified version; those of another version are recorded at its first
install, and required from then on. Install scripts are not run. Only
OSTLER_HOME and npm's own cache are changed. A version that is here and starts
is not fetched again. If one of several fails, the others are installed, and
the exit code is that of the failure.")]
pub(crate) struct Args {
    /// Install these agents, each in the verified version unless another version or tag is named.
    #[arg(value_name = "NAME[@VERSION]", required = true)]
    agents: Vec<String>,
    /// Print JSON: what was done. Progress is printed on stderr.
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
    /// The hashes of what was fetched; nothing if nothing was.
    integrity: Option<Verified<'a>>,
}

/// By which hashes an install was verified.
#[derive(Debug, Serialize)]
struct Verified<'a> {
    source: &'static str,
    /// The file that has them, unless this release does.
    record: Option<String>,
    packages: BTreeMap<&'a str, &'a str>,
}

/// What was done of several, for programs.
#[derive(Debug, Serialize)]
struct AllDone<'a> {
    v: u32,
    installed: Vec<Done<'a>>,
    failed: Vec<Failed>,
}

#[derive(Debug, Serialize)]
struct Failed {
    name: &'static str,
    error: ErrorDetail,
    exit_code: u8,
}

/// An agent that is to be installed, and in which version.
struct Choice {
    agent: &'static dyn Agent,
    wanted: Wanted,
}

/// Installs, showing how it goes on.
pub(crate) async fn run(args: &Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let choices = choices(&args.agents)?;
    let settings = here.settings()?;
    let npm = settings.config.install.npm.as_ref().map(|npm| npm.resolve());
    let npm = Npm::find(npm.as_deref(), here.variable("PATH"))?;
    if let [choice] = choices.as_slice() {
        let installed = fetch(choice, &npm, here).await?;
        match args.json {
            true => display::json(&done(choice.agent, &installed, &settings))?,
            false => display::text(&sentence(choice.agent, &installed, &settings))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    several(&choices, &npm, &settings, args.json, here).await
}

/// The agents of those names, each once. Two names may mean one program. A mistake is reported before anything is installed.
fn choices(names: &[String]) -> Result<Vec<Choice>, Failure> {
    let mut choices: Vec<Choice> = Vec::new();
    for name in names {
        let (name, version) = match name.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (name.as_str(), None),
        };
        let agent = programs::agent(name)?;
        let wanted = version.map_or_else(|| Ok(Wanted::verified(agent.package())), Wanted::parse)?;
        let is_known =
            |known: &Choice| known.agent.package().slot == agent.package().slot && known.wanted == wanted;
        if !choices.iter().any(is_known) {
            choices.push(Choice { agent, wanted });
        }
    }
    Ok(choices)
}

/// Installs one, showing its progress.
async fn fetch(choice: &Choice, npm: &Npm, here: &Surroundings) -> Result<Installation, Failure> {
    let order = Order {
        package: choice.agent.package(),
        wanted: choice.wanted.clone(),
        agents: here.home.agents(),
        npm: npm.clone(),
        place: programs::place(here),
    };
    let mut progress = Progress::begin(choice.agent.title());
    let installed = install(&order, &mut |step| progress.show(&step)).await;
    drop(progress);
    Ok(installed?)
}

/// Installs one after the other. One that fails is reported, and does not keep the others from being installed.
async fn several(
    choices: &[Choice],
    npm: &Npm,
    settings: &Settings,
    is_json: bool,
    here: &Surroundings,
) -> Result<ExitCode, Failure> {
    let (mut installed, mut failed) = (Vec::new(), Vec::new());
    for choice in choices {
        match fetch(choice, npm, here).await {
            Ok(installation) => {
                if !is_json {
                    display::text(&sentence(choice.agent, &installation, settings))?;
                }
                installed.push((choice.agent, installation));
            }
            Err(failure) => {
                report::print_about(choice.agent.name(), &failure);
                failed.push((choice.agent, failure));
            }
        }
    }
    let code = failed.first().map_or(0, |(_, failure)| failure.exit_code());
    if is_json {
        display::json(&AllDone {
            v: VERSION,
            installed: installed.iter().map(|(agent, one)| done(*agent, one, settings)).collect(),
            failed: failed.iter().map(|(agent, failure)| failed_of(*agent, failure)).collect(),
        })?;
    } else {
        let names = |names: Vec<&str>| names.join(", ");
        let mut text = format!("{} installed", counted(installed.len() as u64, "agent"));
        if !installed.is_empty() {
            text = format!("{text}: {}", names(installed.iter().map(|(agent, _)| agent.name()).collect()));
        }
        if !failed.is_empty() {
            let failed = failed.iter().map(|(agent, _)| agent.name()).collect();
            text = format!("{text}; failed: {}", names(failed));
        }
        display::text(&format!("\n{text}\n"))?;
    }
    Ok(ExitCode::from(code))
}

fn failed_of(agent: &dyn Agent, failure: &Failure) -> Failed {
    Failed { name: agent.name(), error: ErrorDetail::of(failure), exit_code: failure.exit_code() }
}

fn done<'a>(agent: &dyn Agent, installed: &'a Installation, settings: &Settings) -> Done<'a> {
    Done {
        v: VERSION,
        name: agent.name(),
        version: &installed.version,
        last_verified_version: agent.package().verified,
        path: installed.program.display().to_string(),
        change: match installed.change {
            Change::Installed => "installed",
            Change::Switched => "switched",
            Change::None => "none",
        },
        in_use: settings.program(agent).is_none(),
        integrity: installed.integrity.as_ref().map(verified),
    }
}

fn verified(integrity: &Integrity) -> Verified<'_> {
    let (source, record) = match &integrity.source {
        HashSource::Pinned => ("pinned", None),
        HashSource::Recorded { record } => ("recorded", Some(record)),
        HashSource::Registry { record } => ("registry", Some(record)),
    };
    Verified {
        source,
        record: record.map(|record| record.display().to_string()),
        packages: integrity.packages.iter().map(|(name, hash)| (name.as_str(), hash.as_str())).collect(),
    }
}

fn sentence(agent: &dyn Agent, installed: &Installation, settings: &Settings) -> String {
    let (title, version, package) = (agent.title(), &installed.version, agent.package());
    let done = match installed.change {
        Change::Installed => format!("{title} {version} is installed"),
        Change::Switched => format!("{title} {version} was installed already, and is now the one in use"),
        Change::None => format!("{title} {version} is installed already"),
    };
    let standing = match package.standing(version) {
        Standing::Same => String::new(),
        Standing::Newer | Standing::Older | Standing::Incomparable => {
            format!("\nOstler was last verified with {}.", package.verified)
        }
    };
    let program = installed.program.display();
    let recorded = installed.integrity.as_ref().map(recorded).unwrap_or_default();
    format!("{done}:\n  {program}{standing}{}{recorded}\n", overruled(settings, agent))
}

/// Hashes that nobody compared yet are shown, so that people can.
fn recorded(integrity: &Integrity) -> String {
    let HashSource::Registry { record } = &integrity.source else { return String::new() };
    let mut text =
        format!("\nIts hashes are recorded in {}, and required from now on:", display::short(record));
    for (name, hash) in &integrity.packages {
        text = format!("{text}\n  {name} {hash}");
    }
    text
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
