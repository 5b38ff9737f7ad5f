//! What Claude Code writes into its own file, and where that is. The file becomes the source when the standard output is
//! dead, and is the only one for the terminal program.
//!
//! Its order is not causal: an answer may precede its prompt. Headless it marks no end of a turn, the terminal program
//! does.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::Value;

use super::calls::ends_turn;
use super::decoder::Claude;
use super::heard::Twin;
use super::message::{self, INTERRUPTED};
use crate::agent::{TranscriptPlace, Whereabouts};
use crate::agents::reading::{Turn, added, content_text, named, small, spent, text, unknown};
use crate::event::{AgentEvent, Blocked, CutShort, Failure, FailureClass, TurnOutcome};
use crate::failure::{FailureReport, failure};

/// Longest folder name that Claude Code makes of a path as it is.
const LONGEST_SLUG: usize = 200;

/// What it puts where the history of a session ends without an answer.
const NO_ANSWER: &str = "No response requested.";

/// The last thing that the transcript says, until the turn is over.
#[derive(Default)]
pub(super) struct Last {
    words: String,
    failure: Option<Failure>,
    /// Whether the last answer says that nothing follows.
    pub(super) stands: bool,
    /// Calls that are open, with their tools, and those of them that a hook refused.
    calls: HashMap<String, String>,
    refused: HashSet<String>,
}

impl Last {
    fn called(&mut self, events: &[AgentEvent]) {
        for event in events {
            if let AgentEvent::ToolStarted { call, tool, .. } = event {
                self.calls.insert(call.clone(), tool.clone());
            }
        }
    }

    /// Which of the calls that were closed a hook had refused. Only the program that the hook calls knows why, and what
    /// it said is what the call came to.
    fn denied(&mut self, events: &[AgentEvent]) -> Vec<AgentEvent> {
        let mut denied = Vec::new();
        for event in events {
            let AgentEvent::ToolEnded { call, result } = event else { continue };
            let tool = self.calls.remove(call);
            if self.refused.remove(call) {
                let (tool, reason) = (tool.unwrap_or_default(), result.text.clone());
                denied.push(AgentEvent::Blocked(Blocked::Denied { tool, reason }));
            }
        }
        denied
    }
}

impl Claude {
    /// A record of the file, and all that waited for it.
    pub(super) fn written(&mut self, record: &Value) -> Vec<AgentEvent> {
        if self.order.keeps(record) {
            return Vec::new();
        }
        let mut events = self.in_order(record);
        while let Some(record) = self.order.freed() {
            events.extend(self.in_order(&record));
        }
        events
    }

