//! A request to ask the agent, done once under its `Idempotency-Key`.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::Request as Incoming;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use http_body::Frame;
use ostler_agent::access::Scope;

use super::around::RequestId;
use super::conversing::CONVERSATION;
use super::idempotency::{Given, HEADER, Slot, Turned};
use super::{Gateway, reading, refuse};
use crate::live::Start;
use crate::wire::{Format, Problem};

/// Tells an answer that was given before from a new one.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

impl<S: Start> Gateway<S> {
    /// Asks the agent, unless the same was asked before.
    pub(super) async fn once(&self, format: Format, incoming: Incoming) -> Result<Response, Problem> {
        let visitor = self.admit(incoming.headers(), Scope::Chat)?;
        let request = incoming.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
        let headers = incoming.headers().clone();
        let path = incoming.uri().path().to_owned();
        let bytes = reading::bytes(incoming, self.offer.waiting.body).await?;
        let Some(key) = headers.get(HEADER) else {
            let read = reading::parsed(&bytes)?;
            let response = self.attempt(format, &visitor, &headers, &read).await?;
            note(request.as_deref(), &visitor.key.id, &response);
            return Ok(response);
        };
        let key = key.to_str().map_err(|_| Problem::invalid("this must be plain text").about(HEADER))?;
        let mut slot = match self.repeats.look(&visitor.key.id, &path, key, &bytes)? {
            Turned::Again(given) => return Ok(again(given)),
            Turned::First(slot) => slot,
        };
        let attempted = match reading::parsed(&bytes) {
            Ok(read) => self.attempt(format, &visitor, &headers, &read).await,
            Err(problem) => Err(problem),
        };
        let response = attempted.unwrap_or_else(|problem| refuse(format, &problem));
        note(request.as_deref(), &visitor.key.id, &response);
        slot.head(response.status(), response.headers());
        Ok(response.map(|body| Body::new(Keeping { body, slot })))
    }
}

/// What connects a request with its conversation. Nothing of what was asked or answered is in the log.
fn note(request: Option<&str>, key: &str, response: &Response) {
    let session = response.headers().get(CONVERSATION).and_then(|value| value.to_str().ok());
    let status = response.status().as_u16();
    tracing::info!(target: "ostler::http", request, session, key, status, "asked");
}

fn again(given: Given) -> Response {
    let mut response = Response::new(Body::from(given.body));
    *response.status_mut() = given.status;
    *response.headers_mut() = given.headers;
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// A body that is kept while it is sent. One that breaks off is not.
struct Keeping {
    body: Body,
    slot: Slot,
}

impl http_body::Body for Keeping {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = std::task::ready!(Pin::new(&mut this.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    this.slot.piece(bytes);
                }
                if this.body.is_end_stream() {
                    this.slot.end();
                }
            }
            Some(Err(_)) => {}
            None => this.slot.end(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
