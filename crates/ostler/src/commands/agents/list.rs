//! `ostler agents list`.

use std::fmt::Write as _;
use std::process::ExitCode;

use ostler_agent::agents::AGENTS;
use ostler_agent::package::Standing;
use ostler_process::locate::{Form, LocateError};
use serde::Serialize;

use crate::display;
use crate::failure::Failure;
use crate::programs::{Sighting, survey};
use crate::surroundings::Surroundings;

/// Arguments of `ostler agents list`.
// Also flattened into `ostler agents`, so that neither a group nor a help text of its own may be attached.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One agent. The names of the fields are a promise.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    engine: &'static str,
    installed: bool,
    version: Option<String>,
    path: Option<String>,
    last_verified_version: &'static str,
    notes: String,
}

/// Prints the list.
pub(crate) async fn run(args: &Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let settings = here.settings()?;
    let sightings = survey(AGENTS, &settings, here).await?;
    if args.json {
        display::json(&sightings.iter().map(row).collect::<Vec<_>>())?;
    } else {
        let default = settings.config.agents.default.as_deref();
        display::text(&human(&sightings, default, display::columns()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(sighting: &Sighting) -> Row {
    let agent = sighting.agent;
    Row {
        name: agent.name(),
        engine: agent.engine().name(),
        installed: sighting.program.is_ok(),
        version: sighting.version().map(str::to_owned),
        path: sighting.path().map(|path| path.display().to_string()),
        last_verified_version: agent.package().verified,
        notes: notes(sighting).join("; "),
    }
}

fn human(sightings: &[Sighting], default: Option<&str>, columns: usize) -> String {
    let headings = ["NAME", "ENGINE", "VERSION", "VERIFIED", "FROM", "PATH"];
    let rows: Vec<_> = sightings
        .iter()
        .map(|sighting| {
            let agent = sighting.agent;
            let (from, path) = match &sighting.program {
                Ok(program) => (program.origin.word(), display::short(&program.path)),
                Err(LocateError::Unusable { origin, path, .. }) => (origin.word(), display::short(path)),
                Err(_) => ("-", "not installed".to_owned()),
            };
            let version = match (sighting.version(), sighting.is_broken()) {
                (Some(version), _) => version,
                (None, true) => "broken",
                (None, false) => "-",
            };
            let cells = [agent.name(), agent.engine().name(), version, agent.package().verified, from, &path];
            cells.map(str::to_owned).to_vec()
        })
        .collect();
    let mut text = display::table(&headings, &rows, columns);
    let mut remarks = remarks(sightings, default);
    if sightings.iter().any(is_missing) {
        remarks.push("`ostler agents install NAME` gets one that is not installed.".to_owned());
    }
    if !remarks.is_empty() {
        let _ = write!(text, "\n{}\n", remarks.join("\n"));
    }
    text
}

/// One line per remark, with all the agents that it holds for.
fn remarks(sightings: &[Sighting], default: Option<&str>) -> Vec<String> {
    let mut remarks: Vec<(String, Vec<&str>)> = Vec::new();
    for sighting in sightings {
        let name = sighting.agent.name();
        let is_default = (default == Some(name)).then(|| "the default".to_owned());
        for note in is_default.into_iter().chain(notes(sighting)) {
            match remarks.iter_mut().find(|(said, _)| *said == note) {
                Some((_, names)) => names.push(name),
                None => remarks.push((note, vec![name])),
            }
        }
    }
    remarks.into_iter().map(|(note, names)| format!("{}: {note}", names.join(", "))).collect()
}

fn is_missing(sighting: &Sighting) -> bool {
    matches!(sighting.program, Err(LocateError::NotInstalled { .. }))
}

/// What there is to say about an agent besides its row.
fn notes(sighting: &Sighting) -> Vec<String> {
    let agent = sighting.agent;
    let mut notes = Vec::new();
    match &sighting.program {
        Err(LocateError::NotInstalled { .. }) => {}
        Err(error) => notes.push(error.to_string()),
        Ok(program) if program.form == Form::Script => {
            notes
                .push("a script, not the native program: stopping it may leave the agent running".to_owned());
        }
        Ok(_) => {}
    }
    if let Some(trouble) = sighting.trouble() {
        notes.push(display::with_causes(trouble));
    }
    match sighting.version().map(|version| agent.package().standing(version)) {
        Some(Standing::Newer) => notes.push("newer than the last verified version".to_owned()),
        Some(Standing::Older) => notes.push("older than the last verified version".to_owned()),
        Some(Standing::Same | Standing::Incomparable) | None => {}
    }
    if !agent.note().is_empty() {
        notes.push(agent.note().to_owned());
    }
    notes
}
