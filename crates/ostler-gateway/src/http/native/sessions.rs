//! Sessions: listed, begun, looked at, ended, exported.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request as Incoming, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use ostler_agent::access::Scope;
use ostler_agent::leasing::Place;
use ostler_process::figures;

use super::super::Gateway;
use super::super::conversing::cwd;
use super::super::reading::query;
use super::super::refusing::seconds_now;
use super::super::terms::allowance;
use super::super::visits::Visitor;
use super::shapes::{
    Counts, Jail, NewSession, Process, Session, SessionState, Sessions, Terminal, Transcript,
};
use super::{Told, answer};
use crate::conversations::{Conversation, Opening, Summary, Unkept};
use crate::live::Start;
use crate::pool::{Listed, State as Doing};
use crate::wire::{Kind, Problem};

/// Longest addition to a system prompt.
const LONGEST_SYSTEM: usize = 100 * 1024;

/// Sessions in one page when the request does not say how many, and at most.
const USUAL: usize = 1_000;
const MOST: usize = 1_000;

/// Those that the key sees, a page at a time.
pub(in super::super) async fn list<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    incoming: Incoming,
) -> Told {
    let (_, tenant) = gateway.enter(incoming.headers(), Scope::SessionsRead)?;
    let filter = Filter::read(incoming.uri())?;
    let live = gateway.pool.sessions();
    let is_seen = |listed: &&Listed| tenant.as_ref().is_none_or(|tenant| listed.terms.tenant == *tenant);
    let spare = live.iter().filter(is_seen).filter(|listed| listed.state == Doing::Spare).count();
    let mut counts = Counts { spare, ..Counts::default() };
    let mut page = Vec::new();
    for conversation in gateway.conversations.list(tenant.as_deref()) {
        let (summary, process) = (conversation.summary(), process_having(&conversation, &live));
        let state = state_of(&summary, process);
        match state {
            SessionState::InFlight => counts.in_flight += 1,
            SessionState::Idle => counts.idle += 1,
            SessionState::Parked => counts.parked += 1,
        }
        // One more than fits says whether there is another page.
        if page.len() <= filter.limit && filter.takes(&conversation, &summary, state) {
            page.push((conversation, summary.touched_at));
        }
    }
    let is_more = page.len() > filter.limit;
    page.truncate(filter.limit);
    let last = page.last().filter(|_| is_more);
    let next = last.map(|(conversation, touched_at)| format!("{touched_at}-{}", conversation.id()));
    // Only what is on the page: each looks at a process.
    let sessions: Vec<Session> = page.iter().map(|(conversation, _)| told(conversation, &live)).collect();
    Ok(answer(StatusCode::OK, &Sessions { sessions, counts, next }))
}

/// Which sessions a request wants.
struct Filter {
    state: Option<SessionState>,
    model: Option<String>,
    origin: Option<String>,
    key: Option<String>,
    /// Only those that come after this one: when it was touched, and its id.
    after: Option<(i64, String)>,
    limit: usize,
}

impl Filter {
    fn read(uri: &Uri) -> Result<Self, Problem> {
        let invalid = |message: &str, name: &str| Problem::invalid(message).about(name);
        let state = match query(uri, "state").as_deref() {
            None => None,
            Some("in_flight") => Some(SessionState::InFlight),
            Some("idle") => Some(SessionState::Idle),
            Some("parked") => Some(SessionState::Parked),
            Some(_) => return Err(invalid("this must be `in_flight`, `idle` or `parked`", "state")),
        };
        let limit = match query(uri, "limit").map(|text| text.parse::<usize>()) {
            None => USUAL,
            Some(Ok(limit @ 1..=MOST)) => limit,
            Some(_) => return Err(invalid("this must be a number from 1 to 1000", "limit")),
        };
        let after = query(uri, "after").map(|text| {
            let parts = text.split_once('-').and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
            parts.ok_or_else(|| invalid("this must be the `next` of an earlier page", "after"))
        });
        let text = |name: &str| query(uri, name).map(|text| unescaped(&text));
        let (model, origin, key) = (text("model"), text("origin"), text("key"));
        Ok(Self { state, model, origin, key, after: after.transpose()?, limit })
    }

    fn takes(&self, conversation: &Conversation, summary: &Summary, state: SessionState) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let Opening { model, origin, tenant, .. } = &conversation.opening;
        let comes_after = self.after.as_ref().is_none_or(|(at, id)| {
            (std::cmp::Reverse(summary.touched_at), conversation.id()) > (std::cmp::Reverse(*at), id.as_str())
        });
        self.state.is_none_or(|wanted| wanted == state)
            && is(&self.model, model)
            && is(&self.origin, origin)
            && is(&self.key, tenant)
            && comes_after
    }
}

/// A `/` in the name of a model may be written as `%2F`.
fn unescaped(text: &str) -> String {
    text.replace("%2F", "/").replace("%2f", "/")
}

