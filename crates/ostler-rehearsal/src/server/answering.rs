//! One request, one answer: reads it, lets the director decide, sends what comes of it, logs it.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::Shared;
use super::body::{Dropped, Reply};
use super::reading::{self, LONGEST_BODY, Unread};
use crate::ask::{Ask, Delivery, Wire};
use crate::director::{Answer, Opening, excerpt};
use crate::log::{Entry, Played, RequestLog};
use crate::performance::{Performance, Whole, tokens, whole};
use crate::script::HttpFault;
use crate::side::Side;
use crate::wire::{self, Headers};

type Answered = Result<Response<Reply>, Dropped>;

/// A request that gets no play.
struct Refusal {
    status: StatusCode,
    wire: Option<Wire>,
    played: Played,
}

/// Answers one request. The error drops the connection, as the script demands.
pub(super) async fn answer(shared: &Shared, request: Request<Incoming>) -> Answered {
    let entry = shared.log.entry(request.method().as_str(), request.uri().path());
    let mut noted = Noted { log: &shared.log, entry };
    let answered = match route(shared, request, &mut noted.entry).await {
        Ok(answered) => answered,
        Err(refusal) => Ok(refusal.response(&mut noted.entry)),
    };
    noted.entry.status = answered.as_ref().map_or(0, |response| response.status().as_u16());
    answered
}

/// Logs its entry when it goes, so that a request is logged even if its client leaves before the answer: then hyper
/// drops what is under way.
struct Noted<'a> {
    log: &'a RequestLog,
    entry: Entry,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.log.record(&self.entry);
    }
}

async fn route(shared: &Shared, request: Request<Incoming>, entry: &mut Entry) -> Result<Answered, Refusal> {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let known = match path.as_str() {
        "" => Some((Method::GET, None)),
        "/v1/models" => Some((Method::GET, None)),
        "/v1/messages" | "/v1/messages/count_tokens" => Some((Method::POST, Some(Wire::Anthropic))),
        "/v1/responses" => Some((Method::POST, Some(Wire::Responses))),
        "/v1/chat/completions" => Some((Method::POST, Some(Wire::Chat))),
        _ => None,
    };
    let Some((method, wire)) = known else {
        let problem = format!(
            "no such path `{path}`: this is a scripted model with /v1/messages, /v1/responses, /v1/chat/completions and /v1/models"
        );
        reading::hear_out(request).await;
        return Err(Refusal::new(StatusCode::NOT_FOUND, None, problem));
    };
    entry.wire = wire.map(Wire::name);
    let is_allowed =
        *request.method() == method || (method == Method::GET && *request.method() == Method::HEAD);
    if !is_allowed {
        let problem = format!("{} is not for `{path}`: use {method}", request.method());
        reading::hear_out(request).await;
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, wire, problem));
    }
    match wire {
        None if path.is_empty() => {
            let about =
                format!("Ostler rehearsal: a scripted model that plays `{}`.\n", shared.director.play().name);
            Ok(Ok(Response::new(Reply::whole(about))))
        }
        None => Ok(Ok(json_response(StatusCode::OK, &models()))),
        Some(wire) => converse(shared, wire, &path, request, entry).await,
    }
}

async fn converse(
    shared: &Shared,
    wire: Wire,
    path: &str,
    request: Request<Incoming>,
    entry: &mut Entry,
) -> Result<Answered, Refusal> {
    let headers = text_headers(request.headers());
    if let Err(refusal) = check_headers(wire, &headers) {
        reading::hear_out(request).await;
        return Err(refusal);
    }
    let bytes = reading::body(request).await.map_err(|unread| Refusal::unread(wire, unread))?;
    let malformed = |problem: String| Refusal::new(StatusCode::BAD_REQUEST, Some(wire), problem);
    let body: Value = serde_json::from_slice(&bytes)
        .map_err(|error| malformed(format!("the body is not JSON: {error}")))?;
    let ask = wire::read(wire, &headers, &body).map_err(malformed)?;
    drop(body);
    entry.model = Some(ask.model.clone());
    entry.session = ask.session.clone();
    entry.offered = ask.offered.clone();
    entry.prompts = ask.prompts;
    entry.last_message = Some(excerpt(ask.results.last().unwrap_or(&ask.prompt)));
    let input = tokens(bytes.len());
    if path.ends_with("/count_tokens") {
        return Ok(Ok(json_response(StatusCode::OK, &json!({ "input_tokens": input }))));
    }
    let (answer, played) = decide(shared, &ask)?;
    entry.played = played;
    Ok(perform(answer, &ask, input).await)
}

