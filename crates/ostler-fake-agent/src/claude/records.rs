//! The records of Claude Code's stream, in the shapes of version 2.1.197. Lists that only name what a real one offers
//! (tools, commands, skills) are short here.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::message::{INPUT_TOKENS, whole_usage};
use crate::clock;
use crate::dialect::Call;
use crate::script::Tokens;

/// What most records state about the session they belong to.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) session: String,
    pub(crate) model: String,
    pub(crate) permission_mode: String,
    pub(crate) version: String,
}

/// What a turn came to, for its result record.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) lasted: Duration,
    /// Requests to the model.
    pub(crate) rounds: u64,
    pub(crate) used: Tokens,
    pub(crate) denials: Vec<Value>,
    /// The last text said.
    pub(crate) text: String,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let used = Tokens { input: 0, output: 0 };
        Self { lasted: Duration::ZERO, rounds: 0, used, denials: Vec::new(), text: String::new() }
    }

    /// One more request to the model.
    pub(crate) fn add_round(&mut self) {
        self.rounds += 1;
        self.used.input += INPUT_TOKENS;
        self.used.output += 1;
    }

    pub(crate) fn deny(&mut self, call: &Call) {
        self.denials
            .push(json!({"tool_name": call.tool, "tool_use_id": call.id, "tool_input": call.arguments}));
    }
}

impl Facts {
    pub(crate) fn init(&self, cwd: &Path) -> Value {
        json!({
            "type": "system",
            "subtype": "init",
            "cwd": cwd,
            "session_id": self.session,
            "tools": ["Task", "Bash", "Edit", "Read", "Write"],
            "mcp_servers": [],
            "model": self.model,
            "permissionMode": self.permission_mode,
            "slash_commands": ["clear", "compact", "context"],
            "apiKeySource": "ANTHROPIC_API_KEY",
            "claude_code_version": self.version,
            "output_style": "default",
            "agents": ["claude", "general-purpose"],
            "skills": ["verify"],
            "plugins": [],
            "analytics_disabled": true,
            "product_feedback_disabled": true,
            "uuid": Uuid::new_v4().to_string(),
            "memory_paths": {"auto": "/dev/null/memory/"},
            "fast_mode_state": "off",
        })
    }

    pub(crate) fn assistant(&self, message: Value, request: &str) -> Value {
        json!({
            "type": "assistant",
            "message": message,
            "parent_tool_use_id": null,
            "session_id": self.session,
            "uuid": Uuid::new_v4().to_string(),
            "request_id": request,
        })
    }

    pub(crate) fn user(&self, block: Value) -> Value {
        json!({
            "type": "user",
            "message": {"role": "user", "content": [block]},
            "parent_tool_use_id": null,
            "session_id": self.session,
            "uuid": Uuid::new_v4().to_string(),
            "timestamp": clock::timestamp(),
        })
    }

    pub(crate) fn replay(&self, prompt: &str) -> Value {
        json!({
            "type": "user",
            "message": {"role": "user", "content": prompt},
            "session_id": self.session,
            "parent_tool_use_id": null,
            "uuid": Uuid::new_v4().to_string(),
            "timestamp": clock::timestamp(),
            "isReplay": true,
        })
    }

    pub(crate) fn stream_event(&self, event: Value) -> Value {
        json!({
            "type": "stream_event",
            "event": event,
            "session_id": self.session,
            "parent_tool_use_id": null,
            "uuid": Uuid::new_v4().to_string(),
        })
    }

    /// A system record with this subtype and these keys.
    pub(crate) fn system(&self, subtype: &str, keys: Value) -> Value {
        let mut record = keys;
        record["type"] = "system".into();
        record["subtype"] = subtype.into();
        record["uuid"] = Uuid::new_v4().to_string().into();
        record["session_id"] = self.session.clone().into();
        record
    }

    pub(crate) fn success(&self, tally: &Tally) -> Value {
        let mut record = self.result("success", tally);
        let lasted = clock::whole_ms(tally.lasted);
        record["is_error"] = false.into();
        record["api_error_status"] = Value::Null;
        record["ttft_ms"] = lasted.into();
        record["ttft_stream_ms"] = lasted.into();
        record["time_to_request_ms"] = 0.into();
        record["result"] = tally.text.clone().into();
        record["stop_reason"] = "end_turn".into();
        record["terminal_reason"] = "completed".into();
        record
    }

    /// A failed request: called a success by its subtype, as the real one does.
    pub(crate) fn failed_request(&self, tally: &Tally, text: &str, status: Option<u16>) -> Value {
        let mut record = self.result("success", tally);
        record["is_error"] = true.into();
        record["api_error_status"] = status.into();
        record["result"] = text.into();
        record["stop_reason"] = "stop_sequence".into();
        record["terminal_reason"] = "completed".into();
        record
    }

