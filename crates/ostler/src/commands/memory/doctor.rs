//! What is wrong with memory, and what to do about it. Changes nothing but what every opening of the store settles.

mod model;

use std::fmt::Write as _;
use std::process::ExitCode;

use ostler_memory::daemon;
use ostler_memory::place::Place;
use ostler_memory::private::PrivateFolder;
use ostler_memory::store::{PATIENT, Store, StoreError};
use serde::Serialize;

use super::{home_dir, key};
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// The format of the JSON.
const VERSION: u32 = 1;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory doctor
  ostler memory doctor --json | jq '.checks[] | select(.status != \"ok\")'

Ends with 1 if there is a problem, else with 0: a model that is not installed is none.")]
pub(super) struct DoctorArgs {
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
    /// Something has to be done.
    Problem,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// All of it, for programs.
#[derive(Debug, Serialize)]
struct Diagnosis<'a> {
    v: u32,
    healthy: bool,
    checks: &'a [Finding],
    model: model::Looked,
}

/// One line.
#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    status: Status,
    detail: String,
    /// What to do.
    #[serde(rename = "try")]
    remedy: Option<String>,
}

impl Finding {
    fn new(name: &'static str, status: Status, detail: impl Into<String>) -> Self {
        Self { name, status, detail: detail.into(), remedy: None }
    }

    fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    fn failed(name: &'static str, error: &StoreError) -> Self {
        Self { remedy: error.hint(), ..Self::new(name, Status::Problem, display::with_causes(error)) }
    }
}

pub(super) fn run(args: DoctorArgs, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    let (store, opened) = store(place);
    let (model, looked) = model::look(place, opened.as_ref());
    let mut findings = vec![folder(place), key(place), store, waiting(place), aside(place)];
    findings.extend(model);
    findings.push(match daemon::status(place) {
        Some(answer) => {
            Finding::new("daemon", Status::Ok, format!("a daemon answers, process {}", answer.pid))
        }
        None => Finding::new("daemon", Status::Ok, "no daemon answers; none is needed"),
    });
    findings.push(prefix(place));
    let claude = home_dir(here).join(".claude");
    if claude.is_dir() {
        findings.push(Finding::new(
            "hooks",
            Status::Ok,
            format!(
                "`ostler memory hooks status` tells which agents are remembered ({} is there)",
                display::short(&claude)
            ),
        ));
    }
    let is_healthy = findings.iter().all(|finding| finding.status != Status::Problem);
    if args.json {
        display::json(&Diagnosis { v: VERSION, healthy: is_healthy, checks: &findings, model: looked })?;
    } else {
        display::text(&human(&findings))?;
    }
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn human(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { status, detail, remedy, .. } in findings {
        let remedy = remedy.as_deref().map(|remedy| format!("; try: {remedy}")).unwrap_or_default();
        let _ = writeln!(text, "{:7} {detail}{remedy}", status.word());
    }
    text
}

fn folder(place: &Place) -> Finding {
    let told = display::short(place.root());
    if !place.root().exists() {
        let detail = format!("{told} is not there yet: nothing was remembered");
        return Finding::new("folder", Status::Ok, detail);
    }
    match PrivateFolder::open(place.root()) {
        Ok(_) => Finding::new("folder", Status::Ok, format!("{told} is for its owner alone")),
        Err(error) => Finding::new("folder", Status::Problem, format!("{told}: {error}"))
            .with_remedy("make it a folder of yours, and no link"),
    }
}

fn key(place: &Place) -> Finding {
    if key::is_open_to_others(place) {
        let path = display::short(&place.key());
        return Finding::new("key", Status::Problem, format!("{path} can be read by others"))
            .with_remedy(format!("chmod 600 {path}"));
    }
    match Store::protection(place) {
        Ok(found) => Finding::new("key", Status::Ok, format!("key: {}", key::told(&found, place))),
        Err(error) => Finding::failed("key", &error),
    }
}

/// Whether a session that begins is told anything.
fn prefix(place: &Place) -> Finding {
    if key::is_passphrase(place) {
        return Finding::new("prefix", Status::Note, key::UNASKED).with_remedy(
            "give agents `ostler memory mcp` with OSTLER_MEMORY_PASSPHRASE, or `ostler memory key rotate` for a key in a file",
        );
    }
    Finding::new(
        "prefix",
        Status::Ok,
        "new sessions can be told what is pinned and where the last one stopped",
    )
}

/// How the store is, and the store itself if it can be opened.
fn store(place: &Place) -> (Finding, Option<Store>) {
    let opened = match Store::open_to_read(place, PATIENT) {
        Ok(None) => return (Finding::new("store", Status::Ok, "there is no store yet"), None),
        Ok(Some(store)) => store,
        // As its owner wants it.
        Err(error @ StoreError::Locked { .. }) => {
            return (Finding { status: Status::Note, ..Finding::failed("store", &error) }, None);
        }
        Err(error) => return (Finding::failed("store", &error), None),
    };
    let finding = match opened.check() {
        Ok(word) if word == "ok" => Finding::new("store", Status::Ok, "the store is sound"),
        Ok(word) => Finding::new("store", Status::Problem, format!("the store is damaged: {word}"))
            .with_remedy("move it aside, then `ostler memory backfill`"),
        Err(error) => Finding::new("store", Status::Problem, display::with_causes(&error)),
    };
    (finding, Some(opened))
}

fn count(folder: &std::path::Path) -> usize {
    PrivateFolder::open(folder).and_then(|folder| folder.names()).map_or(0, |names| names.len())
}

fn waiting(place: &Place) -> Finding {
    Finding::new("spool", Status::Ok, format!("{} files wait to be drained", count(&place.deferred())))
}

fn aside(place: &Place) -> Finding {
    match count(&place.quarantine()) {
        0 => Finding::new("quarantine", Status::Ok, "nothing was put aside"),
        count => Finding::new("quarantine", Status::Problem, format!("{count} things were put aside"))
            .with_remedy(format!("look into {}; each says why", display::short(&place.quarantine()))),
    }
}
