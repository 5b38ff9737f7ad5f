//! OpenAI Responses.

use serde_json::{Value, json};

use super::{Encoder, Headers, Part, delivery_of, id, model_of, text_of};
use crate::ask::{Heard, Line, Wire};
use crate::roles::{Call, CallInput};
use crate::script::{StopReason, Usage};
use crate::side::Side;

/// How texts begin that Codex puts into a user's message on its own account.
const OWN_WORDS: [&str; 6] = [
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<subagent_notification>",
    "<skill>",
];

pub(super) fn read(headers: &Headers, body: &Value) -> Result<Heard, String> {
    if !body["previous_response_id"].is_null() {
        return Err("`previous_response_id` is not kept here: send the whole input".to_owned());
    }
    let mut lines = Vec::new();
    if let Some(text) = body["instructions"].as_str() {
        lines.push(Line::Setting(text.to_owned()));
    }
    let mut offered = Vec::new();
    tool_names(&body["tools"], &mut offered);
    match &body["input"] {
        Value::String(text) => lines.push(Line::User(text.clone())),
        Value::Array(items) if items.is_empty() => return Err("`input` is empty".to_owned()),
        Value::Array(items) => {
            for item in items {
                if !item.is_object() {
                    return Err("an item of `input` is not an object".to_owned());
                }
                tool_names(&item["tools"], &mut offered);
                item_lines(item, &mut lines);
            }
        }
        _ => return Err("`input` is missing".to_owned()),
    }
    let session =
        ["thread-id", "session-id", "session_id"].iter().find_map(|name| headers.get(*name).cloned());
    Ok(Heard {
        wire: Wire::Responses,
        model: model_of(body)?,
        delivery: delivery_of(body)?,
        offered,
        lines,
        session,
        side: side(headers),
    })
}

/// Codex says in a header what a request is for.
fn side(headers: &Headers) -> Option<Side> {
    let told: Value = serde_json::from_str(headers.get("x-codex-turn-metadata")?).ok()?;
    if told["request_kind"] == "compaction" {
        return Some(Side::Summary);
    }
    told["thread_source"].as_str().is_some_and(|source| source != "user").then_some(Side::SubAgent)
}

/// Tools have names; those of an MCP server stand together under the server's name.
fn tool_names(tools: &Value, offered: &mut Vec<String>) {
    for tool in tools.as_array().map(Vec::as_slice).unwrap_or_default() {
        match (tool["name"].as_str(), tool["tools"].as_array()) {
            (Some(group), Some(members)) => {
                let names = members.iter().filter_map(|member| member["name"].as_str());
                offered.extend(names.map(|name| format!("{group}__{name}")));
            }
            (Some(name), None) => offered.push(name.to_owned()),
            (None, _) => {
                offered.extend(tool["type"].as_str().map(str::to_owned));
                offered.extend(deferred(tool));
            }
        }
    }
}

/// MCP servers whose tools Codex lists only to a model that searches for them. It names the servers, one a line.
fn deferred(tool: &Value) -> impl Iterator<Item = String> {
    let is_search = tool["type"] == "tool_search";
    let description = tool["description"].as_str().filter(|_| is_search).unwrap_or_default();
    let sources = description.lines().filter_map(|line| line.strip_prefix("- "));
    let names = sources.map(|source| source.split(':').next().unwrap_or(source).trim());
    names.filter(|name| !name.contains(' ')).map(|name| format!("mcp__{name}"))
}

fn item_lines(item: &Value, lines: &mut Vec<Line>) {
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let text = content_text(&item["content"]);
            lines.push(match item["role"].as_str() {
                Some("user") if OWN_WORDS.iter().any(|word| text.trim_start().starts_with(word)) => {
                    Line::Setting(text)
                }
                Some("user") => Line::User(text),
                Some("assistant") => Line::Model(text),
                Some(_) | None => Line::Setting(text),
            });
        }
        // Parallel calls stand one after the other, and so do their results: each run of them is one round.
        "function_call" | "custom_tool_call" | "local_shell_call" if lines.last() == Some(&Line::Calls) => {}
        "function_call" | "custom_tool_call" | "local_shell_call" => lines.push(Line::Calls),
        "function_call_output" | "custom_tool_call_output" => {
            let text = content_text(&item["output"]);
            match lines.last_mut() {
                Some(Line::Results(results)) => results.push(text),
                _ => lines.push(Line::Results(vec![text])),
            }
        }
        _ => {}
    }
}

fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text_of(&part["text"])).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input.saturating_add(usage.output),
    })
}

fn incomplete_reason(stop: StopReason) -> Option<&'static str> {
    match stop {
        StopReason::EndTurn | StopReason::ToolUse | StopReason::PauseTurn => None,
        StopReason::MaxTokens => Some("max_output_tokens"),
        StopReason::Refusal => Some("content_filter"),
    }
}

fn response(id: &str, model: &str, output: &[Value], stop: Option<(StopReason, Usage)>) -> Value {
    let (status, details, usage) = match stop {
        None => ("in_progress", Value::Null, Value::Null),
        Some((stop, usage)) => match incomplete_reason(stop) {
            None => ("completed", Value::Null, usage_json(usage)),
            Some(reason) => ("incomplete", json!({ "reason": reason }), usage_json(usage)),
        },
    };
    json!({
        "id": id,
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": model,
        "output": output,
        "error": null,
        "incomplete_details": details,
        "usage": usage,
    })
}

fn item(part: &Part) -> Value {
    match part {
        Part::Text(text) => message(&id("msg"), text, "completed"),
        Part::Thought(text) => reasoning(&id("rs"), text),
        Part::Call(call) => call_item(call),
    }
}

fn message(id: &str, text: &str, status: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    let content = if text.is_empty() { json!([]) } else { json!([part]) };
    json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content})
}

fn reasoning(id: &str, text: &str) -> Value {
    let summary = if text.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": text}]) };
    json!({"type": "reasoning", "id": id, "summary": summary})
}

fn call_item(call: &Call) -> Value {
    let mut item = match &call.input {
        CallInput::Arguments(value) => {
            json!({"type": "function_call", "id": id("fc"), "status": "completed", "arguments": value.to_string()})
        }
        CallInput::Text(text) => {
            json!({"type": "custom_tool_call", "id": id("ctc"), "status": "completed", "input": text})
        }
    };
    item["call_id"] = json!(id("call"));
    item["name"] = json!(call.name);
    if let Some(namespace) = &call.namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

pub(super) fn whole(model: &str, parts: &[Part], stop: StopReason, usage: Usage) -> Value {
    let output: Vec<_> = parts.iter().map(item).collect();
    response(&id("resp"), model, &output, Some((stop, usage)))
}

struct Open {
    part: Part,
    id: String,
}

/// The answer as server-sent events.
pub(super) struct Stream {
    model: String,
    id: String,
    sequence: u64,
    output: Vec<Value>,
    open: Option<Open>,
}

impl Stream {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), id: id("resp"), sequence: 0, output: Vec::new(), open: None }
    }

    fn event(&mut self, name: &str, mut data: Value) -> String {
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        super::event(name, &data)
    }

    /// Where in the list of output items the current one stands, and its id.
    fn place(&self, id: &str) -> Value {
        json!({"output_index": self.output.len(), "item_id": id})
    }

    fn begin(&mut self, part: Part) -> String {
        let mut out = self.leave();
        let (id, item) = match &part {
            Part::Text(_) | Part::Call(_) => {
                let id = id("msg");
                (id.clone(), message(&id, "", "in_progress"))
            }
            Part::Thought(_) => {
                let id = id("rs");
                (id.clone(), reasoning(&id, ""))
            }
        };
        let index = self.output.len();
        out += &self.event("response.output_item.added", json!({"output_index": index, "item": item}));
        let mut place = self.place(&id);
        if matches!(part, Part::Thought(_)) {
            place["summary_index"] = json!(0);
            place["part"] = json!({"type": "summary_text", "text": ""});
            out += &self.event("response.reasoning_summary_part.added", place);
        } else {
            place["content_index"] = json!(0);
            place["part"] = json!({"type": "output_text", "text": "", "annotations": []});
            out += &self.event("response.content_part.added", place);
        }
        self.open = Some(Open { part, id });
        out
    }

    fn leave(&mut self) -> String {
        let Some(Open { part, id }) = self.open.take() else { return String::new() };
        let mut place = self.place(&id);
        let mut out = String::new();
        let item = match &part {
            Part::Thought(text) => {
                place["summary_index"] = json!(0);
                place["text"] = json!(text);
                out += &self.event("response.reasoning_summary_text.done", place);
                let mut place = self.place(&id);
                place["summary_index"] = json!(0);
                place["part"] = json!({"type": "summary_text", "text": text});
                out += &self.event("response.reasoning_summary_part.done", place);
                reasoning(&id, text)
            }
            Part::Text(text) => {
                place["content_index"] = json!(0);
                place["text"] = json!(text);
                out += &self.event("response.output_text.done", place);
                let mut place = self.place(&id);
                place["content_index"] = json!(0);
                place["part"] = json!({"type": "output_text", "text": text, "annotations": []});
                out += &self.event("response.content_part.done", place);
                message(&id, text, "completed")
            }
            Part::Call(call) => call_item(call),
        };
        out + &self.done(item)
    }

    fn done(&mut self, item: Value) -> String {
        let index = self.output.len();
        let out = self.event("response.output_item.done", json!({"output_index": index, "item": item}));
        self.output.push(item);
        out
    }
}

