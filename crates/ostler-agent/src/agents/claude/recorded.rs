//! The conversation of a transcript, to tell whether a session knows what it is taken to know.

use serde_json::Value;

use super::message::INTERRUPTED;
use crate::agents::reading::content_text;
use crate::canonical::{Block, Message, read};
use crate::offering;

/// What was said, in the order of the file. Sub-agents, notes of the program's own and what was made of a compacted
/// conversation are left out; a line that was not written to its end is too.
pub(super) fn recorded(transcript: &str) -> Vec<Message> {
    let records = transcript.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let messages: Vec<Value> = records.filter(is_said).map(|mut record| record["message"].take()).collect();
    let mut messages = read(&messages).unwrap_or_default();
    for block in messages.iter_mut().flat_map(|message| &mut message.blocks) {
        // Whoever asked knows his tools by his own names.
        if let Block::Call { tool, .. } = block
            && let Some(named) = offering::named(tool)
        {
            *tool = named.to_owned();
        }
    }
    messages
}

fn is_said(record: &Value) -> bool {
    let is_message = matches!(record["type"].as_str(), Some("user" | "assistant"));
    let is_aside = ["isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage"]
        .iter()
        .any(|mark| record[*mark] == true);
    is_message && !is_aside && !content_text(&record["message"]["content"]).starts_with(INTERRUPTED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_transcript_is_a_conversation() {
        let said =
            |kind: &str, content: Value| json!({"type": kind, "message": {"role": kind, "content": content}});
        let mut aside = said("user", json!("sub"));
        aside["isSidechain"] = json!(true);
        let call = json!({"type": "tool_use", "id": "a", "name": "mcp__program__weather", "input": {}});
        let records = [
            json!({"type": "queue-operation"}),
            said("user", json!("how is it?")),
            aside,
            said("assistant", json!([{"type": "text", "text": "I look."}])),
            said("assistant", json!([call])),
            said("user", json!([{"type": "tool_result", "tool_use_id": "a", "content": "sun"}])),
            said("assistant", json!([{"type": "text", "text": "Sun."}])),
            said("user", json!([{"type": "text", "text": "[Request interrupted by user]"}])),
        ];
        let mut transcript: String = records.iter().map(|record| format!("{record}\n")).collect();
        transcript.push_str(r#"{"type":"assistant","message":{"role":"assi"#);
        let written: Vec<Value> = recorded(&transcript).iter().map(Message::written).collect();
        assert_eq!(written.len(), 4, "{written:?}");
        assert_eq!(written[1]["content"][1]["name"], "weather");
        assert_eq!(written[3]["content"][0]["text"], "Sun.");
    }
}
