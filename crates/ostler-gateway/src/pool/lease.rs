//! Getting a session for a turn: one that waits, or a new one; or waiting for either.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::canonical::Message;
use ostler_agent::event::AgentEvent;
use ostler_agent::fingerprint::Known;
use ostler_agent::leasing::{Decision, Queued, Seat, Terms, Wanted};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::seats::{Place, Standing, Ticket};
use super::shelf::Parked;
use super::{Limit, Shared, Turn, TurnError};
use crate::live::{LiveSession, Start};
use crate::metrics::TurnMeter;

/// A session at work. Whatever becomes of the turn, its seat is freed when this is dropped, and the session ended with
/// it, unless it was kept or closed.
pub(super) struct Lease<S: Start> {
    shared: Arc<Shared<S>>,
    pub(super) seat: Seat,
    session: Option<S::Session>,
    pub(super) warmth: Warmth,
    pub(super) start: StartKind,
    /// What it said while it waited for what comes of its calls, and what was used outside a turn.
    pub(super) early: VecDeque<AgentEvent>,
}

/// Where a session is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Warmth {
    /// It waited. It may have ended meanwhile.
    Warm,
    /// It waited for what comes of its calls.
    Called,
    /// It was just started.
    Cold,
}

/// How the session of a turn was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartKind {
    /// Its process was there, and knew the conversation.
    Warm,
    /// Its process was started ahead.
    Spare,
    /// It was parked: a new process resumed the agent's own session.
    Resumed,
    /// A new process was given the history.
    Injected,
    /// A new process for a new conversation.
    Cold,
}

impl StartKind {
    /// The word for it in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Spare => "spare",
            Self::Resumed => "resumed",
            Self::Injected => "injected",
            Self::Cold => "cold",
        }
    }

    fn warmth(self) -> Warmth {
        match self {
            Self::Warm | Self::Spare | Self::Resumed => Warmth::Warm,
            Self::Injected | Self::Cold => Warmth::Cold,
        }
    }
}

impl<S: Start> Lease<S> {
    fn of(shared: &Arc<Shared<S>>, seat: Seat, session: Option<S::Session>, start: StartKind) -> Self {
        let (shared, warmth) = (shared.clone(), start.warmth());
        Self { shared, seat, session, warmth, start, early: VecDeque::new() }
    }

    /// With what other sessions used outside a turn: the next turn of the conversation accounts for it.
    fn after(mut self, used: Vec<AgentEvent>) -> Self {
        used.into_iter().rev().for_each(|event| self.early.push_front(event));
        self
    }

    pub(super) fn session(&mut self) -> Option<&mut S::Session> {
        self.session.as_mut()
    }

    /// It waits for its conversation to go on.
    pub(super) fn keep(mut self, known: Known, standing: Standing, terms: &Terms) {
        if let Some(session) = self.session.take() {
            self.shared.keep(self.seat, session, known, standing, terms);
        }
    }

    /// It is ended. The seat is free once nothing of it is left.
    pub(super) async fn close(mut self) {
        if let Some(session) = self.session.take() {
            self.shared.discard(session).await;
        }
        self.free();
    }

    fn free(&self) {
        let waiting = {
            let mut seats = self.shared.seats();
            seats.on_turn_over(self.seat, self.shared.now());
            seats.remove(self.seat)
        };
        drop(waiting);
        self.shared.happened();
    }
}

impl<S: Start> Drop for Lease<S> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let keepsake = session.keepsake();
            drop(session);
            if let Some((shelf, keepsake)) = self.shared.shelf.as_ref().zip(keepsake) {
                self.shared.clear(shelf.forget(&keepsake.session));
            }
            self.free();
        }
    }
}

/// What comes next for one who wants a session.
enum Step<L> {
    Have(Seat, L, Standing, StartKind),
    Start(Seat, Vec<L>),
    Wait(Ticket, oneshot::Receiver<()>),
}

