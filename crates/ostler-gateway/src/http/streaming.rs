//! An answer as server-sent events. It is read from the agent as fast as it is taken; a connection that is dropped drops
//! the answer, which breaks the turn off.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body::Frame;
use ostler_agent::event::AgentEvent;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::idempotency::Whole;
use super::recorded::Recorded;
use super::refusing::problem_of;
use crate::narration::Narration;
use crate::pool::TurnError;
use crate::wire::{Encoder, Format, Piece, Problem};

/// How often a sign of life is sent while the agent says nothing.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

pub(super) struct Streaming {
    answer: Recorded,
    narration: Narration,
    encoder: Box<dyn Encoder>,
    /// What can be sent now.
    ready: String,
    alive: Interval,
    rest: Rest,
    whole: Whole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Coming,
    Over,
}

impl Streaming {
    /// Waits for the first piece for a while, so that what fails at once has its own status.
    pub(super) async fn begin(
        answer: Recorded,
        (format, encoder): (Format, Box<dyn Encoder>),
        patience: Duration,
    ) -> Result<Response, Problem> {
        let mut alive = tokio::time::interval_at(Instant::now() + ALIVE_EVERY, ALIVE_EVERY);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let narration = Narration::default();
        let (ready, rest, whole) = (String::new(), Rest::Coming, Whole::default());
        let mut streaming = Self { answer, narration, encoder, ready, alive, rest, whole: whole.clone() };
        let first = async {
            loop {
                let event = streaming.answer.next().await;
                let pieces = streaming.pieces(event);
                match pieces.as_slice() {
                    [] => {}
                    [Piece::Failed(problem), ..] => return Err(problem.clone()),
                    [Piece::BrokenOff { by, .. }, ..] => return format.broken_off(*by).map(|()| pieces),
                    _ => return Ok(pieces),
                }
            }
        };
        let pieces = match tokio::time::timeout(patience, first).await {
            Ok(first) => first?,
            Err(_) => Vec::new(),
        };
        streaming.ready = streaming.encoder.open();
        streaming.write(&pieces);
        let mut response = Response::new(Body::new(streaming));
        response.extensions_mut().insert(whole);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }

    /// What an event adds. An answer without an end broke off.
    fn pieces(&mut self, event: Option<Result<AgentEvent, TurnError>>) -> Vec<Piece> {
        match event {
            Some(Ok(event)) => {
                self.narration.broken_off(self.answer.broken_off().unwrap_or_default());
                self.narration.hear(&event)
            }
            Some(Err(error)) => vec![Piece::Failed(problem_of(&error))],
            None => vec![self.narration.left(self.answer.broken_off())],
        }
    }

    fn write(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.ready.push_str(&self.encoder.piece(piece));
            if matches!(piece, Piece::Ended { .. } | Piece::BrokenOff { .. } | Piece::Failed(_)) {
                self.rest = Rest::Over;
            }
            if piece.is_whole() {
                self.whole.set();
            }
        }
    }
}

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        loop {
            if !this.ready.is_empty() {
                this.alive.reset();
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.ready).into()))));
            }
            if this.rest == Rest::Over {
                return Poll::Ready(None);
            }
            match this.answer.poll_next(context) {
                Poll::Ready(event) => {
                    let pieces = this.pieces(event);
                    this.write(&pieces);
                }
                Poll::Pending => match this.alive.poll_tick(context) {
                    Poll::Ready(_) => this.ready = this.encoder.alive(),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }
}
