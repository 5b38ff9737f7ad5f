//! Reading a request's body within bounds. A client that sends too much is heard out first, so that it gets its
//! answer instead of a broken connection.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};

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

pub(super) async fn body(incoming: Incoming) -> Result<Bytes, Unread> {
    tokio::time::timeout(BODY_WITHIN, within_bounds(incoming)).await.unwrap_or(Err(Unread::TooSlow))
}

async fn within_bounds(mut incoming: Incoming) -> Result<Bytes, Unread> {
    let mut kept = BytesMut::new();
    let mut length = 0usize;
    while !incoming.is_end_stream() {
        let Some(frame) = incoming.frame().await else { break };
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > HEARD_OUT {
            return Err(Unread::TooLong);
        }
        if length > LONGEST_BODY {
            kept = BytesMut::new();
        } else {
            kept.extend_from_slice(&data);
        }
    }
    if length > LONGEST_BODY { Err(Unread::TooLong) } else { Ok(kept.freeze()) }
}