    /// What waited in vain.
    pub(super) fn given_up(&mut self) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        while let Some(record) = self.order.given_up() {
            events.extend(self.in_order(&record));
        }
        events
    }

    /// The end of a turn that something else than a record told.
    pub(super) fn over(&mut self, interrupted: bool) -> Vec<AgentEvent> {
        let mut events = self.given_up();
        events.extend(match self.turn {
            Turn::Ended => Vec::new(),
            Turn::Awaited | Turn::Open if interrupted => self.ended(TurnOutcome::Interrupted),
            Turn::Awaited | Turn::Open if self.last.words.is_empty() && self.last.failure.is_none() => {
                let text = "the turn ended without an answer in its transcript";
                let told = FailureReport { text, ..FailureReport::default() };
                self.ended(TurnOutcome::Failed(failure(told, self.clock)))
            }
            Turn::Awaited | Turn::Open => self.ended_as_written(),
        });
        events
    }

    fn in_order(&mut self, record: &Value) -> Vec<AgentEvent> {
        match self.heard.twin(record["uuid"].as_str()) {
            Twin::Forgotten => Vec::new(),
            Twin::None => {
                if let Some(id) = named(&record["uuid"]) {
                    self.told.note(id, self.results);
                }
                self.read(record)
            }
            Twin::Heard { turn } if turn < self.results => {
                self.turn = Turn::Ended;
                Vec::new()
            }
            // All that can be missing of what was heard is the end of its turn: that is a record of its own.
            // Its tokens were counted when its record arrived.
            Twin::Heard { .. } => {
                self.calls.pause(true);
                let mut events = self.read(record);
                self.calls.pause(false);
                events.retain(|event| {
                    matches!(
                        event,
                        AgentEvent::TurnEnded(_) | AgentEvent::Spent(_) | AgentEvent::SpentSoFar(_)
                    )
                });
                events
            }
        }
    }

    fn read(&mut self, record: &Value) -> Vec<AgentEvent> {
        let mut events = self.begun(record);
        match record["type"].as_str().unwrap_or_default() {
            "user" => events.extend(self.wrote_user(record)),
            "assistant" => events.extend(self.wrote_assistant(record)),
            "system" => events.extend(self.wrote_system(record)),
            "attachment" if record["attachment"]["type"] == "queued_command" => {
                events.extend(self.asked(text(&record["attachment"]["prompt"])));
            }
            "attachment" if record["attachment"]["type"] == "hook_permission_decision" => {
                if record["attachment"]["decision"] == "deny" {
                    self.last.refused.extend(named(&record["attachment"]["toolUseID"]));
                }
            }
            "queue-operation" => events.extend(self.task_told(&text(&record["content"]))),
            "agent-name"
            | "ai-title"
            | "api-request"
            | "api-request-blob"
            | "api-request-shape"
            | "atis-latch"
            | "attachment"
            | "cost-state"
            | "custom-title"
            | "file-history-delta"
            | "file-history-snapshot"
            | "last-prompt"
            | "mode"
            | "permission-mode"
            | "progress"
            | "summary"
            | "tools-used" => {}
            kind => events.push(unknown(kind, "")),
        }
        events
    }

    /// The session, once: each record names it.
    fn begun(&mut self, record: &Value) -> Vec<AgentEvent> {
        match named(&record["sessionId"]) {
            // Written into the file of a session that was left.
            Some(_) if record["type"] == "cost-state" => Vec::new(),
            Some(session) if session != self.session => {
                self.session.clone_from(&session);
                vec![AgentEvent::Started { session, model: None }]
            }
            _ => Vec::new(),
        }
    }

    fn wrote_user(&mut self, record: &Value) -> Vec<AgentEvent> {
        let mut events = self.tool_results(record);
        events.extend(self.last.denied(&events));
        let words = content_text(&record["message"]["content"]);
        if record["isSidechain"] != true {
            self.last.stands = false;
        }
        if record["origin"]["kind"] == "task-notification" {
            events.extend(self.unasked());
            events.extend(self.task_told(&words));
        } else if record["isSidechain"] == true || !events.is_empty() {
            // A sub-agent's prompt is the input of the call that started it.
        } else if words.starts_with(INTERRUPTED) && record["promptSource"].is_null() {
            // An end that was told is not told again.
            if self.turn != Turn::Ended {
                events.extend(self.ended(TurnOutcome::Interrupted));
            }
        } else if record["isMeta"] != true && record["isCompactSummary"] != true {
            events.extend(message::prompt(&record["message"]).and_then(|text| self.asked(text)));
        }
        events
    }

    /// A further turn, which nobody asked for.
    fn unasked(&mut self) -> Option<AgentEvent> {
        let before = std::mem::replace(&mut self.turn, Turn::Open);
        let session = self.session.clone();
        (before == Turn::Ended).then_some(AgentEvent::Started { session, model: None })
    }

    fn asked(&mut self, text: String) -> Option<AgentEvent> {
        self.turn = Turn::Open;
        (!text.is_empty()).then_some(AgentEvent::Asked { text })
    }

    /// A note that a background task ended, which only the text of a prompt tells.
    fn task_told(&mut self, words: &str) -> Option<AgentEvent> {
        let (_, after) = words.strip_prefix("<task-notification>")?.split_once("<task-id>")?;
        let (task, _) = after.split_once("</task-id>")?;
        self.tasks.closed(&Value::from(task))
    }

    fn wrote_assistant(&mut self, record: &Value) -> Vec<AgentEvent> {
        let answer = &record["message"];
        // Only headless: there the answer is the end, since no other mark follows.
        let may_end = record["isSidechain"] != true
            && record["entrypoint"].as_str().is_some_and(|program| program.starts_with("sdk"));
        if record["isApiErrorMessage"] == true {
            let words = content_text(&answer["content"]);
            let kind = record["error"].as_str().unwrap_or_default();
            let status = small(&record["apiErrorStatus"]);
            let told = FailureReport { status, kind, text: &words, headers: None };
            let mut failure = failure(told, self.clock);
            if failure.class == FailureClass::Quota {
                // Newer versions write down the second; others leave the minute in the text.
                let resets_at = record["quotaLimits"]["resetsAt"].as_i64();
                failure.resets_at = resets_at.or(failure.resets_at);
            }
            if answer["stop_reason"] == "refusal" {
                failure.cut_short = Some(CutShort::Refusal);
            }
            self.last.failure = Some(failure);
            self.last.stands = record["isSidechain"] != true;
            return if may_end { self.ended_as_written() } else { Vec::new() };
        }
        let words = content_text(&answer["content"]);
        // What stands where an answer is missing. An answer that was interrupted has no model either, on 2.1.197.
        if answer["model"] == "<synthetic>" && (record["entrypoint"] != "cli" || words == NO_ANSWER) {
            return Vec::new();
        }
        let within = if record["isSidechain"] == true { self.tasks.call(&record["agentId"]) } else { None };
        if record["isSidechain"] != true {
            self.last.stands = matches!(
                answer["stop_reason"].as_str(),
                Some("end_turn" | "max_tokens" | "stop_sequence" | "refusal")
            );
        }
        let is_unasked = record["isSidechain"] != true && self.turn == Turn::Ended;
        // A command of a person is answered too.
        let mut events: Vec<AgentEvent> = if is_unasked && record["entrypoint"] == "cli" {
            self.unasked().into_iter().collect()
        } else {
            Vec::new()
        };
        events.extend(message::blocks(answer, within.as_deref()));
        self.last.called(&events);
        events.extend(self.count(answer, within.is_some()));
        if within.is_none() && !words.is_empty() {
            self.last.words = words;
            self.last.failure = None;
            if may_end && answer["stop_reason"] == "end_turn" {
                events.extend(self.ended_as_written());
            }
        }
        events
    }

    /// What a record says of the cost, while the standard output reports everything else.
    pub(super) fn read_cost(&mut self, record: &Value) -> Vec<AgentEvent> {
        let attachment = &record["attachment"];
        let is_to_report = match (record["type"].as_str(), attachment["type"].as_str()) {
            (Some("assistant"), _) if record["isSidechain"] != true => {
                if let Some(id) = record["message"]["id"].as_str() {
                    self.calls.on_written(id);
                }
                false
            }
            (Some("attachment"), Some("budget_usd")) => {
                attachment["used"].as_f64().is_some_and(|usd| self.calls.on_cost(usd))
            }
            _ => false,
        };
        if is_to_report { self.report_calls() } else { Vec::new() }
    }

    /// Counts the tokens of an answer. Each of its blocks repeats them.
    fn count(&mut self, answer: &Value, is_within: bool) -> Vec<AgentEvent> {
        let Some(id) = named(&answer["id"]) else { return Vec::new() };
        self.calls.count(&id, answer);
        // One that ends the turn is reported with its end.
        let is_last = !is_within && answer["stop_reason"].as_str().is_some_and(ends_turn);
        if is_last { Vec::new() } else { self.report_calls() }
    }

    fn wrote_system(&mut self, record: &Value) -> Vec<AgentEvent> {
        match record["subtype"].as_str().unwrap_or_default() {
            // An end that was told is not told again.
            "turn_duration" if self.turn == Turn::Ended => Vec::new(),
            "turn_duration" => self.ended_as_written(),
            "compact_boundary" => vec![message::compacted(&record["compactMetadata"]["trigger"])],
            "stop_hook_summary" | "local_command" | "informational" => Vec::new(),
            subtype => vec![unknown("system", subtype)],
        }
    }

    fn ended_as_written(&mut self) -> Vec<AgentEvent> {
        let outcome = match self.last.failure.take() {
            Some(failure) => TurnOutcome::Failed(failure),
            None => TurnOutcome::Done { text: std::mem::take(&mut self.last.words) },
        };
        self.ended(outcome)
    }

    fn ended(&mut self, outcome: TurnOutcome) -> Vec<AgentEvent> {
        self.turn = Turn::Ended;
        self.last.words.clear();
        self.last.failure = None;
        self.last.stands = false;
        self.told_end = Some(outcome.clone());
        let mut events = if self.reports_cost { Vec::new() } else { self.calls.unpriced() };
        // A result that comes after all has it in its sum.
        let used = self.calls.settle().0.unwrap_or_default();
        self.sum = added(self.sum, used);
        events.extend(spent(used));
        events.push(AgentEvent::TurnEnded(outcome));
        events
    }
}

