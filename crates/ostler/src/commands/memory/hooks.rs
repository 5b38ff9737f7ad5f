//! Our hooks in the settings of agents.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use ostler_agent::remembering::Origin;
use ostler_memory::hooks::{Change, Ground, Standing};
use ostler_memory::place::Place;
use serde::Serialize;
use serde_json::json;

use super::{MemoryError, home_dir, key, set};
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// Codex runs hooks only that its user has trusted, and says nothing of others.
const CODEX_TRUST: &str =
    "codex runs a hook only after you have trusted it: start `codex` and look at /hooks";

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory hooks install
  ostler memory hooks install --target claude --dry-run
  ostler memory hooks status
  ostler memory hooks uninstall

Only our entries are changed, every other byte stays. Settings that cannot be read are left alone.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: HooksCommand,
}

#[derive(Debug, Subcommand)]
enum HooksCommand {
    /// Put them in.
    #[command(after_help = "Examples:\n  ostler memory hooks install --target codex")]
    Install(TargetArgs),
    /// Tell which are there.
    #[command(after_help = "Examples:\n  ostler memory hooks status\n  ostler memory hooks status --json")]
    Status(StatusArgs),
    /// Take them out.
    #[command(after_help = "Examples:\n  ostler memory hooks uninstall --target all")]
    Uninstall(TargetArgs),
}

#[derive(Debug, clap::Args)]
struct TargetArgs {
    /// For which agent.
    #[arg(long, value_name = "AGENT", default_value = "all", value_parser = ["claude", "codex", "opencode", "all"])]
    target: String,

    /// Only tell what would be done.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// For which agent.
    #[arg(long, value_name = "AGENT", default_value = "all", value_parser = ["claude", "codex", "opencode", "all"])]
    target: String,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe().map_err(MemoryError::Program)?;
    let home = home_dir(here);
    let ostler_home: Option<PathBuf> = set(here.variable("OSTLER_HOME")).map(|named| here.cwd.join(named));
    let variable = |name: &str| set(here.variable(name));
    let ground = Ground {
        place,
        home: &home,
        variable: &variable,
        program: &program,
        ostler_home: ostler_home.as_deref(),
    };
    match args.command {
        HooksCommand::Install(args) => {
            change(&args, &ground, |ground, origin| ground.install(origin))?;
            if key::is_passphrase(place) {
                display::tell(key::UNASKED);
            }
        }
        HooksCommand::Uninstall(args) => change(&args, &ground, |ground, origin| ground.uninstall(origin))?,
        HooksCommand::Status(args) => status(&args, &ground)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn targets(name: &str) -> Vec<Origin> {
    match Origin::named(name) {
        Some(origin) => vec![origin],
        None => Origin::ALL.to_vec(),
    }
}

/// All are planned before one is changed: a mistake in the last leaves the first alone too.
fn change(
    args: &TargetArgs,
    ground: &Ground<'_>,
    plan: fn(&Ground<'_>, Origin) -> Result<Change, ostler_memory::hooks::HooksError>,
) -> Result<(), Failure> {
    let mut plans = Vec::new();
    for origin in targets(&args.target) {
        plans.push(plan(ground, origin).map_err(MemoryError::from)?);
    }
    let mut text = String::new();
    for plan in plans {
        if !args.dry_run {
            ground.apply(&plan).map_err(MemoryError::from)?;
        }
        let what = match (plan.is_needed(), args.dry_run) {
            (false, _) => "nothing to do",
            (true, true) => "would be changed",
            (true, false) => "changed",
        };
        let _ = writeln!(text, "{:9} {what}: {}", plan.origin.name(), display::short(&plan.path));
        if args.dry_run && plan.is_needed() {
            let _ = writeln!(text, "{}", plan.after.as_deref().unwrap_or("(removed)"));
        }
        if plan.origin == Origin::Codex && plan.is_needed() && plan.after.is_some() {
            display::tell(CODEX_TRUST);
        }
    }
    display::text(&text)
}

fn status(args: &StatusArgs, ground: &Ground<'_>) -> Result<(), Failure> {
    let standings: Vec<(Origin, Standing)> =
        targets(&args.target).into_iter().map(|origin| (origin, ground.standing(origin))).collect();
    let is_locked = key::is_passphrase(ground.place);
    if args.json {
        let agent = |(origin, standing): &(Origin, Standing)| {
            json!({
                "agent": origin.name(), "state": state(standing), "path": standing.path.to_string_lossy(),
                "missing": standing.missing, "reason": standing.unreadable,
            })
        };
        return display::json(&json!({
            "v": 1, "agents": standings.iter().map(agent).collect::<Vec<_>>(), "prefix": !is_locked,
            "note": is_locked.then_some(key::UNASKED),
        }));
    }
    let mut text = String::new();
    for (origin, standing) in &standings {
        let told = match state(standing) {
            State::Installed => "installed".to_owned(),
            State::InPart => format!("in part: {} missing", standing.missing.join(", ")),
            State::NotInstalled => "not installed".to_owned(),
            State::Unreadable => {
                format!("cannot be read: {}", standing.unreadable.as_deref().unwrap_or_default())
            }
        };
        let _ = writeln!(text, "{:9} {told} ({})", origin.name(), display::short(&standing.path));
    }
    if is_locked {
        let _ = writeln!(text, "{:9} {}", "note", key::UNASKED);
    }
    display::text(&text)
}

/// How much of our hooks is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Installed,
    InPart,
    NotInstalled,
    Unreadable,
}

fn state(standing: &Standing) -> State {
    match (&standing.unreadable, standing.missing.is_empty(), standing.present.is_empty()) {
        (Some(_), _, _) => State::Unreadable,
        (None, true, _) => State::Installed,
        (None, false, true) => State::NotInstalled,
        (None, false, false) => State::InPart,
    }
}