    pub(crate) fn max_turns(&self, tally: &Tally, message: &str) -> Value {
        let mut record = self.result("error_max_turns", tally);
        record["is_error"] = true.into();
        record["stop_reason"] = "tool_use".into();
        record["terminal_reason"] = "max_turns".into();
        record["errors"] = json!([message]);
        record
    }

    pub(crate) fn aborted(&self, tally: &Tally, during_tools: bool) -> Value {
        let mut record = self.result("error_during_execution", tally);
        let stop = if during_tools { json!("tool_use") } else { Value::Null };
        let named = stop.as_str().unwrap_or("null");
        let diagnosis =
            format!("[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={named}");
        record["is_error"] = true.into();
        record["errors"] = json!([diagnosis]);
        record["stop_reason"] = stop;
        record["terminal_reason"] = if during_tools { "aborted_tools" } else { "aborted_streaming" }.into();
        record
    }

    /// The only record of a process that was asked to continue what does not exist.
    pub(crate) fn nothing_to_resume(&self, complaint: &str) -> Value {
        let mut record = self.result("error_during_execution", &Tally::new());
        record["is_error"] = true.into();
        record["stop_reason"] = Value::Null;
        record["errors"] = json!([complaint]);
        if let Some(keys) = record.as_object_mut() {
            keys.remove("fast_mode_state");
        }
        record
    }

    fn result(&self, subtype: &str, tally: &Tally) -> Value {
        let lasted = clock::whole_ms(tally.lasted);
        let cost = tally.used.output as f64 * 25e-6 + tally.used.input as f64 * 5e-6;
        let mut models = json!({});
        if tally.used.output > 0 {
            models[&self.model] = json!({
                "inputTokens": tally.used.input,
                "outputTokens": tally.used.output,
                "cacheReadInputTokens": 0,
                "cacheCreationInputTokens": 0,
                "webSearchRequests": 0,
                "costUSD": cost,
                "contextWindow": 1_000_000,
                "maxOutputTokens": 64_000,
            });
        }
        json!({
            "type": "result",
            "subtype": subtype,
            "duration_ms": lasted,
            "duration_api_ms": lasted,
            "num_turns": tally.rounds,
            "session_id": self.session,
            "total_cost_usd": cost,
            "usage": whole_usage(tally.used),
            "modelUsage": models,
            "permission_denials": tally.denials,
            "fast_mode_state": "off",
            "uuid": Uuid::new_v4().to_string(),
        })
    }
}

/// The question whether a tool may be used.
pub(crate) fn can_use_tool(request: &str, call: &Call) -> Value {
    let description =
        call.arguments.get("description").and_then(Value::as_str).unwrap_or_else(|| call.title());
    json!({
        "type": "control_request",
        "request_id": request,
        "request": {
            "subtype": "can_use_tool",
            "tool_name": call.tool,
            "display_name": call.tool,
            "input": call.arguments,
            "description": description,
            "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
            "tool_use_id": call.id,
        },
    })
}

pub(crate) fn control_cancel(request: &str) -> Value {
    json!({"type": "control_cancel_request", "request_id": request})
}

/// The answer to a control request that went well, with a body where its subtype has one.
pub(crate) fn control_success(request: &str, body: Option<Value>) -> Value {
    let mut response = json!({"subtype": "success", "request_id": request});
    if let Some(body) = body {
        response["response"] = body;
    }
    json!({"type": "control_response", "response": response})
}

pub(crate) fn control_error(request: &str, error: &str) -> Value {
    let response = json!({"subtype": "error", "request_id": request, "error": error});
    json!({"type": "control_response", "response": response})
}

/// What `initialize` is answered with.
pub(crate) fn initialized() -> Value {
    json!({
        "commands": [{"name": "compact", "description": "Compact the conversation", "argumentHint": ""}],
        "agents": [{"name": "Explore", "description": "Read-only search agent", "model": "haiku"}],
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": [{
            "value": "default",
            "resolvedModel": super::MODEL,
            "displayName": "Default (recommended)",
            "description": "Use the default model",
            "supportsEffort": true,
            "supportedEffortLevels": ["low", "medium", "high"],
            "supportsAdaptiveThinking": true,
            "supportsFastMode": true,
            "supportsAutoMode": true,
        }],
        "account": {"tokenSource": "none", "apiKeySource": "ANTHROPIC_API_KEY", "apiProvider": "firstParty"},
        "pid": std::process::id(),
    })
}