/// Begins one. No process is started before something is asked.
pub(in super::super) async fn create<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    incoming: Incoming,
) -> Told {
    let (visitor, _) = gateway.enter(incoming.headers(), Scope::SessionsWrite)?;
    let new: NewSession = gateway.read_shape(&visitor, incoming).await?.0;
    let conversation = gateway.conversations.begin(opening(&gateway, &visitor, new)?);
    let mut response = answer(StatusCode::CREATED, &told(&conversation, &gateway.pool.sessions()));
    let place = format!("/api/v1/sessions/{}", conversation.id());
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

fn opening<S: Start>(gateway: &Gateway<S>, visitor: &Visitor, new: NewSession) -> Result<Opening, Problem> {
    let model = gateway.model(visitor, &new.model)?;
    let workspace = match &new.cwd {
        None => Place::Own,
        Some(folder) => gateway.allowed_folder(visitor, folder, "cwd")?,
    };
    if new.system.as_ref().is_some_and(|system| system.len() > LONGEST_SYSTEM) {
        return Err(Problem::invalid("this is longer than 100 kB").about("system"));
    }
    let engine = gateway.engine_named(&model, new.engine.as_deref(), "engine")?;
    let (permissions, asks) = allowance(visitor, new.permissions.as_deref(), "permissions")?;
    Ok(Opening {
        conversation: String::new(),
        tenant: visitor.key.id.clone(),
        model: new.model,
        cwd: cwd(&workspace),
        system: new.system.filter(|system| !system.is_empty()),
        carried: None,
        permissions: permissions.name().to_owned(),
        ask: asks,
        engine: engine.name().to_owned(),
        origin: "native".to_owned(),
    })
}

/// One of them.
pub(in super::super) async fn show<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Told {
    let conversation = gateway.entered(&headers, Scope::SessionsRead, &id)?;
    Ok(answer(StatusCode::OK, &told(&conversation, &gateway.pool.sessions())))
}

/// Ends it, and removes what is kept of it.
pub(in super::super) async fn delete<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Told {
    let conversation = gateway.entered(&headers, Scope::SessionsWrite, &id)?;
    if conversation.summary().turn.is_some() {
        return Err(Problem::new(Kind::Held, "a turn is under way: interrupt it first").into());
    }
    gateway.conversations.remove(&conversation);
    gateway.pool.end(&conversation.opening.tenant, &id).await;
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// What was said in it.
pub(in super::super) async fn transcript<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Told {
    let conversation = gateway.entered(&headers, Scope::SessionsRead, &id)?;
    let reader = conversation.clone();
    let read = tokio::task::spawn_blocking(move || reader.transcript()).await;
    let read = read.unwrap_or(Err(Unkept::Lost));
    let messages = read.map_err(|error| Problem::new(Kind::Absent, &error.to_string()))?;
    let Opening { conversation: session, model, system, .. } = conversation.opening.clone();
    Ok(answer(StatusCode::OK, &Transcript { session, model, system, messages }))
}

/// The process that has a session now. Several can have had it where it was asked on other terms: the last of them has.
fn process_having<'a>(conversation: &Conversation, live: &'a [Listed]) -> Option<&'a Listed> {
    let its = live.iter().filter(|listed| listed.is_of(&conversation.opening.tenant, conversation.id()));
    its.max_by_key(|listed| listed.asked)
}

fn state_of(summary: &Summary, process: Option<&Listed>) -> SessionState {
    match (&summary.turn, process) {
        (Some(_), _) => SessionState::InFlight,
        (None, Some(_)) => SessionState::Idle,
        (None, None) => SessionState::Parked,
    }
}

/// A session as it is told, with the process that has it now.
pub(super) fn told(conversation: &Conversation, live: &[Listed]) -> Session {
    let summary = conversation.summary();
    let opening = &conversation.opening;
    let process = process_having(conversation, live);
    let state = state_of(&summary, process);
    let age = seconds_now().saturating_sub(summary.opened_at / 1_000);
    Session {
        id: conversation.id().to_owned(),
        state,
        turn: summary.turn,
        key: opening.tenant.clone(),
        origin: opening.origin.clone(),
        model: opening.model.clone(),
        engine: opening.engine.clone(),
        cwd: opening.cwd.clone(),
        permissions: opening.permissions.clone(),
        ask: opening.ask,
        opened_at: summary.opened_at,
        touched_at: summary.touched_at,
        age_seconds: u64::try_from(age).unwrap_or(0),
        last_event: summary.seq,
        turns: summary.so_far.turns,
        input_tokens: summary.so_far.input_tokens,
        output_tokens: summary.so_far.output_tokens,
        cost_usd: summary.so_far.cost_usd,
        last_error: summary.so_far.last_error,
        process: process.map(process_of),
    }
}

fn process_of(listed: &Listed) -> Process {
    let figures = listed.pid.and_then(figures::of_process);
    Process {
        pid: listed.pid,
        age_seconds: listed.age.as_secs(),
        turns: listed.turns,
        memory_bytes: figures.as_ref().map_or(listed.memory, |figures| figures.memory),
        cpu_seconds: figures.map(|figures| figures.cpu).as_ref().map(Duration::as_secs_f64),
        terminal: listed.terminal.as_ref().map(|seat| Terminal {
            columns: seat.size().columns,
            rows: seat.size().rows,
            viewers: seat.viewers(),
            held: seat.is_held(),
        }),
        jail: listed.jail.as_ref().map(|report| Jail {
            kind: report.kind.name().to_owned(),
            abi: report.abi,
            net: Some(report.net.clone()).filter(|net| net != "all"),
            not_enforced: report.not_enforced.clone(),
        }),
    }
}
