//! What a request of this API says.

use ostler_agent::canonical::{Block, Role};
use serde_json::Value;

use super::super::at::At;
use super::super::fields::{Fields, flag, list};
use super::super::ignored::Ignored;
use super::super::problem::THREAD;
use super::super::transcript::Transcript;
use super::super::{Delivery, Format, MESSAGES, Problem, Request, Told, blocks, tools};

/// How a block of the system prompt begins by which Claude Code accounts for itself. It differs from request to request,
/// and says nothing to the model: with it no session would be used twice.
const ATTRIBUTION: &str = "x-anthropic-billing-header:";

pub(in super::super) const FIELDS: Fields = Fields {
    heard: &[
        "compaction",
        "messages",
        "metadata",
        "model",
        "service_tier",
        "stream",
        "system",
        "thread",
        "tool_choice",
        "tools",
    ],
    ignored: &[
        "cache_control",
        "container",
        "context_management",
        "diagnostics",
        "fallback_credit_token",
        "fallbacks",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "output_config",
        "output_format",
        "speed",
        "stop_sequences",
        "temperature",
        "thinking",
        "top_k",
        "top_p",
        "user_profile_id",
        "workspace_id",
    ],
};

pub(in super::super) fn read(body: &Value) -> Result<Request, Problem> {
    let mut ignored = FIELDS.ignored(body)?;
    if !body["max_tokens"].is_u64() {
        return Err(Problem::field("max_tokens", "this field must be a number"));
    }
    if !body["compaction"].is_null() {
        return Err(Problem::field("compaction", "the agent shortens its conversations by itself"));
    }
    if !body["thread"].is_null() {
        return Err(Problem::field(THREAD, "send the conversation, or name it in x-ostler-conversation"));
    }
    let delivery = match flag(body, "stream")? {
        Told::Yes => Delivery::Streamed { usage: Told::Yes },
        Told::No => Delivery::Whole,
    };
    let mut transcript = Transcript::default();
    let system_field = At::Field("system");
    for text in system(&system_field, &body["system"], &mut ignored)? {
        transcript.add_system(text);
    }
    let field = At::Field(MESSAGES);
    for (index, message) in list(body, MESSAGES)?.iter().enumerate() {
        one(&field.nth(index), message, &mut transcript, &mut ignored)?;
    }
    let offer = tools::read(Format::Messages, body, &[], &mut ignored)?;
    let user = body["metadata"]["user_id"].as_str().map(str::to_owned);
    Ok(Request { user, ..Request::assemble(body, delivery, transcript, offer, ignored)? })
}

fn one(
    at: &At<'_>,
    message: &Value,
    transcript: &mut Transcript,
    ignored: &mut Ignored,
) -> Result<(), Problem> {
    let content = at.of("content");
    let role = match message["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => {
            let texts = system(&content, &message["content"], ignored)?;
            transcript.add_system(texts.join("\n\n"));
            return Ok(());
        }
        _ => return Err(at.of("role").wrong("the role must be user, assistant or system")),
    };
    let blocks = blocks::content(&content, &message["content"], role, ignored)?;
    transcript.add(role, blocks);
    Ok(())
}

/// What is said to the model: texts.
fn system(at: &At<'_>, content: &Value, ignored: &mut Ignored) -> Result<Vec<String>, Problem> {
    if content.is_null() {
        return Ok(Vec::new());
    }
    let blocks = blocks::content(at, content, Role::User, ignored)?;
    let texts = blocks.into_iter().map(|block| match block {
        Block::Text(text) => Ok(text),
        _ => Err(at.wrong("this must be a text or a list of texts")),
    });
    let texts = texts.collect::<Result<Vec<String>, Problem>>()?;
    let (attributions, texts): (Vec<String>, Vec<String>) =
        texts.into_iter().partition(|text| text.starts_with(ATTRIBUTION));
    if !attributions.is_empty() {
        ignored.add("system.x-anthropic-billing-header");
    }
    Ok(texts)
}
