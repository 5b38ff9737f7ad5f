//! Anthropic Messages.

mod request;

use ostler_agent::event::Usage;
use serde_json::{Value, json};

use super::{Answer, Encoder, Head, Part, Piece, Problem, Stop, event};
pub(super) use request::{FIELDS, read};

fn stop_word(stop: Stop) -> &'static str {
    match stop {
        Stop::EndTurn => "end_turn",
        Stop::StopSequence => "stop_sequence",
        Stop::MaxTokens => "max_tokens",
        Stop::ToolUse => "tool_use",
        Stop::Refusal => "refusal",
    }
}

/// Its own API counts what comes from a cache apart.
fn usage_json(usage: &Usage) -> Value {
    let (all, cached) = (usage.input_tokens.unwrap_or(0), usage.cached_tokens);
    json!({
        "input_tokens": all.saturating_sub(cached.unwrap_or(0)),
        "cache_creation_input_tokens": null,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.output_tokens.unwrap_or(0),
    })
}

fn message(head: &Head, content: &Value, stop: Option<Stop>, usage: &Usage) -> Value {
    json!({
        "id": format!("msg_{}", head.id),
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
        "stop_reason": stop.map(stop_word),
        "stop_sequence": null,
        "usage": usage_json(usage),
    })
}

pub(super) fn whole(head: &Head, answer: &Answer, stop: Stop) -> Value {
    let content = answer.parts.iter().map(|part| match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Call { id, tool, input } => json!({"type": "tool_use", "id": id, "name": tool, "input": input}),
    });
    message(head, &content.collect(), Some(stop), &answer.usage)
}

/// The answer as server-sent events.
pub(super) struct Stream {
    head: Head,
    index: usize,
    block: Open,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Text,
    /// The answer is over.
    Closed,
}

impl Stream {
    pub(super) fn new(head: Head) -> Self {
        Self { head, index: 0, block: Open::Nothing }
    }

    fn start(&self, block: &Value) -> String {
        let data = json!({"type": "content_block_start", "index": self.index, "content_block": block});
        event("content_block_start", &data)
    }

    fn delta(&self, delta: &Value) -> String {
        let data = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
        event("content_block_delta", &data)
    }

    fn stop(&mut self) -> String {
        let out = event("content_block_stop", &json!({"type": "content_block_stop", "index": self.index}));
        self.index += 1;
        self.block = Open::Nothing;
        out
    }

    fn leave(&mut self) -> String {
        match self.block {
            Open::Text => self.stop(),
            Open::Nothing | Open::Closed => String::new(),
        }
    }

    /// Without the events that end a whole answer: nobody may take half of one for it.
    fn fail(&mut self, problem: &Problem) -> String {
        self.block = Open::Closed;
        event("error", &problem.of_anthropic())
    }
}

impl Encoder for Stream {
    fn open(&mut self) -> String {
        let message = message(&self.head, &json!([]), None, &Usage::default());
        event("message_start", &json!({"type": "message_start", "message": message}))
    }

    fn piece(&mut self, piece: &Piece) -> String {
        if self.block == Open::Closed {
            return String::new();
        }
        match piece {
            Piece::Text(words) => {
                let mut out = String::new();
                if self.block != Open::Text {
                    out += &self.start(&json!({"type": "text", "text": ""}));
                    self.block = Open::Text;
                }
                out + &self.delta(&json!({"type": "text_delta", "text": words}))
            }
            Piece::TextEnded => self.leave(),
            Piece::Call { id, tool, input } => {
                let mut out = self.leave();
                out += &self.start(&json!({"type": "tool_use", "id": id, "name": tool, "input": {}}));
                out += &self.delta(&json!({"type": "input_json_delta", "partial_json": input.to_string()}));
                out + &self.stop()
            }
            Piece::Ended { stop, usage } => {
                let mut out = self.leave();
                self.block = Open::Closed;
                let delta = json!({"stop_reason": stop_word(*stop), "stop_sequence": null});
                let data = json!({"type": "message_delta", "delta": delta, "usage": usage_json(usage)});
                out += &event("message_delta", &data);
                out + &event("message_stop", &json!({"type": "message_stop"}))
            }
            Piece::BrokenOff { by, .. } => self.fail(&Problem::of_break(*by)),
            Piece::Failed(problem) => self.fail(problem),
        }
    }

    fn alive(&self) -> String {
        event("ping", &json!({"type": "ping"}))
    }
}
