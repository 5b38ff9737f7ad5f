//! `ostler runs`: what was run, from the files of the runs alone, so that it works on live, ended and abandoned ones.

mod follow;
mod list;
mod prune;
mod receipts;
mod show;
mod since;
mod why;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use ostler_process::journal::{JournalError, Kept, State, find, list as all_runs};
use serde_json::{Value, json};
pub(crate) use why::inputs;

use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;
use list::{ListArgs, RunSummary, SinceArgs};

/// Arguments of `ostler runs`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  ostler runs                    the newest 20; the same as `ostler runs list`
  ostler runs since 18:00        what happened overnight, with totals
  ostler runs show last
  ostler runs why 0198           the beginning of an id is enough")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<RunsCommand>,

    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, clap::Args)]
struct One {
    /// The run: its id, the beginning of it, or `last`.
    #[arg(value_name = "ID")]
    run: String,
}

#[derive(Debug, clap::Args)]
struct Events {
    /// The run: its id, the beginning of it, or `last`.
    #[arg(value_name = "ID")]
    run: String,

    /// Go on with what comes, until the run is over.
    #[arg(long)]
    follow: bool,
}

#[derive(Debug, clap::Args)]
struct Told {
    /// The run: its id, the beginning of it, or `last`.
    #[arg(value_name = "ID")]
    run: String,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List runs, the newest first.
    #[command(after_help = "Examples:
  ostler runs list --limit 5
  ostler runs list --json | jq -r '.[0].run'")]
    List(ListArgs),
    /// List the runs that began or ended since a time, and what they amount to.
    #[command(after_help = "Examples:
  ostler runs since 18:00               today, or yesterday if it is not yet that late
  ostler runs since yesterday
  ostler runs since 2h
  ostler runs since 2026-11-16T18:00 --json | jq .totals

Times are local unless they name a zone. A live run counts, whenever it began.")]
    Since(SinceArgs),
    /// Tell what was asked of a run, and how it ended.
    #[command(after_help = "Examples:\n  ostler runs show last\n  ostler runs show last --json")]
    Show(Told),
    /// Print a run's events, one JSON object a line.
    #[command(after_help = "Examples:
  ostler runs events last | jq -c 'select(.kind == \"agent\")'
  ostler runs events last --follow")]
    Events(Events),
    /// Tell what the watchdog thinks of a run: what was last seen, and which rule comes next.
    #[command(after_help = "Examples:\n  ostler runs why last\n  ostler runs why last --json")]
    Why(Told),
    /// Print what the agent wrote on its standard output, byte for byte.
    #[command(after_help = "Examples:\n  ostler runs raw last > records.ndjson")]
    Raw(One),
    /// Remove old runs that have ended or were abandoned, with all that was kept of them.
    #[command(after_help = "Examples:
  ostler runs prune --older-than 30d --dry-run
  ostler runs prune --older-than 30d")]
    Prune(prune::Args),
}

/// Runs one of them.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let runs = here.home.runs();
    match args.command.unwrap_or(RunsCommand::List(args.list)) {
        RunsCommand::List(args) => list::print(&all_runs(&runs), &args)?,
        RunsCommand::Since(args) => list::print_since(&all_runs(&runs), &args)?,
        RunsCommand::Show(told) => {
            let kept = find(&runs, &told.run)?;
            if told.json {
                let mut shown = json_of(&kept);
                shown["receipts"] = receipts::of(&kept).map(|receipts| receipts.json()).unwrap_or_default();
                display::json(&shown)?;
            } else {
                display::text(&show::shown(&kept, here)?)?;
            }
        }
        RunsCommand::Events(events) if events.follow => follow::follow(&find(&runs, &events.run)?).await?,
        RunsCommand::Events(events) => printed(&find(&runs, &events.run)?, "events.ndjson")?,
        RunsCommand::Raw(one) => printed(&find(&runs, &one.run)?, "raw/stdout")?,
        RunsCommand::Prune(args) => prune::prune(&args, &runs, here.home.root())?,
        RunsCommand::Why(told) => {
            let why = why::why(&find(&runs, &told.run)?, now())?;
            if told.json { display::json(&why.json())? } else { display::text(&why.words())? }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

fn state(kept: &Kept) -> &str {
    match &kept.state {
        State::Live => "live",
        State::Abandoned => "abandoned",
        State::Ended(outcome) => outcome["outcome"].as_str().unwrap_or("ended"),
    }
}

fn json_of(kept: &Kept) -> Value {
    let outcome = match &kept.state {
        State::Ended(outcome) => outcome.clone(),
        State::Live | State::Abandoned => Value::Null,
    };
    let summary = RunSummary::new(kept, now());
    json!({
        "run": kept.facts.run,
        "state": state(kept),
        "agent": kept.facts.agent,
        "agent_version": kept.facts.agent_version,
        "engine": kept.facts.engine,
        "cwd": kept.facts.cwd,
        "began_at": kept.facts.began_at,
        "ended_at": summary.ended_at(),
        "ms": summary.ms(),
        "cost_usd": summary.cost_usd(),
        "prompt": kept.facts.prompt,
        "rehearse": kept.facts.rehearse,
        "permissions": kept.facts.permissions,
        // As in the outcome: OSTLER_HOME may have a name that is not UTF-8.
        "journal": kept.folder.to_string_lossy(),
        "outcome": outcome,
    })
}

fn ago(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{}s ago", seconds.max(0)),
        60..3_600 => format!("{}m ago", seconds / 60),
        3_600..86_400 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

fn printed(kept: &Kept, name: &str) -> Result<(), Failure> {
    let path = kept.folder.join(name);
    let mut file = std::fs::File::open(&path).map_err(|source| JournalError::Read { path, source })?;
    std::io::copy(&mut file, &mut std::io::stdout().lock()).map_err(Failure::Output)?;
    Ok(())
}
