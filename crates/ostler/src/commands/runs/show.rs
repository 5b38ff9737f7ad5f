//! `ostler runs show`: what was asked of a run, what came of it, and what the agent said last.

use std::fmt::Write as _;
use std::time::Duration;

use ostler_agent::event::{AgentEvent, Part, TurnOutcome};
use ostler_agent::run_event::{Changes, RunEventKind};
use ostler_process::journal::{JournalError, Kept, State};

use super::{ago, now, receipts, state};
use crate::account::{self, Rows};
use crate::commands::run::show::short;
use crate::commands::run::summary::tries;
use crate::display;
use crate::surroundings::Surroundings;
use crate::words::{Fold, cut, folded, one_line, plain, time};

/// How much of a prompt, and of the agent's last words, is shown.
const TEXT: Fold = Fold { lines: 12, letters: 1_500 };

/// How much of a command is shown: some lines of it.
const COMMAND: usize = 600;

/// What the events of a run tell besides its outcome.
#[derive(Debug, Default)]
struct Heard {
    command: String,
    model: Option<String>,
    attempts: Vec<Attempt>,
    last_words: String,
    changes: Option<Changes>,
    calls: u64,
    failed_calls: u64,
}

#[derive(Debug, Default)]
struct Attempt {
    why: String,
    began: Duration,
    ended: Option<(Duration, String)>,
}

/// The words for a run.
pub(super) fn shown(kept: &Kept, here: &Surroundings) -> Result<String, JournalError> {
    let (facts, heard) = (&kept.facts, heard(kept)?);
    let mut rows = Rows::new("", display::columns_or_endless());
    rows.add_whole("run", &facts.run);
    rows.add("state", state(kept));
    rows.add("began", &ago(now().saturating_sub(facts.began_at)));
    let version = facts.agent_version.as_deref().unwrap_or("version unknown");
    let model = heard.model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
    rows.add("agent", &format!("{} {version}{model}", facts.agent));
    if let Some(script) = &facts.rehearse {
        rows.add("model", &format!("scripted: {script}"));
    }
    rows.add("may", &format!("--permissions {}", facts.permissions));
    rows.add_whole("cwd", &display::short(&facts.cwd));
    if !heard.command.is_empty() {
        rows.add_whole("command", &cut(&one_line(&heard.command), COMMAND));
    }
    rows.add_whole("prompt", &text(&facts.prompt, "run.json in its journal"));
    if let State::Ended(outcome) = &kept.state {
        rows.add("took", &time(Duration::from_millis(outcome["ms"].as_u64().unwrap_or_default())));
        if let Some(detail) = outcome["detail"].as_str() {
            rows.add("detail", plain(detail).trim());
        }
        account::facts(&mut rows, outcome, heard.changes.as_ref(), facts.rehearse.is_some());
    }
    if let Some(trouble) = kept.trouble().filter(|_| kept.state == State::Abandoned) {
        rows.add("detail", &format!("Ostler could not write its journal: {}", one_line(&trouble)));
    }
    if let Some(receipts) = receipts::of(kept) {
        rows.add("receipts", &receipts.words());
    }
    if heard.calls > 0 {
        let failed = match heard.failed_calls {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        rows.add("calls", &format!("{}{failed}", heard.calls));
    }
    if heard.attempts.len() > 1 {
        rows.add("attempts", &heard.attempts.iter().enumerate().map(attempt).collect::<Vec<_>>().join("\n"));
    }
    if !heard.last_words.trim().is_empty() {
        rows.add_whole(
            "said",
            &text(&heard.last_words, &format!("ostler runs events {}", short(&facts.run))),
        );
    }
    rows.add_whole("journal", &display::short(&kept.folder));
    if let State::Ended(outcome) = &kept.state {
        rows.add_whole("try", &tries(outcome, facts, here).join("\n"));
    }
    Ok(rows.into_text())
}

fn text(text: &str, pointer: &str) -> String {
    let (head, more) = folded(plain(text.trim()).as_str(), TEXT, pointer);
    match more {
        Some(more) => format!("{head}\n{more}"),
        None => head,
    }
}

fn attempt((index, attempt): (usize, &Attempt)) -> String {
    let mut line = format!("{}", index + 1);
    if !attempt.why.is_empty() {
        let _ = write!(line, ", {}", attempt.why);
    }
    match &attempt.ended {
        Some((at, how)) => {
            let _ = write!(line, ": {how} after {}", time(at.saturating_sub(attempt.began)));
        }
        None => line.push_str(": no end was written down"),
    }
    line
}

/// Reads the events once. What an agent said is not kept but for its last words.
fn heard(kept: &Kept) -> Result<Heard, JournalError> {
    let mut heard = Heard::default();
    let mut why = String::new();
    for event in kept.events()? {
        let at = Duration::from_millis(event.ms);
        match event.kind {
            RunEventKind::Spawned { command, .. } => {
                if heard.command.is_empty() {
                    heard.command = command;
                }
                heard.attempts.push(Attempt { why: std::mem::take(&mut why), began: at, ended: None });
            }
            RunEventKind::Resumed { reason, .. } => why = one_line(&reason),
            RunEventKind::Exited { code, signal, .. } => {
                if let Some(attempt) = heard.attempts.last_mut() {
                    attempt.ended = Some((at, exit(code, signal)));
                }
            }
            RunEventKind::Changes(changes) => heard.changes = Some(changes),
            RunEventKind::Agent(said) => heard.note(said),
            _ => {}
        }
    }
    Ok(heard)
}

impl Heard {
    fn note(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Started { model: Some(model), .. } => self.model = Some(one_line(&model)),
            AgentEvent::Said { text, part: Part::Whole, within: None } => self.last_words = text,
            AgentEvent::TurnEnded(TurnOutcome::Done { text }) if !text.trim().is_empty() => {
                self.last_words = text;
            }
            AgentEvent::ToolEnded { result, .. } => {
                self.calls += 1;
                self.failed_calls += u64::from(result.failed);
            }
            _ => {}
        }
    }
}

fn exit(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "gone".to_owned(),
    }
}