/// A session for the turn; nothing if it was broken off before there was one. `admitted` is called once it is not refused.
pub(super) async fn lease<S: Start>(
    shared: &Arc<Shared<S>>,
    turn: &Turn,
    label: Option<&str>,
    stop: &CancellationToken,
    meter: &mut TurnMeter<'_>,
    admitted: &(dyn Fn() + Sync),
) -> Result<Option<Lease<S>>, TurnError> {
    let (terms, prior) = (&turn.terms, turn.history.prior());
    if let Some(label) = label {
        wait_for_cancelled_turn(shared, &terms.tenant, label, stop).await;
    }
    let known = match prior {
        [] => None,
        prior => Some(super::known_elsewhere(terms, prior).await),
    };
    let (mut queued, mut called_by) = (Queued::Not, None);
    let mut used = Vec::new();
    loop {
        // Once the pool closes, it is refused below.
        if stop.is_cancelled() && !shared.stop.is_cancelled() {
            if let Some(ticket) = called_by {
                shared.seats().leave(ticket);
                shared.happened();
            }
            return Ok(None);
        }
        let wanted = Wanted { terms, prior: known, queued };
        let step = step(shared, &wanted, called_by.take())?;
        if queued == Queued::Not {
            admitted();
        }
        match step {
            Step::Have(seat, session, standing, start) => {
                meter.waited(Duration::ZERO);
                if let Some((shelf, keepsake)) = shared.shelf.as_ref().zip(session.keepsake()) {
                    shelf.begin(&keepsake.session);
                }
                let mut lease = Lease::of(shared, seat, Some(session), start);
                if standing == Standing::Called {
                    lease.warmth = Warmth::Called;
                }
                if is_as_it_was(&mut lease).await {
                    call_another(shared, queued);
                    return Ok(Some(lease.after(used)));
                }
                used.extend(lease.early.drain(..).filter(|event| matches!(event, AgentEvent::Spent(_))));
                lease.close().await;
            }
            Step::Start(seat, gone) => {
                meter.waited(Duration::ZERO);
                call_another(shared, queued);
                let prior = turn.history.sound();
                let started = begin(Reserved { shared, seat }, terms, (&prior, known), gone);
                return tokio::select! {
                    biased;
                    () = stop.cancelled() => Ok(None),
                    lease = started => lease.map(|lease| Some(lease.after(used))),
                };
            }
            Step::Wait(ticket, called) => {
                // It may be a person who is waited for.
                shared.changed.notify_waiters();
                let (_queued, since) = (meter.queue(), Instant::now());
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {
                        meter.waited(since.elapsed());
                        let was_called = shared.seats().leave(ticket);
                        if was_called {
                            shared.happened();
                        }
                        return Ok(None);
                    }
                    // Also where nobody is called any more: then it is sent away.
                    _ = called => (queued, called_by) = (Queued::Next, Some(ticket)),
                }
                meter.waited(since.elapsed());
            }
        }
    }
}

/// Waits while the session of this conversation ends a turn that was cancelled. A client that disconnects may continue at
/// once, before the agent has stopped; a new session would have to receive everything, and the old one would stay idle.
async fn wait_for_cancelled_turn<S: Start>(
    shared: &Shared<S>,
    tenant: &str,
    label: &str,
    stop: &CancellationToken,
) {
    // Longer than a new session may take is not worth it.
    let until = Instant::now() + shared.patience.start;
    loop {
        let changed = shared.changed.notified();
        if !shared.seats().is_cancelling(tenant, label) {
            return;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = changed => {}
            () = tokio::time::sleep_until(until) => return,
        }
    }
}

/// What comes next for one who wants a session, and was called by this ticket if it waited.
fn step<S: Start>(
    shared: &Shared<S>,
    wanted: &Wanted<'_>,
    called_by: Option<Ticket>,
) -> Result<Step<S::Session>, TurnError> {
    let (limits, now) = (shared.limits, shared.now());
    let mut seats = shared.seats();
    if let Some(ticket) = called_by {
        seats.arrive(ticket);
    }
    seats.refresh_held(now);
    loop {
        return match seats.decide(limits, wanted) {
            decision @ (Decision::Reuse(seat) | Decision::Spare(seat)) => match seats.take(seat, now) {
                Some((session, standing)) => {
                    let is_spare = matches!(decision, Decision::Spare(_));
                    let start = if is_spare { StartKind::Spare } else { StartKind::Warm };
                    Ok(Step::Have(seat, session, standing, start))
                }
                // It is described and not there: it cannot be, and would be found again.
                None => {
                    seats.remove(seat);
                    continue;
                }
            },
            Decision::Spawn { evict, .. } => {
                let gone = seats.remove_all(&evict);
                Ok(Step::Start(seats.reserve(wanted.terms, limits.expected, now), gone))
            }
            Decision::Queue => {
                let place = match wanted.queued {
                    Queued::Not => Place::Last,
                    Queued::Next => Place::First,
                };
                let (ticket, called) = seats.queue(&wanted.terms.tenant, place);
                Ok(Step::Wait(ticket, called))
            }
            Decision::Refuse(refused) => {
                let retry_after = seats.retry_after(limits, &wanted.terms.tenant, refused, now);
                Err(TurnError::Refused(refused, retry_after))
            }
        };
    }
}

/// There may be room for more than the one who was called.
fn call_another<S: Start>(shared: &Shared<S>, queued: Queued) {
    if queued == Queued::Next {
        shared.seats().call_next(shared.limits);
    }
}

/// Whether a session that waited has said and done nothing meanwhile, and lives.
async fn is_as_it_was<S: Start>(lease: &mut Lease<S>) -> bool {
    let (warmth, mut is_same) = (lease.warmth, true);
    let Some(session) = lease.session.as_mut() else { return false };
    loop {
        match session.unasked().await {
            None => return is_same,
            Some(Ok(event @ AgentEvent::Spent(_))) => {
                tracing::warn!(target: "ostler::pool", used = ?event, "a session used tokens outside a turn");
                lease.early.push_back(event);
            }
            Some(Ok(event)) if is_aside(&event) => {}
            // Its turn goes on: its own tools may have ended. Only a turn that is over has no use for outcomes.
            Some(Ok(event)) if warmth == Warmth::Called && !matches!(event, AgentEvent::TurnEnded(_)) => {
                lease.early.push_back(event);
            }
            // Read on: what it used comes last.
            Some(Ok(_)) => is_same = false,
            Some(Err(failure)) => {
                tracing::debug!(target: "ostler::pool", %failure, "a session that waited is not as it was left");
                return false;
            }
        }
    }
}