impl Encoder for Stream {
    fn open(&mut self) -> String {
        let response = response(&self.id, &self.model, &[], None);
        self.event("response.created", json!({ "response": response }))
            + &self.event("response.in_progress", json!({ "response": response }))
    }

    fn text(&mut self, delta: &str) -> String {
        let mut out = match &self.open {
            Some(Open { part: Part::Text(_), .. }) => String::new(),
            Some(_) | None => self.begin(Part::Text(String::new())),
        };
        let Some(Open { part: Part::Text(text), id }) = &mut self.open else { return out };
        text.push_str(delta);
        let mut data = json!({"output_index": self.output.len(), "item_id": id, "content_index": 0});
        data["delta"] = json!(delta);
        out += &self.event("response.output_text.delta", data);
        out
    }

    fn thought(&mut self, delta: &str) -> String {
        let mut out = match &self.open {
            Some(Open { part: Part::Thought(_), .. }) => String::new(),
            Some(_) | None => self.begin(Part::Thought(String::new())),
        };
        let Some(Open { part: Part::Thought(text), id }) = &mut self.open else { return out };
        text.push_str(delta);
        let mut data = json!({"output_index": self.output.len(), "item_id": id, "summary_index": 0});
        data["delta"] = json!(delta);
        out += &self.event("response.reasoning_summary_text.delta", data);
        out
    }

    fn call(&mut self, call: &Call) -> String {
        let mut out = self.leave();
        let item = call_item(call);
        let (event, key) = match call.input {
            CallInput::Arguments(_) => ("response.function_call_arguments", "arguments"),
            CallInput::Text(_) => ("response.custom_tool_call_input", "input"),
        };
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        begun[key] = json!("");
        let index = self.output.len();
        out += &self.event("response.output_item.added", json!({"output_index": index, "item": begun}));
        let mut delta = self.place(text_of(&item["id"]));
        let mut whole = delta.clone();
        delta["delta"] = item[key].clone();
        whole[key] = item[key].clone();
        out += &self.event(&format!("{event}.delta"), delta);
        out += &self.event(&format!("{event}.done"), whole);
        out + &self.done(item)
    }

    fn close(&mut self, stop: StopReason, usage: Usage) -> String {
        let out = self.leave();
        let name =
            if incomplete_reason(stop).is_some() { "response.incomplete" } else { "response.completed" };
        let response = response(&self.id, &self.model, &self.output, Some((stop, usage)));
        out + &self.event(name, json!({ "response": response }))
    }
}
