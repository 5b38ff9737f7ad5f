//! One request: who sends it, whether it is let in, and its way into the room of the run.

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;

use super::reading::{self, Bodies, MOST_BODY_BYTES, Message, Unread};
use super::refusal::{self, Answer};
use super::{Doorkeeper, Entry};
use crate::attendant::SESSION;
use crate::event::{BridgeEvent, Refusal};
use crate::route::{Caller, Scope};
use crate::secret::Token;

const PATH: &str = "/mcp/";

/// What a client calls itself in the header, at most.
const MOST_CLIENT_CHARS: usize = 100;

/// Answers one request.
pub(super) async fn admit(keeper: &Doorkeeper, bodies: &Bodies, request: Request<Incoming>) -> Answer {
    let run = request.uri().path().strip_prefix(PATH);
    let entry = run.and_then(|run| keeper.find(run));
    let refuse = |why: Refusal, answer: Answer| {
        if let Some(entry) = &entry {
            entry.room.telling.mention(BridgeEvent::Refused { why });
        }
        answer
    };
    // Pages that a browser shows reach loopback too: by a name of their own, or as what they are.
    if !is_our_host(request.headers(), keeper) {
        return refuse(Refusal::Host, refusal::forbidden());
    }
    if request.headers().contains_key(header::ORIGIN) {
        return refuse(Refusal::Origin, refusal::forbidden());
    }
    if run.is_none() {
        return refusal::not_found();
    }
    if request.uri().query().is_some() {
        return refuse(Refusal::Query, refusal::no_query());
    }
    match (&entry, shown(request.headers())) {
        (Some(entry), Some(token)) => match entry.room.caller(token) {
            Some(caller) => pass(entry.clone(), caller, bodies, request).await,
            None => refuse(Refusal::Token, refusal::unauthorized()),
        },
        (Some(_), None) => refuse(Refusal::Token, refusal::unauthorized()),
        (None, _) => refusal::unauthorized(),
    }
}

/// Whether the request was meant for this door, by its address or the name that every machine gives it.
fn is_our_host(headers: &HeaderMap, keeper: &Doorkeeper) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let port = keeper.address.port();
    [format!("127.0.0.1:{port}"), format!("localhost:{port}")].iter().any(|name| host == name.as_str())
}

/// The token that a request shows.
fn shown(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A request with the right token.
async fn pass(entry: Entry, caller: Caller, bodies: &Bodies, request: Request<Incoming>) -> Answer {
    let room = &entry.room;
    if caller == Caller::Agent {
        let client = request.headers().get(header::USER_AGENT).and_then(|name| name.to_str().ok());
        let client: String = client.unwrap_or_default().chars().take(MOST_CLIENT_CHARS).collect();
        room.heard(&client).await;
    }
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(caller);
    let read = match bodies.read(body).await {
        Ok(read) => read,
        Err(Unread::TooLong) => {
            room.telling.mention(BridgeEvent::Refused { why: Refusal::TooLong });
            let words = format!("the message has more than {MOST_BODY_BYTES} bytes: send less");
            return refusal::protocol(StatusCode::PAYLOAD_TOO_LARGE, -32600, None, &words);
        }
        Err(Unread::Lost) => {
            let words = "the message did not arrive whole: send it again";
            return refusal::protocol(StatusCode::REQUEST_TIMEOUT, -32600, None, words);
        }
    };
    let mut greets = false;
    if parts.method == Method::POST {
        match reading::peek(&read.bytes) {
            Ok(Message::Greeting) => greets = true,
            Ok(Message::Cancelling(id)) => {
                if let Some(session) = session(&parts.headers) {
                    room.cancel(&Scope { session, id });
                }
            }
            Ok(Message::Other) => {}
            Err(answer) => {
                room.telling.mention(BridgeEvent::Refused { why: Refusal::Garbled });
                return *answer;
            }
        }
    }
    let request = Request::from_parts(parts, Full::new(read.bytes.clone()));
    let mut answer = entry.service.handle(request).await;
    if greets && answer.status() == StatusCode::OK {
        give_session(answer.headers_mut());
    }
    answer
}

fn session(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION)?.to_str().ok().map(str::to_owned)
}

/// Gives the client an id for its session: a scope for cancellations, and nothing else.
fn give_session(headers: &mut HeaderMap) {
    let id = Token::random().ok().and_then(|id| HeaderValue::from_str(&id.reveal()[..32]).ok());
    if let Some(id) = id {
        headers.insert(SESSION, id);
    }
}
