//! A run for people: durable lines, one for a tool call once it ended, a paragraph for what is said.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use ostler_agent::bridge::{BridgeEvent, Question, Refusal, Settled, Touched};
use ostler_agent::check::CheckEvent;
use ostler_agent::event::{AgentEvent, Blocked, Part, ToolResult, TurnOutcome};
use ostler_agent::run_event::{RunEvent, RunEventKind};
use ostler_process::run::local_time;
use serde_json::Value;

use crate::words::{self, Fold, cut, folded, one_line, plain, time};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const NOTE: Style = AnsiColor::Yellow.on_default();
const FAINT: Style = Style::new().dimmed();

/// What is said is for the reader: folded only if nobody would read it.
const SPEECH: Fold = Fold { lines: 120, letters: 12_000 };

/// What a failed call answered: enough to see why.
const COMPLAINT: Fold = Fold { lines: 12, letters: 1_200 };

/// A line that is not a record: enough to see what it is.
const NOISE: usize = 160;

/// The command that was started: so many lines of it.
const COMMAND_LINES: usize = 2;

/// A call is at least so wide, however narrow the terminal.
const LEAST_CALL: usize = 20;

/// What tells most about a call, the best first.
const TELLING: [&str; 8] =
    ["command", "file_path", "filePath", "path", "pattern", "url", "query", "description"];

/// What an agent's words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    /// Each a paragraph.
    Paragraphs,
    /// Each a line of a program's output.
    Lines,
}

/// Remembers the calls that are open.
pub(super) struct Show {
    speech: Speech,
    /// The beginning of the run's id, which is enough to ask for it.
    run: String,
    workspace: String,
    columns: fn() -> usize,
    open: BTreeMap<String, Call>,
    is_started: bool,
    session: Option<String>,
    is_after_speech: bool,
    /// What a failed turn said, which the summary says again.
    said: Option<String>,
}

#[derive(Debug)]
struct Call {
    began_ms: u64,
    words: String,
    is_within: bool,
}

impl Show {
    pub(super) fn new(run: &str, workspace: &str, speech: Speech, columns: fn() -> usize) -> Self {
        Self {
            speech,
            run: short(run).to_owned(),
            workspace: workspace.to_owned(),
            columns,
            open: BTreeMap::new(),
            is_started: false,
            session: None,
            is_after_speech: false,
            said: None,
        }
    }

    /// What to print about an event, if anything. A paragraph has a blank line above and below.
    pub(super) fn line(&mut self, event: &RunEvent) -> Option<String> {
        let is_speech = self.speech == Speech::Paragraphs
            && matches!(&event.kind, RunEventKind::Agent(AgentEvent::Said { within: None, .. }));
        let told = self.told(event)?;
        let was_speech = std::mem::replace(&mut self.is_after_speech, is_speech);
        Some(if is_speech || was_speech { format!("\n{told}") } else { told })
    }

    fn told(&mut self, event: &RunEvent) -> Option<String> {
        match &event.kind {
            RunEventKind::Agent(said) => self.agent(said, event.ms),
            RunEventKind::Bridge(event) => bridged(event, &self.run),
            RunEventKind::Check(event) => Some(checked(event)),
            RunEventKind::Noise { text } => {
                Some(format!("{FAINT}  {}{FAINT:#}\n", cut(&plain(text).replace('\n', " "), NOISE)))
            }
            RunEventKind::Garbled { text } => {
                Some(format!("{FAINT}  (a broken record) {}{FAINT:#}\n", cut(&one_line(text), NOISE)))
            }
            RunEventKind::Warn { text } => Some(format!("{NOTE}warning:{NOTE:#} {}\n", plain(text))),
            RunEventKind::Screen { text } => {
                let row = |row: &str| format!("{FAINT}  | {}{FAINT:#}\n", plain(row));
                Some(text.lines().map(row).collect())
            }
            RunEventKind::Parked { reason, until } => {
                let until = until.map(|until| format!(" until {}", local_time(until))).unwrap_or_default();
                Some(format!("{NOTE}waiting{until}:{NOTE:#} {}\n", plain(reason)))
            }
            RunEventKind::Stopping { rung, reason } => {
                let told = climbed(rung)?;
                Some(format!("{NOTE}stopping{NOTE:#} ({}): {told}\n", one_line(reason)))
            }
            RunEventKind::Queued { text } => {
                Some(format!("{NOTE}to be told when this turn ends:{NOTE:#} {}\n", plain(text.trim())))
            }
            RunEventKind::Resumed { attempt, reason, .. } => {
                Some(format!("{NOTE}resuming{NOTE:#}, attempt {attempt}: {}\n", plain(reason)))
            }
            RunEventKind::Spawned { command, .. } => self.spawned(command),
            RunEventKind::Held => Some(format!("{NOTE}held{NOTE:#}: somebody took its terminal\n")),
            RunEventKind::Released => Some(format!("{NOTE}released{NOTE:#}: the terminal was given back\n")),
            RunEventKind::Seen { .. }
            | RunEventKind::Denied { .. }
            | RunEventKind::Host { .. }
            | RunEventKind::Quiet(_)
            | RunEventKind::Unparked
            | RunEventKind::Exited { .. }
            | RunEventKind::Changes(_)
            | RunEventKind::Outcome(_) => None,
        }
    }

