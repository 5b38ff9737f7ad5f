//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{Encoder, Headers, Part, delivery_of, id, messages_of, model_of, text_of};
use crate::ask::{Heard, Line, Wire};
use crate::roles::{Call, CallInput};
use crate::script::{StopReason, Usage};
use crate::side::Side;

pub(super) fn read(headers: &Headers, body: &Value) -> Result<Heard, String> {
    let messages = messages_of(body)?;
    if body["n"].as_u64().is_some_and(|count| count != 1) {
        return Err("`n` is not 1: a script has one answer".to_owned());
    }
    let mut lines = Vec::new();
    for message in messages {
        message_lines(message, &mut lines)?;
    }
    let is_opencode = headers.contains_key("x-session-id");
    let side = match lines.last() {
        Some(Line::User(text)) if is_opencode && text.starts_with(TOLD_AGAIN) => {
            lines = told_again(text);
            Some(Side::Summary)
        }
        Some(_) | None => headers.contains_key("x-parent-session-id").then_some(Side::SubAgent),
    };
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Heard {
        wire: Wire::Chat,
        model: model_of(body)?,
        delivery: delivery_of(body)?,
        offered: tools
            .iter()
            .filter_map(|tool| tool["function"]["name"].as_str())
            .map(str::to_owned)
            .collect(),
        lines,
        session: headers.get("x-session-id").cloned(),
        side,
    })
}

/// How OpenCode asks for a summary: it tells the whole conversation again as one text.
const TOLD_AGAIN: &str = "Here is the conversation so far:";

/// What OpenCode says in the user's place after a summary.
const GO_ON: &str = "Continue if you have next steps";

fn told_again(text: &str) -> Vec<Line> {
    let told = text.split("</conversation>").next().unwrap_or_default();
    let mut lines = Vec::new();
    for paragraph in told.split("\n[").skip(1) {
        let Some((speaker, words)) = paragraph.split_once("]: ") else { continue };
        let words = words.trim_end();
        match speaker {
            "User" => lines.push(said(words.to_owned())),
            "Assistant tool call" if lines.last() == Some(&Line::Calls) => {}
            "Assistant tool call" => lines.push(Line::Calls),
            "Tool result" => lines.push(Line::Results(vec![words.to_owned()])),
            _ => lines.push(Line::Model(words.to_owned())),
        }
    }
    lines
}

fn said(text: String) -> Line {
    if text.starts_with(GO_ON) { Line::Setting(text) } else { Line::User(text) }
}

fn message_lines(message: &Value, lines: &mut Vec<Line>) -> Result<(), String> {
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text_of(&part["text"])).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    };
    match message["role"].as_str().ok_or("a message has no `role`")? {
        "user" => lines.push(said(text)),
        "assistant" => {
            lines.push(Line::Model(text));
            if message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty()) {
                lines.push(Line::Calls);
            }
        }
        "tool" => match lines.last_mut() {
            Some(Line::Results(results)) => results.push(text),
            _ => lines.push(Line::Results(vec![text])),
        },
        _ => lines.push(Line::Setting(text)),
    }
    Ok(())
}

fn finish_word(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn | StopReason::PauseTurn => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
    }
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}

fn function(call: &Call) -> Value {
    let arguments = match &call.input {
        CallInput::Arguments(value) => value.to_string(),
        CallInput::Text(text) => json!({ "input": text }).to_string(),
    };
    json!({"name": call.name, "arguments": arguments})
}

pub(super) fn whole(model: &str, parts: &[Part], stop: StopReason, usage: Usage) -> Value {
    let mut said = String::new();
    let mut thought = String::new();
    let mut calls = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => said.push_str(text),
            Part::Thought(text) => thought.push_str(text),
            Part::Call(call) => {
                calls.push(json!({"id": id("call"), "type": "function", "function": function(call)}));
            }
        }
    }
    let mut message = json!({"role": "assistant", "content": said});
    if !thought.is_empty() {
        message["reasoning_content"] = json!(thought);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    json!({
        "id": id("chatcmpl"),
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_word(stop)}],
        "usage": usage_json(usage),
    })
}

/// The answer as server-sent events.
pub(super) struct Stream {
    model: String,
    id: String,
    calls: usize,
}

impl Stream {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), id: id("chatcmpl"), calls: 0 }
    }

    fn chunk(&self, choices: &Value) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": 0, "model": self.model, "choices": choices})
    }

    fn delta(&self, delta: &Value, finish: Option<&str>) -> String {
        data(&self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": finish}])))
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

impl Encoder for Stream {
    fn open(&mut self) -> String {
        self.delta(&json!({"role": "assistant", "content": ""}), None)
    }

    fn text(&mut self, delta: &str) -> String {
        self.delta(&json!({ "content": delta }), None)
    }

    fn thought(&mut self, delta: &str) -> String {
        self.delta(&json!({ "reasoning_content": delta }), None)
    }

    fn call(&mut self, call: &Call) -> String {
        let index = self.calls;
        self.calls += 1;
        let call = json!({"index": index, "id": id("call"), "type": "function", "function": function(call)});
        self.delta(&json!({ "tool_calls": [call] }), None)
    }

    fn close(&mut self, stop: StopReason, usage: Usage) -> String {
        let mut last = self.chunk(&json!([]));
        last["usage"] = usage_json(usage);
        self.delta(&json!({}), Some(finish_word(stop))) + &data(&last) + "data: [DONE]\n\n"
    }
}
