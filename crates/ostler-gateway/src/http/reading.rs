//! What a request says: its body, bounded, and its query.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request as Incoming;
use axum::http::{Uri, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;

use crate::wire::{Kind, Problem};

/// Longest body: what the providers take.
const LONGEST_BODY: usize = 32 << 20;

/// The body as JSON. How deep it may be is bounded by its reader.
pub(super) async fn json(incoming: Incoming, within: Duration) -> Result<Value, Problem> {
    parsed(&bytes(incoming, within).await?)
}

/// What a body says.
pub(super) fn parsed(body: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::invalid(&format!("the body is no JSON: {error}")))
}

/// The body, which must be meant as JSON.
pub(super) async fn bytes(incoming: Incoming, within: Duration) -> Result<Bytes, Problem> {
    let kind = incoming.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json =
        kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"));
    if !is_json {
        return Err(Problem::invalid("the body must be application/json").about("content-type"));
    }
    let too_large = || Problem::new(Kind::TooLarge, "the body is longer than 32 MB");
    let announced = incoming.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length > LONGEST_BODY) {
        return Err(too_large());
    }
    let read = Limited::new(incoming.into_body(), LONGEST_BODY).collect();
    let body = tokio::time::timeout(within, read)
        .await
        .map_err(|_| Problem::new(Kind::Slow, "the body took too long"))?;
    let body = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => too_large(),
        false => Problem::new(Kind::Gone, "the body broke off"),
    })?;
    Ok(body.to_bytes())
}

/// What a parameter of the query says.
pub(super) fn query(uri: &Uri, name: &str) -> Option<String> {
    let pairs = uri.query()?.split('&');
    let named = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut found = named.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned());
    found.next()
}
