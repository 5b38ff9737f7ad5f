//! Removes old runs: what ended or was abandoned, never what is under way. Removes with them the layers that builds of
//! projects wrote to, where no run needs them any more.

use std::path::Path;
use std::time::{Duration, SystemTime};

use ostler_process::jail::layers::{self, OldLayers};
use ostler_process::journal::{Old, Pruned, finish_removals, older_than, remove};
use serde_json::json;

use super::state;
use crate::display;
use crate::failure::Failure;

/// Arguments of `ostler runs prune`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How long nobody wrote to a run that is removed, such as `30d`.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    older_than: Duration,

    /// Only tell what would be removed.
    #[arg(long)]
    dry_run: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn prune(args: &Args, runs: &Path, home: &Path) -> Result<(), Failure> {
    // Before the clock began there is nothing.
    let time = SystemTime::now().checked_sub(args.older_than).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut old = older_than(runs, time);
    let mut old_layers = layers::older_than(&home.join(layers::LAYERS), time);
    if !args.dry_run {
        finish_removals(runs)?;
        let mut removed = Vec::new();
        for old in old {
            match remove(&old)? {
                Pruned::Removed => removed.push(old),
                Pruned::Spared => {}
            }
        }
        old = removed;
        // What cannot be removed now, is tried again the next time.
        old_layers.retain(|old| layers::remove(old).unwrap_or(false));
    }
    print_report(args, &old, &old_layers)
}

fn print_report(args: &Args, old: &[Old], old_layers: &[OldLayers]) -> Result<(), Failure> {
    let bytes = old.iter().map(|old| old.bytes).sum();
    if args.json {
        let runs: Vec<_> =
            old.iter().map(|old| json!({ "run": old.run, "state": word(old), "bytes": old.bytes })).collect();
        let layers: Vec<_> = old_layers
            .iter()
            .map(|old| json!({ "project": old.project.to_string_lossy(), "bytes": old.bytes }))
            .collect();
        return display::json(
            &json!({ "v": 1, "dry_run": args.dry_run, "runs": runs, "bytes": bytes, "layers": layers }),
        );
    }
    let count = match old.len() {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    };
    if args.dry_run && !old.is_empty() {
        let rows: Vec<_> =
            old.iter().map(|old| vec![old.run.clone(), word(old).to_owned(), size(old.bytes)]).collect();
        display::text(&display::table(&["RUN", "STATE", "SIZE"], &rows, display::columns()))?;
    }
    let done = if args.dry_run { "Would remove" } else { "Removed" };
    display::text(&format!("{done} {count}, {}.\n", size(bytes)))?;
    if old_layers.is_empty() {
        return Ok(());
    }
    let count = match old_layers.len() {
        1 => "1 project".to_owned(),
        count => format!("{count} projects"),
    };
    let bytes = old_layers.iter().map(|old| old.bytes).sum();
    display::text(&format!("{done} the build caches of {count}, {}.\n", size(bytes)))
}

fn word(old: &Old) -> &str {
    old.kept.as_ref().map_or("never begun", state)
}

/// A number of bytes as people read it.
fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        // Tenths, without the dangers of a fraction.
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit / (unit / 10)),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        let table = [(0, "0 bytes"), (999, "999 bytes"), (1_234, "1.2 kB"), (56_700_000, "56.7 MB")];
        for (bytes, want) in table {
            assert_eq!(size(bytes), want);
        }
        assert_eq!(size(12_990_000_000), "12.9 GB");
    }
}
