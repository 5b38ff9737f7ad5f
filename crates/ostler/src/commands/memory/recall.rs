//! Finding, and looking at what was found.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ostler_memory::embedding::Cores;
use ostler_memory::filling::fill;
use ostler_memory::meaning::Meaning;
use ostler_memory::place::Place;
use ostler_memory::prefix::excerpt;
use ostler_memory::recall::{ByMeaning, Hit, Question};
use ostler_memory::store::Message;
use serde_json::{Value, json};

use super::{MemoryError, drained, now, parse_id, project};
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// How long a search may spend on vectors of new messages.
const FILLS_FOR: Duration = Duration::from_millis(300);

/// How much of a message fits into a list.
const EXCERPT: usize = 200;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory recall \"how many retries\"
  ostler memory recall --project . --since 7d \"src/main.rs\"
  ostler memory recall --explain port

Any text is a question. Parts in quotes, paths and error codes are also looked for to the letter.")]
pub(super) struct RecallArgs {
    /// What to find.
    #[arg(value_name = "QUERY")]
    query: String,

    /// Only in this project: a folder.
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,

    /// How many.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,

    /// Only what was said since: 7d, 12h, or a day.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Show what each score is made of.
    #[arg(long)]
    explain: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ostler memory timeline m12\n  ostler memory timeline m12 --before 10 --after 10"
)]
pub(super) struct TimelineArgs {
    /// The message.
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: i64,

    /// How many before it.
    #[arg(long, value_name = "N", default_value_t = 5)]
    before: u32,

    /// How many after it.
    #[arg(long, value_name = "N", default_value_t = 5)]
    after: u32,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory show m12")]
pub(super) struct ShowArgs {
    /// The message.
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: i64,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn recall(args: RecallArgs, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    let mut store = drained(place)?;
    let (mut meaning, fault) = match Meaning::load(place, Cores::All) {
        Ok(meaning) => (meaning, None),
        Err(error) => (None, Some(display::with_causes(&error))),
    };
    if let Some(meaning) = &mut meaning {
        // The model is loaded, and a few new messages cost less than that. What is left is found by its words.
        let _ = fill(&mut store, meaning.embedder(), Some(Instant::now() + FILLS_FOR), &mut |_| {});
    }
    let wanted = args.project.as_deref().map(|folder| project(folder, here));
    let current = project(&here.cwd, here);
    let question = Question {
        project: wanted.as_deref(),
        here: Some(&current),
        since: args.since.as_deref().map(time).transpose()?,
        ..Question::new(&args.query, now(), usize::from(args.limit))
    };
    let found = store.recall_with(&question, meaning.as_mut()).map_err(MemoryError::from)?;
    let words_only =
        fault.map(|fault| format!("by words only: {fault}")).or_else(|| found.by_meaning.reason());
    if args.json {
        let hits: Vec<Value> = found.hits.iter().map(hit_json).collect();
        let has_vectors = found.by_meaning == ByMeaning::Yes;
        display::json(&json!({"hits": hits, "vectors": has_vectors, "note": words_only}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for hit in &found.hits {
        let _ = writeln!(text, "{}", line(&hit.message));
        if args.explain {
            let parts = hit.parts;
            let _ = writeln!(
                text,
                "      {:.3} = words {:.3} + exact {:.3} + vector {:.3} + context {:.3} + fresh {:.3} + then {:.3} \
                 + here {:.3} + kept {:.3} + corrected {:.3}",
                hit.score,
                parts.words,
                parts.exact,
                parts.vector,
                parts.context,
                parts.fresh,
                parts.then,
                parts.here,
                parts.kept,
                parts.corrected
            );
        }
    }
    if found.hits.is_empty() {
        text.push_str("nothing was found\n");
    }
    display::text(&text)?;
    // Who finds nothing should know what else could find it.
    if let Some(reason) = words_only.filter(|_| args.explain || found.hits.is_empty()) {
        display::tell(&reason);
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn timeline(args: TimelineArgs, place: &Place) -> Result<ExitCode, Failure> {
    let store = drained(place)?;
    let messages = store.around(args.id, args.before, args.after).map_err(MemoryError::from)?;
    if messages.is_empty() {
        return Err(MemoryError::Unknown(args.id).into());
    }
    if args.json {
        display::json(&messages.iter().map(message_json).collect::<Vec<_>>())?;
    } else {
        let lines: Vec<String> = messages.iter().map(line).collect();
        display::text(&format!("{}\n", lines.join("\n")))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show(args: ShowArgs, place: &Place) -> Result<ExitCode, Failure> {
    let store = drained(place)?;
    let message = store.message(args.id).map_err(MemoryError::from)?.ok_or(MemoryError::Unknown(args.id))?;
    if args.json {
        display::json(&message_json(&message))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!(
        "m{}  {}  {} in {} session {}\n",
        message.id,
        message.when(),
        message.role,
        message.source,
        message.session
    );
    if let Some(new) = message.replaced_by {
        let _ = writeln!(text, "corrected by m{new}");
    }
    if message.shield > 0 {
        let _ = writeln!(text, "looks like orders to its reader ({} of 100)", message.shield);
    }
    let _ = writeln!(text, "\n{}", message.text);
    display::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn line(message: &Message) -> String {
    let day: String = message.when().chars().take(16).collect();
    let what = if message.kind == "said" { message.role.clone() } else { message.kind.clone() };
    let corrected = message.replaced_by.map(|new| format!(" (corrected by m{new})")).unwrap_or_default();
    format!("m{}  {day}  {what}{corrected}: {}", message.id, excerpt(&message.text, EXCERPT))
}

pub(super) fn message_json(message: &Message) -> Value {
    json!({
        "id": format!("m{}", message.id),
        "source": message.source,
        "session": message.session,
        "key": message.key,
        "project": message.project,
        "at": message.when(),
        "role": message.role,
        "kind": message.kind,
        "mark": message.mark,
        "pinned": message.pinned,
        "shield": message.shield,
        "corrected_by": message.replaced_by.map(|id| format!("m{id}")),
        "text": message.text,
    })
}

fn hit_json(hit: &Hit) -> Value {
    let parts = hit.parts;
    let mut value = message_json(&hit.message);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("score".to_owned(), hit.score.into());
        fields.insert(
            "parts".to_owned(),
            json!({
                "words": parts.words, "exact": parts.exact, "vector": parts.vector, "context": parts.context,
                "fresh": parts.fresh, "then": parts.then, "here": parts.here, "kept": parts.kept, "corrected": parts.corrected,
            }),
        );
    }
    value
}

/// How long ago, or a day.
pub(super) fn time(text: &str) -> Result<i64, MemoryError> {
    if let Ok(ago) = humantime::parse_duration(text) {
        return Ok(now().saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)));
    }
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let at = humantime::parse_rfc3339_weak(&whole).map_err(|_| MemoryError::Time(text.to_owned()))?;
    let since = at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