    /// The command is told once: what follows are the same but for the session.
    fn spawned(&mut self, command: &str) -> Option<String> {
        self.open.clear();
        if std::mem::replace(&mut self.is_started, true) || command.is_empty() {
            return None;
        }
        // Where the program is, `ostler runs show` tells.
        let (program, args) = command.split_once(' ').unwrap_or((command, ""));
        let program = program.rsplit('/').next().unwrap_or(program);
        let line = one_line(&format!("$ {program} {args}"));
        let room = (self.columns)().saturating_mul(COMMAND_LINES).saturating_sub(1);
        Some(format!("{FAINT}{}{FAINT:#}\n", cut(&line, room)))
    }

    fn agent(&mut self, event: &AgentEvent, ms: u64) -> Option<String> {
        match event {
            // Some agents say it again with every turn.
            AgentEvent::Started { session, .. } if self.session.as_deref() == Some(session) => None,
            AgentEvent::Started { session, model } => {
                self.session = Some(session.clone());
                let model = model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
                Some(format!("{FAINT}session {}{}{FAINT:#}\n", one_line(session), one_line(&model)))
            }
            AgentEvent::Said { text, part: Part::Whole, .. } if self.speech == Speech::Lines => {
                Some(format!("{}\n", plain(text.trim_end())))
            }
            AgentEvent::Said { text, part: Part::Whole, within } if !text.trim().is_empty() => {
                Some(self.said(text, within.is_some()))
            }
            AgentEvent::ToolStarted { call, tool, input, within } => {
                let words = brief(tool, input, &self.workspace);
                let is_within = within.is_some();
                self.open.insert(call.clone(), Call { began_ms: ms, words, is_within });
                None
            }
            AgentEvent::ToolEnded { call, result } => {
                let call = self.open.remove(call)?;
                Some(self.ended(&call, result, ms))
            }
            AgentEvent::Blocked(blocked) => waits(blocked),
            AgentEvent::TurnEnded(TurnOutcome::Failed(failure)) => {
                // Agents say it as their own words first.
                let detail = plain(failure.detail.trim());
                let is_said = self.said.as_deref() == Some(detail.as_str());
                (!is_said).then(|| format!("{BAD}{detail}{BAD:#}\n"))
            }
            AgentEvent::Said { .. }
            | AgentEvent::Asked { .. }
            | AgentEvent::Thought { .. }
            | AgentEvent::TaskOpened { .. }
            | AgentEvent::TaskClosed { .. }
            | AgentEvent::Spent(_)
            | AgentEvent::SpentSoFar(_)
            | AgentEvent::Unpriced { .. }
            | AgentEvent::Noted { .. }
            | AgentEvent::TurnEnded(_)
            | AgentEvent::Unknown { .. } => None,
        }
    }

    fn said(&mut self, text: &str, is_within: bool) -> String {
        let text = plain(text.trim());
        let (head, more) = folded(&text, SPEECH, &format!("ostler runs events {}", self.run));
        let more = more.map(|more| format!("\n{FAINT}{more}{FAINT:#}")).unwrap_or_default();
        self.said = Some(text);
        match is_within {
            true => format!("{}\n", indented(&format!("{head}{more}"), "    ")),
            false => format!("{head}{more}\n"),
        }
    }

