//! What of OpenCode's database is worth remembering. Whoever reads the rows hands each part over as one record:
//! `{"sessionID", "role", "time", "part": {"id", "type", …}}`.

use serde_json::Value;

use crate::agents::reading::{content_text, named, text};
use crate::agents::tool_line;
use crate::remembering::{Kind, Mark, Remembered, Speaker};

pub(crate) fn remembered(record: &Value) -> Vec<Remembered> {
    let part = &record["part"];
    // What neither of the two said is stored and marked: it must not be found as an answer.
    let (speaker, is_known) = match record["role"].as_str() {
        Some("user") => (Speaker::User, true),
        role => (Speaker::Assistant, role == Some("assistant")),
    };
    let (kind, words) = match part["type"].as_str().unwrap_or_default() {
        "text" => (Kind::Said, content_text(&part["text"])),
        "tool" => (Kind::Tool, tool(part)),
        _ => return Vec::new(),
    };
    let mark = if part["synthetic"] == true || !is_known { Mark::Meta } else { Mark::None };
    if words.trim().is_empty() {
        return Vec::new();
    }
    vec![Remembered { id: named(&part["id"]), speaker, kind, mark, text: words, at: named(&record["time"]) }]
}

/// The call, and its exit code where that is not zero.
fn tool(part: &Value) -> String {
    let state = &part["state"];
    let line = tool_line::called(&text(&part["tool"]), &state["input"]);
    match (state["metadata"]["exit"].as_i64(), state["status"].as_str()) {
        (Some(code), _) if code != 0 => format!("{line} (exit {code})"),
        (_, Some("error")) => format!("{line} ({})", tool_line::failed(None, &text(&state["error"]))),
        _ => line,
    }
}
