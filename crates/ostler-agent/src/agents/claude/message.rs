//! Content blocks, which are the same on the standard output and in the transcript.

use serde_json::Value;

use crate::agents::reading::{content_text, items, named, text, unknown};
use crate::event::{AgentEvent, Part, ToolResult};

/// How Claude Code notes in the conversation that it was interrupted.
pub(super) const INTERRUPTED: &str = "[Request interrupted by user";

/// The blocks of an answer. A plain string is one text block.
pub(super) fn blocks(message: &Value, within: Option<&str>) -> Vec<AgentEvent> {
    match &message["content"] {
        Value::String(text) => {
            let within = within.map(str::to_owned);
            vec![AgentEvent::Said { text: text.clone(), part: Part::Whole, within }]
        }
        content => items(content).iter().map(|block| event(block, within)).collect(),
    }
}

fn event(block: &Value, within: Option<&str>) -> AgentEvent {
    let within = within.map(str::to_owned);
    match block["type"].as_str().unwrap_or_default() {
        "text" => AgentEvent::Said { text: text(&block["text"]), part: Part::Whole, within },
        "thinking" => AgentEvent::Thought { text: text(&block["thinking"]) },
        "redacted_thinking" => AgentEvent::Thought { text: String::new() },
        "tool_use" | "server_tool_use" | "mcp_tool_use" => AgentEvent::ToolStarted {
            call: text(&block["id"]),
            tool: text(&block["name"]),
            input: block["input"].clone(),
            within,
        },
        kind => match result(block) {
            Some((call, result)) => AgentEvent::ToolEnded { call, result },
            None => unknown("assistant", kind),
        },
    }
}

/// The calls that a message closes.
pub(super) fn tool_results(message: &Value) -> Vec<(String, ToolResult)> {
    items(&message["content"]).iter().filter_map(result).collect()
}

/// `tool_result`, or the like of `web_search_tool_result` for tools that the provider runs.
fn result(block: &Value) -> Option<(String, ToolResult)> {
    block["type"].as_str().filter(|kind| kind.ends_with("tool_result"))?;
    let text = content_text(&block["content"]);
    let failed = block["is_error"] == true;
    let exit_code = text.strip_prefix("Exit code ").filter(|_| failed);
    let exit_code = exit_code.and_then(|rest| rest.lines().next()?.trim().parse().ok());
    Some((named(&block["tool_use_id"])?, ToolResult { failed, exit_code, text }))
}

/// The prompt in a message of the user, unless the program wrote it in their name.
pub(super) fn prompt(message: &Value) -> Option<String> {
    let text = content_text(&message["content"]);
    let own = [INTERRUPTED, "<local-command-", "<bash-", "<command-name>", "<task-notification>"];
    (!text.is_empty() && !own.iter().any(|own| text.starts_with(own))).then_some(text)
}

/// The remark that the conversation was made shorter.
pub(super) fn compacted(trigger: &Value) -> AgentEvent {
    let trigger = trigger.as_str().unwrap_or("unknown trigger");
    AgentEvent::Noted { text: format!("the conversation was compacted ({trigger})") }
}
