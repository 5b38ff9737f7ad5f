//! What a request of this API says.

use ostler_agent::canonical::{Block, Role};
use serde_json::{Value, json};

use super::super::at::At;
use super::super::fields::{Fields, flag, list};
use super::super::ignored::Ignored;
use super::super::tools::INPUT;
use super::super::transcript::Transcript;
use super::super::{Delivery, Format, MESSAGES, Problem, Request, Told, blocks, tools};

pub(in super::super) const FIELDS: Fields = Fields {
    heard: &[
        "function_call",
        "functions",
        "logprobs",
        "messages",
        "metadata",
        "modalities",
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
        "top_logprobs",
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
        "top_p",
        "verbosity",
        "web_search_options",
    ],
};

pub(in super::super) fn read(body: &Value) -> Result<Request, Problem> {
    let mut ignored = FIELDS.ignored(body)?;
    for (old, new) in [("functions", "tools"), ("function_call", "tool_choice")] {
        if !body[old].is_null() {
            return Err(Problem::field(old, &format!("this field is old and has no effect: use `{new}`")));
        }
    }
    let delivery = match flag(body, "stream")? {
        Told::Yes => Delivery::Streamed { usage: flag(&body["stream_options"], "include_usage")? },
        Told::No => Delivery::Whole,
    };
    let mut transcript = Transcript::default();
    let field = At::Field(MESSAGES);
    for (index, message) in list(body, MESSAGES)?.iter().enumerate() {
        one(&field.nth(index), message, &mut transcript, &mut ignored)?;
    }
    let offer = tools::read(Format::Chat, body, &[], &mut ignored)?;
    Request::assemble(body, delivery, transcript, offer, ignored)
}

fn one(
    at: &At<'_>,
    message: &Value,
    transcript: &mut Transcript,
    ignored: &mut Ignored,
) -> Result<(), Problem> {
    let content = at.of("content");
    let read_content = |role: Role, ignored: &mut Ignored| match &message["content"] {
        Value::Null => Ok(Vec::new()),
        value => blocks::list(&content, value, |at, value| part(at, value, role, ignored)),
    };
    match message["role"].as_str() {
        Some("system" | "developer") => transcript.add_system(words(&read_content(Role::User, ignored)?)),
        Some("user") => transcript.add(Role::User, read_content(Role::User, ignored)?),
        Some("assistant") => {
            let mut blocks = read_content(Role::Assistant, ignored)?;
            let calls = at.of("tool_calls");
            let made = match &message["tool_calls"] {
                Value::Null => &[],
                Value::Array(made) => made.as_slice(),
                _ => return Err(calls.wrong("this field must be a list")),
            };
            for (index, call) in made.iter().enumerate() {
                blocks.extend(call_of(&calls.nth(index), call, ignored)?);
            }
            transcript.add(Role::Assistant, blocks);
        }
        Some("tool") => {
            let content = read_content(Role::User, ignored)?;
            let result = blocks::outcome(at.name(message, "tool_call_id")?, content, false);
            transcript.add(Role::User, vec![result]);
        }
        _ => return Err(at.of("role").wrong("the role must be system, developer, user, assistant or tool")),
    }
    Ok(())
}

/// All texts of it.
pub(in super::super) fn words(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn call_of(at: &At<'_>, call: &Value, ignored: &mut Ignored) -> Result<Option<Block>, Problem> {
    let id = at.name(call, "id")?;
    match call["type"].as_str().unwrap_or("function") {
        "function" => called(&at.of("function"), id, &call["function"]).map(Some),
        "custom" => {
            let (inner, custom) = (at.of("custom"), &call["custom"]);
            let (tool, input) = (inner.name(custom, "name")?, inner.text(custom, "input")?);
            Ok(Some(Block::Call { id: id.to_owned(), tool: tool.to_owned(), input: json!({INPUT: input}) }))
        }
        kind => {
            ignored.add_kind("messages.tool_calls", kind);
            Ok(None)
        }
    }
}

/// A call whose arguments are JSON in a text. What is no JSON object is kept as it is.
pub(in super::super) fn called(at: &At<'_>, id: &str, function: &Value) -> Result<Block, Problem> {
    let (name, arguments) = (at.name(function, "name")?, at.text(function, "arguments")?);
    let read = serde_json::from_str(arguments).ok().filter(Value::is_object);
    let input = read.unwrap_or_else(|| match arguments.trim() {
        "" => json!({}),
        _ => json!({"arguments": arguments}),
    });
    let tool = tools::joined(function["namespace"].as_str(), name);
    Ok(Block::Call { id: id.to_owned(), tool, input })
}

fn part(at: &At<'_>, part: &Value, role: Role, ignored: &mut Ignored) -> Result<Option<Block>, Problem> {
    Ok(Some(match at.name(part, "type")? {
        "text" => Block::Text(at.text(part, "text")?.to_owned()),
        "refusal" => Block::Text(at.text(part, "refusal")?.to_owned()),
        "image_url" if role == Role::Assistant => {
            return Err(at.of("type").wrong(blocks::ASSISTANT_PICTURE));
        }
        "image_url" => {
            let image = at.of("image_url");
            picture(&image.of("url"), image.text(&part["image_url"], "url")?)?
        }
        "input_audio" | "file" => {
            return Err(at.of("type").wrong("an agent takes texts and pictures"));
        }
        kind => {
            ignored.add_kind("messages.content", kind);
            return Ok(None);
        }
    }))
}

/// A picture in the text of its address, or at one.
pub(in super::super) fn picture(at: &At<'_>, url: &str) -> Result<Block, Problem> {
    let source = match url.strip_prefix("data:") {
        Some(data) => {
            let parts = data.split_once(";base64,");
            let (kind, data) = parts.ok_or_else(|| at.wrong("the data of a picture must be base64"))?;
            blocks::embedded(at, kind, data)?
        }
        None => blocks::address(at, url)?,
    };
    Ok(Block::Other(json!({"type": "image", "source": source})))
}
