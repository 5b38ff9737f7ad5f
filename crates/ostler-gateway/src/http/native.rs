//! Ostler's own API below `/api/v1`: sessions with their turns, events, questions and terminals, and runs to look at.
//!
//! A session here is a conversation: it is *in flight* while a turn is under way, *idle* while a live process waits for it
//! to go on, and *parked* while it is only on disk, from where the next turn takes it up. A key sees its own; a key for
//! all sees all.

pub(super) mod events;
pub(super) mod permissions;
pub(super) mod runs;
pub(super) mod sessions;
pub(super) mod shapes;
pub(super) mod terminal;
pub(super) mod turns;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request as Incoming;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ostler_agent::access::Scope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Gateway;
use super::bodies::BodyPermit;
use super::metrics::Refusal;
use super::refusing::say_when;
use super::visits::Visitor;
use crate::conversations::Conversation;
use crate::live::Start;
use crate::wire::{Kind, Problem};
use shapes::Trouble;

/// How every path of it begins.
pub(super) const PREFIX: &str = "/api/";

/// A problem in this API's shape.
pub(super) fn refuse(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let trouble = Trouble {
        status: status.as_u16(),
        title: problem.kind.word().to_owned(),
        detail: problem.message.clone(),
        field: problem.field.clone(),
    };
    let mut response = answer(status, &trouble);
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    say_when(&mut response, problem);
    Refusal::mark(&mut response, problem);
    response
}

/// An answer, or why there is none, which is told in this API's shape.
pub(super) type Told = Result<Response, Refused>;

/// A problem on its way out.
pub(super) struct Refused(Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        refuse(&self.0)
    }
}

/// An answer of this status in JSON.
pub(super) fn answer(status: StatusCode, value: &impl Serialize) -> Response {
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// Reads this shape from JSON.
fn shaped<T: DeserializeOwned>(body: Value) -> Result<T, Problem> {
    serde_json::from_value(body).map_err(|error| Problem::invalid(&format!("the body is wrong: {error}")))
}

impl<S: Start> Gateway<S> {
    /// Reads a body that must have this shape. Its bytes are counted until the permit is dropped.
    pub(super) async fn read_shape<T: DeserializeOwned + Send + 'static>(
        &self,
        visitor: &Visitor,
        incoming: Incoming,
    ) -> Result<(T, Option<BodyPermit>), Problem> {
        let body = self.bodies.read(&visitor.key.id, incoming, self.offer.waiting.body).await?;
        self.bodies.parse(body).await?.convert(shaped).await
    }

    /// Who it is, and whose things he sees: all, if nothing is said.
    pub(super) fn enter(
        &self,
        headers: &HeaderMap,
        wanted: Scope,
    ) -> Result<(Visitor, Option<String>), Problem> {
        let visitor = self.admit(headers, wanted)?;
        let sees_all = visitor.key.policy.allows(Scope::Admin);
        let tenant = (!sees_all).then(|| visitor.key.id.clone());
        Ok((visitor, tenant))
    }

    /// The session that a request is about, if he may do this with it.
    pub(super) fn entered(
        &self,
        headers: &HeaderMap,
        wanted: Scope,
        id: &str,
    ) -> Result<Arc<Conversation>, Problem> {
        let (_, tenant) = self.enter(headers, wanted)?;
        self.session(tenant.as_deref(), id)
    }

    /// A session that he may see.
    pub(super) fn session(&self, tenant: Option<&str>, id: &str) -> Result<Arc<Conversation>, Problem> {
        self.conversations
            .find(tenant, id)
            .ok_or_else(|| Problem::new(Kind::Absent, "there is no such session").about("session"))
    }
}
