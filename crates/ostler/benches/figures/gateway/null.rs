//! An agent that does nothing: whatever it is asked, it says `ok` at once. What is left is the gateway's own.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};

/// With this variable the program that measures is that agent.
pub(crate) const NULL: &str = "OSTLER_FIGURES_NULL_AGENT";

const VERSION: &str = "2.1.197 (Claude Code)";

pub(crate) fn run() {
    if std::env::args().any(|word| word == "--version") {
        println!("{VERSION}");
        return;
    }
    let (mut out, session) = (std::io::stdout().lock(), "00000000-0000-4000-8000-000000000000");
    let delta =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "null",
        "content": [{"type": "text", "text": "ok"}], "stop_reason": null,
        "usage": {"input_tokens": 1, "output_tokens": 1}});
    let answer: String = [
        json!({"type": "stream_event", "event": delta, "session_id": session, "parent_tool_use_id": null}),
        json!({"type": "assistant", "message": message, "session_id": session, "parent_tool_use_id": null}),
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "ok", "num_turns": 1,
            "duration_ms": 1, "session_id": session, "total_cost_usd": 0, "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1}}),
    ]
    .iter()
    .map(|record| format!("{record}\n"))
    .collect();
    for line in std::io::stdin().lock().lines() {
        let heard: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let told = match heard["type"].as_str() {
            Some("user") => answer.clone(),
            Some("control_request") => {
                let response =
                    json!({"subtype": "success", "request_id": heard["request_id"], "response": {}});
                format!("{}\n", json!({"type": "control_response", "response": response}))
            }
            _ => continue,
        };
        let is_end = heard["request"]["subtype"] == "end_session";
        if out.write_all(told.as_bytes()).and_then(|()| out.flush()).is_err() || is_end {
            return;
        }
    }
}
