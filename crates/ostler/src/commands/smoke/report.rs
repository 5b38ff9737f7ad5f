//! The report: the same for somebody who was not there, in Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use ostler_agent::smoke::Fact;

use super::table::{cells, drifted, ended, sum, verdict, word};
use super::told::{Model, Smoked};
use crate::words::{one_line, time};

const HEADINGS: [&str; 12] = [
    "agent",
    "version",
    "engine",
    "file",
    "session",
    "events",
    "tools",
    "artifact",
    "completion",
    "turns",
    "duration",
    "breaks",
];

/// All of it.
pub(super) fn markdown(results: &[Smoked], model: &Model, took: Duration) -> String {
    let mut text = format!(
        "# Smoke test\n\n{}\nOstler {} on {} {}.\n\n",
        sum(results, model, took),
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    let mut row = |cells: &[String]| {
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    };
    row(&HEADINGS.map(str::to_owned));
    row(&HEADINGS.map(|_| "---".to_owned()));
    for smoked in results {
        row(&cells(smoked).map(|cell| cell_text(&cell)));
    }
    for smoked in results {
        agent(&mut text, smoked);
    }
    text
}

fn agent(text: &mut String, smoked: &Smoked) {
    let version = smoked.version.as_deref().unwrap_or("not installed");
    let took = time(Duration::from_millis(smoked.ms));
    let _ = writeln!(text, "\n## {} {version}: {}\n", smoked.agent, verdict(smoked));
    let _ = writeln!(text, "Driven by `{}`, {took}{}.", smoked.engine, ended(smoked));
    if let Some(run) = &smoked.run {
        let _ = writeln!(text, "Run `{run}`.");
    }
    let _ = writeln!(text, "\n| fact | | known by | what was seen |\n|---|---|---|---|");
    for told in &smoked.facts {
        let title = Fact::named(told.fact).map_or(told.fact, Fact::title);
        let mark = if told.ok { "✓" } else { "✗" };
        let _ = writeln!(text, "| {title} | {mark} | {} | {} |", word(told.grade), cell_text(&told.seen));
    }
    if !smoked.quoted.is_empty() {
        let _ = writeln!(text, "\nWhat it said, in its own words:\n");
        for line in &smoked.quoted {
            let _ = writeln!(text, "> {}  ", one_line(line));
        }
    }
    if !smoked.breaks.is_empty() {
        let _ = writeln!(text, "\n### What broke\n");
        for broken in &smoked.breaks {
            let title = Fact::named(broken.fact).map_or(broken.fact, Fact::title);
            let (what, hint) = (one_line(&broken.what), one_line(&broken.r#try));
            let _ = writeln!(text, "- **{title}**: {what}.\n  Try: {hint}");
        }
    }
    if !smoked.drift.is_empty() {
        let _ = writeln!(text, "\n### What is different\n");
        if let Some(version) = &smoked.compared_with {
            let _ = writeln!(text, "Compared with {version}, which was green.\n");
        }
        for drift in &smoked.drift {
            let _ = writeln!(text, "- {}", drifted(drift));
        }
    }
}

/// In a table of Markdown, a bar would end the cell.
fn cell_text(cell: &str) -> String {
    one_line(cell).replace('|', "\\|")
}
