//! Answers to those who are not let in, or whose message cannot be read. They say what to do, and nothing of the run.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

fn answer(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    answer
}

fn plain(status: StatusCode, words: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", format!("{words}\n"))
}

/// For every wrong token, and for every run that there is not: the same bytes.
pub(super) fn unauthorized() -> Answer {
    let mut answer = plain(StatusCode::UNAUTHORIZED, "unauthorized");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    answer
}

pub(super) fn forbidden() -> Answer {
    plain(StatusCode::FORBIDDEN, "forbidden")
}

pub(super) fn not_found() -> Answer {
    plain(StatusCode::NOT_FOUND, "not found")
}

pub(super) fn no_query() -> Answer {
    plain(
        StatusCode::BAD_REQUEST,
        "no query here: the token goes into the header `Authorization: Bearer TOKEN`",
    )
}

/// An error of the protocol, for a message that cannot be taken.
pub(super) fn protocol(status: StatusCode, code: i32, id: Option<&Value>, words: &str) -> Answer {
    let id = id.cloned().unwrap_or(Value::Null);
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": words } });
    answer(status, "application/json", body.to_string())
}
