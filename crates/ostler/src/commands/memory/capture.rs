//! What an agent waits for: taking down, within milliseconds. Nothing here starts a process, reads the configuration
//! or fails.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ostler_agent::remembering::Origin;
use ostler_memory::capture::{HandedOver, Wanted, hand_over};
use ostler_memory::ingest::{self, From};
use ostler_memory::place::Place;
use ostler_memory::prefix::at_session_start;
use ostler_memory::store::{PATIENT, Store};
use serde_json::{Value, json};

/// What an agent tells a hook is kilobytes, and at most one answer.
const LARGEST_INPUT: u64 = 16 * 1024 * 1024;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory capture-transcript --no-spawn --session-id 0198… ~/.claude/projects/p/0198….jsonl
  ostler memory capture-transcript ~/.codex/sessions/2026/11/16/rollout-….jsonl

Prints one line of JSON and exits with 0, whatever happens.")]
pub(crate) struct CaptureArgs {
    /// The transcript.
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Hand it to a daemon that answers within 250 ms, else write a deferral file. Never starts a process.
    #[arg(long)]
    no_spawn: bool,

    /// The agent's own id of the session.
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,

    /// The directory that the agent works in [default: the one in the transcript, else the current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,

    /// Whose transcript it is.
    #[arg(long, value_name = "AGENT", default_value = "auto", value_parser = ["claude", "codex", "opencode", "auto"])]
    source: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory hook stop < what-the-agent-says.json

`session-start` prints what the new session should know, or nothing.")]
pub(crate) struct HookArgs {
    /// `stop`, `prompt`, `session-start`, `session-end` or `pre-compact`.
    #[arg(value_name = "EVENT")]
    event: String,
}

/// What an agent waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hasty<'a> {
    Capture(&'a CaptureArgs),
    Hook(&'a HookArgs),
}

impl Hasty<'_> {
    /// Whether it is a hook. In a jail the host captures instead.
    pub(super) fn is_hook(self) -> bool {
        matches!(self, Self::Hook(_))
    }
}

/// Reads what the agent says, so that its pipe does not break, and does nothing.
pub(super) fn ignore() {
    drop(read_input());
}

/// Runs it. What goes wrong is told on stdout or stderr, and to nobody else.
pub(super) fn run(what: Hasty<'_>, place: &Place, cwd: Option<&Path>, began: Instant) {
    let current_dir = cwd.map(plain);
    match what {
        Hasty::Capture(args) => {
            let base = cwd.unwrap_or(Path::new("/"));
            let wanted = Wanted {
                path: base.join(&args.path),
                origin: Origin::named(&args.source),
                session: args.session_id.clone(),
                cwd: args.cwd.as_ref().map(|named| plain(&base.join(named))),
                current_dir,
            };
            let told = if args.no_spawn { handed_over(place, &wanted) } else { ingested(place, &wanted) };
            say(&format!("{told}\n"));
        }
        Hasty::Hook(args) => hook(&args.event, place, current_dir, began),
    }
}

/// A reader that went away is not our failure.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn handed_over(place: &Place, wanted: &Wanted) -> Value {
    match hand_over(place, wanted) {
        Ok(HandedOver::Stored(answer)) => json!({
            "status": "captured",
            "inserted": answer.inserted,
            "skipped": answer.skipped,
            "errors": answer.errors,
        }),
        Ok(HandedOver::Deferred(done)) => {
            let path = done.path.map(|path| path.to_string_lossy().into_owned());
            json!({"status": "deferred", "path": path, "events": done.events})
        }
        Err(error) => json!({"status": "failed", "path": null, "reason": error.to_string()}),
    }
}

fn ingested(place: &Place, wanted: &Wanted) -> Value {
    let failed = |reason: String| json!({"inserted": 0, "skipped": 0, "errors": 1, "reason": reason});
    // No store is made for a transcript that is not there.
    if !wanted.path.exists() {
        return failed(format!("there is no transcript `{}`", wanted.path.display()));
    }
    let done = Store::open(place, PATIENT)
        .and_then(|mut store| ingest::ingest(place, &mut store, wanted, From::Beginning));
    match done {
        Ok(done) => {
            let mut told =
                json!({"inserted": done.rows.inserted, "skipped": done.rows.known, "errors": done.errors});
            if let (Some(reason), Some(fields)) = (done.reason, told.as_object_mut()) {
                fields.insert("reason".to_owned(), reason.into());
            }
            told
        }
        Err(error) => failed(crate::display::with_causes(&error)),
    }
}

/// A path as text, without `.` and a trailing slash: equal directories are one project.
fn plain(path: &Path) -> String {
    path.components().collect::<PathBuf>().to_string_lossy().into_owned()
}

/// What the agent tells a hook.
fn read_input() -> Vec<u8> {
    let mut input = Vec::new();
    let _ = io::stdin().lock().take(LARGEST_INPUT).read_to_end(&mut input);
    input
}

fn hook(event: &str, place: &Place, current_dir: Option<String>, began: Instant) {
    let input = read_input();
    let told: Value = serde_json::from_slice(&input).unwrap_or_default();
    let word = |name: &str| told[name].as_str().filter(|word| !word.is_empty()).map(str::to_owned);
    let wanted = Wanted {
        path: word("transcript_path").map(PathBuf::from).unwrap_or_default(),
        origin: word("source").as_deref().and_then(Origin::named),
        session: word("session_id"),
        cwd: word("cwd"),
        current_dir,
    };
    if event == "session-start" {
        let cwd = wanted.cwd.as_deref().or(wanted.current_dir.as_deref());
        let text = cwd.and_then(|cwd| at_session_start(place, cwd, wanted.session.as_deref(), began));
        say(&text.unwrap_or_default());
    }
    // A session that has just begun has no transcript yet, and needs no file that says so.
    if wanted.path.as_os_str().is_empty() || (event == "session-start" && !wanted.path.exists()) {
        return;
    }
    if let Err(error) = hand_over(place, &wanted) {
        crate::display::tell(&format!("ostler memory: {error}"));
    }
}
