//! What a request of this API says.

use ostler_agent::canonical::{Block, Role};
use serde_json::{Value, json};

use super::super::at::At;
use super::super::chat::{called, picture, words};
use super::super::fields::{Fields, flag, text_if_any};
use super::super::ignored::Ignored;
use super::super::tools::{self, INPUT};
use super::super::transcript::Transcript;
use super::super::{Delivery, Format, Problem, Request, Told, blocks};

/// Tools that stand among the messages: seen from Codex 0.166.0 with models that call tools from code.
const ADDITIONAL_TOOLS: &str = "additional_tools";

/// The field that other APIs call `messages`.
pub(super) const ITEMS: &str = "input";

pub(in super::super) const FIELDS: Fields = Fields {
    heard: &[
        "background",
        "conversation",
        "input",
        "instructions",
        "metadata",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
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
    ignored: &[
        "access_programs",
        "context_management",
        "image",
        "include",
        "max_output_tokens",
        "max_tool_calls",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "temperature",
        "text",
        "top_p",
        "truncation",
    ],
};

pub(in super::super) fn read(body: &Value) -> Result<Request, Problem> {
    let mut ignored = FIELDS.ignored(body)?;
    if flag(body, "background")? == Told::Yes {
        return Err(Problem::field("background", "an answer is not kept for later"));
    }
    if !body["conversation"].is_null() {
        return Err(Problem::field("conversation", "use previous_response_id, or send the conversation"));
    }
    if !body["prompt"].is_null() {
        return Err(Problem::field("prompt", "prompts are not kept here: send what it says"));
    }
    let delivery = match flag(body, "stream")? {
        Told::Yes => Delivery::Streamed { usage: Told::Yes },
        Told::No => Delivery::Whole,
    };
    let follows = text_if_any(body, "previous_response_id")?;
    let mut transcript = if follows.is_some() { Transcript::continued() } else { Transcript::default() };
    let field = At::Field(ITEMS);
    let mut added: Vec<(String, &Value)> = Vec::new();
    match &body[ITEMS] {
        Value::String(text) => transcript.add(Role::User, vec![Block::Text(text.clone())]),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let at = field.nth(index);
                match item["type"] == ADDITIONAL_TOOLS {
                    true => added.extend(additional(&at, item)?),
                    false => one(&at, item, &mut transcript, &mut ignored)?,
                }
            }
        }
        _ => return Err(field.wrong("this field must be a text or a list")),
    }
    let offer = tools::read(Format::Responses, body, &added, &mut ignored)?;
    let request = Request::assemble(body, delivery, transcript, offer, ignored)?;
    Ok(Request {
        // What stands among the messages holds for later turns too; the instructions are of this one.
        carried: request.system,
        system: text_if_any(body, "instructions")?,
        follows,
        is_kept: body["store"] != false,
        ..request
    })
}

fn additional<'v>(at: &At<'_>, item: &'v Value) -> Result<Vec<(String, &'v Value)>, Problem> {
    let at = at.of("tools");
    let tools = item["tools"].as_array().ok_or_else(|| at.wrong("this field must be a list"))?;
    Ok(tools.iter().enumerate().map(|(index, tool)| (at.nth(index).to_string(), tool)).collect())
}

fn one(at: &At<'_>, item: &Value, transcript: &mut Transcript, ignored: &mut Ignored) -> Result<(), Problem> {
    let kind = match &item["type"] {
        // Programs leave it out of messages.
        Value::Null => "message",
        Value::String(kind) => kind,
        _ => return Err(at.of("type").wrong("this field must be a text")),
    };
    match kind {
        "message" => message(at, item, transcript, ignored)?,
        "function_call" => {
            let call = called(at, at.name(item, "call_id")?, item)?;
            transcript.add(Role::Assistant, vec![call]);
        }
        "custom_tool_call" => {
            let (id, input) = (at.name(item, "call_id")?.to_owned(), at.text(item, INPUT)?);
            let tool = tools::joined(item["namespace"].as_str(), at.name(item, "name")?);
            transcript.add(Role::Assistant, vec![Block::Call { id, tool, input: json!({INPUT: input}) }]);
        }
        "function_call_output" | "custom_tool_call_output" => {
            let output = content(&at.of("output"), &item["output"], Role::User, ignored)?;
            let result = blocks::outcome(at.name(item, "call_id")?, output, false);
            transcript.add(Role::User, vec![result]);
        }
        // The model's words to itself are the provider's to check, and the agent keeps its own.
        "reasoning" => {}
        "item_reference" => return Err(at.wrong("this item is not kept here")),
        kind => ignored.add_kind(ITEMS, kind),
    }
    Ok(())
}

fn message(
    at: &At<'_>,
    item: &Value,
    transcript: &mut Transcript,
    ignored: &mut Ignored,
) -> Result<(), Problem> {
    let mut blocks = |role| content(&at.of("content"), &item["content"], role, ignored);
    match item["role"].as_str() {
        Some("system" | "developer") => transcript.add_system(words(&blocks(Role::User)?)),
        Some("user") => transcript.add(Role::User, blocks(Role::User)?),
        Some("assistant") => transcript.add(Role::Assistant, blocks(Role::Assistant)?),
        _ => return Err(at.of("role").wrong("the role must be system, developer, user or assistant")),
    }
    Ok(())
}

fn content(at: &At<'_>, content: &Value, role: Role, ignored: &mut Ignored) -> Result<Vec<Block>, Problem> {
    blocks::list(at, content, |at, value| part(at, value, role, ignored))
}

fn part(at: &At<'_>, part: &Value, role: Role, ignored: &mut Ignored) -> Result<Option<Block>, Problem> {
    Ok(Some(match at.name(part, "type")? {
        "input_text" | "output_text" | "text" => Block::Text(at.text(part, "text")?.to_owned()),
        "refusal" => Block::Text(at.text(part, "refusal")?.to_owned()),
        "input_image" if role == Role::Assistant => {
            return Err(at.of("type").wrong(blocks::ASSISTANT_PICTURE));
        }
        "input_image" => picture(&at.of("image_url"), at.text(part, "image_url")?)?,
        "input_audio" | "input_file" => {
            return Err(at.of("type").wrong("an agent takes texts and pictures"));
        }
        kind => {
            ignored.add_kind("input.content", kind);
            return Ok(None);
        }
    }))
}
