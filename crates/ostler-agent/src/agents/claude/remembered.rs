//! What of a transcript is worth remembering. One record is one block of an answer, or one message of the user.

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
    match record["type"].as_str().unwrap_or_default() {
        "user" => user(record),
        "assistant" => assistant(record),
        "attachment" if record["attachment"]["type"] == "queued_command" => {
            let words = text(&record["attachment"]["prompt"]);
            said(record, "", Speaker::User, mark_of(record, &words), words).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn user(record: &Value) -> Vec<Remembered> {
    let answer = &record["message"];
    let mut found = Vec::new();
    for (call, result) in message::tool_results(answer) {
        if result.failed {
            let line = tool_line::failed(result.exit_code, &result.text);
            found.extend(tool(record, &format!("/{call}"), line));
        }
    }
    let content = &answer["content"];
    let texts: Vec<&str> = match content.as_str() {
        Some(text) => vec![text],
        None => items(content)
            .iter()
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str())
            .collect(),
    };
    let (reminders, words): (Vec<&str>, Vec<&str>) =
        texts.into_iter().partition(|text| text.trim_start().starts_with(REMINDER));
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
    let answer = &record["message"];
    let mark = if record["isApiErrorMessage"] == true || answer["model"] == "<synthetic>" {
        Mark::Meta
    } else {
        mark_of(record, "")
    };
    let mut found = Vec::new();
    let mut words = Vec::new();
    for block in items(&answer["content"]) {
        match block["type"].as_str().unwrap_or_default() {
            "text" => words.extend(block["text"].as_str()),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                let line = tool_line::called(&text(&block["name"]), &block["input"]);
                found.extend(tool(record, &format!("/{}", text(&block["id"])), line));
            }
            _ => {}
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
