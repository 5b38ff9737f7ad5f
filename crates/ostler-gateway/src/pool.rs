//! Live sessions, kept for conversations that go on. What is decided is in `ostler_agent::leasing`; here it is done.
//!
//! A turn is a task of the pool: whoever waits for the answer may go away at any moment, and what has to be cleaned up
//! is cleaned up all the same. The pool is locked for looking, never for a turn.
//!
//! ```text
//! complete ─ lease ─┬ reuse ── look whether it is as it was left ─┬─ ask ─ events … end ─┬─ keep it under what it knows now
//!                   ├ spawn ── those who have to go ── start ─────┘                      └─ close it
//!                   └ wait, or be sent away
//! ```

mod large;
mod lease;
mod liveness;
mod parting;
mod seats;
mod shelf;
mod spares;
mod turn;

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ostler_agent::agent::Decision;
use ostler_agent::canonical::Message;
use ostler_agent::event::AgentEvent;
use ostler_agent::fingerprint::Known;
use ostler_agent::history::{History, HistoryError};
use ostler_agent::leasing::{self, Limits, Refused, Seat, Terms};
use ostler_agent::offering::Toolset;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::conversations::QuotaExceeded;
use crate::live::{LiveSession, SessionFailure, Slash, Start};
use crate::metrics::Metrics;
pub(crate) use large::{is_large, known_elsewhere};
pub(crate) use lease::StartKind;
pub use seats::{Listed, State};
use seats::{Seats, Standing};
pub use shelf::{Parked, Shelf};
use turn::Work;

/// Events that may wait for whoever reads an answer. When they are so many, the agent is not read on.
const UNREAD_EVENTS: usize = 256;

/// How often it is looked whether people have left terminals, while others wait: they do not say so.
const LOOK: Duration = Duration::from_secs(1);

/// A timer that nobody waits for.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Until a session is there.
    pub start: Duration,
    /// Without a word in a turn.
    pub silence: Duration,
    /// A whole turn.
    pub turn: Duration,
    /// For a turn that was broken off to end. A session that takes longer is closed.
    pub settle: Duration,
    /// For a client to read something of what waits for it. The turn of one that takes longer is cancelled.
    pub unread: Duration,
    /// The same while others wait for a session.
    pub unread_while_awaited: Duration,
}

impl Default for Patience {
    /// A tool may run for half an hour; an interrupted turn is over in well under a tenth of a second. Two minutes
    /// without a byte is no slow line; ten seconds may be one, but others could have the session.
    fn default() -> Self {
        Self {
            start: Duration::from_secs(60),
            silence: Duration::from_secs(30 * 60),
            turn: Duration::from_secs(60 * 60),
            settle: Duration::from_secs(1),
            unread: Duration::from_secs(120),
            unread_while_awaited: Duration::from_secs(10),
        }
    }
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Turn {
    /// On which terms.
    pub terms: Terms,
    /// The conversation.
    pub history: History,
    /// What a `/` is that the question begins with.
    pub slash: Slash,
}

impl Turn {
    /// The next turn of a conversation. No question is a command.
    pub fn of(terms: Terms, history: History) -> Self {
        Self { terms, history, slash: Slash::Text }
    }
}

/// What goes along with a turn, and changes nothing of what is asked.
#[derive(Debug, Default)]
pub struct Beside {
    /// What the conversation is called: its session is listed under it.
    pub label: Option<String>,
    /// Answers to what the agent asks. Without it policy answers.
    pub answers: Option<mpsc::Receiver<Reply>>,
}

/// An answer to a question of the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The question.
    pub request: String,
    /// What becomes of it.
    pub decision: Decision,
}

/// Why there is no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// It cannot be gone on with.
    #[error(transparent)]
    Unpaired(#[from] HistoryError),
    /// There is no session for it. After so long there may be one, where that is known.
    #[error("{0}")]
    Refused(Refused, Option<Duration>),
    /// The session failed.
    #[error(transparent)]
    Session(#[from] SessionFailure),
    /// It took too long.
    #[error("{} took longer than {} s", .0.what(), .1.as_secs())]
    TooLong(Limit, Duration),
    /// It was broken off, and the agent did not say within this time how far it had come.
    #[error("the turn was broken off, and did not end within {} s", .1.as_secs())]
    BrokenOff(BrokenOff, Duration),
    /// The agent waits for what only a person can give.
    #[error("the agent asks something that nobody can answer: {0}")]
    Blocked(String),
    /// There is no room for what it adds to its conversation.
    #[error(transparent)]
    Unwritable(#[from] QuotaExceeded),
}

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// To start.
    Start,
    /// Without a word.
    Silence,
    /// The whole turn.
    Turn,
}

impl Limit {
    fn what(self) -> &'static str {
        match self {
            Self::Start => "the start of a session",
            Self::Silence => "the agent's silence",
            Self::Turn => "the turn",
        }
    }
}

