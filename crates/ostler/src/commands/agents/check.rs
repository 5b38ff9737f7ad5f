//! `ostler agents check`.

use std::process::ExitCode;

use ostler_agent::agent::Agent;
use ostler_agent::agents::AGENTS;
use ostler_agent::package::Standing;
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
  ostler agents check --json")]
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
    let sightings = survey(agents, &here.settings()?, here).await?;
    let rows: Vec<_> = sightings.iter().map(row).collect();
    if args.json {
        display::json(&rows)?;
    } else if named.is_some()
        && let Some(failure) = sightings.into_iter().find_map(failure)
    {
        return Err(failure);
    } else {
        display::text(&human(&rows))?;
    }
    let is_fine = |row: &Row| match row.verdict {
        Verdict::Same | Verdict::Newer | Verdict::Older | Verdict::Incomparable => true,
        Verdict::NotInstalled => named.is_none(),
        Verdict::DoesNotStart => false,
    };
    Ok(if rows.iter().all(is_fine) { ExitCode::SUCCESS } else { ExitCode::from(NOT_INSTALLED) })
}

fn row(sighting: &Sighting) -> Row {
    let package = sighting.agent.package();
    let verdict = match (&sighting.program, sighting.version()) {
        (Err(_), _) => Verdict::NotInstalled,
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
        path: sighting.program.as_ref().ok().map(|program| program.path.display().to_string()),
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

fn human(rows: &[Row]) -> String {
    let headings = ["NAME", "VERSION", "VERIFIED", "RESULT"];
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let result = match row.verdict {
                Verdict::Same => "starts; the verified version".to_owned(),
                Verdict::Newer => "starts; newer than verified".to_owned(),
                Verdict::Older => "starts; older than verified".to_owned(),
                Verdict::Incomparable => "starts; cannot be compared".to_owned(),
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
