//! The providers' wire formats: reading a request, writing an answer. One file each; nothing here decides.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::ask::{Ask, Delivery, Wire};
use crate::roles::Call;
use crate::script::{StopReason, Usage};
use crate::side::Asker;

mod anthropic;
mod chat;
mod responses;

/// A request's headers, lower-case names, as far as they are text.
pub(crate) type Headers = std::collections::BTreeMap<String, String>;

/// Reads a request. The error says what is wrong with it.
pub(crate) fn read(wire: Wire, headers: &Headers, body: &Value) -> Result<Ask, String> {
    if !body.is_object() {
        return Err("the body is not a JSON object".to_owned());
    }
    let heard = match wire {
        Wire::Anthropic => anthropic::read(headers, body)?,
        Wire::Responses => responses::read(headers, body)?,
        Wire::Chat => chat::read(headers, body)?,
    };
    if heard.lines.is_empty() {
        return Err("the conversation is empty".to_owned());
    }
    let asker = Asker::of(headers.get("user-agent").map(String::as_str).unwrap_or_default());
    Ok(heard.ask(asker))
}

/// Writes an answer as server-sent events, piece by piece. Blocks are opened and closed as the pieces need.
pub(crate) trait Encoder: Send {
    /// What comes before everything else.
    fn open(&mut self) -> String;
    /// A piece of text.
    fn text(&mut self, delta: &str) -> String;
    /// A piece of a thought.
    fn thought(&mut self, delta: &str) -> String;
    /// A whole tool call.
    fn call(&mut self, call: &Call) -> String;
    /// What comes after everything else.
    fn close(&mut self, stop: StopReason, usage: Usage) -> String;
}

/// An encoder for an answer to that request. `input` is the estimate of what the request's tokens come to.
pub(crate) fn encoder(ask: &Ask, input: Usage) -> Box<dyn Encoder> {
    match ask.wire {
        Wire::Anthropic => Box::new(anthropic::Stream::new(&ask.model, input)),
        Wire::Responses => Box::new(responses::Stream::new(&ask.model)),
        Wire::Chat => Box::new(chat::Stream::new(&ask.model)),
    }
}

/// A finished part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Thought(String),
    Call(Call),
}

/// Writes an answer as one JSON object.
pub(crate) fn whole(ask: &Ask, parts: &[Part], stop: StopReason, usage: Usage) -> Value {
    match ask.wire {
        Wire::Anthropic => anthropic::whole(&ask.model, parts, stop, usage),
        Wire::Responses => responses::whole(&ask.model, parts, stop, usage),
        Wire::Chat => chat::whole(&ask.model, parts, stop, usage),
    }
}

/// An error in the provider's own shape.
pub(crate) fn error(wire: Option<Wire>, status: u16, message: &str) -> Value {
    match wire {
        Some(Wire::Anthropic) => {
            json!({"type": "error", "error": {"type": anthropic::error_type(status), "message": message}})
        }
        Some(Wire::Responses | Wire::Chat) | None => {
            json!({"error": {"message": message, "type": openai_error_type(status), "param": null, "code": null}})
        }
    }
}

fn openai_error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

fn id(prefix: &str) -> String {
    format!("{prefix}_{}", Uuid::new_v4().simple())
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether the answer is to be streamed.
fn delivery_of(body: &Value) -> Result<Delivery, String> {
    match &body["stream"] {
        Value::Bool(true) => Ok(Delivery::Stream),
        Value::Bool(false) | Value::Null => Ok(Delivery::Whole),
        _ => Err("`stream` is neither true nor false".to_owned()),
    }
}

/// The messages of a conversation: at least one.
fn messages_of(body: &Value) -> Result<&[Value], String> {
    match body["messages"].as_array() {
        Some(messages) if messages.is_empty() => Err("`messages` is empty".to_owned()),
        Some(messages) => Ok(messages),
        None => Err("`messages` is missing or not a list".to_owned()),
    }
}

fn model_of(body: &Value) -> Result<String, String> {
    match body["model"].as_str() {
        Some(model) if !model.is_empty() => Ok(model.to_owned()),
        Some(_) | None => Err("`model` is missing".to_owned()),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
