//! The last tool calls of a run, for an agent that is resumed after it was cut off.
//!
//! An agent writes its own record a moment after it acts, so a killed agent may not know of a call that finished, and
//! knows nothing certain of one that was running: Claude Code drops such a call from the conversation, Codex shows it to
//! the model as "aborted". Some calls stand in the agent's record before it reports them: Codex takes a fifth of a second.
//! Ostler compares the two, and adds the difference to the prompt that resumes the session.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;

use serde_json::Value;

use crate::event::{AgentEvent, ToolResult, TurnOutcome};
use crate::source::Twins;
use crate::watchdog::canonical;

/// Calls that are kept. A turn of parallel calls is smaller; older ones are in the agent's record.
const MOST_KEPT: usize = 32;

/// The last calls, which are reported to the agent.
const MOST_REPORTED: usize = 8;

/// Characters of the arguments and of the result that are reported to the agent: enough to recognise the call.
const LONGEST_INPUT: usize = 400;
const LONGEST_RESULT: usize = 200;

const HEADING: &str = "These are your last tool calls, because your own record of them may be incomplete:";
const CHECK: &str = "If a tool call was interrupted, so that its result says so or is missing, it may have run completely, \
                     in part or not at all: check what it did, and finish that step.";

/// Characters by which two reports of one call are compared.
const LONGEST_KEY: usize = 4_000;

/// What the tool calls of a run came to, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallLog {
    calls: VecDeque<Call>,
    /// Counts the processes of the run: ids of calls are unique within one process only.
    process: u32,
    turn: Turn,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Over,
    /// A process was started and has reported nothing of its work.
    Starting,
    Running,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    id: String,
    process: u32,
    tool: String,
    input: String,
    key: String,
    /// The call of the sub-agent that made it.
    within: Option<String>,
    result: Option<CallResult>,
    /// The model answered after the result, so the agent has processed it.
    is_answered: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CallResult {
    failed: bool,
    exit_code: Option<i64>,
    text: String,
}

/// What a resumed agent knows of its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownCalls {
    /// None: it has no session of the task and begins anew.
    None,
    /// Those of its session, whose record cannot be read.
    Unreadable,
    /// Those of its session's record.
    Recorded(RecordedCalls),
}

/// The calls of a session, by the agent's own record: what it knows of them when it is resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCalls {
    twins: Twins,
    /// Calls whose results are in the record, by their ids there.
    ended: HashSet<String>,
    /// Calls since the last prompt that have a result, and those that have none.
    closed: Vec<RecordedCall>,
    open: Vec<RecordedCall>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RecordedCall {
    id: String,
    tool: String,
    input: String,
    key: String,
}

impl RecordedCalls {
    /// A record without calls. `twins` says whether calls have the same ids there as on the agent's standard output.
    pub fn new(twins: Twins) -> Self {
        Self { twins, ended: HashSet::new(), closed: Vec::new(), open: Vec::new() }
    }

    /// The next event of the record.
    pub fn on_event(&mut self, event: &AgentEvent) {
        match event {
            // Open calls before it were interrupted earlier.
            AgentEvent::Asked { .. } => {
                self.open.clear();
                self.closed.clear();
            }
            AgentEvent::ToolStarted { call, tool, input, within: None } => self.open.push(RecordedCall {
                id: call.clone(),
                tool: tool.clone(),
                input: shorten(&canonical(input), LONGEST_INPUT),
                key: key(input),
            }),
            AgentEvent::ToolEnded { call, .. } => {
                let index = self.open.iter().position(|open| open.id == *call);
                self.closed.extend(index.map(|index| self.open.remove(index)));
                self.ended.insert(call.clone());
            }
            _ => {}
        }
    }

    /// Whether the record has the result of a call that finished. A call is in the record before it runs, so one that is
    /// not found there at all was recorded in another form.
    fn has_result(&mut self, call: &Call) -> bool {
        let is_closed = take(&mut self.closed, call, self.twins);
        let is_open = !is_closed && take(&mut self.open, call, self.twins);
        match self.twins {
            Twins::Named => self.ended.contains(&call.id),
            Twins::Unnamed => is_closed || !is_open,
        }
    }
}

