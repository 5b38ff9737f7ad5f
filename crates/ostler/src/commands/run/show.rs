//! A run for people: durable lines, one for a tool call once it ended, a paragraph for what is said. What an agent wrote
//! is shown without its control characters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use ostler_agent::event::{AgentEvent, Blocked, Part, ToolResult, TurnOutcome};
use ostler_agent::run_event::{RunEvent, RunEventKind};
use ostler_process::run::{Report, sentence};
use serde_json::Value;

use crate::display;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const FAINT: Style = Style::new().dimmed();

/// How much of a call's arguments fits on its line.
const LONGEST_CALL: usize = 80;

/// How much of what a failed call said is shown; all of it is in the journal.
const LONGEST_COMPLAINT: usize = 400;

/// What tells most about a call, the best first.
const TELLING: [&str; 8] =
    ["command", "file_path", "filePath", "path", "pattern", "url", "query", "description"];

/// Remembers the calls that are open.
#[derive(Debug, Default)]
pub(super) struct Show {
    open: BTreeMap<String, Call>,
}

#[derive(Debug)]
struct Call {
    began_ms: u64,
    words: String,
    is_within: bool,
}

impl Show {
    /// What to print about an event, if anything.
    pub(super) fn line(&mut self, event: &RunEvent) -> Option<String> {
        match &event.kind {
            RunEventKind::Agent(said) => self.agent(said, event.ms),
            RunEventKind::Noise { text } => Some(format!("{FAINT}  {}{FAINT:#}\n", plain(text))),
            RunEventKind::Garbled { text } => {
                Some(format!("{FAINT}  (a broken record) {}{FAINT:#}\n", plain(text)))
            }
            RunEventKind::Warn { text } => Some(format!("warning: {}\n", plain(text))),
            RunEventKind::Parked { reason, .. } => Some(format!("waiting: {}\n", plain(reason))),
            RunEventKind::Stopping { rung, reason } => {
                Some(format!("stopping ({}): {rung}\n", plain(reason)))
            }
            RunEventKind::Resumed { attempt, reason, .. } => {
                Some(format!("resuming, attempt {attempt}: {}\n", plain(reason)))
            }
            RunEventKind::Spawned { .. }
            | RunEventKind::Seen { .. }
            | RunEventKind::Unparked
            | RunEventKind::Exited { .. }
            | RunEventKind::Changes(_)
            | RunEventKind::Outcome(_) => None,
        }
    }

    fn agent(&mut self, event: &AgentEvent, ms: u64) -> Option<String> {
        match event {
            AgentEvent::Started { session, model } => {
                let model = model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
                Some(format!("{FAINT}session {}{}{FAINT:#}\n", plain(session), plain(&model)))
            }
            AgentEvent::Said { text, part: Part::Whole, within: None } if !text.trim().is_empty() => {
                Some(format!("\n{}\n\n", plain(text.trim())))
            }
            AgentEvent::ToolStarted { call, tool, input, within } => {
                let words = plain(&format!("{tool} {}", brief(input))).trim().to_owned();
                let is_within = within.is_some();
                self.open.insert(call.clone(), Call { began_ms: ms, words, is_within });
                None
            }
            AgentEvent::ToolEnded { call, result } => {
                let call = self.open.remove(call)?;
                Some(ended(&call, result, ms))
            }
            AgentEvent::Blocked(Blocked::Retrying { attempt, reason, .. }) => {
                Some(format!("the provider failed, try {attempt}: {}\n", plain(reason)))
            }
            AgentEvent::Blocked(Blocked::Permission { tool, .. } | Blocked::Denied { tool, .. }) => {
                Some(format!("asked for permission: {}\n", plain(tool)))
            }
            AgentEvent::TurnEnded(TurnOutcome::Failed(failure)) => {
                Some(format!("{BAD}{}{BAD:#}\n", plain(&failure.detail)))
            }
            AgentEvent::Said { .. }
            | AgentEvent::Asked { .. }
            | AgentEvent::Thought { .. }
            | AgentEvent::TaskOpened { .. }
            | AgentEvent::TaskClosed { .. }
            | AgentEvent::Spent(_)
            | AgentEvent::Blocked(Blocked::Withdrawn { .. })
            | AgentEvent::Noted { .. }
            | AgentEvent::TurnEnded(_)
            | AgentEvent::Unknown { .. } => None,
        }
    }
}

