//! OpenAI Responses.

mod request;

use ostler_agent::event::Usage;
use serde_json::{Value, json};

use super::tools::{Takes, custom_input};
use super::{Answer, BrokenOff, Encoder, End, Head, MESSAGES, Part, Piece, Problem, Stop, event};
use request::ITEMS;
pub(super) use request::{FIELDS, read};

/// What a call of a custom tool is called.
const CUSTOM_CALL: &str = "custom_tool_call";

/// A problem with this API's name for the conversation: what is behind the APIs has one name for it.
pub(super) fn renamed(problem: &Problem) -> Problem {
    let is_theirs = problem.field.as_deref() == Some(MESSAGES);
    if is_theirs { problem.clone().about(ITEMS) } else { problem.clone() }
}

fn usage_json(usage: &Usage) -> Value {
    let (input, output) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens.unwrap_or(0)},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input.saturating_add(output),
    })
}

/// An agent that is broken off need not tell what it used: that is not nothing.
fn usage_if_told(usage: &Usage) -> Value {
    if *usage == Usage::default() { Value::Null } else { usage_json(usage) }
}

/// Why an answer is not complete, in this API's words.
fn incomplete(stop: Stop) -> Option<&'static str> {
    match stop {
        Stop::EndTurn | Stop::StopSequence | Stop::ToolUse => None,
        Stop::MaxTokens => Some("max_output_tokens"),
        Stop::Refusal => Some("content_filter"),
    }
}

