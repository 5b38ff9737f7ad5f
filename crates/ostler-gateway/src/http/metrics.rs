//! Figures for those who watch many servers, in the text format of Prometheus. No figure has a name of a person, a
//! prompt or a path that a visitor chose.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request as Incoming, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use ostler_agent::access::Scope;

use super::{Gateway, refuse};
use crate::live::Start;
use crate::pool::State as Doing;
use crate::wire::Format;

/// Upper ends of what answers are sorted into, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// What was answered so far.
#[derive(Debug, Default)]
pub(super) struct Metrics(Mutex<BTreeMap<Which, Answered>>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Which {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Default)]
struct Answered {
    count: u64,
    seconds: f64,
    within: [u64; BUCKETS.len()],
}

impl Metrics {
    /// Counts an answer. There are as many figures as routes, methods and statuses of ours.
    pub(super) fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let known = [Method::GET, Method::POST, Method::DELETE, Method::HEAD, Method::OPTIONS, Method::PUT];
        let method = if known.contains(method) { method.as_str() } else { "other" };
        let which = Which { method: method.to_owned(), route: route.to_owned(), status: status.as_u16() };
        // Nothing under the lock can panic half-way.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = all.entry(which).or_default();
        answered.count += 1;
        answered.seconds += took.as_secs_f64();
        for (within, end) in answered.within.iter_mut().zip(BUCKETS) {
            *within += u64::from(took.as_secs_f64() <= end);
        }
    }

    fn text(&self) -> String {
        let mut text = "# HELP ostler_http_request_seconds Time until an answer began.\n\
             # TYPE ostler_http_request_seconds histogram\n"
            .to_owned();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (Which { method, route, status }, answered) in all.iter() {
            let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
            let name = "ostler_http_request_seconds";
            for (within, end) in answered.within.iter().zip(BUCKETS) {
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{end}\"}} {within}");
            }
            let Answered { count, seconds, .. } = answered;
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {count}");
        }
        text
    }
}

/// All figures, for who may see everything.
pub(super) async fn show<S: Start>(State(gateway): State<Arc<Gateway<S>>>, incoming: Incoming) -> Response {
    if let Err(problem) = gateway.admit(incoming.headers(), Scope::Admin) {
        return refuse(Format::Chat, &problem);
    }
    let mut text = gateway.metrics.text();
    let sessions = gateway.pool.sessions();
    text.push_str("# HELP ostler_sessions Live sessions.\n# TYPE ostler_sessions gauge\n");
    for (state, name) in [(Doing::Busy, "busy"), (Doing::Idle, "idle"), (Doing::Spare, "spare")] {
        let count = sessions.iter().filter(|session| session.state == state).count();
        let _ = writeln!(text, "ostler_sessions{{state=\"{name}\"}} {count}");
    }
    let memory: u64 = sessions.iter().map(|session| session.memory).sum();
    let _ = writeln!(
        text,
        "# HELP ostler_sessions_memory_bytes What live sessions took of the memory when last looked at.\n\
         # TYPE ostler_sessions_memory_bytes gauge\nostler_sessions_memory_bytes {memory}"
    );
    let mut response = Response::new(text.into());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_what_they_were() {
        let metrics = Metrics::default();
        for took in [0.0005, 0.3, 700.0] {
            metrics.answered(&Method::GET, "/v1/models", StatusCode::OK, Duration::from_secs_f64(took));
        }
        metrics.answered(
            &Method::from_bytes(b"BREW").unwrap(),
            "other",
            StatusCode::NOT_FOUND,
            Duration::ZERO,
        );
        let text = metrics.text();
        let models = "method=\"GET\",route=\"/v1/models\",status=\"200\"";
        for line in [
            format!("ostler_http_request_seconds_bucket{{{models},le=\"0.001\"}} 1\n"),
            format!("ostler_http_request_seconds_bucket{{{models},le=\"0.5\"}} 2\n"),
            format!("ostler_http_request_seconds_bucket{{{models},le=\"600\"}} 2\n"),
            format!("ostler_http_request_seconds_bucket{{{models},le=\"+Inf\"}} 3\n"),
            "ostler_http_request_seconds_count{method=\"other\",route=\"other\",status=\"404\"} 1\n"
                .to_owned(),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
