//! `ostler doctor`: what is fine here, what is missing, and what to do about it. Changes nothing.

mod checks;
#[cfg(target_os = "linux")]
mod walls;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::display;
use crate::failure::Failure;
use crate::interrupt::unless_interrupted;
use crate::surroundings::Surroundings;

/// The format of the JSON.
const VERSION: u32 = 1;

/// Arguments of `ostler doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler doctor
  ostler doctor --json | jq '.checks[] | select(.status != \"ok\")'

Ends with 1 if something is broken that Ostler cannot work without (its home,
its configuration), else with 0: a missing agent is not an error.")]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    /// Good to know; nothing has to be done.
    Note,
    /// Not here. What needs it cannot be used.
    Missing,
    /// Ostler itself cannot work.
    Broken,
}

/// All of it, for programs.
#[derive(Debug, Serialize)]
struct Diagnosis<'a> {
    v: u32,
    ostler: &'static str,
    healthy: bool,
    checks: &'a [Finding],
}

/// One line.
#[derive(Debug, Serialize)]
struct Finding {
    name: String,
    status: Status,
    detail: String,
    /// The program it is about.
    path: Option<String>,
    /// What to do.
    #[serde(rename = "try")]
    remedy: Option<String>,
}

impl Finding {
    fn new(name: &str, status: Status, detail: impl Into<String>) -> Self {
        Self { name: name.to_owned(), status, detail: detail.into(), path: None, remedy: None }
    }

    fn with_path(self, path: &Path) -> Self {
        Self { path: Some(path.display().to_string()), ..self }
    }

    fn with_hint(self, hint: Option<String>) -> Self {
        Self { remedy: hint, ..self }
    }

    fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

/// Looks and tells.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let findings = unless_interrupted(checks::all(here)).await?;
    let is_healthy = findings.iter().all(|finding| finding.status != Status::Broken);
    if args.json {
        let ostler = env!("CARGO_PKG_VERSION");
        display::json(&Diagnosis { v: VERSION, ostler, healthy: is_healthy, checks: &findings })?;
    } else {
        display::text(&human(&findings))?;
    }
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn human(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or_default();
    let mut text = format!("Ostler {}\n\n", env!("CARGO_PKG_VERSION"));
    for Finding { name, status, detail, path, remedy } in findings {
        let (word, color): (_, Style) = match status {
            Status::Ok => ("ok", AnsiColor::Green.on_default()),
            Status::Note => ("note", AnsiColor::Cyan.on_default()),
            Status::Missing => ("missing", AnsiColor::Yellow.on_default()),
            Status::Broken => ("broken", AnsiColor::Red.on_default().bold()),
        };
        let _ = writeln!(text, "{color}{word:7}{color:#}  {name:width$}  {detail}");
        let path = path.as_deref().map(|path| display::short(Path::new(path)));
        let remedy = remedy.as_deref().map(|remedy| format!("try: {remedy}"));
        for more in [path, remedy].into_iter().flatten() {
            let _ = writeln!(text, "{:7}  {:width$}  {more}", "", "");
        }
    }
    text
}
