//! What Codex says on its standard output: one record an item, no pieces.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::calls::{Calls, usage};
use crate::agent::{Clock, Decoder, Exit, Source};
use crate::agents::reading::{Turn, added, broke, content_text, named, noted, since, spent, text, unknown};
use crate::event::{AgentEvent, Blocked, Failure, FailureClass, Part, ToolResult, TurnOutcome, Usage};
use crate::failure::{FailureReport, classify, failure};
use crate::prices::Prices;

/// Fields of an item that are not what a tool was called with.
const NOT_INPUT: [&str; 9] = [
    "id",
    "type",
    "status",
    "aggregated_output",
    "exit_code",
    "result",
    "error",
    "agents_states",
    "receiver_thread_ids",
];

/// Reads Codex.
pub(in crate::agents) struct Codex {
    pub(super) turn: Turn,
    /// What the thread has used: Codex tells sums over the thread, sub-agents not included.
    pub(super) sum: Usage,
    /// Calls that were started.
    open: BTreeSet<String>,
    pub(super) words: String,
    /// What was said before the connection broke: the next try says it again.
    repeated: Option<String>,
    /// An error after which nothing else may follow.
    pub(super) error: Option<Failure>,
    /// Tries since something was heard: while it waits for the network it does not number them.
    tries: u32,
    /// The clock that its texts are written by.
    clock: Clock,
    /// What the model calls of the current turn used.
    pub(super) calls: Calls,
}

impl Codex {
    pub(in crate::agents) fn new(before: Option<Usage>) -> Self {
        Self {
            turn: Turn::Awaited,
            sum: before.unwrap_or_default(),
            open: BTreeSet::new(),
            words: String::new(),
            repeated: None,
            error: None,
            tries: 0,
            clock: Clock::default(),
            calls: Calls::default(),
        }
    }

    fn said(&mut self, record: &Value) -> Vec<AgentEvent> {
        match record["type"].as_str().unwrap_or_default() {
            "thread.started" => {
                vec![AgentEvent::Started { session: text(&record["thread_id"]), model: None }]
            }
            "turn.started" => {
                self.turn = Turn::Open;
                Vec::new()
            }
            "item.started" => self.item(&record["item"], Stage::Started),
            "item.completed" => self.item(&record["item"], Stage::Completed),
            // A list of things to do that got a tick.
            "item.updated" => Vec::new(),
            "error" => self.erred(&text(&record["message"])),
            "turn.completed" => {
                let mut events: Vec<AgentEvent> = self.used(&record["usage"]).into_iter().collect();
                events.push(self.ended(TurnOutcome::Done { text: self.words.clone() }));
                events
            }
            "turn.failed" => {
                let failure = self.failure(&text(&record["error"]["message"]));
                let mut events = self.settle_calls();
                events.push(self.ended(TurnOutcome::Failed(failure)));
                events
            }
            kind => vec![unknown(kind, "")],
        }
    }

    fn item(&mut self, item: &Value, stage: Stage) -> Vec<AgentEvent> {
        match (item["type"].as_str().unwrap_or_default(), stage) {
            ("agent_message", Stage::Completed) => self.message(text(&item["text"])).into_iter().collect(),
            ("reasoning", Stage::Completed) => vec![AgentEvent::Thought { text: text(&item["text"]) }],
            // Not the end of anything: a setting, a model, a hook.
            ("error", Stage::Completed) => noted(&item["message"]),
            (
                "command_execution" | "file_change" | "mcp_tool_call" | "collab_tool_call" | "web_search",
                _,
            ) => self.call(item, stage),
            ("agent_message" | "reasoning" | "error" | "todo_list", _) => Vec::new(),
            (kind, Stage::Started) => vec![unknown("item.started", kind)],
            (kind, Stage::Completed) => vec![unknown("item.completed", kind)],
        }
    }

    /// Words, unless they were said before the connection broke and are only said again.
    pub(super) fn message(&mut self, words: String) -> Option<AgentEvent> {
        let is_said = self.repeated.take().is_some_and(|said| said == words);
        self.words.clone_from(&words);
        (!is_said).then_some(AgentEvent::Said { text: words, part: Part::Whole, within: None })
    }

    fn call(&mut self, item: &Value, stage: Stage) -> Vec<AgentEvent> {
        let call = text(&item["id"]);
        let mut events = Vec::new();
        // Some items are only told when they are over.
        if self.open.insert(call.clone()) {
            events.push(AgentEvent::ToolStarted {
                call: call.clone(),
                tool: tool(item),
                input: input(item),
                within: None,
            });
        }
        if stage == Stage::Completed {
            self.open.remove(&call);
            let result = result(item);
            let denied =
                result.failed && result.text.contains("requires approval, but approval policy is never");
            let (tool, reason) = (tool(item), result.text.clone());
            events.push(AgentEvent::ToolEnded { call, result });
            if denied {
                events.push(AgentEvent::Blocked(Blocked::Denied { tool, reason }));
            }
        }
        events
    }

