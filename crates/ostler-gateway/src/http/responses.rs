//! Answers that are kept: OpenAI's Responses API lets a program ask for one again, break it off, and forget it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use ostler_agent::access::Scope;
use ostler_agent::event::{AgentEvent, TurnOutcome};
use serde_json::{Value, json};

use super::{Gateway, body, refuse};
use crate::conversations::{Conversation, Ending, Kept, Unkept};
use crate::live::Start;
use crate::narration::Narration;
use crate::wire::{Format, Head, Kind, Piece, Problem, ToolNames};

/// How the ids of answers begin, in each API.
const PREFIXES: [(&str, Format); 3] =
    [("resp_", Format::Responses), ("chatcmpl-", Format::Chat), ("msg_", Format::Messages)];

impl<S: Start> Gateway<S> {
    fn answered(&self, headers: &HeaderMap, id: &str) -> Result<(Arc<Conversation>, String), Problem> {
        let visitor = self.admit(headers, Scope::Chat)?;
        let absent = || Problem::new(Kind::Absent, &format!("there is no answer `{id}`")).about("id");
        let turn = PREFIXES.iter().find_map(|(prefix, _)| id.strip_prefix(prefix)).ok_or_else(absent)?;
        let found = self.conversations.of_turn(Some(&visitor.key.id), turn).ok_or_else(absent)?;
        Ok((found, turn.to_owned()))
    }
}

pub(super) async fn kept(conversation: &Arc<Conversation>, turn: &str) -> Result<Kept, Problem> {
    let (conversation, turn) = (conversation.clone(), turn.to_owned());
    let read = tokio::task::spawn_blocking(move || conversation.turn(&turn)).await;
    read.unwrap_or(Err(Unkept::Lost))
        .map_err(|error| Problem::new(Kind::Absent, &error.to_string()).about("id"))
}

/// An answer as it stands.
pub(super) fn told(turn: &str, kept: &Kept) -> Value {
    // What tools were for the program is not in the journal: each is a function.
    let tools = ToolNames::default();
    let head = Head { id: turn.to_owned(), model: kept.model.clone(), created: kept.at / 1_000, tools };
    let mut narration = Narration::default();
    let mut pieces: Vec<Piece> = kept.events.iter().flat_map(|event| narration.hear(event)).collect();
    let outcome = match kept.end {
        Some((Ending::Interrupted, _)) => TurnOutcome::Interrupted,
        Some((Ending::Called, _)) => TurnOutcome::Called,
        Some((Ending::Done | Ending::Failed, _)) | None => TurnOutcome::Done { text: String::new() },
    };
    pieces.extend(narration.hear(&AgentEvent::TurnEnded(outcome)));
    let mut told = Format::Responses.whole(&head, &pieces).unwrap_or_default();
    match &kept.end {
        Some((Ending::Done | Ending::Called, _) | (Ending::Interrupted, None)) => {}
        // Also one that a killed server left: with the words that were sent.
        Some((Ending::Failed | Ending::Interrupted, error)) => {
            told["status"] = json!("failed");
            told["error"] = json!({"code": "server_error", "message": error});
        }
        None => {
            told["status"] = json!("in_progress");
            told["usage"] = Value::Null;
        }
    }
    told
}

/// Tells an answer again.
pub(super) async fn show<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let found = async {
        let (conversation, turn) = gateway.answered(&headers, &id)?;
        Ok(told(&turn, &kept(&conversation, &turn).await?))
    };
    found.await.map_or_else(|problem| refuse(Format::Responses, &problem), |told| body(StatusCode::OK, &told))
}

/// Breaks off an answer, and tells how far it came. One that is over is told as it is.
pub(super) async fn cancel<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let format = super::around::format_of(uri.path());
    let stopped = async {
        let (conversation, turn) = gateway.answered(&headers, &id)?;
        let (mut told_until, _) = conversation.listen();
        let mut kept_turn = kept(&conversation, &turn).await?;
        if conversation.stop(Some(&turn)) {
            // Its end is a line of the journal: the pool ends a turn that does not end by itself.
            while kept_turn.end.is_none() && told_until.changed().await.is_ok() {
                // Nothing is kept of a turn that never had a session.
                let stood = kept(&conversation, &turn).await;
                kept_turn = stood.unwrap_or(Kept { end: Some((Ending::Interrupted, None)), ..kept_turn });
            }
        }
        Ok((turn, kept_turn))
    };
    match stopped.await {
        Err(problem) => refuse(format, &problem),
        Ok((turn, kept)) => match format {
            Format::Responses => body(StatusCode::OK, &told(&turn, &kept)),
            Format::Chat | Format::Messages => {
                let state = match kept.end {
                    Some((Ending::Done | Ending::Called, _)) => "completed",
                    Some((Ending::Interrupted, _)) | None => "cancelled",
                    Some((Ending::Failed, _)) => "failed",
                };
                body(StatusCode::OK, &json!({"id": id, "status": state}))
            }
        },
    }
}

/// Forgets an answer, and with it the conversation that it is of.
pub(super) async fn delete<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let (conversation, turn) = match gateway.answered(&headers, &id) {
        Ok(found) => found,
        Err(problem) => return refuse(Format::Responses, &problem),
    };
    if let Err(problem) = kept(&conversation, &turn).await {
        return refuse(Format::Responses, &problem);
    }
    if conversation.summary().turn.is_some() {
        return refuse(Format::Responses, &Problem::new(Kind::Held, &Unkept::Busy.to_string()));
    }
    gateway.conversations.remove(&conversation);
    gateway.pool.end(&conversation.opening.tenant, conversation.id()).await;
    body(StatusCode::OK, &json!({"id": id, "object": "response.deleted", "deleted": true}))
}

/// What was asked for an answer.
pub(super) async fn input_items<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let found = async {
        let (conversation, turn) = gateway.answered(&headers, &id)?;
        let asked = kept(&conversation, &turn).await?.asked;
        let content = match &asked["content"] {
            Value::String(text) => json!([{"type": "input_text", "text": text}]),
            Value::Array(blocks) => blocks.iter().map(item).collect(),
            _ => json!([]),
        };
        let item = format!("msg_{turn}_in");
        let data = json!([{"type": "message", "id": item, "role": "user", "status": "completed", "content": content}]);
        Ok(json!({"object": "list", "data": data, "first_id": item, "last_id": item, "has_more": false}))
    };
    found.await.map_or_else(
        |problem: Problem| refuse(Format::Responses, &problem),
        |told| body(StatusCode::OK, &told),
    )
}

fn item(block: &Value) -> Value {
    match block["type"].as_str() {
        Some("text") => json!({"type": "input_text", "text": block["text"]}),
        _ => block.clone(),
    }
}
