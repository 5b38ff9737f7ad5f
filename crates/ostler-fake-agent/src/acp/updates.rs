//! The messages that an ACP agent sends, in the shapes that OpenCode 1.18.33 gives them.

use serde_json::{Value, json};

use crate::dialect::{Call, Outcome};

/// The JSON-RPC code for a method nobody has.
pub(super) const NO_SUCH_METHOD: i64 = -32601;
/// The JSON-RPC code for parameters that do not fit.
pub(super) const BAD_PARAMETERS: i64 = -32602;
/// The JSON-RPC code for a failure of the agent.
pub(super) const FAILED: i64 = -32603;

pub(super) fn result(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

pub(super) fn update(session: &str, update: Value) -> Value {
    let params = json!({"sessionId": session, "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
}

pub(super) fn initialized(version: &str) -> Value {
    json!({
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": true,
            "mcpCapabilities": {"http": true, "sse": true},
            "promptCapabilities": {"embeddedContext": true, "image": true},
            "sessionCapabilities": {"close": {}, "list": {}, "resume": {}},
        },
        "authMethods": [],
        "agentInfo": {"name": "OpenCode", "version": version},
    })
}

pub(super) fn commands() -> Value {
    json!({
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "init", "description": "guided AGENTS.md setup"}],
    })
}

pub(super) fn message_chunk(message: &str, text: &str) -> Value {
    chunk("agent_message_chunk", message, text)
}

pub(super) fn thought_chunk(message: &str, text: &str) -> Value {
    chunk("agent_thought_chunk", message, text)
}

/// A prompt of the past, when a session is loaded.
pub(super) fn prompt_chunk(message: &str, text: &str) -> Value {
    chunk("user_message_chunk", message, text)
}

fn chunk(kind: &str, message: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "messageId": message, "content": {"type": "text", "text": text}})
}

fn kind(call: &Call) -> &'static str {
    match call.tool.as_str() {
        "Bash" | "bash" | "shell" => "execute",
        "Write" | "Edit" | "write" | "edit" => "edit",
        "Read" | "read" => "read",
        _ => "other",
    }
}

pub(super) fn call_opened(call: &Call) -> Value {
    json!({
        "sessionUpdate": "tool_call",
        "toolCallId": call.id,
        "title": call.tool,
        "kind": kind(call),
        "status": "pending",
        "locations": [],
        "rawInput": {},
    })
}

pub(super) fn call_running(call: &Call) -> Value {
    json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": call.id,
        "status": "in_progress",
        "kind": kind(call),
        "title": call.title(),
        "locations": [],
        "rawInput": call.arguments,
    })
}

pub(super) fn call_closed(call: &Call, outcome: &Outcome) -> Value {
    let (status, text, raw) = match outcome {
        Outcome::Done { output } => {
            ("completed", output, json!({"output": output, "metadata": {"exit": 0, "truncated": false}}))
        }
        // OpenCode calls a command that failed completed; its exit code tells.
        Outcome::Failed { output, exit_code: Some(code) } => {
            ("completed", output, json!({"output": output, "metadata": {"exit": code, "truncated": false}}))
        }
        Outcome::Failed { output, exit_code: None } => ("failed", output, json!({"error": output})),
        Outcome::Denied { reason } => ("failed", reason, json!({"error": reason})),
    };
    json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": call.id,
        "status": status,
        "title": call.title(),
        "content": [{"type": "content", "content": {"type": "text", "text": text}}],
        "rawOutput": raw,
    })
}

pub(super) fn permission_request(id: u64, session: &str, call: &Call) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "method": "session/request_permission",
        "params": {
            "sessionId": session,
            "toolCall": {
                "toolCallId": call.id,
                "title": call.title(),
                "kind": kind(call),
                "status": "pending",
                "locations": [],
                "rawInput": call.arguments,
            },
            "options": [
                {"optionId": "once", "kind": "allow_once", "name": "Allow once"},
                {"optionId": "always", "kind": "allow_always", "name": "Always allow"},
                {"optionId": "reject", "kind": "reject_once", "name": "Reject"},
            ],
        },
    })
}

pub(super) fn usage(used: u64) -> Value {
    json!({
        "sessionUpdate": "usage_update",
        "used": used,
        "size": 128_000,
        "cost": {"amount": 0, "currency": "USD"},
    })
}