    fn ended(&self, call: &Call, result: &ToolResult, ms: u64) -> String {
        let took = Duration::from_millis(ms.saturating_sub(call.began_ms));
        let indent = if call.is_within { "    " } else { "" };
        let (style, mark) = if result.failed { (BAD, "✗") } else { (GOOD, "✓") };
        let code = result.exit_code.filter(|code| *code != 0);
        let code = code.map(|code| format!(", exit {code}")).unwrap_or_default();
        let after = format!("({}{code})", time(took));
        let around = words::width(indent) + words::width(mark) + words::width(&after) + 2;
        let room = (self.columns)().saturating_sub(around).max(LEAST_CALL);
        let mut line =
            format!("{indent}{style}{mark}{style:#} {} {FAINT}{after}{FAINT:#}\n", cut(&call.words, room));
        if result.failed && !result.text.trim().is_empty() {
            let text = plain(result.text.trim());
            let (head, more) = folded(&text, COMPLAINT, &format!("ostler runs events {}", self.run));
            let _ = writeln!(line, "{}", indented(&head, &format!("{indent}  ")));
            if let Some(more) = more {
                let _ = writeln!(line, "{indent}  {FAINT}{more}{FAINT:#}");
            }
        }
        line
    }
}

/// What happened at the bridge, where the agent's own records do not tell it already.
fn bridged(event: &BridgeEvent, run: &str) -> Option<String> {
    Some(match event {
        BridgeEvent::Accepted { kind, bytes, .. } => {
            format!("{GOOD}✓{GOOD:#} artifact {} accepted {FAINT}({bytes} bytes){FAINT:#}\n", one_line(kind))
        }
        BridgeEvent::Rejected { kind, faults } => {
            let faults: Vec<String> = faults.iter().map(|fault| one_line(&fault.found)).collect();
            let why = cut(&faults.join("; "), NOISE);
            format!("{BAD}✗{BAD:#} artifact {} rejected: {why}\n", one_line(kind))
        }
        BridgeEvent::Completed { summary, .. } => {
            format!("{GOOD}✓{GOOD:#} declared complete: {}\n", plain(summary.trim()))
        }
        BridgeEvent::ClaimRefused { missing } => {
            let missing = one_line(&missing.join(", "));
            format!("{NOTE}declared complete too early,{NOTE:#} still missing: {missing}\n")
        }
        BridgeEvent::Progressed { text, percent } => {
            let percent =
                percent.map(|percent| format!(" {FAINT}({percent} %){FAINT:#}")).unwrap_or_default();
            format!("{FAINT}…{FAINT:#} {}{percent}\n", one_line(text))
        }
        BridgeEvent::Asked(question) => asked(question, run),
        BridgeEvent::Settled { how, .. } => match how {
            Settled::Answered(answer) => format!("{NOTE}answered:{NOTE:#} {}\n", plain(answer.trim())),
            Settled::TimedOut => format!("{NOTE}nobody answered in time{NOTE:#}\n"),
            Settled::Withdrawn => return None,
        },
        BridgeEvent::Touched(touched) => self::touched(touched)?,
        BridgeEvent::Refused { why } => {
            format!("{NOTE}somebody was sent away from the bridge:{NOTE:#} {}\n", refused(*why))
        }
        BridgeEvent::Connected { .. }
        | BridgeEvent::Greeted { .. }
        | BridgeEvent::ToolsListed
        | BridgeEvent::Called { .. }
        | BridgeEvent::Answered { .. } => return None,
    })
}

/// A question to a person, and how it is answered.
fn asked(question: &Question, run: &str) -> String {
    let mut text = format!("{NOTE}asks:{NOTE:#} {}\n", plain(question.text.trim()));
    for (index, option) in question.options.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", index + 1, one_line(option));
    }
    let default = question.default.as_deref().map(|default| format!(", then: {}", one_line(default)));
    let _ = writeln!(
        text,
        "{FAINT}  ostler answer {run} TEXT, within {}{}{FAINT:#}",
        time(question.within),
        default.unwrap_or_default()
    );
    text
}

