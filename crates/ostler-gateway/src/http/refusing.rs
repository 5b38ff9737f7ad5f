//! What is told where there is no answer: problems in each API's own shape.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::Value;

use super::metrics::Refusal;
use crate::conversations::{QuotaExceeded, Unkept};
use crate::live::{Phase, SessionFailure};
use crate::pool::TurnError;
use crate::wire::{Format, Kind, Problem};

/// An answer of this status in JSON.
pub(super) fn body(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// A problem in the API's own shape.
pub(super) fn refuse(format: Format, problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = body(status, &format.problem(problem));
    say_when(&mut response, problem);
    Refusal::mark(&mut response, problem);
    response
}

/// Says when it is worth another try, where it is.
pub(super) fn say_when(response: &mut Response, problem: &Problem) {
    if matches!(problem.kind, Kind::TooMany | Kind::Overloaded | Kind::Closing) {
        let wait = problem.again_at.map_or(1, |at| at.saturating_sub(seconds_now()).max(1));
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
    }
}

/// At least so long.
pub(super) fn whole_seconds(wait: Duration) -> i64 {
    i64::try_from(wait.as_secs_f64().ceil() as u64).unwrap_or(i64::MAX)
}

/// By the clock of the wall.
pub(super) fn seconds_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Why a turn has no end, as a problem.
pub(super) fn problem_of(error: &TurnError) -> Problem {
    match error {
        TurnError::Unpaired(error) => Problem::invalid(&error.to_string()).about("messages"),
        TurnError::Refused(refused, wait) => {
            let again_at = wait.map(|wait| seconds_now().saturating_add(whole_seconds(wait)));
            Problem { again_at, ..Problem::of_refusal(*refused) }
        }
        TurnError::Session(SessionFailure { phase, hint, .. }) => {
            let kind = match phase {
                Phase::Prompt => Kind::Invalid,
                Phase::TooLong => Kind::TooLarge,
                Phase::Forbidden => Kind::Forbidden,
                Phase::Held => Kind::Held,
                Phase::Start | Phase::Ask | Phase::Answer => Kind::Agent,
            };
            let message = match hint {
                Some(hint) => format!("{error} (try: {hint})"),
                None => error.to_string(),
            };
            Problem::new(kind, &message)
        }
        TurnError::BrokenOff(by, _) => Problem::of_break(*by),
        TurnError::TooLong(..) => Problem::new(Kind::TooLong, &error.to_string()),
        TurnError::Blocked(_) => Problem::new(Kind::Agent, &error.to_string()),
        TurnError::Unwritable(exceeded) => problem_of_quota(*exceeded),
    }
}

/// A turn that does not begin.
pub(super) fn problem_of_unkept(error: Unkept) -> Problem {
    match error {
        Unkept::Full(exceeded) => problem_of_quota(exceeded),
        Unkept::Busy | Unkept::Lost | Unkept::NoSuchTurn | Unkept::Removed => {
            Problem::new(Kind::Held, &error.to_string())
        }
    }
}

/// There is no room for a conversation: for one of this key, or of any.
fn problem_of_quota(exceeded: QuotaExceeded) -> Problem {
    let (kind, reason) = match exceeded {
        QuotaExceeded::OfTenant(_) => (Kind::TooMany, "conversations_of_key"),
        QuotaExceeded::OfAll(_) => (Kind::Overloaded, "conversations"),
    };
    Problem::new(kind, &exceeded.to_string()).because(reason)
}
