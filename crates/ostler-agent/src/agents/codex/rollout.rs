//! What Codex writes into its own file: every item twice, as the model sees it and as an event. Words are read from the
//! events, calls from what the model sees, and sums from records of their own.

use serde_json::Value;

use super::decoder::{Codex, arguments, untold};
use crate::agents::reading::{Turn, content_text, named, text, unknown};
use crate::event::{AgentEvent, ToolResult, TurnOutcome};

impl Codex {
    pub(super) fn written(&mut self, record: &Value) -> Vec<AgentEvent> {
        let payload = &record["payload"];
        let kind = payload["type"].as_str().unwrap_or_default();
        match record["type"].as_str().unwrap_or_default() {
            "session_meta" => vec![AgentEvent::Started { session: text(&payload["id"]), model: None }],
            "event_msg" => self.event(kind, payload),
            "response_item" => item(kind, payload),
            "token_usage_record" => self.used(&payload["thread_token_usage"]).into_iter().collect(),
            "turn_context" => self.calls.on_model(&payload["model"]),
            "world_state" | "compacted" => Vec::new(),
            kind => vec![unknown(kind, "")],
        }
    }

    fn event(&mut self, kind: &str, payload: &Value) -> Vec<AgentEvent> {
        match kind {
            "task_started" => {
                self.turn = Turn::Open;
                Vec::new()
            }
            "item_completed" => self.completed(&payload["item"]),
            "task_complete" => {
                let outcome = match (named(&payload["last_agent_message"]), self.error.take()) {
                    (Some(text), _) => TurnOutcome::Done { text },
                    (None, failure) => TurnOutcome::Failed(failure.unwrap_or_else(untold)),
                };
                let mut events = self.settle_calls();
                events.push(self.ended(outcome));
                events
            }
            "turn_aborted" => {
                let mut events = self.settle_calls();
                events.push(self.ended(TurnOutcome::Interrupted));
                events
            }
            "error" | "stream_error" => self.erred(&text(&payload["message"])),
            "token_count" | "thread_settings_applied" => Vec::new(),
            kind => vec![unknown("event_msg", kind)],
        }
    }

    fn completed(&mut self, item: &Value) -> Vec<AgentEvent> {
        let words = content_text(&item["content"]);
        match item["type"].as_str().unwrap_or_default() {
            "UserMessage" => vec![AgentEvent::Asked { text: words }],
            "AgentMessage" => self.message(words).into_iter().collect(),
            "Reasoning" => vec![AgentEvent::Thought { text: content_text(&item["summary_text"]) }],
            // Calls are read as the model sees them.
            "CommandExecution" | "FileChange" | "McpToolCall" | "CollabAgentToolCall" | "WebSearch" => {
                Vec::new()
            }
            kind => vec![unknown("event_msg/item_completed", kind)],
        }
    }
}

fn item(kind: &str, payload: &Value) -> Vec<AgentEvent> {
    let call = text(&payload["call_id"]);
    match kind {
        "function_call" | "custom_tool_call" => {
            let (space, name) = (text(&payload["namespace"]), text(&payload["name"]));
            let tool = if space.is_empty() { name } else { format!("{space}__{name}") };
            let input =
                if payload["arguments"].is_null() { &payload["input"] } else { &payload["arguments"] };
            vec![AgentEvent::ToolStarted { call, tool, input: arguments(input), within: None }]
        }
        "function_call_output" | "custom_tool_call_output" => {
            let text = content_text(&payload["output"]);
            let exit_code = exit_code(&text);
            // Of other tools it does not say whether they went well.
            let failed = exit_code.is_some_and(|code| code != 0);
            vec![AgentEvent::ToolEnded { call, result: ToolResult { failed, exit_code, text } }]
        }
        "message" | "reasoning" => Vec::new(),
        kind => vec![unknown("response_item", kind)],
    }
}

/// The exit code of a command, among the lines that come before its output.
pub(super) fn exit_code(text: &str) -> Option<i64> {
    let (head, _) = text.split_once("\nOutput:\n")?;
    let code = |line: &str| {
        line.strip_prefix("Exit code: ").or(line.strip_prefix("Process exited with code "))?.parse().ok()
    };
    head.lines().find_map(code)
}
