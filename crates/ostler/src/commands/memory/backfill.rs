//! What agents have kept on this machine before they were remembered. Can be cut off and begun again: what is in is in.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ostler_agent::remembering::Origin;
use ostler_memory::capture::Wanted;
use ostler_memory::ingest::{From, ingest};
use ostler_memory::place::Place;
use ostler_memory::store::{Inserted, PATIENT, Store};

use super::{MemoryError, home_dir, set};
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// How deep transcripts lie below the folder of all.
const DEEPEST: usize = 6;

/// How often a person is told how far it is: after so many files, and when so much time has passed.
const TOLD_EVERY: usize = 50;
const TOLD_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory backfill\n  ostler memory backfill --from codex")]
pub(super) struct BackfillArgs {
    /// Only from this agent.
    #[arg(long, value_name = "AGENT", value_parser = ["claude", "codex", "opencode"])]
    from: Option<String>,
}

pub(super) fn run(args: BackfillArgs, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    let mut store = Store::open(place, PATIENT).map_err(MemoryError::from)?;
    let wanted = args.from.as_deref().and_then(Origin::named);
    let origins = Origin::ALL.into_iter().filter(|origin| wanted.is_none_or(|wanted| wanted == *origin));
    let files: Vec<(Origin, PathBuf)> =
        origins.flat_map(|origin| found(origin, here).into_iter().map(move |path| (origin, path))).collect();
    let (mut sum, mut errors, mut told_at) = (Inserted::default(), 0, Instant::now());
    for (number, (origin, path)) in files.iter().enumerate() {
        let one = Wanted { path: path.clone(), origin: Some(*origin), ..Wanted::default() };
        let done = ingest(place, &mut store, &one, From::Cursor).map_err(MemoryError::from)?;
        sum = sum.and(done.rows);
        errors += done.errors;
        if (number + 1) % TOLD_EVERY == 0 || told_at.elapsed() > TOLD_AFTER {
            told_at = Instant::now();
            display::tell(&format!("{} of {} files, {} inserted", number + 1, files.len(), sum.inserted));
        }
    }
    display::text(&format!(
        "{} files; {} inserted, {} already known, {errors} lines that could not be read\n",
        files.len(),
        sum.inserted,
        sum.known
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn found(origin: Origin, here: &Surroundings) -> Vec<PathBuf> {
    let folder = |variable: &str, below: &str| {
        set(here.variable(variable)).unwrap_or_else(|| home_dir(here).join(below))
    };
    match origin {
        Origin::Claude => below(&folder("CLAUDE_CONFIG_DIR", ".claude").join("projects")),
        Origin::Codex => below(&folder("CODEX_HOME", ".codex").join("sessions")),
        Origin::OpenCode => {
            let file = folder("XDG_DATA_HOME", ".local/share").join("opencode/opencode.db");
            file.is_file().then_some(file).into_iter().collect()
        }
    }
}

/// All transcripts below a folder, by name. Links are not followed. Sub-agents' files are not sessions.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() && depth < DEEPEST && entry.file_name() != "subagents" {
                open.push((path, depth + 1));
            } else if kind.is_file() && path.extension().is_some_and(|end| end == "jsonl") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
