//! Who is here: the key of a request, and what it counts against. Whoever may do less than he asks for is told so.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use http_body::Frame;
use ostler_agent::access::{Input, Meter, Scope, Verdict};
use tokio::time::Instant;

use super::keys::{Key, Keys};
use super::refusing::{seconds_now, whole_seconds};
use crate::wire::{Kind, Problem};

/// What each key does now. Keys that are gone are forgotten.
#[derive(Clone)]
pub(super) struct Visits {
    opened: Instant,
    meters: Arc<Mutex<HashMap<String, Meter>>>,
}

/// Somebody who was let in.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) key: Arc<Key>,
    visits: Visits,
}

impl Visits {
    pub(super) fn new() -> Self {
        Self { opened: Instant::now(), meters: Arc::default() }
    }

    /// Who it is, if he may do this and has not asked too often.
    pub(super) fn admit(&self, keys: &Keys, headers: &HeaderMap, wanted: Scope) -> Result<Visitor, Problem> {
        let key = keys.admit(headers)?;
        if !key.policy.allows(wanted) {
            let message = format!("this key is not for `{}`", wanted.name());
            return Err(Problem::new(Kind::Forbidden, &message));
        }
        {
            let mut meters = self.meters();
            if !meters.contains_key(&key.id) {
                let known = keys.current()?;
                meters.retain(|id, meter| meter.turns() > 0 || known.iter().any(|key| key.id == *id));
            }
            let meter = meters.entry(key.id.clone()).or_default();
            if let Verdict::Later(wait) = meter.step(self.opened.elapsed(), &key.policy, Input::Came) {
                return Err(later("this key has asked too often", wait).because("rate_limit"));
            }
        }
        Ok(Visitor { key, visits: self.clone() })
    }

    fn meters(&self) -> MutexGuard<'_, HashMap<String, Meter>> {
        // Nothing under the lock can panic half-way.
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn later(message: &str, wait: Duration) -> Problem {
    let again_at = Some(seconds_now().saturating_add(whole_seconds(wait)));
    Problem { again_at, ..Problem::new(Kind::TooMany, message) }
}

impl Visitor {
    /// Begins a turn, which lasts until what is returned is dropped.
    pub(super) fn begin_turn(&self) -> Result<Underway, Problem> {
        let now = self.visits.opened.elapsed();
        let mut meters = self.visits.meters();
        let meter = meters.entry(self.key.id.clone()).or_default();
        match meter.step(now, &self.key.policy, Input::Begins) {
            Verdict::Admit => Ok(Underway { visitor: self.clone(), began: now }),
            Verdict::Later(wait) => {
                let problem = later("this key has as many turns under way as it may", wait);
                Err(problem.because("turns_at_once"))
            }
        }
    }
}

/// A turn of a key, which counts while this is there.
pub(super) struct Underway {
    visitor: Visitor,
    began: Duration,
}

impl Drop for Underway {
    fn drop(&mut self) {
        let Visitor { key, visits } = &self.visitor;
        let now = visits.opened.elapsed();
        if let Some(meter) = visits.meters().get_mut(&key.id) {
            // What ends is never refused.
            let _ = meter.step(now, &key.policy, Input::Ended(now.saturating_sub(self.began)));
        }
    }
}

/// A body with something that lasts as long as it is sent.
pub(super) struct Lasting<T> {
    body: Body,
    _with: T,
}

impl<T: Send + Unpin + 'static> Lasting<T> {
    pub(super) fn body(body: Body, with: T) -> Body {
        Body::new(Self { body, _with: with })
    }
}

impl<T: Send + Unpin + 'static> http_body::Body for Lasting<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
