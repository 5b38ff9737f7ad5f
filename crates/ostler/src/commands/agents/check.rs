//! `ostler agents check`.

use std::process::ExitCode;

use ostler_agent::agent::Agent;
use ostler_agent::agents::AGENTS;
use ostler_agent::package::Standing;
use ostler_process::locate::LocateError;
use serde::Serialize;

use crate::display;
use crate::failure::{Failure, NOT_INSTALLED};
use crate::programs::{self, Sighting, survey};
use crate::surroundings::Surroundings;

/// Arguments of `ostler agents check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler agents check             all that are installed
  ostler agents check codex       exit code 14 if it is not installed or does not start
  ostler agents check --json

A program that is there and cannot be started is exit code 14 too. Nothing is installed,
fetched or repaired: `ostler agents install NAME` does that.")]
pub(crate) struct Args {
    /// The agent; all if not given.
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Same,
    Newer,
    Older,
    Incomparable,
    DoesNotStart,
    NotInstalled,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    verdict: Verdict,
    version: Option<String>,
    last_verified_version: &'static str,
    path: Option<String>,
    detail: Option<String>,
}

/// Starts and compares.
pub(crate) async fn run(args: &Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let named = args.name.as_deref().map(programs::agent).transpose()?;
    let one: Vec<&'static dyn Agent> = named.into_iter().collect();
    let agents = if one.is_empty() { AGENTS } else { &one };
    let settings = here.settings()?;
    let sightings = survey(agents, &settings, here).await?;
    let configured: Vec<&str> =
        agents.iter().filter(|agent| settings.program(**agent).is_some()).map(|agent| agent.name()).collect();
    let rows: Vec<_> = sightings.iter().map(row).collect();
    if args.json {
        display::json(&rows)?;
    } else if named.is_some()
        && let Some(failure) = sightings.into_iter().find_map(failure)
    {
        return Err(failure);
    } else {
        display::text(&human(&rows, &configured))?;
    }
    let is_fine = |row: &Row| match row.verdict {
        Verdict::Same | Verdict::Newer | Verdict::Older | Verdict::Incomparable => true,
        // An agent that was not named may be missing, but not where the configuration says that it is.
        Verdict::NotInstalled => named.is_none() && !configured.contains(&row.name),
        Verdict::DoesNotStart => false,
    };
    Ok(if rows.iter().all(is_fine) { ExitCode::SUCCESS } else { ExitCode::from(NOT_INSTALLED) })
}

fn row(sighting: &Sighting) -> Row {
    let package = sighting.agent.package();
    let verdict = match (&sighting.program, sighting.version()) {
        (Err(LocateError::Unusable { .. }), _) => Verdict::DoesNotStart,
        (Err(LocateError::NotInstalled { .. } | LocateError::NotThere { .. }), _) => Verdict::NotInstalled,
        (Ok(_), None) => Verdict::DoesNotStart,
        (Ok(_), Some(version)) => match package.standing(version) {
            Standing::Same => Verdict::Same,
            Standing::Newer => Verdict::Newer,
            Standing::Older => Verdict::Older,
            Standing::Incomparable => Verdict::Incomparable,
        },
    };
    let detail = match &sighting.program {
        Err(error) => Some(error.to_string()),
        Ok(_) => sighting.trouble().map(|error| display::with_causes(error)),
    };
    Row {
        name: sighting.agent.name(),
        verdict,
        version: sighting.version().map(str::to_owned),
        last_verified_version: package.verified,
        path: sighting.path().map(|path| path.display().to_string()),
        detail,
    }
}

/// Why a single agent that was asked for is not fine.
fn failure(sighting: Sighting) -> Option<Failure> {
    match (sighting.program, sighting.version.and_then(std::sync::Arc::into_inner)) {
        (Err(error), _) => Some(error.into()),
        (Ok(_), Some(Err(error))) => Some(error.into()),
        (Ok(_), _) => None,
    }
}

fn human(rows: &[Row], configured: &[&str]) -> String {
    let headings = ["NAME", "VERSION", "VERIFIED", "RESULT"];
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let result = match row.verdict {
                Verdict::Same => "starts; the verified version".to_owned(),
                Verdict::Newer => "starts; newer than verified".to_owned(),
                Verdict::Older => "starts; older than verified".to_owned(),
                Verdict::Incomparable => "starts; cannot be compared".to_owned(),
                Verdict::NotInstalled if configured.contains(&row.name) => {
                    row.detail.clone().unwrap_or_else(|| "not installed".to_owned())
                }
                Verdict::NotInstalled => "not installed".to_owned(),
                Verdict::DoesNotStart => {
                    format!("does not start: {}", row.detail.as_deref().unwrap_or_default())
                }
            };
            let version = row.version.clone().unwrap_or_else(|| "-".to_owned());
            vec![row.name.to_owned(), version, row.last_verified_version.to_owned(), result]
        })
        .collect();
    display::table(&headings, &rows, usize::MAX)
}
