//! The control protocol on the stream's stdin: what a host can order, and how each order is answered.

use serde_json::{Value, json};

use super::records;
use super::voice::{Stdin, Stream};
use crate::dialect::{Answer, Voice};
use crate::stage::{Input, Played, Stage, Stop};

/// One line of stdin, understood.
pub(super) enum Order {
    Prompt(String),
    Control {
        id: String,
        request: Value,
    },
    /// The host's answer to a question of ours.
    Answer {
        id: String,
        response: Value,
    },
    /// Lines of other kinds are ignored.
    Other,
}

/// Reads a line. A line that is no JSON is an error, and ends the real one too.
pub(super) fn read(line: &[u8]) -> serde_json::Result<Order> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(Order::Other);
    }
    let record: Value = serde_json::from_slice(line)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(match record["type"].as_str() {
        Some("user") => Order::Prompt(prompt_text(&record["message"]["content"])),
        Some("control_request") => {
            Order::Control { id: text(&record["request_id"]), request: record["request"].clone() }
        }
        Some("control_response") => {
            let response = record["response"].clone();
            Order::Answer { id: text(&response["request_id"]), response }
        }
        _ => Order::Other,
    })
}

fn prompt_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// Does what a control request asks, and answers it.
pub(super) async fn obey(
    stream: &mut Stream,
    stage: &mut Stage,
    id: &str,
    request: &Value,
    is_idle: bool,
) -> Played {
    let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
    let body = match request["subtype"].as_str().unwrap_or_default() {
        "initialize" => Some(records::initialized()),
        "interrupt" => {
            stage.record(&records::control_success(id, None)).await?;
            return if is_idle { Ok(()) } else { Err(Stop::Interrupted) };
        }
        "end_session" => {
            stage.record(&records::control_success(id, None)).await?;
            return Err(Stop::Exit(0));
        }
        "set_permission_mode" => {
            stream.facts.permission_mode = text("mode");
            stage.record(&records::control_success(id, Some(json!({"mode": text("mode")})))).await?;
            let status = json!({"status": null, "permissionMode": text("mode")});
            return stage.record(&stream.facts.system("status", status)).await;
        }
        "set_model" => {
            stream.facts.model = text("model");
            None
        }
        "set_max_thinking_tokens" => None,
        "mcp_status" => Some(json!({"mcpServers": []})),
        other => {
            let error = format!("Unsupported control request subtype: {other}");
            return stage.record(&records::control_error(id, &error)).await;
        }
    };
    stage.record(&records::control_success(id, body)).await
}

/// Waits for the answer to a permission question, for as long as it takes.
pub(super) async fn await_answer(stream: &mut Stream, stage: &mut Stage, request: &str) -> Played<Answer> {
    let closed =
        "Tool permission request failed: Error: Tool permission stream closed before response received";
    loop {
        if stream.stdin == Stdin::Ended {
            return Ok(Answer::Denied { reason: closed.to_owned() });
        }
        let input = stage.listen(None).await?;
        if let Input::Heard(line) = &input {
            match read(line) {
                Ok(Order::Answer { id, response }) if id == request => return answered(&response),
                Ok(Order::Control { request: asked, .. }) if asked["subtype"] == "interrupt" => {
                    stage.record(&records::control_cancel(request)).await?;
                }
                _ => {}
            }
        }
        stream.hear(stage, input).await?;
    }
}

fn answered(response: &Value) -> Played<Answer> {
    let decision = &response["response"];
    if decision["behavior"] == "allow" {
        return Ok(Answer::Allowed);
    }
    if decision["interrupt"] == true {
        return Err(Stop::Interrupted);
    }
    let reason = decision["message"].as_str().or(response["error"].as_str()).unwrap_or("denied");
    Ok(Answer::Denied { reason: reason.to_owned() })
}