fn decide(shared: &Shared, ask: &Ask) -> Result<(Answer, Played), Refusal> {
    let director = &shared.director;
    let cue = director.cue(ask);
    if let Some(side) = ask.side
        && (side != Side::SubAgent || cue.is_err())
    {
        let answer = Answer::plain(side.answer(ask, director.bookmark(ask).as_ref()));
        return Ok((answer, Played::Side { request: side.name() }));
    }
    let unmatched = |problem: String| Refusal {
        status: StatusCode::BAD_REQUEST,
        wire: Some(ask.wire),
        played: Played::Unmatched { problem },
    };
    let cue = cue.map_err(unmatched)?;
    let answer = director.answer(cue, ask).map_err(unmatched)?;
    let conversation = director.play().conversations[cue.conversation].name.clone();
    Ok((answer, Played::Step { conversation, step: cue.step + 1, round: cue.round }))
}

async fn perform(answer: Answer, ask: &Ask, input: u64) -> Answered {
    for delay in &answer.delays {
        wait(*delay).await;
    }
    match &answer.opening {
        Opening::Cut => return Err(Dropped),
        Opening::Error(fault) => return Ok(http_error(ask.wire, fault)),
        Opening::Answer => {}
    }
    match ask.delivery {
        Delivery::Stream => {
            let mut response = Response::new(Reply::played(Performance::new(answer, ask, input)));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
            response.headers_mut().insert("cache-control", HeaderValue::from_static("no-cache"));
            Ok(response)
        }
        Delivery::Whole => match whole(answer, ask, input) {
            Whole::Body(waits, body) => {
                for duration in waits {
                    wait(Some(duration)).await;
                }
                Ok(json_response(StatusCode::OK, &body))
            }
            Whole::Hang => {
                wait(None).await;
                Err(Dropped)
            }
            Whole::Cut => Err(Dropped),
        },
    }
}

/// Waits for a while, or until the client leaves: then hyper drops this future.
async fn wait(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

fn check_headers(wire: Wire, headers: &Headers) -> Result<(), Refusal> {
    let refuse = |problem: String| Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Some(wire), problem));
    let kind = headers.get(CONTENT_TYPE.as_str()).map(String::as_str).unwrap_or_default();
    if !kind.trim_start().to_ascii_lowercase().starts_with("application/json") {
        return refuse(format!("content-type is `{}`: send application/json", excerpt(kind)));
    }
    match headers.get(CONTENT_ENCODING.as_str()).map(String::as_str) {
        None | Some("identity") => Ok(()),
        Some(coding) => {
            refuse(format!("content-encoding `{}` is not taken: send plain JSON", excerpt(coding)))
        }
    }
}

impl Refusal {
    fn new(status: StatusCode, wire: Option<Wire>, problem: String) -> Self {
        Self { status, wire, played: Played::Refused { problem } }
    }

    fn unread(wire: Wire, unread: Unread) -> Self {
        let (status, problem) = match unread {
            Unread::TooLong => {
                let limit = LONGEST_BODY / 1024 / 1024;
                (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {limit} MiB"))
            }
            Unread::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".to_owned()),
            Unread::Broken => (StatusCode::BAD_REQUEST, "the body broke off".to_owned()),
        };
        Self::new(status, Some(wire), problem)
    }

    fn response(self, entry: &mut Entry) -> Response<Reply> {
        let problem = match &self.played {
            Played::Unmatched { problem } => format!("rehearsal: {problem}"),
            Played::Refused { problem } => problem.clone(),
            Played::Step { .. } | Played::Side { .. } | Played::Plain => String::new(),
        };
        entry.played = self.played;
        let mut response =
            json_response(self.status, &wire::error(self.wire, self.status.as_u16(), &problem));
        // Some agents retry any error unless they are told that it is final.
        response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        response
    }
}

fn http_error(wire: Wire, fault: &HttpFault) -> Response<Reply> {
    let message = fault.message.as_deref().unwrap_or("the script answers with this error");
    let usual = || wire::error(Some(wire), fault.status, message);
    let body = fault.body.clone().unwrap_or_else(usual);
    let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(status, &body);
    if let Some(seconds) = fault.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    for (name, value) in &fault.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn json_response(status: StatusCode, body: &Value) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text_headers(headers: &hyper::HeaderMap) -> Headers {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

fn models() -> Value {
    json!({
        "object": "list",
        "data": [{"id": "scripted", "type": "model", "object": "model", "display_name": "Scripted", "created": 0,
                  "created_at": "1970-01-01T00:00:00Z", "owned_by": "rehearsal"}],
        "first_id": "scripted",
        "last_id": "scripted",
        "has_more": false,
    })
}
