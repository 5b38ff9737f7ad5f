//! The doors: three APIs over HTTP, in front of the pool.
//!
//! Who comes in is decided before anything is read ([`keys`], `admission`, `visits`); what is asked is read by `wire`,
//! answered by the pool, and written by `wire`. Whoever goes away in the middle of an answer breaks his turn off: the
//! answer is dropped with the connection. Under an `Idempotency-Key` it goes on, and waits for him (`repeating`).
//!
//! ```text
//! opening ── serving ── around ─┬─ asking ── terms, conversing ── the pool ── streaming
//!                               └─ native: sessions, turns, events, questions, terminals, runs
//! ```

mod admission;
mod around;
mod asking;
mod bodies;
mod connections;
mod conversing;
mod followers;
mod following;
mod idempotency;
pub mod keys;
mod metrics;
pub mod models;
mod native;
mod openapi;
mod opening;
mod page;
mod questions;
mod reading;
mod recorded;
mod referring;
mod refusing;
mod repeating;
mod responses;
mod routes;
mod serving;
mod stalling;
mod streaming;
mod terms;
mod tls;
mod unfolding;
mod visits;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::http::HeaderMap;
use ostler_agent::access::Scope;
use ostler_agent::agent::Engine;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::conversations::{Bounds, Conversations};
use crate::live::Start;
use crate::metrics::Metrics;
use crate::pool::Pool;
use crate::wire::Problem;
use admission::Identity;
use bodies::Bodies;
pub use bodies::BodyLimits;
pub use connections::ConnectionLimits;
use followers::Followers;
use idempotency::Repeats;
use keys::Keys;
use models::{Models, Served};
pub use opening::{Listening, OpenError, open};
use questions::Questions;
use refusing::{body, refuse};
pub use tls::{Tls, TlsError};
use visits::{Visitor, Visits};

/// What is served, and to whom.
pub struct Offer {
    /// Who may come in. Without a key only loopback is listened on.
    pub keys: Keys,
    /// The agents behind it.
    pub agents: Vec<Served>,
    /// Other names of models, and what each of them means.
    pub aliases: BTreeMap<String, String>,
    /// How one is driven that can be driven in several ways, unless a request says otherwise.
    pub engine: Engine,
    /// Folders below which any request may name one to work in: absolute, with links resolved.
    pub folders: Vec<PathBuf>,
    /// Where conversations are kept. It need not exist.
    pub conversations: PathBuf,
    /// Where runs are kept. It need not exist.
    pub runs: PathBuf,
    /// How long it is waited for what is sent.
    pub waiting: Waiting,
    /// How many bytes of request bodies are in memory at once.
    pub bodies: BodyLimits,
    /// How many connections there are at once.
    pub connections: ConnectionLimits,
    /// How much of conversations is kept.
    pub bounds: Bounds,
    /// With what connections are encrypted; nothing for plain HTTP.
    pub tls: Option<Tls>,
}

/// How long it is waited for what is sent, and for what we send to be taken. Who takes longer is not waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// For the head of a request, also on a connection that was used before.
    pub head: Duration,
    /// For its body.
    pub body: Duration,
    /// For something of an answer to be taken.
    pub taking: Duration,
}

impl Default for Waiting {
    /// A large body over a slow line takes a minute; not a byte in two is no line.
    fn default() -> Self {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        Self { head: Duration::from_secs(30), body: minutes(2), taking: minutes(2) }
    }
}

/// The doors.
pub struct Gateway<S: Start> {
    pool: Pool<S>,
    offer: Offer,
    models: Models,
    visits: Visits,
    bodies: Bodies,
    metrics: Arc<Metrics>,
    conversations: Conversations,
    questions: Questions,
    followers: Followers,
    repeats: Repeats,
    /// Turns that go on when whoever asked is gone.
    turns: TaskTracker,
    /// Those who sit at terminals.
    sitters: TaskTracker,
    /// No turn is under way any more: who does not take his answer is not waited for.
    parting: CancellationToken,
    /// Nothing is told any more.
    ending: CancellationToken,
    address: SocketAddr,
    /// Nothing new is begun any more.
    is_closing: AtomicBool,
}

impl<S: Start> Gateway<S> {
    fn identity(&self) -> Identity<'_> {
        Identity { address: self.address, tls: self.offer.tls.as_ref() }
    }

    /// Who it is, if he may do this.
    fn admit(&self, headers: &HeaderMap, wanted: Scope) -> Result<Visitor, Problem> {
        self.visits.admit(&self.offer.keys, headers, wanted)
    }
}
