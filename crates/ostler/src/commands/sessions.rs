//! `ostler sessions`: the agents that are at work now, and what their terminals show.
//!
//! A session lasts as long as a conversation with an agent is live. For now each is that of a run, and has its id.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use ostler_process::control::{About, AboutTerminal, CallError, Op, attach, call};
use ostler_process::journal::{Kept, State, find, list};
use ostler_process::terminal::painter::Manner;
use ostler_process::terminal::pty::Size;
use ostler_process::terminal::screen::Screen;
use ostler_process::terminal::seat::Shown;
use serde_json::{Value, json};

use crate::account::Rows;
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;
use crate::words::{cut, one_line, time};

/// How much of a prompt fits into a list.
const LONGEST_PROMPT: usize = 60;

/// How much of an agent's name does.
const WIDEST_AGENT: usize = 24;

/// How long a run that is killed may take to end: it looks until nothing of its agent is left.
const ENDING: Duration = Duration::from_secs(30);

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `ostler sessions`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  ostler sessions                the same as `ostler sessions list`
  ostler sessions show last      with what its terminal shows
  ostler attach last             sit down at it")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<SessionsCommand>,

    #[command(flatten)]
    list: Listing,
}

// Also flattened into `ostler sessions`, so that neither a group nor a help text of its own may be attached.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
struct Listing {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct One {
    /// The session: the id of its run, the beginning of it, or `last`.
    #[arg(value_name = "ID")]
    session: String,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List live sessions, the newest first.
    #[command(after_help = "Examples:
  ostler sessions list
  ostler sessions list --json | jq -r '.[0].session'")]
    List(Listing),
    /// Tell what is known of a live session, and what its terminal shows.
    #[command(after_help = "Examples:\n  ostler sessions show last\n  ostler sessions show last --json")]
    Show(One),
    /// End a live session, and its run, now.
    #[command(after_help = "Examples:
  ostler sessions kill last
  ostler stop last               asks the agent first")]
    Kill(One),
}

/// Runs one of them.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let runs = here.home.runs();
    match args.command.unwrap_or(SessionsCommand::List(args.list)) {
        SessionsCommand::List(listing) => {
            let mut sessions = Vec::new();
            for kept in list(&runs).into_iter().filter(|kept| kept.state == State::Live) {
                // One that ends just now, or does not answer, is listed with what is on disk.
                let about = call(&kept, Op::Status).await.ok().and_then(|answer| answer.run);
                sessions.push((kept, about));
            }
            listed(&sessions, &listing)?;
        }
        SessionsCommand::Show(one) => show(&find(&runs, &one.session)?, one.json).await?,
        SessionsCommand::Kill(one) => kill(&find(&runs, &one.session)?, one.json).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn age(kept: &Kept) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(kept.facts.began_at.try_into().unwrap_or_default()))
}

fn json_of(kept: &Kept, about: Option<&About>) -> Value {
    json!({
        "session": kept.facts.run,
        "run": kept.facts.run,
        "agent": kept.facts.agent,
        "engine": kept.facts.engine,
        "pid": about.map(|about| about.pid),
        "cwd": kept.facts.cwd,
        "began_at": kept.facts.began_at,
        "prompt": kept.facts.prompt,
        "terminal": about.and_then(|about| about.terminal.as_ref()),
    })
}

fn listed(sessions: &[(Kept, Option<About>)], listing: &Listing) -> Result<(), Failure> {
    if listing.json {
        let all: Vec<Value> = sessions.iter().map(|(kept, about)| json_of(kept, about.as_ref())).collect();
        return display::json(&all);
    }
    if sessions.is_empty() {
        return display::text("No agent is at work. `ostler runs` lists what was run.\n");
    }
    let rows: Vec<_> = sessions
        .iter()
        .map(|(kept, about)| {
            let terminal = about.as_ref().and_then(|about| about.terminal.as_ref());
            vec![
                kept.facts.run.clone(),
                cut(&one_line(&kept.facts.agent), WIDEST_AGENT),
                kept.facts.engine.clone(),
                time(age(kept)),
                terminal.map_or_else(|| "-".to_owned(), seats),
                cut(&one_line(&kept.facts.prompt), LONGEST_PROMPT),
            ]
        })
        .collect();
    let headings = ["SESSION", "AGENT", "ENGINE", "AGE", "TERMINAL", "PROMPT"];
    display::text(&display::table(&headings, &rows, display::columns()))
}

/// How large it is, and who sits at it.
fn seats(terminal: &AboutTerminal) -> String {
    let AboutTerminal { columns, rows, viewers, held, .. } = terminal;
    let size = format!("{columns}x{rows}");
    match (viewers, held) {
        (0, _) => size,
        (_, true) => format!("{size}, held"),
        (watch, false) => format!("{size}, {watch} watch"),
    }
}

async fn show(kept: &Kept, is_json: bool) -> Result<(), Failure> {
    let about = call(kept, Op::Status).await?.run;
    let terminal = about.as_ref().and_then(|about| about.terminal.as_ref());
    let screen = match terminal {
        Some(_) => Some(seen(kept).await?),
        None => None,
    };
    if is_json {
        let mut all = json_of(kept, about.as_ref());
        all["screen"] = json!(screen);
        return display::json(&all);
    }
    let mut rows = Rows::new("", display::columns_or_endless());
    rows.add_whole("session", &kept.facts.run);
    rows.add("agent", &one_line(&kept.facts.agent));
    rows.add("engine", &kept.facts.engine);
    rows.add("age", &time(age(kept)));
    if let Some(about) = &about {
        rows.add("pid", &about.pid.to_string());
    }
    rows.add_whole("cwd", &display::short(&kept.facts.cwd));
    rows.add("prompt", &cut(&one_line(&kept.facts.prompt), LONGEST_PROMPT));
    match terminal {
        Some(terminal) => {
            rows.add("terminal", &seats(terminal));
            rows.add("title", &one_line(&terminal.title));
        }
        None => rows.add("terminal", "none at this moment"),
    }
    let mut text = rows.into_text();
    if let Some(screen) = screen {
        text = format!("{text}\n{screen}\n");
    }
    display::text(&text)
}

/// What the terminal shows, as text.
async fn seen(kept: &Kept) -> Result<String, CallError> {
    let mut attached = attach(kept, Manner::View, Size::USUAL).await?;
    let Some(Shown::Anew { size, bytes }) = attached.eyes.next().await else { return Ok(String::new()) };
    let mut screen = Screen::new(size);
    screen.feed(&bytes);
    Ok(screen.look().dump())
}

/// The first request asks, the second kills.
async fn kill(kept: &Kept, is_json: bool) -> Result<(), Failure> {
    call(kept, Op::Stop).await?;
    match call(kept, Op::Stop).await {
        // It needed no second.
        Ok(_) | Err(CallError::NotLive { .. } | CallError::Unreachable { .. }) => {}
        Err(error @ CallError::Refused { .. }) => return Err(error.into()),
    }
    let has_ended = tokio::time::timeout(ENDING, ended(kept)).await.is_ok();
    let run = &kept.facts.run;
    if is_json {
        return display::json(&json!({ "session": run, "ended": has_ended }));
    }
    let words = if has_ended { "has ended" } else { "was told to end, and is still ending" };
    display::text(&format!("session {run} {words}: `ostler runs show {run}` tells how\n"))
}

async fn ended(kept: &Kept) {
    let Some(runs) = kept.folder.parent() else { return };
    while find(runs, &kept.facts.run).is_ok_and(|kept| kept.state == State::Live) {
        tokio::time::sleep(LOOK).await;
    }
}
