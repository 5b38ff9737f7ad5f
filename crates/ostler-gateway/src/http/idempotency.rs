//! A request that is sent twice under one `Idempotency-Key` is done once: whoever repeats it gets the same answer again.
//! While the first is under way the second is told so. What is kept is bounded in number, size and time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::wire::{Kind, Problem};

/// The header.
pub(super) const HEADER: &str = "idempotency-key";

/// Longest key.
const LONGEST_KEY: usize = 256;

/// How long an answer is kept. A program that repeats a request does so within seconds.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);

/// Answers that are kept.
const MOST_KEPT: usize = 512;

/// Longest answer that is kept. Of a longer one it is only known that it was given.
const LONGEST_KEPT: usize = 256 * 1024;

/// Answers of the last minutes. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeats(Arc<Mutex<VecDeque<Repeat>>>);

#[derive(Debug)]
struct Repeat {
    which: [u8; 32],
    /// Of what was asked: another question under the same key is a mistake.
    asked: [u8; 32],
    at: Instant,
    answer: Known,
}

/// What is known of an answer.
#[derive(Debug, Clone)]
enum Known {
    UnderWay,
    Given(Given),
    TooLong,
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

/// The place of an answer. If nothing is kept in it, it is as if it had never been asked.
#[derive(Debug)]
pub(super) struct Slot {
    repeats: Repeats,
    which: [u8; 32],
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    is_over: bool,
}

impl Repeats {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Repeat>> {
        // Nothing under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether it was asked before, under the key that the request has.
    pub(super) fn look(&self, tenant: &str, path: &str, key: &str, asked: &[u8]) -> Result<Turned, Problem> {
        let about = |problem: Problem| problem.about(HEADER);
        if key.is_empty() || key.len() > LONGEST_KEY {
            return Err(about(Problem::invalid("this must be a text of at most 256 letters")));
        }
        let which: [u8; 32] = Sha256::digest(format!("{tenant}\n{path}\n{key}").as_bytes()).into();
        let asked: [u8; 32] = Sha256::digest(asked).into();
        let mut kept = self.kept();
        while kept.front().is_some_and(|old| old.at.elapsed() >= KEPT_FOR) || kept.len() >= MOST_KEPT {
            kept.pop_front();
        }
        if let Some(known) = kept.iter().find(|known| known.which == which) {
            if known.asked != asked {
                return Err(about(Problem::invalid("something else was asked under this key before")));
            }
            return match known.answer.clone() {
                Known::Given(given) => Ok(Turned::Again(given)),
                Known::UnderWay => Err(about(Problem::new(
                    Kind::Held,
                    "the same request is under way, and not answered yet",
                ))),
                Known::TooLong => Err(about(Problem::new(
                    Kind::Held,
                    "the same request was answered, at too great a length to keep",
                ))),
            };
        }
        kept.push_back(Repeat { which, asked, at: Instant::now(), answer: Known::UnderWay });
        drop(kept);
        let (status, headers, body) = (StatusCode::OK, HeaderMap::new(), Vec::new());
        Ok(Turned::First(Slot { repeats: self.clone(), which, status, headers, body, is_over: false }))
    }
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
            || self.status.is_client_error() && self.status != StatusCode::TOO_MANY_REQUESTS;
        let answer = match (is_kept, self.body.len() <= LONGEST_KEPT) {
            (false, _) => None,
            (true, true) => Some(Known::Given(Given {
                status: self.status,
                headers: std::mem::take(&mut self.headers),
                body: std::mem::take(&mut self.body).into(),
            })),
            (true, false) => Some(Known::TooLong),
        };
        self.store(answer);
    }

    fn store(&self, answer: Option<Known>) {
        let mut kept = self.repeats.kept();
        match answer {
            Some(answer) => {
                if let Some(known) = kept.iter_mut().find(|known| known.which == self.which) {
                    known.answer = answer;
                }
            }
            None => kept.retain(|known| known.which != self.which),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_over {
            self.store(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(repeats: &Repeats, key: &str, asked: &str) -> Option<Slot> {
        match repeats.look("one", "/v1/messages", key, asked.as_bytes()) {
            Ok(Turned::First(slot)) => Some(slot),
            Ok(Turned::Again(_)) | Err(_) => None,
        }
    }

    #[tokio::test]
    async fn what_was_answered_is_answered_again() {
        let repeats = Repeats::default();
        let mut slot = first(&repeats, "k", "a").unwrap();
        let held = repeats.look("one", "/v1/messages", "k", b"a").err().unwrap();
        assert_eq!(held.kind, Kind::Held, "it is under way");
        assert!(first(&repeats, "other", "a").is_some());
        assert!(
            matches!(repeats.look("two", "/v1/messages", "k", b"a"), Ok(Turned::First(_))),
            "another tenant"
        );
        slot.head(StatusCode::OK, &HeaderMap::new());
        slot.piece(b"wor");
        slot.piece(b"ds");
        slot.end();
        drop(slot);
        let Ok(Turned::Again(given)) = repeats.look("one", "/v1/messages", "k", b"a") else {
            panic!("forgotten")
        };
        assert_eq!((given.status, &given.body[..]), (StatusCode::OK, &b"words"[..]));
        assert_eq!(repeats.look("one", "/v1/messages", "k", b"b").err().unwrap().kind, Kind::Invalid);
    }

    #[tokio::test]
    async fn what_broke_off_or_may_be_over_the_next_time_is_not_kept() {
        let repeats = Repeats::default();
        drop(first(&repeats, "k", "a"));
        let mut slot = first(&repeats, "k", "a").unwrap();
        slot.head(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::new());
        slot.end();
        let mut slot = first(&repeats, "k", "a").unwrap();
        slot.piece(&vec![0; LONGEST_KEPT + 1]);
        slot.end();
        assert_eq!(
            repeats.look("one", "/v1/messages", "k", b"a").err().unwrap().kind,
            Kind::Held,
            "too long"
        );
    }

    #[tokio::test]
    async fn only_so_many_are_kept() {
        let repeats = Repeats::default();
        for number in 0..2 * MOST_KEPT {
            if let Some(mut slot) = first(&repeats, &number.to_string(), "a") {
                slot.end();
            }
        }
        assert_eq!(repeats.kept().len(), MOST_KEPT);
    }
}
