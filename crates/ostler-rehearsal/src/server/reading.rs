//! Reading a request's body within bounds. A client that sends too much is heard out first, so that it gets its
//! answer instead of a broken connection.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;

/// Longest body that is read. Agents send up to a few megabytes; a long session with images more.
pub(super) const LONGEST_BODY: usize = 32 * 1024 * 1024;

/// A longer body is thrown away up to this, so that the client can read its 413. Beyond it the connection is closed.
const HEARD_OUT: usize = 256 * 1024 * 1024;

/// A client that has not sent its body by then is not going to.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    TooLong,
    TooSlow,
    Broken,
}

/// The body, if it is within bounds.
pub(super) async fn body(request: Request<Incoming>) -> Result<Bytes, Unread> {
    if is_hopeless(&request) {
        return Err(Unread::TooLong);
    }
    let reading = within_bounds(request.into_body(), LONGEST_BODY);
    tokio::time::timeout(BODY_WITHIN, reading).await.unwrap_or(Err(Unread::TooSlow))
}

/// Throws away the body of a request that is refused for another reason, so that the client gets to read why.
pub(super) async fn hear_out(request: Request<Incoming>) {
    if !is_hopeless(&request) {
        let _ = tokio::time::timeout(BODY_WITHIN, within_bounds(request.into_body(), 0)).await;
    }
}

/// Whether there is no use in hearing a request out: it announces more than that, or it waits to be told to send.
fn is_hopeless(request: &Request<Incoming>) -> bool {
    let length = request.body().size_hint().lower();
    let asks_first = request.headers().contains_key(EXPECT);
    length > HEARD_OUT as u64 || (asks_first && length > LONGEST_BODY as u64)
}

async fn within_bounds(mut incoming: Incoming, longest: usize) -> Result<Bytes, Unread> {
    let mut kept = BytesMut::new();
    let mut length = 0usize;
    while !incoming.is_end_stream() {
        let Some(frame) = incoming.frame().await else { break };
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > HEARD_OUT {
            return Err(Unread::TooLong);
        }
        if length > longest {
            kept = BytesMut::new();
        } else {
            kept.extend_from_slice(&data);
        }
    }
    if length > longest { Err(Unread::TooLong) } else { Ok(kept.freeze()) }
}
