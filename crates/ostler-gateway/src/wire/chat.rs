//! OpenAI Chat Completions.

mod request;

use ostler_agent::event::Usage;
use ostler_agent::fingerprint::BETWEEN_TEXTS;
use serde_json::{Value, json};

use super::tools::{Takes, custom_input};
use super::{Answer, Delivery, Encoder, Head, Part, Piece, Problem, Stop, Told};
pub(super) use request::{FIELDS, called, picture, read, words};

fn finish_word(stop: Stop) -> &'static str {
    match stop {
        Stop::EndTurn | Stop::StopSequence => "stop",
        Stop::MaxTokens => "length",
        Stop::ToolUse => "tool_calls",
        Stop::Refusal => "content_filter",
    }
}

fn usage_json(usage: &Usage) -> Value {
    let (input, output) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input.saturating_add(output),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens.unwrap_or(0)},
    })
}

fn id(head: &Head) -> String {
    format!("chatcmpl-{}", head.id)
}

fn call_json(head: &Head, id: &str, tool: &str, input: &Value) -> Value {
    let named = head.tools.of(tool);
    match named.takes {
        Takes::Object => {
            json!({"id": id, "type": "function", "function": {"name": tool, "arguments": input.to_string()}})
        }
        Takes::Text => {
            json!({"id": id, "type": "custom", "custom": {"name": named.name, "input": custom_input(input)}})
        }
    }
}

pub(super) fn whole(head: &Head, answer: &Answer, stop: Stop) -> Value {
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part {
            Part::Text(text) => texts.push(text.as_str()),
            Part::Call { id, tool, input } => calls.push(call_json(head, id, tool, input)),
        }
    }
    let content = (!texts.is_empty() || calls.is_empty()).then(|| texts.join(BETWEEN_TEXTS));
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_word(stop)});
    json!({
        "id": id(head),
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [choice],
        "usage": usage_json(&answer.usage),
    })
}

/// The answer as server-sent events.
pub(super) struct Stream {
    head: Head,
    usage: Told,
    calls: usize,
    text: Text,
}

/// Texts are one here: what stands between them comes with the first word of the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    Begun,
    Ended,
    /// The answer is over.
    Closed,
}

impl Stream {
    pub(super) fn new(head: Head, delivery: Delivery) -> Self {
        let usage = match delivery {
            Delivery::Whole => Told::No,
            Delivery::Streamed { usage } => usage,
        };
        Self { head, usage, calls: 0, text: Text::Begun }
    }

    fn chunk(&self, choices: &Value) -> Value {
        json!({
            "id": id(&self.head),
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
            "choices": choices,
        })
    }

    fn delta(&self, delta: &Value, finish: Option<&str>) -> String {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        data(&self.chunk(&json!([choice])))
    }

    /// Without a reason to finish and `[DONE]`: nobody may take half an answer for a whole one.
    fn fail(&mut self, problem: &Problem) -> String {
        self.text = Text::Closed;
        data(&problem.of_openai())
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

impl Encoder for Stream {
    fn open(&mut self) -> String {
        self.delta(&json!({"role": "assistant", "content": ""}), None)
    }

    fn piece(&mut self, piece: &Piece) -> String {
        if self.text == Text::Closed {
            return String::new();
        }
        match piece {
            Piece::Text(words) => {
                let between = if self.text == Text::Ended { BETWEEN_TEXTS } else { "" };
                self.text = Text::Begun;
                self.delta(&json!({"content": format!("{between}{words}")}), None)
            }
            Piece::TextEnded => {
                self.text = Text::Ended;
                String::new()
            }
            Piece::Call { id, tool, input } => {
                let mut call = call_json(&self.head, id, tool, input);
                call["index"] = json!(self.calls);
                self.calls += 1;
                self.delta(&json!({"tool_calls": [call]}), None)
            }
            Piece::Ended { stop, usage } => {
                self.text = Text::Closed;
                let mut out = self.delta(&json!({}), Some(finish_word(*stop)));
                if self.usage == Told::Yes {
                    let mut last = self.chunk(&json!([]));
                    last["usage"] = usage_json(usage);
                    out += &data(&last);
                }
                out + "data: [DONE]\n\n"
            }
            Piece::BrokenOff { by, .. } => self.fail(&Problem::of_break(*by)),
            Piece::Failed(problem) => self.fail(problem),
        }
    }
}