    /// An error is the end of the turn only if `turn.failed` repeats it.
    pub(super) fn erred(&mut self, message: &str) -> Vec<AgentEvent> {
        let Some(reason) = message.strip_prefix("Reconnecting... ") else {
            self.error = Some(self.failure(message));
            return Vec::new();
        };
        self.tries = self.tries.saturating_add(1);
        self.repeated = named(&Value::from(self.words.as_str()));
        let (count, reason) = reason.split_once(" (").unwrap_or(("", reason));
        let (attempt, limit) = count.split_once('/').unwrap_or_default();
        let reason = reason.strip_suffix(')').unwrap_or(reason).to_owned();
        vec![AgentEvent::Blocked(Blocked::Retrying {
            attempt: attempt.parse().unwrap_or(self.tries),
            limit: limit.parse().ok(),
            delay: None,
            class: classify(FailureReport { text: &reason, ..FailureReport::default() }),
            reason,
        })]
    }

    /// What was used since the last sum, of which the calls may have been reported already.
    pub(super) fn used(&mut self, sum: &Value) -> Option<AgentEvent> {
        let total = usage(sum);
        let used = since(total, self.sum);
        self.sum = total;
        let cost_usd = self.calls.settle(used);
        spent(Usage { cost_usd, ..used })
    }

    /// The same for a turn that ends without a sum.
    pub(super) fn settle_calls(&mut self) -> Vec<AgentEvent> {
        let used = self.calls.used;
        self.sum = added(self.sum, used);
        let cost_usd = self.calls.settle(used);
        spent(Usage { cost_usd, ..used }).into_iter().collect()
    }

    /// A failure in words. What the provider said to a bad request is passed on as it came, in JSON.
    fn failure(&self, message: &str) -> Failure {
        let body: Value = serde_json::from_str(message).unwrap_or_default();
        let error = &body["error"];
        let told = match error["message"].as_str() {
            Some(words) => {
                let kind = [&error["code"], &error["type"]].into_iter().find_map(Value::as_str);
                FailureReport { kind: kind.unwrap_or_default(), text: words, ..FailureReport::default() }
            }
            None => FailureReport { text: message, ..FailureReport::default() },
        };
        failure(told, self.clock)
    }

    pub(super) fn ended(&mut self, outcome: TurnOutcome) -> AgentEvent {
        self.turn = Turn::Ended;
        self.tries = 0;
        self.words.clear();
        self.repeated = None;
        self.error = None;
        AgentEvent::TurnEnded(outcome)
    }
}

impl Decoder for Codex {
    fn events(&mut self, source: Source, record: &Value) -> Vec<AgentEvent> {
        match source {
            Source::Stdout => self.said(record),
            Source::Transcript => self.written(record),
        }
    }

    fn exited(&mut self, exit: Exit, stderr_tail: &str) -> Vec<AgentEvent> {
        let mut events = self.calls.report_rest();
        if self.turn == Turn::Ended {
            return events;
        }
        self.turn = Turn::Ended;
        events.push(match self.error.take() {
            Some(failure) => AgentEvent::TurnEnded(TurnOutcome::Failed(failure)),
            None => broke(exit, stderr_tail, "before the turn was over"),
        });
        events
    }

    fn set_prices(&mut self, prices: Prices) {
        self.calls.set_prices(prices);
    }

    /// A record that is read after the end of its turn was counted with that end.
    fn usage(&mut self, record: &Value) -> Vec<AgentEvent> {
        if self.turn == Turn::Ended {
            return Vec::new();
        }
        self.calls.on_record(self.sum, record)
    }

    fn clock(&mut self, clock: Clock) {
        self.clock = clock;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Started,
    Completed,
}

/// `shell` of the MCP server `lab` is `lab/shell`.
fn tool(item: &Value) -> String {
    match (item["server"].as_str(), item["tool"].as_str()) {
        (Some(server), Some(tool)) => format!("{server}/{tool}"),
        (None, Some(tool)) => tool.to_owned(),
        (_, None) => text(&item["type"]),
    }
}

fn input(item: &Value) -> Value {
    if !item["arguments"].is_null() {
        return item["arguments"].clone();
    }
    let fields = item.as_object().cloned().unwrap_or_default();
    let is_input = |key: &str| !NOT_INPUT.contains(&key) && key != "tool" && key != "sender_thread_id";
    Value::Object(fields.into_iter().filter(|(key, _)| is_input(key)).collect::<Map<_, _>>())
}

fn result(item: &Value) -> ToolResult {
    let told = [&item["error"]["message"], &item["aggregated_output"]].into_iter().find_map(named);
    let came = || content_text(&item["result"]["content"]);
    ToolResult {
        failed: item["status"] == "failed" || item["status"] == "declined",
        exit_code: item["exit_code"].as_i64(),
        text: told.unwrap_or_else(came),
    }
}

/// A failure of which nothing is told.
pub(super) fn untold() -> Failure {
    Failure {
        class: FailureClass::Unknown,
        detail: "the turn ended without an answer".to_owned(),
        resets_at: None,
        cut_short: None,
    }
}

/// What a tool is called with: text that should be JSON.
pub(super) fn arguments(value: &Value) -> Value {
    let text = value.as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}
