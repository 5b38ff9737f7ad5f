//! A request's body: bounded in bytes, in time, and in what all of them hold together.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::refusal::{self, Answer};

/// What a request may have. An artifact has at most 1 MiB; what is somewhat longer gets an answer that the agent
/// understands, and only what is far longer is not read.
pub const MOST_BODY_BYTES: usize = 16 * 1024 * 1024;

/// What all bodies that are being read may hold. When it is used up, further ones wait.
const MOST_ALL_KIB: u32 = 64 * 1024;

/// Bodies up to this are read without asking: the bound on connections bounds them too.
const SMALL_BYTES: u64 = 64 * 1024;

/// A body that is not there by then is not going to come: everything is on loopback.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// Memory for bodies, shared by all connections.
pub(super) struct Bodies(Semaphore);

impl Default for Bodies {
    fn default() -> Self {
        Self(Semaphore::new(MOST_ALL_KIB as usize))
    }
}

/// Why a body could not be had.
pub(super) enum Unread {
    TooLong,
    /// The client went away, or is too slow.
    Lost,
}

/// A body, with its share of the memory.
pub(super) struct Read<'a> {
    pub(super) bytes: Bytes,
    _share: Option<SemaphorePermit<'a>>,
}

impl Bodies {
    /// Reads a body whole.
    pub(super) async fn read(&self, body: Incoming) -> Result<Read<'_>, Unread> {
        let hint = body.size_hint();
        if hint.lower() > MOST_BODY_BYTES as u64 {
            return Err(Unread::TooLong);
        }
        let most = hint.upper().unwrap_or(MOST_BODY_BYTES as u64).min(MOST_BODY_BYTES as u64);
        // All at once, so that two half-read bodies never wait for each other. The semaphore is never closed.
        let share = match u32::try_from(most.div_ceil(1024)) {
            Ok(kib) if most > SMALL_BYTES => self.0.acquire_many(kib).await.ok(),
            Ok(_) | Err(_) => None,
        };
        let reading = Limited::new(body, MOST_BODY_BYTES).collect();
        match tokio::time::timeout(BODY_WITHIN, reading).await {
            Ok(Ok(body)) => Ok(Read { bytes: body.to_bytes(), _share: share }),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Unread::TooLong),
            Ok(Err(_)) | Err(_) => Err(Unread::Lost),
        }
    }
}

/// What the door must know of a message. The rest is read by `rmcp`.
#[derive(Debug)]
pub(super) enum Message {
    /// A client says hello.
    Greeting,
    /// A client takes the call with this id, as JSON, back.
    Cancelling(String),
    /// Anything else.
    Other,
}

/// Reads what the door must know, or answers.
pub(super) fn peek(bytes: &[u8]) -> Result<Message, Box<Answer>> {
    let garbled = |code, id: Option<&Value>, words: &str| {
        Box::new(refusal::protocol(StatusCode::BAD_REQUEST, code, id, words))
    };
    if std::str::from_utf8(bytes).is_err() {
        return Err(garbled(-32700, None, "the message is not text in UTF-8"));
    }
    let message: Value = serde_json::from_slice(bytes)
        .map_err(|error| garbled(-32700, None, &format!("the message is not JSON: {error}")))?;
    let message = match message {
        Value::Object(message) => message,
        Value::Array(_) => {
            let words = "batches are not part of the protocol since 2025-06-18: send the messages one by one";
            return Err(garbled(-32600, None, words));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(garbled(-32600, None, "the message is not an object"));
        }
    };
    match message.get("method") {
        Some(Value::String(method)) => Ok(match method.as_str() {
            "initialize" => Message::Greeting,
            "notifications/cancelled" => {
                let id = message.get("params").and_then(|params| params.get("requestId"));
                id.map_or(Message::Other, |id| Message::Cancelling(id.to_string()))
            }
            _ => Message::Other,
        }),
        Some(_) => Err(garbled(-32600, message.get("id"), "`method` is not text")),
        None if message.contains_key("result") || message.contains_key("error") => Ok(Message::Other),
        None => Err(garbled(-32600, message.get("id"), "the message has no `method`")),
    }
}
