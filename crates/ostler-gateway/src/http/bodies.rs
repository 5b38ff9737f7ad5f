//! How much of request bodies is in memory at once, and where large ones are parsed.
//!
//! A large body is admitted by its bytes before they are read: first by the share of its key, then by what all keys
//! have together. It keeps both until its turn is over, because the turn keeps what was parsed from it. Its JSON tree
//! can be many times as large as its text, so trees are bounded apart: the values of a body are counted before it is
//! parsed, one body of a key is parsed at a time, and a few of all keys, on threads other than the runtime's own.
//! Small bodies are parsed where they are read: handing them over would take longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::Request as Incoming;
use axum::http::header;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::visits::later;
use crate::wire::{Kind, Problem};

/// Longest body: what the providers take.
const LONGEST_BODY: usize = 32 << 20;

/// Bodies up to this length are not counted, and are parsed on the runtime's own thread.
const SMALL_BODY: usize = 64 << 10;

/// Most values, keys and separators of a body: a conversation that fills the context of a model has far fewer. Each takes
/// at most 256 bytes in a tree, the worst being an object with one empty key.
const MOST_VALUES: usize = 250_000;

/// Large bodies that are parsed at once, of all keys.
const PARSED_AT_ONCE: usize = 2;

/// How long a body waits for memory, and again to be parsed.
const WAIT: Duration = Duration::from_secs(10);

/// A body that comes quickly lets others have the thread after so many bytes: without, one of them is read for as long as
/// there is something to read.
const YIELD_AFTER: usize = 128 << 10;

/// How long it is not read then if its key sends as much at once as it may: 128 MB a second of each body are faster than
/// most networks, and leave the thread to others.
const PAUSE: Duration = Duration::from_millis(1);

/// When it is worth another try.
const AGAIN: Duration = Duration::from_secs(5);

/// What permits count: semaphores count in 32 bits.
const UNIT: usize = 1 << 10;

/// Bytes of large bodies that are in memory at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Of all keys.
    pub total: usize,
    /// Of one key.
    pub of_key: usize,
}

impl Default for BodyLimits {
    /// One key can send four of the longest bodies at once, and 32 of four megabytes, which is a context of a million
    /// tokens.
    fn default() -> Self {
        Self { total: 512 << 20, of_key: 128 << 20 }
    }
}

/// Admits bodies. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Bodies {
    limits: BodyLimits,
    bytes: Arc<Semaphore>,
    parsing: Arc<Semaphore>,
    keys: Arc<Mutex<HashMap<String, Arc<KeyShare>>>>,
}

#[derive(Debug)]
struct KeyShare {
    bytes: Arc<Semaphore>,
    parsing: Arc<Semaphore>,
}

/// The bytes of a large body, counted until this is dropped.
#[derive(Debug)]
pub(super) struct BodyPermit {
    share: Arc<KeyShare>,
    _of_key: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl BodyPermit {
    /// Whether its key could not send another body of the greatest length.
    fn is_crowded(&self) -> bool {
        self.share.bytes.available_permits() < LONGEST_BODY.div_ceil(UNIT)
    }
}

/// A body that was read.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    permit: Option<BodyPermit>,
}

/// A body that was parsed.
pub(super) struct Tree {
    pub(super) value: Value,
    permit: Option<BodyPermit>,
    parsing: Option<ParsingPermit>,
}

