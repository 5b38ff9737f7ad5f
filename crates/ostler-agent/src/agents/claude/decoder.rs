//! What Claude Code says on its standard output: one record a content block, one `result` a turn.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde_json::Value;

use super::calls::{Calls, Piece};
use super::heard::{Heard, Twin};
use super::message;
use super::order::Order;
use super::transcript::Last;
use crate::agent::{Clock, Decoder, Exit, Source};
use crate::agents::reading::{Turn, broke, items, named, noted, small, spent, text, unknown};
use crate::event::{AgentEvent, Blocked, Part, ToolResult, TurnOutcome, Usage, sum};
use crate::failure::{FailureReport, classify};
use crate::prices::{Observed, Prices};
use crate::quiet_cause::{Answer, AnswerPart, count};

/// Longest delay that is believed: a retry in a year is a broken record.
const LONGEST_DELAY: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Reads Claude Code.
#[derive(Default)]
pub(in crate::agents) struct Claude {
    pub(super) turn: Turn,
    /// What this process has used, as it was last settled: by a result, or by the end of a turn in the transcript.
    pub(super) sum: Usage,
    /// What the model calls of the current turn used.
    pub(super) calls: Calls,
    /// What the session had used before this process.
    pub(super) before: Option<Usage>,
    /// How much of that is in the sums of its results, once it is known.
    pub(super) restored: Option<Usage>,
    /// Whether its results have the cost.
    pub(super) reports_cost: bool,
    /// The kind of the provider's last error, and when a refused quota returns.
    pub(super) error: String,
    pub(super) resets_at: Option<i64>,
    /// Why a hook kept the prompt from the model.
    pub(super) kept: Option<String>,
    /// What failed calls of this turn said: the result names denied calls without a reason.
    pub(super) refused: HashMap<String, String>,
    pub(super) tasks: Tasks,
    /// What was already said of MCP servers: it is repeated with every turn.
    pub(super) servers: BTreeSet<String>,
    /// Records heard on the standard output, with the turn they belong to. The transcript has them with the same ids.
    pub(super) heard: Heard,
    /// Turns whose end was heard on the standard output.
    pub(super) results: u32,
    /// Records that the transcript told first, by the same ids: a standard output that comes back has them too.
    pub(super) told: Heard,
    /// How the turn ended that the transcript told the end of.
    pub(super) told_end: Option<TurnOutcome>,
    pub(super) last: Last,
    pub(super) order: Order,
    pub(super) session: String,
    /// The clock that reset times in its texts are read by.
    pub(super) clock: Clock,
    /// How far the answer of the model has come.
    pub(super) answer: Option<Answer>,
}

/// Work beside the turn, by the agent's id of it.
#[derive(Default)]
pub(super) struct Tasks {
    open: BTreeSet<String>,
    /// The call that a sub-agent works for.
    calls: HashMap<String, String>,
}

impl Tasks {
    pub(super) fn opened(&mut self, task: &Value) -> Option<AgentEvent> {
        let task = named(task)?;
        self.open.insert(task.clone()).then_some(AgentEvent::TaskOpened { task })
    }

    pub(super) fn closed(&mut self, task: &Value) -> Option<AgentEvent> {
        let task = named(task)?;
        self.open.remove(&task).then_some(AgentEvent::TaskClosed { task })
    }

    /// The call of a sub-agent, or its own id where the call is not known.
    pub(super) fn call(&self, agent: &Value) -> Option<String> {
        let agent = named(agent)?;
        Some(self.calls.get(&agent).cloned().unwrap_or(agent))
    }
}

impl Decoder for Claude {
    fn events(&mut self, source: Source, record: &Value) -> Vec<AgentEvent> {
        match source {
            Source::Stdout => self.said(record),
            Source::Transcript => self.written(record),
        }
    }

    fn quiet(&mut self) -> Vec<AgentEvent> {
        self.given_up()
    }

    fn stands(&self) -> bool {
        self.last.stands
    }

    fn over(&mut self, interrupted: bool) -> Vec<AgentEvent> {
        Claude::over(self, interrupted)
    }

