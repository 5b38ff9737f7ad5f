//! What of a transcript is worth remembering. One record is one block of an answer, or one message of the user. Other
//! programs write transcripts in the same format with fewer fields: content is a plain string, ids and times are missing.

use serde_json::Value;

use super::message::{self, INTERRUPTED};
use crate::agents::reading::{items, named, text};
use crate::agents::tool_line;
use crate::remembering::{Kind, Mark, Remembered, Speaker};

/// How what is injected into a prompt begins.
const REMINDER: &str = "<system-reminder>";

/// How commands of the program, and what they print, begin.
const COMMANDS: [&str; 5] =
    ["<command-name>", "<command-message>", "<local-command-", "<bash-input>", "<bash-stdout>"];

pub(crate) fn remembered(record: &Value) -> Vec<Remembered> {
    // A record without a type is a bare message: its role says whose it is.
    let kind = record["type"].as_str().or(record["message"]["role"].as_str()).or(record["role"].as_str());
    match kind.unwrap_or_default() {
        "user" => user(record),
        "assistant" => assistant(record),
        "attachment" if record["attachment"]["type"] == "queued_command" => {
            let words = texts(&record["attachment"]["prompt"]).join("\n");
            said(record, "", Speaker::User, mark_of(record, &words), words).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The message of a record, or the record itself where it is a bare message.
fn message_of(record: &Value) -> &Value {
    if record["message"].is_null() { record } else { &record["message"] }
}

/// The content of a message, which may be a plain string itself.
fn content_of(message: &Value) -> &Value {
    if message.is_string() { message } else { &message["content"] }
}

/// The texts in the content of a message: a plain string, a text block, or a list of both.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::Array(blocks) => blocks.iter().filter_map(block_text).collect(),
        one => block_text(one).into_iter().collect(),
    }
}

fn block_text(block: &Value) -> Option<&str> {
    let is_text = matches!(block["type"].as_str(), None | Some("text"));
    block.as_str().or(block["text"].as_str().filter(|_| is_text))
}

fn user(record: &Value) -> Vec<Remembered> {
    let message = message_of(record);
    let mut found = Vec::new();
    for (call, result) in message::tool_results(message) {
        if result.failed {
            let line = tool_line::failed(result.exit_code, &result.text);
            found.extend(tool(record, &format!("/{call}"), line));
        }
    }
    let (reminders, words): (Vec<&str>, Vec<&str>) =
        texts(content_of(message)).into_iter().partition(|text| text.trim_start().starts_with(REMINDER));
    if !words.is_empty() {
        let words = words.join("\n");
        found.extend(said(record, "", Speaker::User, mark_of(record, &words), words));
    }
    if !reminders.is_empty() {
        found.extend(said(record, "/reminder", Speaker::User, Mark::Reminder, reminders.join("\n")));
    }
    found
}

fn assistant(record: &Value) -> Vec<Remembered> {
    let message = message_of(record);
    let mark = if record["isApiErrorMessage"] == true || message["model"] == "<synthetic>" {
        Mark::Meta
    } else {
        mark_of(record, "")
    };
    let content = content_of(message);
    let words = texts(content);
    let mut found = Vec::new();
    for block in items(content) {
        if let Some("tool_use" | "server_tool_use" | "mcp_tool_use") = block["type"].as_str() {
            let line = tool_line::called(&text(&block["name"]), &block["input"]);
            found.extend(tool(record, &format!("/{}", text(&block["id"])), line));
        }
    }
    if !words.is_empty() {
        found.extend(said(record, "", Speaker::Assistant, mark, words.join("\n")));
    }
    found
}

fn mark_of(record: &Value, words: &str) -> Mark {
    if record["isSidechain"] == true {
        Mark::Sidechain
    } else if record["isCompactSummary"] == true {
        Mark::Summary
    } else if COMMANDS.iter().any(|command| words.starts_with(command)) {
        Mark::Command
    } else if record["isMeta"] == true
        || words.starts_with(INTERRUPTED)
        || words.starts_with("<task-notification>")
        || record["origin"]["kind"] == "task-notification"
    {
        Mark::Meta
    } else {
        Mark::None
    }
}

fn said(record: &Value, part: &str, speaker: Speaker, mark: Mark, text: String) -> Option<Remembered> {
    (!text.trim().is_empty()).then(|| Remembered {
        id: named(&record["uuid"]).map(|id| format!("{id}{part}")),
        speaker,
        kind: Kind::Said,
        mark,
        text,
        at: named(&record["timestamp"]),
    })
}

fn tool(record: &Value, part: &str, line: String) -> Option<Remembered> {
    let mark = if record["isSidechain"] == true { Mark::Sidechain } else { Mark::None };
    said(record, part, Speaker::Assistant, mark, line).map(|told| Remembered { kind: Kind::Tool, ..told })
}
