//! OpenAI Chat Completions.

use ostler_agent::event::Usage;
use ostler_agent::fingerprint::BETWEEN_TEXTS;
use serde_json::{Value, json};

use super::fields::{Fields, flag, list, named, text};
use super::tools;
use super::{Answer, Delivery, Encoder, Format, Head, Part, Piece, Problem, Request, Stop, Told, history};

pub(super) const FIELDS: Fields = Fields {
    heard: &[
        "function_call",
        "functions",
        "logprobs",
        "messages",
        "metadata",
        "model",
        "n",
        "parallel_tool_calls",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "tool_choice",
        "tools",
        "user",
    ],
    // Those of this API, and those that programs send to other servers which speak it.
    ignored: &[
        "audio",
        "chat_template_kwargs",
        "frequency_penalty",
        "keep_alive",
        "logit_bias",
        "max_completion_tokens",
        "max_tokens",
        "min_p",
        "modalities",
        "moderation",
        "options",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "reasoning_effort",
        "repeat_penalty",
        "repetition_penalty",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "think",
        "top_k",
        "top_logprobs",
        "top_p",
        "verbosity",
        "web_search_options",
    ],
};

pub(super) fn read(body: &Value) -> Result<Request, Problem> {
    let mut ignored = FIELDS.ignored(body)?;
    match &body["n"] {
        Value::Null => {}
        count if count.as_u64() == Some(1) => {}
        _ => return Err(Problem::field("n", "an agent gives one answer: only 1 is possible")),
    }
    if flag(body, "logprobs")? == Told::Yes {
        return Err(Problem::field("logprobs", "an agent does not tell them"));
    }
    for (old, new) in [("functions", "tools"), ("function_call", "tool_choice")] {
        if !body[old].is_null() {
            return Err(Problem::field(old, &format!("this field is old and has no effect: use `{new}`")));
        }
    }
    let delivery = match flag(body, "stream")? {
        Told::Yes => Delivery::Streamed { usage: flag(&body["stream_options"], "include_usage")? },
        Told::No => Delivery::Whole,
    };
    let mut system = Vec::new();
    let mut messages = Vec::new();
    for (at, message) in list(body, "messages")?.iter().enumerate() {
        let read = one(message).map_err(|error| Problem::field(&format!("messages[{at}]"), error))?;
        match read {
            Read::System(text) => system.push(text),
            Read::Message(message) => messages.push(message),
        }
    }
    let tools = tools::read(Format::Chat, body, &mut ignored)?;
    Ok(Request {
        model: named(body, "model")?,
        history: history(&messages)?,
        system: (!system.is_empty()).then(|| system.join("\n\n")),
        carried: None,
        delivery,
        tools,
        follows: None,
        ignored,
        user: body["user"].as_str().map(str::to_owned),
        is_kept: true,
    })
}

enum Read {
    System(String),
    Message(Value),
}

/// A message in the canonical form's terms.
fn one(message: &Value) -> Result<Read, &'static str> {
    let role = message["role"].as_str().ok_or("a message must have a role")?;
    match role {
        "system" | "developer" => Ok(Read::System(words(&message["content"])?)),
        "user" => Ok(Read::Message(json!({"role": "user", "content": parts(&message["content"])?}))),
        "assistant" => {
            let mut blocks = parts(&message["content"])?;
            for call in message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default() {
                blocks.push(called(&call["id"], &call["function"]));
            }
            Ok(Read::Message(json!({"role": "assistant", "content": blocks})))
        }
        "tool" => {
            let content = words(&message["content"])?;
            let block =
                json!({"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content});
            Ok(Read::Message(json!({"role": "user", "content": [block]})))
        }
        _ => Err("the role must be system, developer, user, assistant or tool"),
    }
}

/// A call whose arguments are JSON in a text. What is no JSON is kept as it is.
pub(super) fn called(id: &Value, function: &Value) -> Value {
    let arguments = text(&function["arguments"]);
    let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!({"arguments": arguments}));
    json!({"type": "tool_use", "id": id, "name": function["name"], "input": input})
}

fn words(content: &Value) -> Result<String, &'static str> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            Ok(parts.iter().map(|part| text(&part["text"])).collect::<Vec<_>>().join("\n\n"))
        }
        Value::Null => Ok(String::new()),
        _ => Err("the content must be a text or a list"),
    }
}

fn parts(content: &Value) -> Result<Vec<Value>, &'static str> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![json!({"type": "text", "text": text})]),
        Value::Array(parts) => parts.iter().map(part).collect(),
        _ => Err("the content must be a text or a list"),
    }
}

fn part(part: &Value) -> Result<Value, &'static str> {
    match text(&part["type"]) {
        "text" => Ok(json!({"type": "text", "text": part["text"]})),
        "refusal" => Ok(json!({"type": "text", "text": part["refusal"]})),
        "image_url" => picture(text(&part["image_url"]["url"])),
        _ => Err("a part must be text, refusal or image_url"),
    }
}

/// A picture in the text of its address, or at one.
pub(super) fn picture(url: &str) -> Result<Value, &'static str> {
    let source = match url.strip_prefix("data:") {
        Some(data) => {
            let (kind, data) = data.split_once(";base64,").ok_or("a picture's data must be base64")?;
            json!({"type": "base64", "media_type": kind, "data": data})
        }
        None if url.starts_with("https://") || url.starts_with("http://") => {
            json!({"type": "url", "url": url})
        }
        None => return Err("a picture must be at an address or in its data"),
    };
    Ok(json!({"type": "image", "source": source}))
}

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

fn call_json(id: &str, tool: &str, input: &Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": tool, "arguments": input.to_string()}})
}

pub(super) fn whole(head: &Head, answer: &Answer, stop: Stop) -> Value {
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part {
            Part::Text(text) => texts.push(text.as_str()),
            Part::Call { id, tool, input } => calls.push(call_json(id, tool, input)),
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
                let mut call = call_json(id, tool, input);
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