/// Takes out the call that this one is.
fn take(calls: &mut Vec<RecordedCall>, call: &Call, twins: Twins) -> bool {
    let is_same = |recorded: &RecordedCall| match twins {
        Twins::Named => recorded.id == call.id,
        // A command is reported with the shell that runs it.
        Twins::Unnamed => !recorded.key.is_empty() && call.key.contains(&recorded.key),
    };
    let index = calls.iter().position(is_same);
    index.map(|index| calls.remove(index)).is_some()
}

impl CallLog {
    /// A process of the agent was started. What the last one left open is reported until this one has done something.
    pub fn on_spawn(&mut self) {
        self.process = self.process.saturating_add(1);
        self.turn = Turn::Starting;
    }

    /// The agent reported something.
    pub fn on_event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Said { within: None, .. } | AgentEvent::Thought { .. } => {
                self.on_work();
                self.calls.iter_mut().filter(|call| call.result.is_some()).for_each(|call| {
                    call.is_answered = true;
                });
            }
            AgentEvent::ToolStarted { call, tool, input, within } => {
                self.on_work();
                self.open(call, tool, input, within.clone());
            }
            AgentEvent::ToolEnded { call, result } => {
                self.on_work();
                self.close(call, result);
            }
            AgentEvent::TurnEnded(outcome) => self.on_turn_end(outcome),
            AgentEvent::Said { within: Some(_), .. }
            | AgentEvent::Started { .. }
            | AgentEvent::Asked { .. }
            | AgentEvent::TaskOpened { .. }
            | AgentEvent::TaskClosed { .. }
            | AgentEvent::Spent(_)
            | AgentEvent::SpentSoFar(_)
            | AgentEvent::Unpriced { .. }
            | AgentEvent::Blocked(_)
            | AgentEvent::Noted { .. }
            | AgentEvent::Unknown { .. } => {}
        }
    }

    /// The report of its calls for a resumed agent, if it lacks any.
    pub fn report(&self, mut known: KnownCalls) -> Option<String> {
        let mut lines: Vec<String> =
            self.calls.iter().filter_map(|call| self.line(call, &mut known)).collect();
        let is_resumed = known != KnownCalls::None;
        let unreported = match known {
            KnownCalls::Recorded(recorded) => recorded.open,
            KnownCalls::None | KnownCalls::Unreadable => Vec::new(),
        };
        let has_interrupted = !unreported.is_empty() || self.calls.iter().any(|call| call.result.is_none());
        lines.extend(unreported.iter().map(|call| interrupted(&call.tool, &call.input)));
        let first = lines.len().saturating_sub(MOST_REPORTED);
        let mut text = String::new();
        if !lines.is_empty() {
            text.push_str(HEADING);
            for line in &lines[first..] {
                // A String takes every write.
                let _ = write!(text, "\n- {line}");
            }
        }
        if self.turn != Turn::Over && is_resumed && !has_interrupted {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(CHECK);
        }
        (!text.is_empty()).then_some(text)
    }

    fn line(&self, call: &Call, known: &mut KnownCalls) -> Option<String> {
        let Some(result) = &call.result else {
            if let KnownCalls::Recorded(recorded) = known {
                take(&mut recorded.open, call, recorded.twins);
            }
            return Some(interrupted(&call.tool, &call.input));
        };
        let is_known = match (known, &call.within) {
            // A sub-agent has a record of its own, which is of use only as long as its call lasts.
            (_, Some(parent)) => !self.is_interrupted(parent, call.process),
            (KnownCalls::Recorded(recorded), None) => recorded.has_result(call),
            (KnownCalls::Unreadable, None) => call.is_answered,
            (KnownCalls::None, None) => false,
        };
        (!is_known).then(|| {
            let name = describe_call(&call.tool, &call.input);
            let how = match (result.exit_code, result.failed) {
                (Some(code), _) => format!("finished with exit code {code}"),
                (None, true) => "failed".to_owned(),
                (None, false) => "finished".to_owned(),
            };
            let came = if result.text.is_empty() { "none".to_owned() } else { result.text.clone() };
            format!("The call {name} {how}: do not repeat it. Its output: {came}")
        })
    }

    fn is_interrupted(&self, id: &str, process: u32) -> bool {
        self.calls.iter().any(|call| call.id == id && call.process == process && call.result.is_none())
    }

    /// A resumed agent that works has read the report of its earlier calls.
    fn on_work(&mut self) {
        if self.turn == Turn::Starting {
            let process = self.process;
            self.calls.retain(|call| call.process == process);
        }
        self.turn = Turn::Running;
    }

    fn open(&mut self, id: &str, tool: &str, input: &Value, within: Option<String>) {
        if self.calls.len() >= MOST_KEPT {
            // An open call is kept: it may be the parent of all the others, and is what a crash interrupts.
            let finished = self.calls.iter().position(|call| call.result.is_some());
            self.calls.remove(finished.unwrap_or(0));
        }
        self.calls.push_back(Call {
            id: id.to_owned(),
            process: self.process,
            tool: tool.to_owned(),
            input: shorten(&canonical(input), LONGEST_INPUT),
            key: key(input),
            within,
            result: None,
            is_answered: false,
        });
    }

    fn close(&mut self, id: &str, result: &ToolResult) {
        let process = self.process;
        let is_it = |call: &&mut Call| call.id == id && call.process == process && call.result.is_none();
        if let Some(call) = self.calls.iter_mut().rev().find(is_it) {
            let text = shorten_quoted(&result.text);
            call.result = Some(CallResult { failed: result.failed, exit_code: result.exit_code, text });
        }
    }

    fn on_turn_end(&mut self, outcome: &TurnOutcome) {
        match outcome {
            // All that it called is over and known to it. What it wrote last may still be on its way to its record.
            TurnOutcome::Done { .. } | TurnOutcome::Called => {
                self.on_work();
                self.calls.retain(|call| call.result.is_some());
                self.calls.iter_mut().for_each(|call| call.is_answered = true);
                self.turn = Turn::Over;
            }
            TurnOutcome::Failed(_) => self.turn = Turn::Over,
            TurnOutcome::Interrupted => {}
        }
    }
}