/// An answer, as it comes. Dropping it breaks the turn off: the session is kept if it settles, and closed if not. So does
/// leaving it unread for too long: then it has no end.
#[derive(Debug)]
pub struct Answer {
    progress: mpsc::Receiver<Progress>,
    settled: oneshot::Receiver<()>,
    stop: CancellationToken,
    broken_off: Arc<OnceLock<BrokenOff>>,
    _stop: DropGuard,
}

/// How far a turn has come.
#[derive(Debug)]
pub enum Progress {
    /// It was not refused: it waits for a session, or one is being started.
    Admitted,
    /// A session has the question. Another one may get it, if that has ended.
    Asked,
    /// What the agent said or did, or why there is no more.
    Event(Result<AgentEvent, TurnError>),
}

/// Why a turn was broken off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BrokenOff {
    /// Somebody who may do so wanted it: by [`Answer::stopper`], or at the agent itself.
    #[default]
    Asked,
    /// The pool closes, and the turn did not end in time.
    Closing,
}

impl Answer {
    /// Breaks the turn off when it is cancelled. What the agent still says is told, its end too.
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Why the turn was broken off, if we did so. Known before its end is told.
    pub fn broken_off(&self) -> Option<BrokenOff> {
        self.broken_off.get().copied()
    }

    /// What comes next. The last is the end of the turn, or an error; then nothing. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<AgentEvent, TurnError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The same, for whoever is polled.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<AgentEvent, TurnError>>> {
        loop {
            match ready!(self.poll_progress(context)) {
                Some(Progress::Admitted | Progress::Asked) => {}
                Some(Progress::Event(event)) => return Poll::Ready(Some(event)),
                None => return Poll::Ready(None),
            }
        }
    }

    /// The same, and how far the turn has come before its first event.
    pub fn poll_progress(&mut self, context: &mut Context<'_>) -> Poll<Option<Progress>> {
        self.progress.poll_recv(context)
    }

    /// Breaks the turn off, and waits until the session waits again or is gone.
    pub async fn cancel(self) {
        let Self { progress, settled, stop: _, broken_off: _, _stop: stop } = self;
        drop((progress, stop));
        // The task ends without a word where the pool itself is gone.
        let _ = settled.await;
    }
}

/// Live sessions. Dropping it ends all of them at once; [`Pool::close`] lets them end by themselves.
pub struct Pool<S: Start> {
    shared: Arc<Shared<S>>,
}

struct Shared<S: Start> {
    start: S,
    limits: Limits,
    patience: Patience,
    opened: Instant,
    seats: Mutex<Seats<S::Session>>,
    /// Sessions whose process is gone.
    shelf: Option<Shelf>,
    /// How many are to be ready on which terms.
    spares: Mutex<Vec<(Terms, usize)>>,
    /// None is started ahead until then: the last one failed.
    not_before: Mutex<Option<Instant>>,
    /// Something waits now that did not before.
    changed: Notify,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// What turns are counted in, once somebody observes them.
    metrics: OnceLock<Arc<Metrics>>,
}

impl<S: Start> Pool<S> {
    /// An empty one. Needs a tokio runtime with time.
    pub fn new(start: S, limits: Limits, patience: Patience) -> Self {
        Self::with_shelf(start, limits, patience, None)
    }

    /// One that parks its sessions on a shelf, and goes on with those that are there.
    pub fn with_shelf(start: S, limits: Limits, patience: Patience, shelf: Option<Shelf>) -> Self {
        let shared = Arc::new(Shared {
            start,
            limits,
            patience,
            opened: Instant::now(),
            seats: Mutex::new(Seats::default()),
            shelf,
            spares: Mutex::default(),
            not_before: Mutex::default(),
            changed: Notify::new(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            metrics: OnceLock::new(),
        });
        shared.tasks.spawn(sweeping(shared.clone()));
        Self { shared }
    }

    /// Goes on with a conversation: in the session that knows it, or in a new one that is told. Never blocks.
    pub fn complete(&self, turn: Turn) -> Answer {
        self.complete_beside(turn, Beside::default())
    }

    /// The same, with what goes along with it.
    pub fn complete_beside(&self, turn: Turn, beside: Beside) -> Answer {
        let (events, progress) = mpsc::channel(UNREAD_EVENTS);
        let (done, settled) = oneshot::channel();
        let stop = self.shared.stop.child_token();
        let guard = stop.clone().drop_guard();
        let Beside { label, answers } = beside;
        let told_stop = stop.clone();
        let is_deaf = AtomicBool::new(false);
        let broken_off = Arc::new(OnceLock::new());
        let told_why = broken_off.clone();
        let work =
            Work { shared: self.shared.clone(), turn, label, events, stop, broken_off: told_why, is_deaf };
        self.shared.tasks.spawn(async move {
            work.run(answers).await;
            // Nobody need wait for it.
            let _ = done.send(());
        });
        Answer { progress, settled, stop: told_stop, broken_off, _stop: guard }
    }

    /// Counts all further turns in these metrics.
    pub(crate) fn observe(&self, metrics: Arc<Metrics>) {
        // The first observer stays.
        let _ = self.shared.metrics.set(metrics);
    }

    /// Keeps so many sessions ready on these terms: what is used is replaced. Nobody goes for them.
    pub fn warm(&self, terms: &Terms, count: usize) {
        self.shared.spares().push((terms.clone(), count));
        self.shared.refill();
    }

    /// All live sessions, those at work and those that wait.
    pub fn sessions(&self) -> Vec<Listed> {
        self.shared.seats().listed(self.shared.now())
    }

    /// Finds the conversations that have a live session, for as long as the pool is there.
    pub fn live_labels(&self) -> impl Fn() -> HashSet<String> + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || {
            let listed = shared.upgrade().map(|shared| shared.seats().listed(shared.now()));
            listed.into_iter().flatten().filter_map(|listed| listed.label).collect()
        }
    }

