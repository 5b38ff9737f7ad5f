//! `GET /metrics`: what was counted, and what can be looked up now.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request as Incoming, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::Response;
use ostler_agent::access::Scope;
use prometheus::Error;

use super::models::Served;
use super::{Gateway, refuse};
use crate::live::Start;
use crate::metrics::Gauges;
use crate::pool::State as Doing;
use crate::wire::{Format, Kind, Problem};

/// What live sessions do, and the words for it.
const STATES: [(Doing, &str); 4] =
    [(Doing::Busy, "busy"), (Doing::Called, "called"), (Doing::Idle, "idle"), (Doing::Spare, "spare")];

/// Why a request was refused, on its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal(&'static str);

impl Refusal {
    /// Marks a response, unless the problem is the agent's.
    pub(super) fn mark(response: &mut Response, problem: &Problem) {
        if let Some(reason) = problem.refusal() {
            response.extensions_mut().insert(Self(reason));
        }
    }
}

/// What a request is authenticated by. Copies two values and no secret leaves it.
pub(super) fn credentials(headers: &HeaderMap) -> [Option<HeaderValue>; 2] {
    ["x-api-key", header::AUTHORIZATION.as_str()].map(|name| headers.get(name).cloned())
}

impl<S: Start> Gateway<S> {
    /// Counts a response, and why it is a refusal.
    pub(super) fn count(
        &self,
        (method, route): (&Method, &str),
        credentials: [Option<HeaderValue>; 2],
        response: &Response,
        took: Duration,
    ) {
        let known = [Method::GET, Method::POST, Method::DELETE, Method::HEAD, Method::OPTIONS, Method::PUT];
        let method = if known.contains(method) { method.as_str() } else { "other" };
        self.metrics.answered(method, route, response.status().as_str(), took);
        if let Some(Refusal(reason)) = response.extensions().get::<Refusal>() {
            let [key, bearer] = credentials;
            let mut headers = HeaderMap::new();
            key.and_then(|key| headers.insert("x-api-key", key));
            bearer.and_then(|bearer| headers.insert(header::AUTHORIZATION, bearer));
            let key = self.offer.keys.admit(&headers).ok();
            self.metrics.refused(key.as_ref().map(|key| key.id.as_str()), reason);
        }
    }

    /// What can be looked up now.
    fn gauges(&self) -> Result<Gauges, Error> {
        let gauges = Gauges::new();
        let sessions = self.pool.sessions();
        let count = |agent: Option<&Served>, state: Doing| {
            let is_it = |name: &str| agent.is_none_or(|served| served.agent == name);
            let its = sessions.iter().filter(|session| session.state == state);
            its.filter(|session| is_it(&session.terms.agent)).count() as u64
        };
        let agents = || self.offer.agents.iter();
        gauges.add(
            ("ostler_sessions", "Live sessions."),
            &["state"],
            STATES.map(|(state, name)| (vec![name], count(None, state))),
        )?;
        gauges.add(
            ("ostler_agent_sessions", "Live sessions of each agent."),
            &["agent", "state"],
            agents().flat_map(|agent| {
                STATES.map(|(state, name)| (vec![agent.name(), name], count(Some(agent), state)))
            }),
        )?;
        let memory = sessions.iter().map(|session| session.memory).sum();
        gauges.add(
            ("ostler_sessions_memory_bytes", "What live sessions took of the memory when last looked at."),
            &[],
            [(Vec::new(), memory)],
        )?;
        let questions = self.questions.list(None);
        let asked_by = |agent: &Served| {
            let models = questions.iter().map(|question| &question.conversation.opening.model);
            let of = |model: &String| self.models.find(model).is_ok_and(|found| found.served == *agent);
            models.filter(|model| of(model)).count() as u64
        };
        gauges.add(
            ("ostler_open_questions", "Questions of agents that wait for an answer."),
            &["agent"],
            agents().map(|agent| (vec![agent.name()], asked_by(agent))),
        )?;
        Ok(gauges)
    }
}

/// All metrics, for keys that may see everything.
pub(super) async fn show<S: Start>(State(gateway): State<Arc<Gateway<S>>>, incoming: Incoming) -> Response {
    if let Err(problem) = gateway.admit(incoming.headers(), Scope::Admin) {
        return refuse(Format::Chat, &problem);
    }
    let text = gateway.gauges().and_then(|gauges| gateway.metrics.text(gauges.gather()));
    let mut response = match text {
        Ok(text) => Response::new(text.into()),
        Err(error) => {
            tracing::error!(target: "ostler::http", %error, "could not encode the metrics");
            return refuse(Format::Chat, &Problem::new(Kind::Agent, "could not encode the metrics"));
        }
    };
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