fn describe_call(tool: &str, input: &str) -> String {
    format!("{} {input}", shorten(tool, LONGEST_RESULT))
}

fn interrupted(tool: &str, input: &str) -> String {
    let name = describe_call(tool, input);
    format!(
        "The call {name} was interrupted: it may have run completely, in part or not at all. \
         Check what it did before you repeat it."
    )
}

/// What two reports of one call have in common: the longest text among its arguments, without quotes and blanks.
fn key(input: &Value) -> String {
    let mut texts = Vec::new();
    collect_texts(input, &mut texts);
    let longest = texts.into_iter().max_by_key(|text| text.len()).unwrap_or_default();
    let is_kept = |char: &char| !char.is_whitespace() && !matches!(char, '\'' | '"' | '\\');
    longest.chars().filter(is_kept).take(LONGEST_KEY).collect()
}

fn collect_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| collect_texts(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The beginning of a text as a JSON string: quoted, on one line.
fn shorten_quoted(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let (begin, is_cut) = begin_of(text, LONGEST_RESULT);
    let quoted = serde_json::Value::from(begin).to_string();
    format!("{}{}", visible(&quoted), if is_cut { " (shortened)" } else { "" })
}

/// The beginning of a text that is on one line already.
fn shorten(text: &str, longest: usize) -> String {
    let (begin, is_cut) = begin_of(text, longest);
    format!("{}{}", visible(begin), if is_cut { "… (shortened)" } else { "" })
}

fn begin_of(text: &str, longest: usize) -> (&str, bool) {
    match text.char_indices().nth(longest) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}

/// Characters that cannot be seen are written as their numbers: a terminal program refuses a prompt that has them.
fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii_graphic() || char == ' ' {
            visible.push(char);
        } else {
            visible.extend(char.escape_debug());
        }
    }
    visible
}

#[cfg(test)]
#[path = "call_log_tests.rs"]
mod tests;