fn ended(call: &Call, result: &ToolResult, ms: u64) -> String {
    let took = Duration::from_millis(ms.saturating_sub(call.began_ms));
    let indent = if call.is_within { "    " } else { "" };
    let (style, mark) = if result.failed { (BAD, "✗") } else { (GOOD, "✓") };
    let code = result.exit_code.filter(|code| *code != 0);
    let code = code.map(|code| format!(", exit {code}")).unwrap_or_default();
    let mut line =
        format!("{indent}{style}{mark}{style:#} {} {FAINT}({}{code}){FAINT:#}\n", call.words, seconds(took));
    if result.failed && !result.text.trim().is_empty() {
        let text = cut(&plain(result.text.trim()), LONGEST_COMPLAINT).replace('\n', &format!("\n{indent}  "));
        let _ = writeln!(line, "{indent}  {text}");
    }
    line
}

/// How it ended.
pub(super) fn summary(report: &Report, folder: &Path) -> String {
    let style = if report.outcome.exit_code() == 0 { GOOD } else { BAD };
    let mut text = format!(
        "{style}{}{style:#}: {} ({})\n",
        report.outcome.name(),
        plain(&sentence(&report.outcome)),
        seconds(report.elapsed)
    );
    for evidence in &report.evidence {
        let grade = serde_json::to_value(evidence.grade).ok();
        let grade = grade.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        let _ = writeln!(text, "  evidence: {} ({grade})", evidence.fact);
    }
    let usage = report.usage.unwrap_or_default();
    if let (Some(read), Some(written)) = (usage.input_tokens, usage.output_tokens) {
        let cost = usage.cost_usd.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
        let _ = writeln!(text, "  used: {read} tokens read, {written} written{cost}");
    }
    if report.survivors > 0 {
        let _ = writeln!(text, "  {BAD}{} processes could not be ended{BAD:#}", report.survivors);
    }
    let run = report.json["run"].as_str().unwrap_or_default();
    let _ = writeln!(text, "  run: {run}");
    let _ = writeln!(text, "  journal: {}", display::short(folder));
    text
}

/// Without control characters, escapes included; lines stay lines.
fn plain(text: &str) -> String {
    let stripped = anstream::adapter::strip_str(text).to_string();
    stripped.chars().filter(|letter| *letter == '\n' || *letter == '\t' || !letter.is_control()).collect()
}

fn brief(input: &Value) -> String {
    let input = match &input["changes"] {
        // Codex has a list of them.
        Value::Array(changes) => changes.first().unwrap_or(input),
        _ => input,
    };
    let told = TELLING.iter().find_map(|name| match &input[*name] {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        _ => None,
    });
    let told = told.unwrap_or_else(|| match input {
        Value::Null => String::new(),
        other => other.to_string(),
    });
    cut(&told.split_whitespace().collect::<Vec<_>>().join(" "), LONGEST_CALL)
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

pub(super) fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..=59 => format!("{:.1}s", time.as_secs_f64()),
        all => format!("{}m{:02}s", all / 60, all % 60),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(ms: u64, event: AgentEvent) -> RunEvent {
        RunEvent { seq: 1, ms, kind: RunEventKind::Agent(event) }
    }

    #[test]
    fn a_call_is_one_line_and_cannot_paint_the_terminal() {
        let mut show = Show::default();
        let input = json!({"command": "echo \u{1b}[31mred\u{7}\n  twice"});
        let started =
            AgentEvent::ToolStarted { call: "c".to_owned(), tool: "Bash".to_owned(), input, within: None };
        assert_eq!(show.line(&at(1_000, started)), None);
        let result =
            ToolResult { failed: true, exit_code: Some(2), text: "no\u{1b}]0;x\u{7}\nway".to_owned() };
        let line = show.line(&at(2_500, AgentEvent::ToolEnded { call: "c".to_owned(), result })).unwrap();
        let bare = anstream::adapter::strip_str(&line).to_string();
        assert_eq!(bare, "✗ Bash echo red twice (1.5s, exit 2)\n  no\n  way\n");
    }
}
