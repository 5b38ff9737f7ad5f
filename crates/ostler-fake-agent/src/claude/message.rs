//! One message of the model, in the shapes that Claude Code gives it: while it streams, and in the transcript.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::dialect::Call;
use crate::script::Tokens;

/// Tokens that one request is said to have read, as in the recordings.
pub(crate) const INPUT_TOKENS: u64 = 10;

/// A message under way: its blocks so far.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) request: String,
    pub(crate) model: String,
    pub(crate) blocks: Vec<Value>,
    /// The ids of the records that the blocks were printed as: the transcript has the same.
    pub(crate) printed: Vec<String>,
}

impl Message {
    pub(crate) fn new(model: &str) -> Self {
        // `[1m]` is the command line's mark for a context size; the model's own name has none.
        let model = model.split('[').next().unwrap_or(model).to_owned();
        Self {
            id: format!("msg_{}", short_id()),
            request: request_id(),
            model,
            blocks: Vec::new(),
            printed: Vec::new(),
        }
    }

    /// The message as it is streamed, with one block of it.
    pub(crate) fn streamed(&self, block: &Value) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [block],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage(),
            "context_management": null,
        })
    }

    /// The message as its beginning is streamed.
    pub(crate) fn opening(&self) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage(),
        })
    }

    /// The message as the transcript has it, with one block of it.
    pub(crate) fn kept(&self, block: &Value, stop_reason: &str) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [block],
            "stop_reason": stop_reason,
            "stop_sequence": null,
            "stop_details": null,
            "usage": whole_usage(Tokens { input: INPUT_TOKENS, output: 1 }),
        })
    }
}

/// Usage as it stands when a message begins.
fn usage() -> Value {
    json!({
        "input_tokens": INPUT_TOKENS,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    })
}

/// Usage as it stands when all is known.
pub(crate) fn whole_usage(used: Tokens) -> Value {
    json!({
        "input_tokens": used.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": used.output,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
    })
}

/// The message that stands for a failed request.
pub(crate) fn synthetic(text: &str) -> Value {
    json!({
        "id": Uuid::new_v4().to_string(),
        "container": null,
        "model": "<synthetic>",
        "role": "assistant",
        "stop_details": null,
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "type": "message",
        "usage": whole_usage(Tokens { input: 0, output: 0 }),
        "content": [text_block(text)],
        "context_management": null,
    })
}

pub(crate) fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub(crate) fn thinking_block(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": "bW9jaw=="})
}

pub(crate) fn tool_use_block(call: &Call) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments})
}

/// A tool's answer: the block for the model, and the fuller result beside it.
pub(crate) fn tool_result(call: &Call, output: &str) -> (Value, Value) {
    let mut block = json!({"tool_use_id": call.id, "type": "tool_result", "content": output});
    if let Some(path) = call.written_file() {
        let content = call.arguments.get("content").cloned().unwrap_or_default();
        let result = json!({
            "type": "create",
            "filePath": path,
            "content": content,
            "structuredPatch": [],
            "originalFile": null,
            "userModified": false,
        });
        return (block, result);
    }
    block["is_error"] = false.into();
    let no_output = output.is_empty();
    if no_output {
        block["content"] = format!("({} completed with no output)", call.tool).into();
    }
    let result = json!({
        "stdout": output,
        "stderr": "",
        "interrupted": false,
        "isImage": false,
        "noOutputExpected": no_output,
    });
    (block, result)
}

/// A tool's failure.
pub(crate) fn tool_failure(call: &Call, reason: &str) -> (Value, Value) {
    let block = json!({"type": "tool_result", "content": reason, "is_error": true, "tool_use_id": call.id});
    (block, format!("Error: {reason}").into())
}

/// A call that a person did not want.
pub(crate) fn tool_rejection(call: &Call) -> (Value, Value) {
    let reason = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a \
                  file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the \
                  user to tell you how to proceed.";
    let (block, _) = tool_failure(call, reason);
    (block, "User rejected tool use".into())
}

pub(crate) fn request_id() -> String {
    format!("req_fake_{}", short_id())
}

fn short_id() -> String {
    Uuid::new_v4().simple().to_string().chars().take(20).collect()
}