/// `<settings>/projects/<slug of the workspace>/<session>.jsonl`, created with the first prompt; sub-agents are below
/// `<session>/subagents`.
pub(super) fn place(whereabouts: &Whereabouts<'_>) -> TranscriptPlace {
    let settings = whereabouts.folder("CLAUDE_CONFIG_DIR", ".claude");
    let project = settings.join("projects").join(slug(whereabouts.workspace));
    TranscriptPlace::File {
        path: project.join(format!("{}.jsonl", whereabouts.session)),
        beside: Some(project.join(whereabouts.session).join("subagents")),
    }
}

/// Each UTF-16 unit that is no ASCII letter or digit becomes `-`; what is longer than 200 is cut and gets a hash.
pub(super) fn slug(workspace: &Path) -> String {
    let path = workspace.to_string_lossy();
    let units: Vec<u16> = path.encode_utf16().collect();
    let letter =
        |unit: &u16| u8::try_from(*unit).ok().filter(u8::is_ascii_alphanumeric).map_or('-', char::from);
    let slug: String = units.iter().map(letter).collect();
    if units.len() <= LONGEST_SLUG {
        return slug;
    }
    // Java's `hashCode` of the path, without its sign, in base 36.
    let hash = units.iter().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(*unit)));
    format!("{}-{}", &slug[..LONGEST_SLUG], base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            break;
        }
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_has_a_folder_name() {
        let long = format!("/w/{}", "x".repeat(220));
        let table = [
            ("/srv/a.b_c d", "-srv-a-b-c-d".to_owned()),
            ("/é/😀", "-----".to_owned()),
            (long.as_str(), format!("-w-{}-5zaa2v", "x".repeat(197))),
        ];
        for (path, want) in table {
            assert_eq!(slug(Path::new(path)), want);
        }
        assert_eq!((base36(0), base36(35), base36(36)), ("0".to_owned(), "z".to_owned(), "10".to_owned()));
    }
}
