//! Parts of messages in Anthropic's terms, checked: whatever a request says, what an agent gets of it is whole. What
//! only the transport needs (`cache_control`, `citations`) is left out.

use ostler_agent::canonical::{Block, Role};
use serde_json::{Map, Value, json};

use super::Problem;
use super::at::At;
use super::ignored::Ignored;

/// Pictures that the provider takes.
const PICTURES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// What a message says: a text, or a list of blocks.
pub(super) fn content(
    at: &At<'_>,
    content: &Value,
    role: Role,
    ignored: &mut Ignored,
) -> Result<Vec<Block>, Problem> {
    list(at, content, |at, value| block(at, value, role, ignored))
}

/// A text, or a list whose elements are read one by one. What is nothing is left out.
pub(super) fn list(
    at: &At<'_>,
    content: &Value,
    mut read: impl FnMut(&At<'_>, &Value) -> Result<Option<Block>, Problem>,
) -> Result<Vec<Block>, Problem> {
    match content {
        Value::String(text) => Ok(vec![Block::Text(text.clone())]),
        Value::Array(values) => {
            let blocks = values.iter().enumerate().map(|(index, value)| read(&at.nth(index), value));
            blocks.filter_map(Result::transpose).collect()
        }
        _ => Err(at.wrong("this field must be a text or a list")),
    }
}

/// One block. Nothing, if its kind is not known.
fn block(at: &At<'_>, block: &Value, role: Role, ignored: &mut Ignored) -> Result<Option<Block>, Problem> {
    let kind = at.name(block, "type")?;
    Ok(Some(match (kind, role) {
        ("thinking", _) => Block::Thinking {
            text: at.text(block, "thinking")?.to_owned(),
            signature: block["signature"].as_str().filter(|proof| !proof.is_empty()).map(str::to_owned),
        },
        ("redacted_thinking", _) => {
            Block::Other(json!({"type": "redacted_thinking", "data": at.text(block, "data")?}))
        }
        ("tool_use", Role::Assistant) => Block::Call {
            id: at.name(block, "id")?.to_owned(),
            tool: at.name(block, "name")?.to_owned(),
            input: match &block["input"] {
                input @ Value::Object(_) => input.clone(),
                _ => return Err(at.of("input").wrong("this field must be an object")),
            },
        },
        ("tool_result", Role::User) => result(at, block, ignored)?,
        ("tool_use" | "tool_result", _) => {
            return Err(at.of("type").wrong("calls are the assistant's, and their results the user's"));
        }
        ("image" | "document" | "search_result", Role::Assistant) => {
            return Err(at.of("type").wrong(ASSISTANT_PICTURE));
        }
        _ => return shown(at, block, MESSAGES_CONTENT, ignored),
    }))
}

/// The error for a picture or document in a message of the assistant, in every API.
pub(super) const ASSISTANT_PICTURE: &str = "only messages of the user may contain pictures and documents";

/// What unknown kinds of blocks are named after.
const MESSAGES_CONTENT: &str = "messages.content";

fn result(at: &At<'_>, block: &Value, ignored: &mut Ignored) -> Result<Block, Problem> {
    let inner = at.of("content");
    let blocks = match &block["content"] {
        Value::Null => Vec::new(),
        content => list(&inner, content, |at, value| match at.name(value, "type")? {
            // What Claude Code's search for tools comes to. The tool itself is on offer from then on.
            "tool_reference" => {
                let tool = at.name(value, "tool_name")?;
                Ok(Some(Block::Text(format!("The tool `{tool}` can be called from now on."))))
            }
            _ => shown(at, value, "messages.content.tool_result", ignored),
        })?,
    };
    let failed = match &block["is_error"] {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        _ => return Err(at.of("is_error").wrong("this field must be true or false")),
    };
    Ok(outcome(at.name(block, "tool_use_id")?, blocks, failed))
}

/// What came of a call. Empty texts are left out, as in a message.
pub(super) fn outcome(call: &str, blocks: Vec<Block>, failed: bool) -> Block {
    let blocks = blocks.into_iter().filter(|block| *block != Block::Text(String::new())).collect();
    Block::Outcome { call: call.to_owned(), blocks, failed }
}

/// What can be shown to a model, by its user or as what came of a call.
fn shown(at: &At<'_>, block: &Value, field: &str, ignored: &mut Ignored) -> Result<Option<Block>, Problem> {
    Ok(Some(match at.name(block, "type")? {
        "text" => Block::Text(at.text(block, "text")?.to_owned()),
        "image" => {
            Block::Other(json!({"type": "image", "source": picture(&at.of("source"), &block["source"])?}))
        }
        "document" => Block::Other(document(at, block)?),
        "search_result" => Block::Other(found(at, block)?),
        kind => {
            ignored.add_kind(field, kind);
            return Ok(None);
        }
    }))
}

fn picture(at: &At<'_>, source: &Value) -> Result<Value, Problem> {
    match source["type"].as_str() {
        Some("base64") => embedded(at, at.text(source, "media_type")?, at.text(source, "data")?),
        Some("url") => address(at, at.text(source, "url")?),
        _ => Err(at.of("type").wrong("a picture must be `base64` or at a `url`")),
    }
}

/// A picture in the request itself.
pub(super) fn embedded(at: &At<'_>, kind: &str, data: &str) -> Result<Value, Problem> {
    if !PICTURES.contains(&kind) {
        return Err(at.wrong("a picture must be image/jpeg, image/png, image/gif or image/webp"));
    }
    if !is_base64(data) {
        return Err(at.wrong("the data of a picture must be base64"));
    }
    Ok(json!({"type": "base64", "media_type": kind, "data": data}))
}

/// A picture, or a document, at an address.
pub(super) fn address(at: &At<'_>, url: &str) -> Result<Value, Problem> {
    match url.starts_with("https://") || url.starts_with("http://") {
        true => Ok(json!({"type": "url", "url": url})),
        false => Err(at.wrong("an address must begin with https:// or http://")),
    }
}

fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !digits.is_empty() && data.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

fn document(at: &At<'_>, block: &Value) -> Result<Value, Problem> {
    let (inner, source) = (at.of("source"), &block["source"]);
    let source = match source["type"].as_str() {
        Some("base64") => {
            let (kind, data) = (inner.text(source, "media_type")?, inner.text(source, "data")?);
            if !is_base64(data) {
                return Err(inner.of("data").wrong("the data of a document must be base64"));
            }
            json!({"type": "base64", "media_type": kind, "data": data})
        }
        Some("text") => {
            json!({"type": "text", "media_type": "text/plain", "data": inner.text(source, "data")?})
        }
        Some("url") => address(&inner, inner.text(source, "url")?)?,
        _ => return Err(inner.of("type").wrong("a document must be `base64`, `text` or at a `url`")),
    };
    let mut document =
        Map::from_iter([("type".to_owned(), json!("document")), ("source".to_owned(), source)]);
    for field in ["title", "context"] {
        if let Some(text) = block[field].as_str() {
            document.insert(field.to_owned(), json!(text));
        }
    }
    Ok(Value::Object(document))
}

fn found(at: &At<'_>, block: &Value) -> Result<Value, Problem> {
    let content = block["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let inner = at.of("content");
    let texts = content.iter().enumerate().map(|(index, text)| {
        let at = inner.nth(index);
        Ok(json!({"type": "text", "text": at.text(text, "text")?}))
    });
    let texts = texts.collect::<Result<Vec<Value>, Problem>>()?;
    let (source, title) = (at.text(block, "source")?, at.text(block, "title")?);
    Ok(json!({"type": "search_result", "source": source, "title": title, "content": texts}))
}
