//! Messages of a conversation in one form, whoever sent them: what a client echoes and what an agent recorded are the
//! same conversation if they are equal here.
//!
//! What is read is kept as it was given, for the agent is to get exactly that. What is compared is its canonical form:
//!
//! - a text is a list with one text block, in a message and in a tool's result;
//! - `is_error` that is absent, null or false is the same;
//! - keys that only the transport needs (`cache_control`, `name`, `citations`, unknown ones) are not there;
//! - neighbours with the same role are one message, their blocks in order;
//! - texts are in Unicode's composed form (NFC), without white space at their end; empty ones are not there;
//! - words that the model said to itself are not there: clients rarely send them back;
//! - the order of keys does not matter, nor whether a whole number is written with a point.

mod form;

use icu_normalizer::ComposingNormalizerBorrowed;
use serde_json::{Value, json};

pub use form::form;
pub(crate) use form::sorted;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person, and the results of tools.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The word for it in a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said. Never without a block.
    pub blocks: Vec<Block>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Words.
    Text(String),
    /// Words of the model to itself.
    Thinking {
        /// The words.
        text: String,
        /// What proves to the provider that they are its own.
        signature: Option<String>,
    },
    /// A call of a tool.
    Call {
        /// Its id.
        id: String,
        /// The tool.
        tool: String,
        /// What it is called with.
        input: Value,
    },
    /// What came of a call.
    Outcome {
        /// The id of the call.
        call: String,
        /// What came of it.
        blocks: Vec<Block>,
        /// Whether it failed.
        failed: bool,
    },
    /// An image, a document, or something that is new to us: as it was given.
    Other(Value),
}

/// Why messages cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Somebody else speaks.
    #[error("message {at} has the role `{role}`")]
    Role {
        /// Which message, from 0.
        at: usize,
        /// The role.
        role: String,
    },
    /// It is neither a text nor a list of blocks.
    #[error("message {at} has no content")]
    Content {
        /// Which message, from 0.
        at: usize,
    },
}

/// Reads messages as providers and their clients write them: `{"role": …, "content": text or blocks}`. Empty texts are
/// left out, and so are messages without anything else; neighbours with the same role become one.
pub fn read(messages: &[Value]) -> Result<Vec<Message>, Unreadable> {
    let mut read: Vec<Message> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = match message["role"].as_str().unwrap_or_default() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            role => return Err(Unreadable::Role { at, role: role.to_owned() }),
        };
        let blocks = content(&message["content"]).ok_or(Unreadable::Content { at })?;
        match read.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.role == role => last.blocks.extend(blocks),
            Some(_) | None => read.push(Message { role, blocks }),
        }
    }
    Ok(read)
}

fn content(content: &Value) -> Option<Vec<Block>> {
    let blocks: Vec<Block> = match content {
        Value::String(text) => vec![Block::Text(text.clone())],
        Value::Array(blocks) => blocks.iter().map(block).collect(),
        _ => return None,
    };
    // An empty text makes a session that cannot be taken up again.
    Some(blocks.into_iter().filter(|block| *block != Block::Text(String::new())).collect())
}

fn block(block: &Value) -> Block {
    match block["type"].as_str().unwrap_or_default() {
        "text" => Block::Text(text(&block["text"])),
        "thinking" => Block::Thinking {
            text: text(&block["thinking"]),
            signature: block["signature"]
                .as_str()
                .filter(|signature| !signature.is_empty())
                .map(str::to_owned),
        },
        "tool_use" => {
            Block::Call { id: text(&block["id"]), tool: text(&block["name"]), input: block["input"].clone() }
        }
        "tool_result" => Block::Outcome {
            call: text(&block["tool_use_id"]),
            blocks: content(&block["content"]).unwrap_or_default(),
            failed: block["is_error"] == true,
        },
        _ => Block::Other(block.clone()),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Message {
    /// All words of it.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.blocks.iter().filter_map(Block::text).collect();
        texts.join("\n\n")
    }

    /// Whether it is words and nothing else.
    pub fn is_text(&self) -> bool {
        self.blocks.iter().all(|block| block.text().is_some())
    }

    /// As it is written for a provider: a user's words alone are a text, as they were given; an assistant's are a list.
    pub fn written(&self) -> Value {
        let content = match (self.role, self.blocks.as_slice()) {
            (Role::User, [Block::Text(text)]) => json!(text),
            (_, blocks) => blocks.iter().map(Block::written).collect(),
        };
        json!({"role": self.role.name(), "content": content})
    }
}

impl Block {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Thinking { .. } | Self::Call { .. } | Self::Outcome { .. } | Self::Other(_) => None,
        }
    }

    /// As it is written for a provider.
    pub fn written(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Thinking { text, signature } => {
                json!({"type": "thinking", "thinking": text, "signature": signature.as_deref().unwrap_or_default()})
            }
            Self::Call { id, tool, input } => {
                json!({"type": "tool_use", "id": id, "name": tool, "input": input})
            }
            Self::Outcome { call, blocks, failed } => {
                let content = match blocks.as_slice() {
                    [Self::Text(text)] => json!(text),
                    blocks => blocks.iter().map(Self::written).collect(),
                };
                json!({"type": "tool_result", "tool_use_id": call, "content": content, "is_error": failed})
            }
            Self::Other(block) => block.clone(),
        }
    }
}

/// Letters and their marks in one.
pub(crate) fn composed(text: &str) -> std::borrow::Cow<'_, str> {
    const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
    NFC.normalize(text)
}

#[cfg(test)]
#[path = "canonical_tests.rs"]
mod tests;