/// Lets a tree of a large body exist.
type ParsingPermit = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Bodies {
    pub(super) fn new(limits: BodyLimits) -> Self {
        // A limit that is too low for one body would refuse it forever.
        let limits = BodyLimits {
            total: limits.total.max(LONGEST_BODY),
            of_key: limits.of_key.clamp(LONGEST_BODY, limits.total.max(LONGEST_BODY)),
        };
        Self {
            limits,
            bytes: Arc::new(Semaphore::new(limits.total.div_ceil(UNIT))),
            parsing: Arc::new(Semaphore::new(PARSED_AT_ONCE)),
            keys: Arc::default(),
        }
    }

    fn share(&self, key: &str) -> Arc<KeyShare> {
        // Nothing under the lock can panic half-way.
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = keys.get(key) {
            return share.clone();
        }
        keys.retain(|_, share| Arc::strong_count(share) > 1);
        let share = Arc::new(KeyShare {
            bytes: Arc::new(Semaphore::new(self.limits.of_key.div_ceil(UNIT))),
            parsing: Arc::new(Semaphore::new(1)),
        });
        keys.insert(key.to_owned(), share.clone());
        share
    }

    /// Waits until so many bytes of this key may be read.
    async fn admit(&self, key: &str, length: usize) -> Result<Option<BodyPermit>, Problem> {
        if length <= SMALL_BODY {
            return Ok(None);
        }
        let units = u32::try_from(length.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let share = self.share(key);
        let of_key = acquire(&share.bytes, units).await.ok_or_else(|| {
            later("this key has as many bytes of bodies under way as it may", AGAIN).because("body_bytes")
        })?;
        let of_all = acquire(&self.bytes, units).await.ok_or_else(|| {
            let busy = later("there is no memory for further bodies at the moment", AGAIN);
            Problem { kind: Kind::Overloaded, ..busy }.because("body_bytes")
        })?;
        Ok(Some(BodyPermit { share, _of_key: of_key, _of_all: of_all }))
    }

    /// Reads the body of a request of this key, which must be meant as JSON.
    pub(super) async fn read(
        &self,
        key: &str,
        incoming: Incoming,
        within: Duration,
    ) -> Result<Body, Problem> {
        let kind = incoming.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_json =
            kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"));
        if !is_json {
            return Err(Problem::invalid("the body must be application/json").about("content-type"));
        }
        let announced =
            incoming.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let announced = announced.and_then(|length| length.parse::<usize>().ok());
        if announced.is_some_and(|length| length > LONGEST_BODY) {
            return Err(too_large());
        }
        let mut permit = self.admit(key, announced.unwrap_or(0)).await?;
        // Of a body without a length, the first bytes are as free as those of a small one; for a longer one there must be
        // memory for the longest.
        let mut free = announced.unwrap_or(SMALL_BODY);
        let reading = async {
            let mut bytes = Vec::with_capacity(announced.unwrap_or(0));
            let (mut body, mut unyielded) = (incoming.into_body(), 0);
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| Problem::new(Kind::Gone, "the body broke off"))?;
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() + data.len() > LONGEST_BODY {
                    return Err(too_large());
                }
                if bytes.len() + data.len() > free {
                    permit = self.admit(key, LONGEST_BODY).await?;
                    free = LONGEST_BODY;
                }
                bytes.extend_from_slice(&data);
                unyielded += data.len();
                if unyielded > YIELD_AFTER {
                    unyielded = 0;
                    match permit.as_ref().is_some_and(BodyPermit::is_crowded) {
                        true => tokio::time::sleep(PAUSE).await,
                        false => tokio::task::yield_now().await,
                    }
                }
            }
            Ok(bytes)
        };
        let read = timeout(within, reading).await;
        let bytes = read.map_err(|_| Problem::new(Kind::Slow, "the body took too long"))??;
        Ok(Body { bytes, permit })
    }

    /// Parses a body. How deep it may be is bounded by its parser.
    pub(super) async fn parse(&self, body: Body) -> Result<Tree, Problem> {
        let Body { bytes, permit } = body;
        let Some(permit) = permit else {
            return Ok(Tree { value: parse(&bytes)?, permit: None, parsing: None });
        };
        let busy = || {
            let busy = later("the server is busy with other bodies", AGAIN);
            Problem { kind: Kind::Overloaded, ..busy }.because("body_parsing")
        };
        // The other bodies of this key wait here, so that those of other keys do not wait for all of them.
        let of_key = acquire(&permit.share.parsing, 1).await.ok_or_else(busy)?;
        let of_all = acquire(&self.parsing, 1).await.ok_or_else(busy)?;
        let parsing = Some((of_key, of_all));
        // What is counted moves along: a client that disconnects does not stop the thread.
        off_thread(move || {
            if has_more_values(&bytes, MOST_VALUES) {
                let message = format!("the body has more than {MOST_VALUES} values, keys and separators");
                return Err(Problem::new(Kind::TooLarge, &message));
            }
            Ok(Tree { value: parse(&bytes)?, permit: Some(permit), parsing })
        })
        .await
    }
}

impl Body {
    /// Does something with the bytes, off the runtime's own thread if they are many.
    pub(super) async fn inspect<T: Send + 'static>(
        self,
        look: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<(Self, T), Problem> {
        if self.permit.is_none() {
            let found = look(&self.bytes);
            return Ok((self, found));
        }
        off_thread(move || {
            let found = look(&self.bytes);
            Ok((self, found))
        })
        .await
    }
}

impl Tree {
    /// Makes something else of the tree, which is gone afterwards. The bytes of the body are counted until the permit is
    /// dropped.
    pub(super) async fn convert<T: Send + 'static>(
        self,
        convert: impl FnOnce(Value) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, Option<BodyPermit>), Problem> {
        let Self { value, permit, parsing } = self;
        if parsing.is_none() {
            return Ok((convert(value)?, permit));
        }
        off_thread(move || {
            let converted = convert(value);
            drop(parsing);
            Ok((converted?, permit))
        })
        .await
    }
}

async fn acquire(semaphore: &Arc<Semaphore>, units: u32) -> Option<OwnedSemaphorePermit> {
    if let Ok(permit) = semaphore.clone().try_acquire_many_owned(units) {
        return Some(permit);
    }
    // It is never closed.
    timeout(WAIT, semaphore.clone().acquire_many_owned(units)).await.ok()?.ok()
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Problem::broke_off()))
}

fn too_large() -> Problem {
    Problem::new(Kind::TooLarge, "the body is longer than 32 MB")
}

fn parse(body: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::invalid(&format!("the body is no JSON: {error}")))
}

/// Whether a text of JSON has more values, keys and separators than this. Each value but the first follows one of the
/// characters that are counted.
fn has_more_values(text: &[u8], most: usize) -> bool {
    let (mut count, mut at) = (1, 0);
    while at < text.len() {
        match text[at] {
            b'"' => {
                at += 1;
                // Nothing is counted inside a string.
                while at < text.len() && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
            }
            b',' | b':' | b'[' | b'{' => {
                count += 1;
                if count > most {
                    return true;
                }
            }
            _ => {}
        }
        at += 1;
    }
    count > most
}

#[cfg(test)]
#[path = "bodies_tests.rs"]
mod tests;