    fn set_prices(&mut self, prices: Prices) {
        self.calls.set_prices(prices);
    }

    fn usage(&mut self, record: &Value) -> Vec<AgentEvent> {
        self.read_cost(record)
    }

    fn observed(&self) -> Observed {
        self.calls.observed()
    }

    fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    fn exited(&mut self, exit: Exit, stderr_tail: &str) -> Vec<AgentEvent> {
        let mut events = self.given_up();
        self.calls.close();
        events.extend(self.report_calls());
        match std::mem::replace(&mut self.turn, Turn::Ended) {
            Turn::Ended => {}
            Turn::Awaited | Turn::Open => events.push(broke(exit, stderr_tail, "without a result")),
        }
        events
    }

    fn clock(&mut self, clock: Clock) {
        self.clock = clock;
    }
}

impl Claude {
    fn said(&mut self, record: &Value) -> Vec<AgentEvent> {
        match record["type"].as_str().unwrap_or_default() {
            "system" => self.system(record),
            "assistant" => self.assistant(record),
            "user" => self.user(record),
            "result" => {
                self.answer = None;
                self.result(record)
            }
            "stream_event" => self.streamed(record),
            "control_request" => asks(record),
            "control_cancel_request" => {
                vec![AgentEvent::Blocked(Blocked::Withdrawn { request: text(&record["request_id"]) })]
            }
            "control_response" => noted(&record["response"]["error"]),
            "rate_limit_event" => {
                self.limited(&record["rate_limit_info"]);
                Vec::new()
            }
            "attachment" | "progress" | "tool_progress" | "tool_use_summary" | "keep_alive" => Vec::new(),
            kind => vec![unknown(kind, "")],
        }
    }

    fn system(&mut self, record: &Value) -> Vec<AgentEvent> {
        match record["subtype"].as_str().unwrap_or_default() {
            "init" => self.started(record),
            "api_retry" => {
                self.answer = None;
                vec![retrying(record)]
            }
            "status" if record["status"] == "requesting" => {
                self.answer = Some(Answer::Requested);
                Vec::new()
            }
            "thinking_tokens" => vec![AgentEvent::Thought { text: String::new() }],
            "task_started" => {
                if let (Some(task), Some(call)) = (named(&record["task_id"]), named(&record["tool_use_id"])) {
                    self.tasks.calls.insert(task, call);
                }
                self.tasks.opened(&record["task_id"]).into_iter().collect()
            }
            "task_updated" => self.task_changed(record, &record["patch"]["status"]),
            "task_notification" => self.task_changed(record, &record["status"]),
            "compact_boundary" => vec![message::compacted(&record["compact_metadata"]["trigger"])],
            "model_fallback" => noted(&record["content"]),
            "notification" => noted(&record["text"]),
            "informational" => {
                if record["prevent_continuation"] == true {
                    self.kept = named(&record["content"]);
                }
                noted(&record["content"])
            }
            // Whatever these announce, a result follows or another record says it too.
            "hook_started"
            | "hook_progress"
            | "hook_response"
            | "model_refusal_no_fallback"
            | "session_state_changed"
            | "status"
            | "task_progress" => Vec::new(),
            subtype => vec![unknown("system", subtype)],
        }
    }

    fn started(&mut self, record: &Value) -> Vec<AgentEvent> {
        self.turn = Turn::Open;
        // Whatever result comes from here on is another turn's.
        self.told_end = None;
        self.session = text(&record["session_id"]);
        let mut events =
            vec![AgentEvent::Started { session: self.session.clone(), model: named(&record["model"]) }];
        for server in items(&record["mcp_servers"]) {
            // Its tools are missing then, and nothing else says so.
            if let (Some(name), Some(status @ ("failed" | "needs-auth"))) =
                (server["name"].as_str(), server["status"].as_str())
            {
                let text = format!("MCP server `{name}`: {status}");
                if self.servers.insert(text.clone()) {
                    events.push(AgentEvent::Noted { text });
                }
            }
        }
        events
    }

