//! What is done around every request, whatever it is about: it gets an id, it must be meant for us, it is counted, and
//! what it asked is never in the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{MatchedPath, Request as Incoming, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Gateway, admission, metrics, native, refuse};
use crate::live::Start;
use crate::wire::{Format, Kind, Problem};

/// The request, in answers: under the name of each API.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a request is known by, in logs and answers.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

/// Answers everybody and nothing else: what a machine asks to know whether we are there.
const SIGNS_OF_LIFE: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// What pages may do with an answer of ours: nothing but show it.
const GUARDS: [(HeaderName, &str); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
];

pub(super) async fn around<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    mut incoming: Incoming,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id = Uuid::new_v4().simple().to_string();
    incoming.extensions_mut().insert(RequestId(id.clone()));
    let method = incoming.method().clone();
    let path = incoming.uri().path().to_owned();
    let route = incoming.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let credentials = metrics::credentials(incoming.headers());
    let meant = admission::is_meant(incoming.uri(), incoming.headers(), gateway.identity());
    let is_closing = gateway.is_closing.load(Ordering::Relaxed) && !SIGNS_OF_LIFE.contains(&path.as_str());
    let is_meant = meant.is_ok();
    let mut response = match meant {
        Err(problem) => refuse_at(&path, &problem),
        Ok(()) if is_closing => {
            let problem = Problem::new(Kind::Closing, "the server is about to end, and begins nothing new");
            refuse_at(&path, &problem)
        }
        Ok(()) => next.run(incoming).await,
    };
    let headers = response.headers_mut();
    for (name, value) in GUARDS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(&format!("req_{id}")) {
        headers.insert(REQUEST_ID, id.clone());
        headers.insert(X_REQUEST_ID, id);
    }
    let (status, elapsed) = (response.status(), began.elapsed());
    if !is_meant || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS) {
        // Whoever is not let in, or comes too often, must not keep a place that others could have.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    // A path that is not ours is anybody's text.
    let route = route.unwrap_or_else(|| "other".to_owned());
    gateway.count((&method, &route), credentials, &response, elapsed);
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(target: "ostler::http", request = id, %method, route, status = status.as_u16(), elapsed_ms, "answered");
    response
}

/// A problem in the shape of the API that the path is of.
pub(super) fn refuse_at(path: &str, problem: &Problem) -> Response {
    if path.starts_with(native::PREFIX) { native::refuse(problem) } else { refuse(format_of(path), problem) }
}

/// In whose shape a problem is told.
pub(super) fn format_of(path: &str) -> Format {
    match path {
        path if path.starts_with("/v1/messages") => Format::Messages,
        path if path.starts_with("/v1/responses") => Format::Responses,
        _ => Format::Chat,
    }
}

/// Whether anything new would be begun.
pub(super) async fn readyz<S: Start>(State(gateway): State<Arc<Gateway<S>>>) -> (StatusCode, &'static str) {
    match gateway.is_closing.load(Ordering::Relaxed) {
        false => (StatusCode::OK, "ok\n"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "closing\n"),
    }
}
