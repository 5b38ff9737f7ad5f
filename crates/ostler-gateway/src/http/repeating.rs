//! A request to ask the agent, done once under its `Idempotency-Key`.
//!
//! Whoever sends such a key will ask again if his connection breaks: so the turn goes on without him, in a task of the
//! gateway's own, and its answer waits for him. Without the key, whoever goes away breaks his turn off.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request as Incoming;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use http_body::{Body as _, Frame, SizeHint};
use ostler_agent::access::Scope;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::around::RequestId;
use super::conversing::CONVERSATION;
use super::idempotency::{Given, HEADER, Slot, Turned, Whole, digest};
use super::visits::Visitor;
use super::{Gateway, refuse};
use crate::live::Start;
use crate::wire::{Format, Problem};

/// Tells an answer that was given before from a new one.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Pieces that wait to be sent. When they are not taken the answer waits too, as it does without a key.
const PIECES_AHEAD: usize = 4;

/// How long one who does not take his answer is waited for once the server ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// What is asked, and by whom.
struct Asked {
    format: Format,
    visitor: Visitor,
    request: Option<String>,
    headers: HeaderMap,
}

impl<S: Start> Gateway<S> {
    /// Asks the agent, unless the same was asked before.
    pub(super) async fn once(
        self: &Arc<Self>,
        format: Format,
        incoming: Incoming,
    ) -> Result<Response, Problem> {
        let visitor = self.admit(incoming.headers(), Scope::Chat)?;
        let request = incoming.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
        let headers = incoming.headers().clone();
        let path = incoming.uri().path().to_owned();
        let body = self.bodies.read(&visitor.key.id, incoming, self.offer.waiting.body).await?;
        let asked = Asked { format, visitor, request, headers };
        let Some(key) = asked.headers.get(HEADER) else { return self.answer_request(&asked, body).await };
        let key = key.to_str().map_err(|_| Problem::invalid("this must be plain text").about(HEADER))?;
        let headers = asked.headers.clone();
        let (body, digest) = body.inspect(move |bytes| digest(&headers, bytes)).await?;
        let looked = self.repeats.look(&asked.visitor.key.id, (&path, key), digest)?;
        let slot = match looked {
            Turned::Again(given) => return Ok(again(given)),
            Turned::First(slot) => slot,
        };
        let (begun, response) = oneshot::channel();
        let gateway = self.clone();
        self.turns.spawn(async move {
            let response = gateway
                .answer_request(&asked, body)
                .await
                .unwrap_or_else(|problem| refuse(asked.format, &problem));
            relay(response, slot, begun, &gateway.parting).await;
        });
        response.await.map_err(|_| Problem::broke_off())
    }

    async fn answer_request(&self, asked: &Asked, body: super::bodies::Body) -> Result<Response, Problem> {
        let Asked { format, visitor, request, headers } = asked;
        let tree = self.bodies.parse(body).await?;
        let response = self.attempt(*format, visitor, headers, tree).await?;
        note(request.as_deref(), &visitor.key.id, &response);
        Ok(response)
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

/// Keeps an answer to its end, and hands it on while somebody takes it.
async fn relay(
    response: Response,
    mut slot: Slot,
    begun: oneshot::Sender<Response>,
    parting: &CancellationToken,
) {
    let (parts, mut body) = response.into_parts();
    slot.head(parts.status, &parts.headers);
    let whole = parts.extensions.get::<Whole>().cloned();
    let (pieces, rest) = mpsc::channel(PIECES_AHEAD);
    let relayed = Relayed { rest, size: body.size_hint() };
    let mut taker = begun.send(Response::from_parts(parts, Body::new(relayed))).is_ok().then_some(pieces);
    loop {
        let next = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let is_last = next.is_none() || body.is_end_stream();
        let piece = match next {
            None => None,
            Some(Err(_)) => return,
            Some(Ok(frame)) => Some(frame.into_data().unwrap_or_default()),
        };
        if let Some(bytes) = &piece {
            slot.piece(bytes);
        }
        // Before the last of it is sent: who asks again at once finds it, or is the first.
        if is_last {
            match whole.as_ref().is_none_or(Whole::is_set) {
                true => slot.end(),
                false => slot.forget(),
            }
        }
        if let Some(bytes) = piece {
            taker = handed_on(taker, Relay::Piece(bytes), parting).await;
        }
        if is_last {
            handed_on(taker, Relay::End, parting).await;
            return;
        }
    }
}

type Taker = mpsc::Sender<Relay>;

/// Hands a piece on, to whoever is still there.
async fn handed_on(taker: Option<Taker>, piece: Relay, parting: &CancellationToken) -> Option<Taker> {
    let taker = taker?;
    let waited_for = async {
        parting.cancelled().await;
        tokio::time::sleep(FAREWELL).await;
    };
    let is_taken = tokio::select! {
        biased;
        sent = taker.send(piece) => sent.is_ok(),
        () = waited_for => false,
    };
    is_taken.then_some(taker)
}

enum Relay {
    Piece(Bytes),
    End,
}

/// An answer that somebody else reads. If it ends without its end, it broke off.
struct Relayed {
    rest: mpsc::Receiver<Relay>,
    size: SizeHint,
}

impl http_body::Body for Relayed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match ready!(self.get_mut().rest.poll_recv(context)) {
            Some(Relay::Piece(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Relay::End) => None,
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}