    fn task_changed(&mut self, record: &Value, status: &Value) -> Vec<AgentEvent> {
        match status.as_str() {
            Some("completed" | "failed" | "killed" | "stopped") => {
                self.tasks.closed(&record["task_id"]).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn assistant(&mut self, record: &Value) -> Vec<AgentEvent> {
        self.hear(record);
        if self.was_told(record) {
            return Vec::new();
        }
        let within = named(&record["parent_tool_use_id"]);
        match record["error"].as_str() {
            // The words of an error are not the agent's answer; the result has them.
            Some(error) if within.is_none() => {
                error.clone_into(&mut self.error);
                Vec::new()
            }
            _ => {
                let mut events = message::blocks(&record["message"], within.as_deref());
                events.iter().for_each(|event| self.calls.on_block(event));
                if self.calls.on_record(&within, &record["message"]) {
                    events.extend(self.report_calls());
                }
                events
            }
        }
    }

    /// A piece of a message, and what its end means.
    fn streamed(&mut self, record: &Value) -> Vec<AgentEvent> {
        let mut events = piece(record);
        if record["parent_tool_use_id"].is_null() {
            self.follow_answer(&record["event"]);
        }
        match self.calls.on_piece(named(&record["parent_tool_use_id"]), &record["event"]) {
            Piece::Nothing => {}
            Piece::Report => events.extend(self.report_calls()),
            Piece::Offered => {
                // Its result has the cost, of this too.
                let used = Usage { cost_usd: None, ..self.calls.settle().0.unwrap_or_default() };
                self.sum = sum(self.sum, used);
                events.extend(spent(used));
                events.push(AgentEvent::TurnEnded(TurnOutcome::Called));
            }
        }
        events
    }

    /// Usage of this turn so far, and models without a known price.
    pub(super) fn report_calls(&mut self) -> Vec<AgentEvent> {
        let mut events: Vec<AgentEvent> = self.calls.report().into_iter().collect();
        if !self.reports_cost {
            events.extend(self.calls.unpriced());
        }
        events
    }

    /// How far the answer has come after this piece of it.
    fn follow_answer(&mut self, event: &Value) {
        let received: u64 = ["text", "thinking", "partial_json"]
            .iter()
            .filter_map(|piece| event["delta"][*piece].as_str())
            .map(count)
            .sum();
        let begun = |part| Some(Answer::Begun { part, characters: 0 });
        match (event["type"].as_str().unwrap_or_default(), &mut self.answer) {
            ("message_start" | "content_block_stop", _) => self.answer = Some(Answer::Between),
            ("message_stop", _) => self.answer = None,
            ("content_block_start", _) => {
                self.answer = match event["content_block"]["type"].as_str().unwrap_or_default() {
                    "text" => begun(AnswerPart::Text),
                    "thinking" | "redacted_thinking" => begun(AnswerPart::Thinking),
                    "tool_use" | "server_tool_use" | "mcp_tool_use" => begun(AnswerPart::ToolCall),
                    _ => Some(Answer::Between),
                };
            }
            ("content_block_delta", Some(Answer::Begun { characters, .. })) => {
                *characters = characters.saturating_add(received);
            }
            _ => {}
        }
    }

    fn user(&mut self, record: &Value) -> Vec<AgentEvent> {
        self.hear(record);
        if self.was_told(record) {
            return Vec::new();
        }
        let mut events = self.tool_results(record);
        let is_prompt = record["parent_tool_use_id"].is_null() && record["isSynthetic"] != true;
        if events.is_empty() && is_prompt {
            let text = message::prompt(&record["message"]);
            events.extend(text.map(|text| AgentEvent::Asked { text }));
        }
        events
    }

    /// The calls that a record closes, and the work that one of them left behind.
    pub(super) fn tool_results(&mut self, record: &Value) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        for (call, result) in message::tool_results(&record["message"]) {
            let ToolResult { failed, text, .. } = &result;
            if *failed {
                self.refused.insert(call.clone(), text.clone());
            }
            events.push(AgentEvent::ToolEnded { call, result });
        }
        for details in ["tool_use_result", "toolUseResult"] {
            let details = &record[details];
            events.extend(self.tasks.opened(&details["backgroundTaskId"]));
            if details["isAsync"] == true {
                events.extend(self.tasks.opened(&details["agentId"]));
            }
        }
        events
    }

    fn hear(&mut self, record: &Value) {
        if let Some(id) = named(&record["uuid"]) {
            self.heard.note(id, self.results);
        }
    }

    /// Whether the transcript told it already.
    fn was_told(&mut self, record: &Value) -> bool {
        record["uuid"].as_str().is_some_and(|id| self.told.twin(Some(id)) != Twin::None)
    }

    fn limited(&mut self, limit: &Value) {
        if limit["status"] == "rejected" {
            self.resets_at = limit["resetsAt"].as_i64();
        }
    }
}

fn retrying(record: &Value) -> AgentEvent {
    let status = small(&record["error_status"]);
    let kind = record["error"].as_str().unwrap_or_default();
    let reason = match status {
        Some(status) => format!("{kind} ({status})"),
        // It tries again for a provider that answers, or for one that it does not reach.
        None => "no answer from the provider".to_owned(),
    };
    let text = if status.is_none() { "connection failed" } else { "" };
    let delay =
        record["retry_delay_ms"].as_f64().and_then(|ms| Duration::try_from_secs_f64(ms / 1_000.0).ok());
    AgentEvent::Blocked(Blocked::Retrying {
        attempt: small(&record["attempt"]).unwrap_or(1),
        limit: small(&record["max_retries"]),
        delay: delay.map(|delay| delay.min(LONGEST_DELAY)),
        reason,
        class: classify(FailureReport { status, kind, text, headers: None }),
    })
}

/// A piece of an answer. Pieces of an answer that broke off have no end: the whole that follows is another message.
fn piece(record: &Value) -> Vec<AgentEvent> {
    let event = &record["event"];
    match (event["type"].as_str().unwrap_or_default(), event["delta"]["type"].as_str().unwrap_or_default()) {
        ("content_block_delta", "text_delta") => vec![AgentEvent::Said {
            text: text(&event["delta"]["text"]),
            part: Part::Delta,
            within: named(&record["parent_tool_use_id"]),
        }],
        (
            "content_block_delta"
            | "content_block_start"
            | "content_block_stop"
            | "message_start"
            | "message_delta"
            | "message_stop"
            | "ping",
            _,
        ) => Vec::new(),
        (kind, _) => vec![unknown("stream_event", kind)],
    }
}

fn asks(record: &Value) -> Vec<AgentEvent> {
    let request = &record["request"];
    match request["subtype"].as_str().unwrap_or_default() {
        // Not a matter of permission: asked at every level, and allowed it gets no answer.
        "can_use_tool" if request["tool_name"] == "AskUserQuestion" => {
            let questions =
                items(&request["input"]["questions"]).iter().map(|question| text(&question["question"]));
            vec![AgentEvent::Blocked(Blocked::Question {
                request: text(&record["request_id"]),
                text: questions.collect::<Vec<_>>().join(" "),
            })]
        }
        // An MCP server wants a form filled in or a page visited; a dialog of its own that has no other way out.
        "elicitation" => vec![AgentEvent::Blocked(Blocked::Dialog {
            text: format!(
                "the MCP server `{}` asks: {}",
                text(&request["mcp_server_name"]),
                text(&request["message"])
            ),
        })],
        "request_user_dialog" => vec![AgentEvent::Blocked(Blocked::Dialog {
            text: format!("a dialog: {}", text(&request["dialog_kind"])),
        })],
        "can_use_tool" => vec![AgentEvent::Blocked(Blocked::Permission {
            request: text(&record["request_id"]),
            tool: text(&request["tool_name"]),
            input: request["input"].clone(),
        })],
        "mcp_message" => vec![AgentEvent::Blocked(Blocked::Routed {
            request: text(&record["request_id"]),
            message: request["message"].clone(),
        })],
        subtype => vec![unknown("control_request", subtype)],
    }
}
