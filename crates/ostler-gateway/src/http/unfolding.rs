//! A body whose pieces are made one after the other, each by a future: nothing is made before somebody reads it.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body::Frame;

type Making<S> = Pin<Box<dyn Future<Output = Option<(Bytes, S)>> + Send>>;

struct Unfolding<S, F> {
    making: Option<Making<S>>,
    step: F,
}

/// A body from a beginning and a step, which gives the next piece and what comes after it, or the end.
pub(super) fn body<S, F, M>(begin: S, step: F) -> Body
where
    S: Send + 'static,
    F: Fn(S) -> M + Send + Unpin + 'static,
    M: Future<Output = Option<(Bytes, S)>> + Send + 'static,
{
    let making: Making<S> = Box::pin(step(begin));
    Body::new(Unfolding { making: Some(making), step })
}

/// The same, as server-sent events.
pub(super) fn events<S, F, M>(begin: S, step: F) -> Response
where
    S: Send + 'static,
    F: Fn(S) -> M + Send + Unpin + 'static,
    M: Future<Output = Option<(Bytes, S)>> + Send + 'static,
{
    let mut response = Response::new(body(begin, step));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

impl<S, F, M> http_body::Body for Unfolding<S, F>
where
    S: Send + 'static,
    F: Fn(S) -> M + Send + Unpin + 'static,
    M: Future<Output = Option<(Bytes, S)>> + Send + 'static,
{
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let Some(making) = &mut this.making else { return Poll::Ready(None) };
        match making.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                this.making = None;
                Poll::Ready(None)
            }
            Poll::Ready(Some((bytes, rest))) => {
                this.making = Some(Box::pin((this.step)(rest)));
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
        }
    }
}
