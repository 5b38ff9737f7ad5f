//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Encoder, Headers, Part, delivery_of, event, id, messages_of, model_of, text_of};
use crate::ask::{Heard, Line, Wire};
use crate::roles::{Call, CallInput};
use crate::script::{StopReason, Usage};
use crate::side::Side;

/// How Claude Code begins texts of its own inside a user's message.
const REMINDER: &str = "<system-reminder>";

pub(super) fn read(headers: &Headers, body: &Value) -> Result<Heard, String> {
    let messages = messages_of(body)?;
    let mut lines = Vec::new();
    match &body["system"] {
        Value::String(text) => lines.push(Line::Setting(text.clone())),
        Value::Array(blocks) => {
            lines.extend(blocks.iter().map(|block| Line::Setting(text_of(&block["text"]).to_owned())));
        }
        _ => {}
    }
    for message in messages {
        message_lines(message, &mut lines)?;
    }
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Heard {
        wire: Wire::Anthropic,
        model: model_of(body)?,
        delivery: delivery_of(body)?,
        offered: tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect(),
        lines,
        session: headers.get("x-claude-code-agent-id").or(headers.get("x-claude-code-session-id")).cloned(),
        side: headers.contains_key("x-claude-code-agent-id").then_some(Side::SubAgent),
    })
}

fn message_lines(message: &Value, lines: &mut Vec<Line>) -> Result<(), String> {
    let role = message["role"].as_str().ok_or("a message has no `role`")?;
    let blocks: Vec<Value> = match &message["content"] {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => return Err("a message has no `content`".to_owned()),
    };
    let of_type = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
    let texts = of_type("text").map(|block| text_of(&block["text"]));
    match role {
        "assistant" => {
            lines.extend(texts.map(|text| Line::Model(text.to_owned())));
            if of_type("tool_use").next().is_some() {
                lines.push(Line::Calls);
            }
        }
        "user" => {
            let results: Vec<_> =
                of_type("tool_result").map(|block| result_text(&block["content"])).collect();
            let (own, said): (Vec<_>, Vec<_>) =
                texts.partition(|text| text.trim_start().starts_with(REMINDER));
            lines.extend(own.into_iter().map(|text| Line::Setting(text.to_owned())));
            if results.is_empty() {
                if !said.is_empty() {
                    lines.push(Line::User(said.join("\n")));
                }
            } else {
                // Text beside results is steering, not a new prompt.
                lines.push(Line::Results(results));
                lines.extend(said.into_iter().map(|text| Line::Setting(text.to_owned())));
            }
        }
        _ => lines.extend(texts.map(|text| Line::Setting(text.to_owned()))),
    }
    Ok(())
}

fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().map(|block| text_of(&block["text"])).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

pub(super) fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn stop_word(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
        StopReason::PauseTurn => "pause_turn",
    }
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

fn arguments(call: &Call) -> Value {
    match &call.input {
        CallInput::Arguments(value) => value.clone(),
        CallInput::Text(text) => json!({ "input": text }),
    }
}

fn message(model: &str, content: &Value, stop: Option<StopReason>, usage: Usage) -> Value {
    json!({
        "id": id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop.map(stop_word),
        "stop_sequence": null,
        "usage": usage_json(usage),
    })
}

pub(super) fn whole(model: &str, parts: &[Part], stop: StopReason, usage: Usage) -> Value {
    let content: Vec<_> = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => json!({"type": "text", "text": text}),
            Part::Thought(text) => json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}),
            Part::Call(call) => {
                json!({"type": "tool_use", "id": id("toolu"), "name": call.name, "input": arguments(call)})
            }
        })
        .collect();
    message(model, &json!(content), Some(stop), usage)
}

/// Thoughts are signed by the provider; agents only carry the signature along.
const SIGNATURE: &str = "cmVoZWFyc2Fs";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Thought,
}

/// The answer as server-sent events.
pub(super) struct Stream {
    model: String,
    input: Usage,
    index: usize,
    open: Option<Block>,
}

impl Stream {
    pub(super) fn new(model: &str, input: Usage) -> Self {
        Self { model: model.to_owned(), input, index: 0, open: None }
    }

    fn enter(&mut self, block: Block) -> String {
        if self.open == Some(block) {
            return String::new();
        }
        let mut out = self.leave();
        let empty = match block {
            Block::Text => json!({"type": "text", "text": ""}),
            Block::Thought => json!({"type": "thinking", "thinking": "", "signature": ""}),
        };
        out += &self.start(&empty);
        self.open = Some(block);
        out
    }

    fn leave(&mut self) -> String {
        let Some(block) = self.open.take() else { return String::new() };
        let mut out = String::new();
        if block == Block::Thought {
            out += &self.delta(&json!({"type": "signature_delta", "signature": SIGNATURE}));
        }
        out + &self.stop()
    }

    fn start(&self, block: &Value) -> String {
        event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": self.index, "content_block": block}),
        )
    }

    fn delta(&self, delta: &Value) -> String {
        event(
            "content_block_delta",
            &json!({"type": "content_block_delta", "index": self.index, "delta": delta}),
        )
    }

    fn stop(&mut self) -> String {
        let out = event("content_block_stop", &json!({"type": "content_block_stop", "index": self.index}));
        self.index += 1;
        out
    }
}

impl Encoder for Stream {
    fn open(&mut self) -> String {
        let usage = Usage { output: 1, ..self.input };
        let message = message(&self.model, &json!([]), None, usage);
        event("message_start", &json!({"type": "message_start", "message": message}))
    }

    fn text(&mut self, delta: &str) -> String {
        self.enter(Block::Text) + &self.delta(&json!({"type": "text_delta", "text": delta}))
    }

    fn thought(&mut self, delta: &str) -> String {
        self.enter(Block::Thought) + &self.delta(&json!({"type": "thinking_delta", "thinking": delta}))
    }

    fn call(&mut self, call: &Call) -> String {
        let mut out = self.leave();
        out += &self.start(&json!({"type": "tool_use", "id": id("toolu"), "name": call.name, "input": {}}));
        out += &self.delta(&json!({"type": "input_json_delta", "partial_json": arguments(call).to_string()}));
        out + &self.stop()
    }

    fn close(&mut self, stop: StopReason, usage: Usage) -> String {
        let delta = json!({"stop_reason": stop_word(stop), "stop_sequence": null});
        self.leave()
            + &event(
                "message_delta",
                &json!({"type": "message_delta", "delta": delta, "usage": usage_json(usage)}),
            )
            + &event("message_stop", &json!({"type": "message_stop"}))
    }
}