/// How far it is.
enum Standing<'a> {
    Open,
    Ended(Stop, &'a Usage),
    /// Somebody broke it off, as this API lets programs do.
    Cancelled(&'a Usage),
    /// The same, as a stream tells it: it has no event for `cancelled`.
    Interrupted(&'a Usage),
    Failed(&'a Problem, &'a Usage),
}

fn response(head: &Head, output: &[Value], standing: &Standing<'_>) -> Value {
    let (status, usage, reason, error) = match standing {
        Standing::Open => ("in_progress", Value::Null, None, Value::Null),
        Standing::Ended(stop, usage) => {
            let reason = incomplete(*stop);
            let status = if reason.is_some() { "incomplete" } else { "completed" };
            (status, usage_json(usage), reason, Value::Null)
        }
        Standing::Cancelled(usage) => ("cancelled", usage_if_told(usage), None, Value::Null),
        Standing::Interrupted(usage) => {
            ("incomplete", usage_if_told(usage), Some("interrupted"), Value::Null)
        }
        Standing::Failed(problem, usage) => {
            let error = json!({"code": "server_error", "message": problem.message});
            ("failed", usage_if_told(usage), None, error)
        }
    };
    json!({
        "id": format!("resp_{}", head.id),
        "object": "response",
        "created_at": head.created,
        "status": status,
        "error": error,
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "instructions": null,
        "metadata": {},
        "model": head.model,
        "output": output,
        "parallel_tool_calls": true,
        "temperature": null,
        "tool_choice": "auto",
        "tools": [],
        "top_p": null,
        "usage": usage,
    })
}

fn message(id: &str, text: &str, status: &str) -> Value {
    let content = if status == "in_progress" {
        json!([])
    } else {
        json!([{"type": "output_text", "text": text, "annotations": []}])
    };
    json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": content})
}

/// A call. While it is being written it is not told what it is called with.
fn call_item(head: &Head, at: usize, id: &str, tool: &str, input: Option<&Value>) -> Value {
    let named = head.tools.of(tool);
    let status = if input.is_some() { "completed" } else { "in_progress" };
    let mut item = match named.takes {
        Takes::Object => json!({
            "type": "function_call",
            "id": format!("fc_{}_{at}", head.id),
            "call_id": id,
            "name": named.name,
            "arguments": input.map(Value::to_string).unwrap_or_default(),
            "status": status,
        }),
        Takes::Text => json!({
            "type": CUSTOM_CALL,
            "id": format!("ctc_{}_{at}", head.id),
            "call_id": id,
            "name": named.name,
            "input": input.map(custom_input).unwrap_or_default(),
            "status": status,
        }),
    };
    if let Some(namespace) = named.namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

fn message_id(head: &Head, at: usize) -> String {
    format!("msg_{}_{at}", head.id)
}

pub(super) fn whole(head: &Head, answer: &Answer) -> Value {
    let output = answer.parts.iter().enumerate().map(|(at, part)| match part {
        Part::Text(text) => message(&message_id(head, at), text, "completed"),
        Part::Call { id, tool, input } => call_item(head, at, id, tool, Some(input)),
    });
    let output: Vec<Value> = output.collect();
    let standing = match answer.end {
        End::Stopped(stop) => Standing::Ended(stop, &answer.usage),
        End::BrokenOff(_) => Standing::Cancelled(&answer.usage),
    };
    response(head, &output, &standing)
}

/// The answer as server-sent events.
pub(super) struct Stream {
    head: Head,
    sequence: u64,
    output: Vec<Value>,
    text: Text,
}

enum Text {
    Closed,
    Open(String),
    /// The answer is over.
    Over,
}

impl Stream {
    pub(super) fn new(head: Head) -> Self {
        Self { head, sequence: 0, output: Vec::new(), text: Text::Closed }
    }

    fn event(&mut self, name: &str, mut data: Value) -> String {
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        event(name, &data)
    }

    /// Where in the list of output items the current one stands.
    fn at(&self) -> usize {
        self.output.len()
    }

    fn place(&self) -> Value {
        let id = message_id(&self.head, self.at());
        json!({"output_index": self.at(), "item_id": id, "content_index": 0})
    }

    fn begin(&mut self) -> String {
        let item = message(&message_id(&self.head, self.at()), "", "in_progress");
        let added = json!({"output_index": self.at(), "item": item});
        let mut place = self.place();
        place["part"] = json!({"type": "output_text", "text": "", "annotations": []});
        self.event("response.output_item.added", added) + &self.event("response.content_part.added", place)
    }

    fn leave(&mut self) -> String {
        let Text::Open(text) = std::mem::replace(&mut self.text, Text::Closed) else { return String::new() };
        let (mut done, mut part) = (self.place(), self.place());
        done["text"] = json!(text);
        done["logprobs"] = json!([]);
        part["part"] = json!({"type": "output_text", "text": text, "annotations": []});
        let item = message(&message_id(&self.head, self.at()), &text, "completed");
        let mut out = self.event("response.output_text.done", done);
        out += &self.event("response.content_part.done", part);
        out + &self.done(item)
    }

    fn done(&mut self, item: Value) -> String {
        let out = self.event("response.output_item.done", json!({"output_index": self.at(), "item": item}));
        self.output.push(item);
        out
    }

    fn call(&mut self, id: &str, tool: &str, input: &Value) -> String {
        let at = self.at();
        let begun = call_item(&self.head, at, id, tool, None);
        let item = call_item(&self.head, at, id, tool, Some(input));
        let place = json!({"output_index": at, "item_id": item["id"]});
        let (mut delta, mut whole) = (place.clone(), place);
        // The field of the item, and what its events are called.
        let (field, events) = match item["type"] == CUSTOM_CALL {
            true => ("input", "response.custom_tool_call_input"),
            false => ("arguments", "response.function_call_arguments"),
        };
        delta["delta"] = item[field].clone();
        whole[field] = item[field].clone();
        if field == "arguments" {
            whole["name"] = item["name"].clone();
        }
        let mut out = self.event("response.output_item.added", json!({"output_index": at, "item": begun}));
        out += &self.event(&format!("{events}.delta"), delta);
        out += &self.event(&format!("{events}.done"), whole);
        out + &self.done(item)
    }
}

impl Stream {
    fn fail(&mut self, problem: &Problem, usage: &Usage) -> String {
        let out = self.leave();
        self.text = Text::Over;
        let response = response(&self.head, &self.output, &Standing::Failed(problem, usage));
        out + &self.event("response.failed", json!({"response": response}))
    }
}

impl Encoder for Stream {
    fn open(&mut self) -> String {
        let response = response(&self.head, &[], &Standing::Open);
        self.event("response.created", json!({"response": response}))
            + &self.event("response.in_progress", json!({"response": response}))
    }

    fn piece(&mut self, piece: &Piece) -> String {
        if matches!(self.text, Text::Over) {
            return String::new();
        }
        match piece {
            Piece::Text(words) => {
                let mut out = String::new();
                match &mut self.text {
                    Text::Open(text) => text.push_str(words),
                    Text::Closed | Text::Over => {
                        out += &self.begin();
                        self.text = Text::Open(words.clone());
                    }
                }
                let mut data = self.place();
                data["delta"] = json!(words);
                data["logprobs"] = json!([]);
                out + &self.event("response.output_text.delta", data)
            }
            Piece::TextEnded => self.leave(),
            Piece::Call { id, tool, input } => self.leave() + &self.call(id, tool, input),
            Piece::Ended { stop, usage } => {
                let out = self.leave();
                self.text = Text::Over;
                let name = match incomplete(*stop) {
                    Some(_) => "response.incomplete",
                    None => "response.completed",
                };
                let response = response(&self.head, &self.output, &Standing::Ended(*stop, usage));
                out + &self.event(name, json!({"response": response}))
            }
            Piece::BrokenOff { by: BrokenOff::Asked, usage } => {
                let out = self.leave();
                self.text = Text::Over;
                let response = response(&self.head, &self.output, &Standing::Interrupted(usage));
                out + &self.event("response.incomplete", json!({"response": response}))
            }
            Piece::BrokenOff { by: by @ BrokenOff::Closing, usage } => {
                self.fail(&Problem::of_break(*by), usage)
            }
            Piece::Failed(problem) => self.fail(problem, &Usage::default()),
        }
    }
}