    /// Ends the sessions of this tenant's conversation that wait. One at work is not touched.
    pub async fn end(&self, tenant: &str, label: &str) {
        let gone = {
            let mut seats = self.shared.seats();
            let waiting = seats.waiting_for(tenant, label);
            seats.remove_all(&waiting)
        };
        for session in gone {
            // In a task of the pool: it ends also if nobody waits for it.
            let shared = self.shared.clone();
            let _ = self.shared.tasks.spawn(async move { shared.discard(session).await }).await;
        }
        self.shared.happened();
    }

    /// Begins nothing new, gives what is under way so long to end, breaks off the rest, and closes all sessions.
    /// Idempotent; when it returns there are none.
    pub async fn close(&self, drain: Duration) {
        let shared = &self.shared;
        shared.seats().close();
        shared.sweep();
        shared.tasks.close();
        let until = Instant::now() + drain;
        loop {
            let changed = shared.changed.notified();
            if !shared.seats().are_busy() || Instant::now() >= until {
                break;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
        shared.stop.cancel();
        shared.tasks.wait().await;
    }
}

impl<S: Start> Drop for Pool<S> {
    fn drop(&mut self) {
        self.shared.seats().close();
        self.shared.stop.cancel();
    }
}

impl<S: Start> Shared<S> {
    fn seats(&self) -> MutexGuard<'_, Seats<S::Session>> {
        // Nothing under the lock can panic half-way.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Closes those that have to go, in tasks of the pool.
    fn sweep(self: &Arc<Self>) {
        let gone = {
            let mut seats = self.seats();
            seats.refresh_held(self.now());
            let evict = leasing::sweep(&seats.pool(self.limits), self.now());
            seats.remove_all(&evict)
        };
        for session in gone {
            self.tasks.spawn(self.retire(session));
        }
    }

    /// A session waits under what it knows now.
    fn keep(
        self: &Arc<Self>,
        seat: Seat,
        session: S::Session,
        known: Known,
        standing: Standing,
        terms: &Terms,
    ) {
        if let (Some(shelf), Standing::Over, Some(keepsake)) = (&self.shelf, standing, session.keepsake()) {
            self.clear(shelf.note(keepsake, terms, known));
        }
        self.seats().keep(seat, session, known, standing, self.now());
        self.happened();
    }

    /// Something was freed: those that have to go go, and who waits longest for a session is called.
    fn happened(self: &Arc<Self>) {
        self.sweep();
        self.seats().call_next(self.limits);
        self.refill();
        self.changed.notify_waiters();
    }
}

async fn sweeping<S: Start>(shared: Arc<Shared<S>>) {
    loop {
        let changed = shared.changed.notified();
        let (wake, wait_for_people) = {
            let seats = shared.seats();
            (leasing::wake_at(&seats.pool(shared.limits)), seats.wait_for_people())
        };
        let wake = shared.opened + wake.unwrap_or(FAR + shared.now());
        tokio::select! {
            () = shared.stop.cancelled() => break,
            () = changed => {}
            () = tokio::time::sleep_until(wake) => shared.sweep(),
            () = tokio::time::sleep(LOOK), if wait_for_people => shared.happened(),
        }
    }
    // Whoever was kept in the last moment.
    let gone = {
        let mut seats = shared.seats();
        seats.close();
        let evict = leasing::sweep(&seats.pool(shared.limits), shared.now());
        seats.remove_all(&evict)
    };
    for session in gone {
        shared.retire(session).await;
    }
}

/// What a conversation is looked up by in which no tools are offered.
pub fn known(messages: &[Message]) -> Known {
    Known::of(messages, |_| false, |form| Sha256::digest(form.as_bytes()).into())
}

/// What a conversation on these terms is looked up by.
pub fn known_on(terms: &Terms, messages: &[Message]) -> Known {
    let offered = Toolset::of_form(&terms.tools);
    let is_offered = |tool: &str| offered.as_ref().is_some_and(|offered| offered.has(tool));
    Known::of(messages, is_offered, |form| Sha256::digest(form.as_bytes()).into())
}
