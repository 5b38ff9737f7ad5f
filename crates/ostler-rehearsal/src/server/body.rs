//! An answer's body: all at once, or as the play deals it out.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::Sleep;

use crate::performance::{Act, Performance};

/// Before the connection is dropped on purpose, what was said so far gets this long to leave the buffers.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// The script drops the connection.
#[derive(Debug, thiserror::Error)]
#[error("the script drops the connection")]
pub(super) struct Dropped;

pub(super) enum Reply {
    Whole(Option<Bytes>),
    Played(Box<Playing>),
}

pub(super) struct Playing {
    performance: Performance,
    now: Now,
}

enum Now {
    Playing,
    Waiting(Pin<Box<Sleep>>),
    /// Until the client leaves, however often it is polled.
    Hanging,
    Dropping(Pin<Box<Sleep>>),
}

impl Reply {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub(super) fn played(performance: Performance) -> Self {
        Self::Played(Box::new(Playing { performance, now: Now::Playing }))
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Dropped;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Played(playing) => playing.poll(cx),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Played(_) => http_body::SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }
}

impl Playing {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        loop {
            match &mut self.now {
                Now::Playing => {}
                Now::Waiting(sleep) => ready!(sleep.as_mut().poll(cx)),
                // Nobody wakes us: the connection itself notices when the client leaves.
                Now::Hanging => return Poll::Pending,
                Now::Dropping(sleep) => {
                    ready!(sleep.as_mut().poll(cx));
                    return Poll::Ready(Some(Err(Dropped)));
                }
            }
            self.now = match self.performance.next() {
                Some(Act::Send(frame)) => {
                    self.now = Now::Playing;
                    return Poll::Ready(Some(Ok(Frame::data(frame.into()))));
                }
                Some(Act::Wait(duration)) => Now::Waiting(Box::pin(tokio::time::sleep(duration))),
                Some(Act::Cut) => Now::Dropping(Box::pin(tokio::time::sleep(LAST_WORDS))),
                Some(Act::Hang) => Now::Hanging,
                None => return Poll::Ready(None),
            };
        }
    }
}