/// What the host tries itself.
fn checked(event: &CheckEvent) -> String {
    match event {
        CheckEvent::Running { command } => format!("{FAINT}checking:{FAINT:#} {}\n", one_line(command)),
        CheckEvent::Ended(check) => {
            let (style, mark) = if check.passed { (GOOD, "✓") } else { (BAD, "✗") };
            let command = one_line(&check.command);
            let took = time(Duration::from_millis(check.ms));
            let told = format!(
                "{style}{mark}{style:#} `{command}` {} {FAINT}({took}){FAINT:#}\n",
                one_line(&check.end())
            );
            let tail: Vec<&str> = check.tail.lines().rev().take(COMPLAINT.lines).collect();
            let lines =
                tail.iter().rev().map(|line| format!("{FAINT}  {}{FAINT:#}\n", cut(&one_line(line), NOISE)));
            if check.passed { told } else { lines.fold(told, |told, line| told + &line) }
        }
    }
}

/// What was done in the workspace by the bridge's own tools. Files that were written are told at the end of the run.
fn touched(touched: &Touched) -> Option<String> {
    Some(match touched {
        Touched::Wrote { .. } => return None,
        Touched::Ran { command, .. } => format!("{FAINT}$ {}{FAINT:#}\n", cut(&one_line(command), NOISE)),
        Touched::Barred { tool, path, why } => {
            format!("{NOTE}{tool} was refused:{NOTE:#} `{}` {why}\n", one_line(path))
        }
    })
}

fn refused(why: Refusal) -> &'static str {
    match why {
        Refusal::Host => "it asked for another host",
        Refusal::Origin => "it is a web page",
        Refusal::Token => "its token is missing or wrong",
        Refusal::Query => "its address had a query",
        Refusal::TooLong => "its message was too long",
        Refusal::Garbled => "its message could not be read",
    }
}

/// What a rung of the stop ladder is, in words. That all are gone is looked after, but nothing to tell.
fn climbed(rung: &str) -> Option<&str> {
    Some(match rung {
        "interrupt" => "asking it to end its turn; Ctrl-C kills it now",
        "close_stdin" => "closing its input",
        "int" => "interrupting it; Ctrl-C kills it now",
        "term" => "terminating it",
        "kill" => "killing what is left",
        "verify" => return None,
        other => other,
    })
}

fn waits(blocked: &Blocked) -> Option<String> {
    match blocked {
        Blocked::Retrying { attempt, limit, delay, reason, .. } => {
            let of = limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
            let again = delay.map(|delay| format!(", again in {}", time(delay))).unwrap_or_default();
            Some(format!(
                "{NOTE}the provider failed{NOTE:#}, try {attempt}{of}{again}: {}\n",
                plain(reason.trim())
            ))
        }
        Blocked::Permission { tool, .. } => {
            Some(format!("{NOTE}asked for permission:{NOTE:#} {}\n", one_line(tool)))
        }
        Blocked::Denied { tool, .. } => Some(format!("{NOTE}was refused:{NOTE:#} {}\n", one_line(tool))),
        Blocked::Question { text, .. } | Blocked::Dialog { text } => {
            Some(format!("{NOTE}asked:{NOTE:#} {}\n", plain(text.trim())))
        }
        Blocked::Routed { .. } | Blocked::Withdrawn { .. } => None,
    }
}

/// As much of a run's id as names it: the time in it. Ids of one millisecond have more in common.
pub(crate) fn short(run: &str) -> &str {
    run.get(..13).unwrap_or(run)
}

fn indented(text: &str, indent: &str) -> String {
    text.lines().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
}

/// A call in a few words: the tool, and what it is about, with paths from the workspace.
pub(super) fn brief(tool: &str, input: &Value, workspace: &str) -> String {
    // Codex names kinds of records, which are long; the others name tools.
    let tool = match tool {
        "command_execution" => "shell",
        "file_change" => "edit",
        "mcp_tool_call" => "mcp",
        tool => tool,
    };
    one_line(&format!("{tool} {}", about(input, workspace)))
}

fn about(input: &Value, workspace: &str) -> String {
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
        Value::Object(fields) if fields.is_empty() => String::new(),
        other => other.to_string(),
    });
    unwrapped(&told).replace(&format!("{workspace}/"), "")
}

/// Codex has every command run by a shell, which it also tells.
fn unwrapped(command: &str) -> String {
    let inner = ["/bin/bash -lc ", "bash -lc ", "/bin/sh -c ", "/bin/zsh -lc "]
        .iter()
        .find_map(|shell| command.strip_prefix(shell))
        .and_then(shlex::split);
    match inner.as_deref() {
        Some([only]) => only.clone(),
        Some(_) | None => command.to_owned(),
    }
}

#[cfg(test)]
#[path = "show_tests.rs"]
mod tests;
