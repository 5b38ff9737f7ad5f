//! A request that is sent twice under one `Idempotency-Key` is done once: whoever repeats it gets the same answer again.
//! While the first is under way the second is told so. What is kept is bounded in number, size and time, for each tenant
//! by itself; what is under way is never forgotten for it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::refusing::seconds_now;
use crate::wire::{Kind, Problem};

/// The header.
pub(super) const HEADER: &str = "idempotency-key";

/// Headers that say what is asked, besides the body.
const OURS: &str = "x-ostler-";

/// Longest key.
const LONGEST_KEY: usize = 256;

/// How long an answer is kept. A program that repeats a request does so within seconds.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);

/// Requests of one tenant that are known, and bytes of their answers.
const MOST_KEPT: usize = 512;
const MOST_BYTES: usize = 32 << 20;

/// Longest answer that is kept. Of a longer one it is only known that it was given.
const LONGEST_KEPT: usize = 256 * 1024;

/// When it is worth another try if too many are under way: turns take a while.
const LATER: i64 = 5;

/// Problems that may be over the next time, besides those of ours: they are not kept.
const PASSING: [u16; 4] = [408, 409, 429, 499];

/// Answers of the last minutes, by tenant. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeats(Arc<Mutex<HashMap<String, VecDeque<Repeat>>>>);

#[derive(Debug)]
struct Repeat {
    which: [u8; 32],
    /// Of what was asked: another question under the same key is a mistake.
    asked: [u8; 32],
    answer: Known,
}

/// What is known of an answer.
#[derive(Debug, Clone)]
enum Known {
    UnderWay,
    Given(Instant, Given),
    TooLong(Instant),
}

impl Known {
    fn is_old(&self) -> bool {
        match self {
            Self::UnderWay => false,
            Self::Given(at, _) | Self::TooLong(at) => at.elapsed() >= KEPT_FOR,
        }
    }

    fn is_over(&self) -> bool {
        !matches!(self, Self::UnderWay)
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Given(_, given) => given.body.len(),
            Self::UnderWay | Self::TooLong(_) => 0,
        }
    }
}

/// An answer that was given.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What becomes of a request.
pub(super) enum Turned {
    /// It is the first: the answer is kept in this.
    First(Slot),
    /// It was answered.
    Again(Given),
}

/// Whether an answer came to its end: goes with a response, and is known when its body is whole. One that broke off in the
/// middle is no answer to give again.
#[derive(Debug, Clone, Default)]
pub(super) struct Whole(Arc<AtomicBool>);

impl Whole {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The place of an answer. If nothing is kept in it, it is as if it had never been asked.
#[derive(Debug)]
pub(super) struct Slot {
    repeats: Repeats,
    tenant: String,
    which: [u8; 32],
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    is_over: bool,
}

impl Repeats {
    fn kept(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Repeat>>> {
        // Nothing under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether it was asked before, under the key that the request has.
    pub(super) fn look(
        &self,
        tenant: &str,
        (path, key): (&str, &str),
        asked: [u8; 32],
    ) -> Result<Turned, Problem> {
        let about = |problem: Problem| problem.about(HEADER);
        if key.is_empty() || key.len() > LONGEST_KEY {
            return Err(about(Problem::invalid("this must be a text of at most 256 letters")));
        }
        let which: [u8; 32] = Sha256::digest(format!("{path}\n{key}").as_bytes()).into();
        let mut all = self.kept();
        all.retain(|_, kept| {
            kept.retain(|known| !known.answer.is_old());
            !kept.is_empty()
        });
        let kept = all.entry(tenant.to_owned()).or_default();
        if let Some(known) = kept.iter().find(|known| known.which == which) {
            if known.asked != asked {
                return Err(about(Problem::invalid("something else was asked under this key before")));
            }
            return match known.answer.clone() {
                Known::Given(_, given) => Ok(Turned::Again(given)),
                Known::UnderWay => Err(about(Problem::new(
                    Kind::Held,
                    "the same request is under way, and not answered yet",
                ))),
                Known::TooLong(_) => Err(about(Problem::new(
                    Kind::Held,
                    "the same request was answered, at too great a length to keep",
                ))),
            };
        }
        if kept.len() >= MOST_KEPT && !forget_one(kept) {
            let message = "too many requests with such a key are under way";
            let again_at = Some(seconds_now().saturating_add(LATER));
            return Err(about(Problem { again_at, ..Problem::new(Kind::TooMany, message) }));
        }
        kept.push_back(Repeat { which, asked, answer: Known::UnderWay });
        drop(all);
        let (status, headers, body) = (StatusCode::OK, HeaderMap::new(), Vec::new());
        let (repeats, tenant) = (self.clone(), tenant.to_owned());
        Ok(Turned::First(Slot { repeats, tenant, which, status, headers, body, is_over: false }))
    }
}

/// What is asked: the body, and what is said about it in headers of ours.
pub(super) fn digest(headers: &HeaderMap, body: &[u8]) -> [u8; 32] {
    let mut ours: Vec<(&str, &[u8])> = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with(OURS))
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    ours.sort_unstable();
    let mut digest = Sha256::new();
    for (name, value) in ours {
        // No name and no value has a line's end in it.
        digest.update(name);
        digest.update(b"\n");
        digest.update(value);
        digest.update(b"\n");
    }
    digest.update(b"\n");
    digest.update(body);
    digest.finalize().into()
}

/// The oldest that is over goes. False if none is.
fn forget_one(kept: &mut VecDeque<Repeat>) -> bool {
    let oldest = kept.iter().position(|known| known.answer.is_over());
    oldest.and_then(|at| kept.remove(at)).is_some()
}

impl Slot {
    /// The answer begins.
    pub(super) fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        (self.status, self.headers) = (status, headers.clone());
    }

    /// A piece of it.
    pub(super) fn piece(&mut self, bytes: &[u8]) {
        if self.body.len() <= LONGEST_KEPT {
            self.body.extend_from_slice(bytes);
        }
    }

    /// It is whole. A problem that may be over the next time is not kept.
    pub(super) fn end(&mut self) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        let is_kept = self.status.is_success()
            || self.status.is_client_error() && !PASSING.contains(&self.status.as_u16());
        let answer = match (is_kept, self.body.len() <= LONGEST_KEPT) {
            (false, _) => None,
            (true, true) => {
                let (headers, body) = (std::mem::take(&mut self.headers), std::mem::take(&mut self.body));
                Some(Known::Given(Instant::now(), Given { status: self.status, headers, body: body.into() }))
            }
            (true, false) => Some(Known::TooLong(Instant::now())),
        };
        self.store(answer);
    }

    /// It is as if it had never been asked.
    pub(super) fn forget(&mut self) {
        if !self.is_over {
            self.is_over = true;
            self.store(None);
        }
    }

    fn store(&self, answer: Option<Known>) {
        let mut all = self.repeats.kept();
        let Some(kept) = all.get_mut(&self.tenant) else { return };
        let Some(at) = kept.iter().position(|known| known.which == self.which) else { return };
        let Some(mut known) = kept.remove(at) else { return };
        if let Some(answer) = answer {
            known.answer = answer;
            // Those that are over are in the order in which they ended.
            kept.push_back(known);
            while kept.iter().map(|known| known.answer.bytes()).sum::<usize>() > MOST_BYTES
                && forget_one(kept)
            {}
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
#[path = "idempotency_tests.rs"]
mod tests;
