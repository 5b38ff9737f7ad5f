//! OpenAI Responses.

use ostler_agent::event::Usage;
use serde_json::{Value, json};

use super::chat::{called, picture};
use super::fields::{Fields, flag, named, text};
use super::tools;
use super::{
    Answer, BrokenOff, Delivery, Encoder, End, Format, Head, Part, Piece, Problem, Request, Stop, Told,
    event, history,
};

pub(super) const FIELDS: Fields = Fields {
    heard: &[
        "conversation",
        "input",
        "instructions",
        "metadata",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "tool_choice",
        "tools",
        "user",
    ],
    ignored: &[
        "access_programs",
        "background",
        "context_management",
        "image",
        "include",
        "max_output_tokens",
        "max_tool_calls",
        "moderation",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "temperature",
        "text",
        "top_logprobs",
        "top_p",
        "truncation",
    ],
};

pub(super) fn read(body: &Value) -> Result<Request, Problem> {
    let mut ignored = FIELDS.ignored(body)?;
    if body["background"] == true {
        return Err(Problem::field("background", "an answer is not kept for later"));
    }
    if !body["conversation"].is_null() {
        return Err(Problem::field("conversation", "use previous_response_id, or send the conversation"));
    }
    let delivery = match flag(body, "stream")? {
        Told::Yes => Delivery::Streamed { usage: Told::Yes },
        Told::No => Delivery::Whole,
    };
    let mut carried: Vec<String> = Vec::new();
    let mut messages = Vec::new();
    match &body["input"] {
        Value::String(text) => messages.push(json!({"role": "user", "content": text})),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let read = one(item).map_err(|error| Problem::field(&format!("input[{at}]"), error))?;
                match read {
                    Read::System(text) => carried.push(text),
                    Read::Message(message) => messages.push(message),
                    Read::Nothing => {}
                }
            }
        }
        _ => return Err(Problem::field("input", "this field must be a text or a list")),
    }
    let tools = tools::read(Format::Responses, body, &mut ignored)?;
    Ok(Request {
        model: named(body, "model")?,
        history: history(&messages)?,
        system: body["instructions"].as_str().filter(|text| !text.is_empty()).map(str::to_owned),
        carried: (!carried.is_empty()).then(|| carried.join("\n\n")),
        delivery,
        tools,
        follows: body["previous_response_id"].as_str().map(str::to_owned),
        ignored,
        user: body["user"].as_str().map(str::to_owned),
        is_kept: body["store"] != false,
    })
}

enum Read {
    System(String),
    Message(Value),
    Nothing,
}

/// An item in the canonical form's terms.
fn one(item: &Value) -> Result<Read, &'static str> {
    match item["type"].as_str().unwrap_or("message") {
        "message" => match text(&item["role"]) {
            "system" | "developer" => {
                let blocks = content(&item["content"])?;
                let texts: Vec<&str> = blocks.iter().map(|block| text(&block["text"])).collect();
                Ok(Read::System(texts.join("\n\n")))
            }
            role @ ("user" | "assistant") => {
                Ok(Read::Message(json!({"role": role, "content": content(&item["content"])?})))
            }
            _ => Err("the role must be system, developer, user or assistant"),
        },
        "function_call" => {
            let call = called(&item["call_id"], item);
            Ok(Read::Message(json!({"role": "assistant", "content": [call]})))
        }
        "function_call_output" => {
            let output = match &item["output"] {
                Value::String(text) => json!(text),
                parts => json!(content(parts)?),
            };
            let block = json!({"type": "tool_result", "tool_use_id": item["call_id"], "content": output});
            Ok(Read::Message(json!({"role": "user", "content": [block]})))
        }
        // The model's words to itself are the provider's to check, and the agent keeps its own.
        "reasoning" => Ok(Read::Nothing),
        _ => Err("an item must be a message, a function_call or its output, or reasoning"),
    }
}

fn content(content: &Value) -> Result<Vec<Value>, &'static str> {
    match content {
        Value::String(text) => Ok(vec![json!({"type": "text", "text": text})]),
        Value::Array(parts) => parts.iter().map(part).collect(),
        _ => Err("the content must be a text or a list"),
    }
}

fn part(part: &Value) -> Result<Value, &'static str> {
    match text(&part["type"]) {
        "input_text" | "output_text" => Ok(json!({"type": "text", "text": part["text"]})),
        "refusal" => Ok(json!({"type": "text", "text": part["refusal"]})),
        "input_image" => picture(text(&part["image_url"])),
        _ => Err("a part must be input_text, output_text, refusal or input_image"),
    }
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

fn call_item(head: &Head, at: usize, id: &str, tool: &str, arguments: &str, status: &str) -> Value {
    json!({
        "type": "function_call",
        "id": format!("fc_{}_{at}", head.id),
        "call_id": id,
        "name": tool,
        "arguments": arguments,
        "status": status,
    })
}

fn message_id(head: &Head, at: usize) -> String {
    format!("msg_{}_{at}", head.id)
}

pub(super) fn whole(head: &Head, answer: &Answer) -> Value {
    let output = answer.parts.iter().enumerate().map(|(at, part)| match part {
        Part::Text(text) => message(&message_id(head, at), text, "completed"),
        Part::Call { id, tool, input } => call_item(head, at, id, tool, &input.to_string(), "completed"),
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
        let (at, arguments) = (self.at(), input.to_string());
        let begun = call_item(&self.head, at, id, tool, "", "in_progress");
        let item = call_item(&self.head, at, id, tool, &arguments, "completed");
        let place = json!({"output_index": at, "item_id": item["id"]});
        let (mut delta, mut whole) = (place.clone(), place);
        delta["delta"] = json!(arguments);
        whole["arguments"] = json!(arguments);
        whole["name"] = json!(tool);
        let mut out = self.event("response.output_item.added", json!({"output_index": at, "item": begun}));
        out += &self.event("response.function_call_arguments.delta", delta);
        out += &self.event("response.function_call_arguments.done", whole);
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
