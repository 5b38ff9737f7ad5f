//! Bodies of requests to a provider: read whole, because what they name is looked at before anything is forwarded.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use http_body::Body as _;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Bytes, Incoming};
use ostler_agent::tenant::check_body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Longest body: what the providers take.
const LONGEST_BODY: usize = 32 << 20;

/// Bytes of bodies that are in memory at once: of one tenant's agent, and of all. Four of the longest, and sixteen.
const OF_ONE: usize = 4 * LONGEST_BODY;
const OF_ALL: usize = 16 * LONGEST_BODY;

/// What permits count: semaphores count in 32 bits.
const UNIT: usize = 1 << 10;

/// How long a body may take. Agents have it ready, and send it over loopback.
const READ_WAIT: Duration = Duration::from_secs(30);

/// Admits bodies by their bytes. Clones are the same.
#[derive(Clone)]
pub(super) struct BodyRoom(Arc<Semaphore>);

/// A body, and its place in memory.
pub(super) struct CheckedBody {
    pub(super) bytes: Bytes,
    pub(super) permits: [OwnedSemaphorePermit; 2],
}

impl BodyRoom {
    pub(super) fn of_all() -> Self {
        Self(Arc::new(Semaphore::new(OF_ALL / UNIT)))
    }

    pub(super) fn of_one() -> Self {
        Self(Arc::new(Semaphore::new(OF_ONE / UNIT)))
    }

    async fn take(&self, units: u32) -> Option<OwnedSemaphorePermit> {
        self.0.clone().acquire_many_owned(units).await.ok()
    }
}

/// Reads a body that a tenant may send, or says why it is refused.
pub(super) async fn read(
    body: Incoming,
    of_one: &BodyRoom,
    of_all: &BodyRoom,
) -> Result<CheckedBody, (StatusCode, String)> {
    // One without a length may be as long as any.
    let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let length = length.unwrap_or(LONGEST_BODY);
    let too_long = || (StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {LONGEST_BODY} bytes"));
    if length > LONGEST_BODY {
        return Err(too_long());
    }
    let units = u32::try_from(length.div_ceil(UNIT)).unwrap_or(u32::MAX);
    let whole = async {
        // First its own share, so that nobody holds what all have while they wait for theirs.
        let permits = (of_one.take(units).await, of_all.take(units).await);
        (permits, Limited::new(body, LONGEST_BODY).collect().await)
    };
    let late = || (StatusCode::REQUEST_TIMEOUT, "the body did not come in time".to_owned());
    let ((of_one, of_all), collected) = timeout(READ_WAIT, whole).await.map_err(|_| late())?;
    let (Some(of_one), Some(of_all)) = (of_one, of_all) else { return Err(late()) };
    let bytes = collected.map_err(|_| too_long())?.to_bytes();
    if !bytes.is_empty() {
        check_body(&bytes).map_err(|fault| (StatusCode::FORBIDDEN, fault.to_string()))?;
    }
    Ok(CheckedBody { bytes, permits: [of_one, of_all] })
}
