//! What a repository brings, for a person who is to decide about it.

use std::fmt::Write as _;
use std::path::Path;

use ostler_agent::repository_config::{effect, loaders};
use ostler_process::trust::{Change, Inspection};

use super::SHOWN_FILES;

/// The files with the agents that load them and what they do, and what has changed since they were trusted.
pub(super) fn listing(directory: &Path, inspection: &Inspection, changes: &[(String, Change)]) -> String {
    let mut text = format!("{} brings configuration that agents would load:\n", directory.display());
    let loaders = loaders();
    let files = inspection.files();
    let rows: Vec<(String, String)> = files
        .iter()
        .take(SHOWN_FILES)
        .map(|(shown, path)| {
            let by = loaders.iter().filter_map(|loader| Some((loader.title, effect(loader, path)?.effect)));
            let by: Vec<String> = by.map(|(title, effect)| format!("{title}: {effect}")).collect();
            (shown.clone(), by.join("; "))
        })
        .collect();
    let width = rows.iter().map(|(path, _)| path.chars().count()).max().unwrap_or_default();
    for (path, what) in rows {
        let _ = writeln!(text, "  {path:width$}  {what}");
    }
    if let more @ 1.. = files.len().saturating_sub(SHOWN_FILES) {
        let _ = writeln!(text, "  and {more} more");
    }
    if !changes.is_empty() {
        text.push_str("Changed since it was trusted:\n");
        for (path, change) in changes.iter().take(SHOWN_FILES) {
            let _ = writeln!(text, "  {path} ({})", change.name());
        }
    }
    text
}