/// What does not change a conversation.
fn is_aside(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Noted { .. } | AgentEvent::Unknown { .. })
}

/// Starts a session on a seat that is reserved for it. Dropping the future frees the seat.
async fn begin<S: Start>(
    reserved: Reserved<'_, S>,
    terms: &Terms,
    (prior, known): (&[Message], Option<Known>),
    mut gone: Vec<S::Session>,
) -> Result<Lease<S>, TurnError> {
    let (shared, seat) = (reserved.shared, reserved.seat);
    if let (Some(known), Some(_)) = (&known, &shared.shelf) {
        // It is handed over: parked by the one engine, and revived by the other.
        gone.extend(shared.seats().take_from_another_engine(terms, known));
    }
    // In tasks of the pool: they end also if this one is broken off. Their memory is needed first.
    let closing: Vec<_> =
        gone.into_iter().map(|session| shared.tasks.spawn(shared.retire(session))).collect();
    for closed in closing {
        let _ = closed.await;
    }
    let limit = shared.patience.start;
    if let Some(parked) = known.and_then(|known| Taken::of(shared, terms, &known))
        && let Some(session) = parked.revive(terms, limit).await
    {
        std::mem::forget(reserved);
        // It knows what was said, as one that waited does.
        return Ok(Lease::of(shared, seat, Some(session), StartKind::Resumed));
    }
    let session = tokio::time::timeout(limit, shared.start.start(terms, prior)).await;
    let session = session.map_err(|_| TurnError::TooLong(Limit::Start, limit))??;
    // The seat is taken: it is freed with the lease.
    std::mem::forget(reserved);
    let start = if known.is_some() { StartKind::Injected } else { StartKind::Cold };
    Ok(Lease::of(shared, seat, Some(session), start))
}

/// A session from the shelf, which goes back there unless it is revived.
struct Taken<S: Start> {
    shared: Arc<Shared<S>>,
    parked: Option<Parked>,
}

impl<S: Start> Taken<S> {
    fn of(shared: &Arc<Shared<S>>, terms: &Terms, known: &Known) -> Option<Self> {
        let parked = shared.shelf.as_ref()?.take(terms, known)?;
        Some(Self { shared: shared.clone(), parked: Some(parked) })
    }

    /// Its process, if it comes and knows what it is taken to know. If not it is of no use.
    async fn revive(mut self, terms: &Terms, limit: Duration) -> Option<S::Session> {
        let shared = self.shared.clone();
        let revived = {
            let Parked { keepsake, known, .. } = self.parked.as_ref()?;
            let words = known.words;
            let knows = |messages: &[Message]| super::known_on(terms, messages).words == words;
            tokio::time::timeout(limit, shared.start.revive(terms, keepsake, knows)).await
        };
        let session = self.parked.take()?.keepsake.session;
        let failure = match revived {
            Ok(Ok(session)) => return Some(session),
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => "it took too long".to_owned(),
        };
        tracing::info!(target: "ostler::pool", session, failure, "a session was not revived: its conversation is told to a new one");
        if let Some(shelf) = &shared.shelf {
            shared.clear(shelf.forget(&session));
        }
        None
    }
}

impl<S: Start> Drop for Taken<S> {
    fn drop(&mut self) {
        if let (Some(shelf), Some(parked)) = (&self.shared.shelf, self.parked.take()) {
            shelf.put_back(&parked.keepsake.session);
        }
    }
}

/// A seat without a session, which is freed unless one comes.
struct Reserved<'a, S: Start> {
    shared: &'a Arc<Shared<S>>,
    seat: Seat,
}

impl<S: Start> Drop for Reserved<'_, S> {
    fn drop(&mut self) {
        let _ = self.shared.seats().remove(self.seat);
        self.shared.happened();
    }
}

/// One started ahead.
pub(super) async fn spare<S: Start>(shared: &Arc<Shared<S>>, terms: &Terms, seat: Seat) {
    let starting = begin(Reserved { shared, seat }, terms, (&[], None), Vec::new());
    let started = tokio::select! {
        biased;
        () = shared.stop.cancelled() => return,
        started = starting => started,
    };
    match started {
        Ok(mut lease) => {
            if let Some(session) = lease.session.take() {
                shared.seats().keep_spare(seat, session, shared.now());
                shared.happened();
            }
        }
        Err(error) => {
            shared.pause_spares();
            tracing::warn!(target: "ostler::pool", %error, "no session could be started ahead");
        }
    }
}
