//! What of a rollout is worth remembering: words from its events, calls from what the model sees.

use serde_json::Value;

use super::decoder::arguments;
use super::rollout::exit_code;
use crate::agents::reading::{content_text, named, text};
use crate::agents::tool_line;
use crate::remembering::{Kind, Mark, Remembered, Speaker};

pub(crate) fn remembered(record: &Value) -> Vec<Remembered> {
    let payload = &record["payload"];
    let kind = payload["type"].as_str().unwrap_or_default();
    let found = match (record["type"].as_str().unwrap_or_default(), kind) {
        ("event_msg", "item_completed") => item(record, &payload["item"]),
        // As earlier versions wrote it.
        ("event_msg", "user_message") => {
            said(record, None, Speaker::User, Mark::None, content_text(&payload["message"]))
        }
        ("event_msg", "agent_message") => {
            said(record, None, Speaker::Assistant, Mark::None, content_text(&payload["message"]))
        }
        ("response_item", "function_call" | "custom_tool_call") => {
            let input =
                if payload["arguments"].is_null() { &payload["input"] } else { &payload["arguments"] };
            let (space, name) = (text(&payload["namespace"]), text(&payload["name"]));
            let tool = if space.is_empty() { name } else { format!("{space}__{name}") };
            call(record, "", tool_line::called(&tool, &arguments(input)))
        }
        ("response_item", "function_call_output" | "custom_tool_call_output") => {
            let output = content_text(&payload["output"]);
            let code = exit_code(&output).filter(|code| *code != 0);
            let told = output.split_once("\nOutput:\n").map_or("", |(_, rest)| rest);
            code.and_then(|code| call(record, "/end", tool_line::failed(Some(code), told)))
        }
        ("compacted", _) => {
            said(record, None, Speaker::User, Mark::Summary, content_text(&payload["message"]))
        }
        _ => None,
    };
    found.into_iter().collect()
}

fn item(record: &Value, item: &Value) -> Option<Remembered> {
    let content = if item["content"].is_null() { &item["text"] } else { &item["content"] };
    let words = content_text(content);
    let id = named(&item["id"]);
    match item["type"].as_str().unwrap_or_default() {
        "UserMessage" => {
            let is_injected =
                words.starts_with("<environment_context>") || words.starts_with("<user_instructions>");
            let mark = if is_injected { Mark::Reminder } else { Mark::None };
            said(record, id, Speaker::User, mark, words)
        }
        "AgentMessage" => said(record, id, Speaker::Assistant, Mark::None, words),
        _ => None,
    }
}

fn call(record: &Value, part: &str, line: String) -> Option<Remembered> {
    let id = named(&record["payload"]["call_id"]).map(|id| format!("{id}{part}"));
    said(record, id, Speaker::Assistant, Mark::None, line).map(|told| Remembered { kind: Kind::Tool, ..told })
}

fn said(
    record: &Value,
    id: Option<String>,
    speaker: Speaker,
    mark: Mark,
    text: String,
) -> Option<Remembered> {
    let id = id.or_else(|| record["ordinal"].as_u64().map(|ordinal| format!("ordinal-{ordinal}")));
    let at = named(&record["timestamp"]);
    (!text.trim().is_empty()).then_some(Remembered { id, speaker, kind: Kind::Said, mark, text, at })
}
