//! Who is in the pool, and who waits to be. Only looked at under the lock; nothing here waits.

use std::collections::BTreeMap;
use std::time::Duration;

use ostler_agent::fingerprint::Known;
use ostler_agent::jail::JailReport;
use ostler_agent::leasing::{
    self, Decision, Doing, Doors, Limits, Live, Pool, Refused, Seat, Terms, Waiting, Wanted,
};
use ostler_agent::pace::Pace;
use ostler_process::terminal::seat::Seat as TerminalSeat;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::live::LiveSession;

/// A live session, for people and programs to look at.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Which.
    pub seat: Seat,
    /// The conversation that it had last, as it was called.
    pub label: Option<String>,
    /// Its terminal, if people can sit down at it.
    pub terminal: Option<TerminalSeat>,
    /// Whose, and how it behaves.
    pub terms: Terms,
    /// The wall around its process.
    pub jail: Option<JailReport>,
    /// Its process; nothing before it is there.
    pub pid: Option<u32>,
    /// What it does.
    pub state: State,
    /// How long it lives.
    pub age: Duration,
    /// How many turns it had, the one under way included.
    pub turns: u32,
    /// Greater than that of all whose last turn began before its own.
    pub asked: u64,
    /// What it took of the memory when it was last looked at, in bytes.
    pub memory: u64,
}

impl Listed {
    /// Whether it had this conversation of this tenant last.
    pub fn is_of(&self, tenant: &str, label: &str) -> bool {
        self.terms.tenant == tenant && self.label.as_deref() == Some(label)
    }
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A turn is under way, or it is being started.
    Busy,
    /// It waits for its conversation to go on.
    Idle,
    /// It called tools of whoever asked, and waits for what comes of them.
    Called,
    /// It waits for a conversation.
    Spare,
}

/// Where a session stands that waits for its conversation to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its turn is over.
    Over,
    /// It waits for what comes of its calls.
    Called,
}

/// What the pool keeps of a session besides its description.
struct Held<L> {
    /// Here while it waits; with its turn while it works.
    session: Option<L>,
    label: Option<String>,
    terminal: Option<TerminalSeat>,
    jail: Option<JailReport>,
    pid: Option<u32>,
    began: Duration,
    /// Since when it is at work.
    working_since: Duration,
    turns: u32,
    asked: u64,
    /// Cancels the turn under way.
    stop: Option<CancellationToken>,
}

pub(super) struct Seats<L> {
    live: Vec<Live>,
    held: BTreeMap<Seat, Held<L>>,
    waiting: Vec<Waiting>,
    /// Whom to call, in the order of `waiting`.
    calls: Vec<(Ticket, oneshot::Sender<()>)>,
    /// Those who were called and have not looked yet, and their tickets.
    called: Vec<Waiting>,
    called_tickets: Vec<Ticket>,
    /// How fast sessions become free, for all and for each tenant that has had one.
    pace: Pace,
    paces: BTreeMap<String, Pace>,
    doors: Doors,
    next: u64,
    /// Seats of those that are being started ahead.
    ahead: Vec<Seat>,
}

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl<L> Default for Seats<L> {
    fn default() -> Self {
        Self {
            live: Vec::new(),
            held: BTreeMap::new(),
            waiting: Vec::new(),
            calls: Vec::new(),
            called: Vec::new(),
            called_tickets: Vec::new(),
            pace: Pace::default(),
            paces: BTreeMap::new(),
            doors: Doors::Open,
            next: 0,
            ahead: Vec::new(),
        }
    }
}

impl<L: LiveSession> Seats<L> {
    pub(super) fn pool(&self, limits: Limits) -> Pool<'_> {
        Pool { live: &self.live, waiting: &self.waiting, called: &self.called, limits, doors: self.doors }
    }

    pub(super) fn decide(&self, limits: Limits, wanted: &Wanted<'_>) -> Decision {
        leasing::decide(&self.pool(limits), wanted)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A seat for one that is not there yet. It counts at once.
    pub(super) fn reserve(&mut self, terms: &Terms, expected: u64, now: Duration) -> Seat {
        let seat = Seat(self.number());
        self.live.push(Live {
            seat,
            terms: terms.clone(),
            doing: Doing::Busy,
            memory: expected,
            is_held: false,
        });
        let held = Held {
            session: None,
            label: None,
            terminal: None,
            jail: None,
            pid: None,
            began: now,
            working_since: now,
            turns: 0,
            asked: 0,
            stop: None,
        };
        self.held.insert(seat, held);
        seat
    }

    /// A seat for one that is started ahead.
    pub(super) fn reserve_spare(&mut self, terms: &Terms, expected: u64, now: Duration) -> Seat {
        let seat = self.reserve(terms, expected, now);
        self.ahead.push(seat);
        seat
    }

    /// How many are being started ahead on these terms.
    pub(super) fn starting_spares(&self, terms: &Terms) -> usize {
        let is_its = |seat: &&Seat| self.live.iter().any(|live| live.seat == **seat && live.terms == *terms);
        self.ahead.iter().filter(is_its).count()
    }

    /// The one that waits there, to work.
    pub(super) fn take(&mut self, seat: Seat, now: Duration) -> Option<(L, Standing)> {
        let held = self.held.get_mut(&seat)?;
        let session = held.session.take()?;
        held.working_since = now;
        let doing = self.live.iter().find(|live| live.seat == seat).map(|live| live.doing);
        let standing = match doing {
            Some(Doing::Called { .. }) => Standing::Called,
            Some(Doing::Idle { .. } | Doing::Spare { .. } | Doing::Busy) | None => Standing::Over,
        };
        self.describe(seat, Doing::Busy, None);
        Some((session, standing))
    }

    pub(super) fn began_turn(
        &mut self,
        seat: Seat,
        session: &L,
        label: Option<&str>,
        stop: &CancellationToken,
    ) {
        let asked = self.number();
        if let Some(held) = self.held.get_mut(&seat) {
            held.asked = asked;
            held.label = label.map(str::to_owned);
            held.terminal = session.terminal();
            held.jail = session.jail();
            held.pid = session.pid();
            held.turns += 1;
            held.stop = Some(stop.clone());
        }
    }

    /// Whether a session of this tenant's conversation is at work on a turn that was cancelled: it will be idle or gone
    /// soon.
    pub(super) fn is_cancelling(&self, tenant: &str, label: &str) -> bool {
        let is_cancelled = |live: &Live| {
            let held = self.held.get(&live.seat).filter(|held| held.label.as_deref() == Some(label));
            held.and_then(|held| held.stop.as_ref()).is_some_and(CancellationToken::is_cancelled)
        };
        let mut busy = self.live.iter().filter(|live| live.doing == Doing::Busy);
        busy.any(|live| live.terms.tenant == tenant && is_cancelled(live))
    }

    pub(super) fn keep(&mut self, seat: Seat, session: L, known: Known, standing: Standing, now: Duration) {
        let doing = match standing {
            Standing::Over => Doing::Idle { known, since: now },
            Standing::Called => Doing::Called { known, since: now },
        };
        self.on_turn_over(seat, now);
        self.put_back(seat, session, doing);
    }

    /// A turn is over: how long it took says when others will have a session.
    pub(super) fn on_turn_over(&mut self, seat: Seat, now: Duration) {
        let tenant = self.live.iter().find(|live| live.seat == seat).map(|live| live.terms.tenant.clone());
        // A session that was found dead had no turn.
        let held = self.held.get(&seat).filter(|held| held.stop.is_some());
        let Some((tenant, held)) = tenant.zip(held) else { return };
        let took = now.saturating_sub(held.working_since);
        let waits = self.waiting.iter().any(|waiting| waiting.tenant == tenant);
        let paces = [Some(&mut self.pace), Some(self.paces.entry(tenant).or_default())];
        for (pace, is_awaited) in paces.into_iter().flatten().zip([!self.waiting.is_empty(), waits]) {
            pace.on_release(took);
            if !is_awaited {
                pace.on_empty_queue();
            }
        }
    }

    /// When one who is refused should come back.
    pub(super) fn retry_after(
        &mut self,
        limits: Limits,
        tenant: &str,
        refused: Refused,
        now: Duration,
    ) -> Option<Duration> {
        match refused {
            Refused::Closing => None,
            Refused::Full => Some(self.pace.promise(now, self.live.len())),
            Refused::FullForTenant => {
                let at_work = leasing::at_work(&self.pool(limits), tenant);
                Some(self.paces.entry(tenant.to_owned()).or_default().promise(now, at_work))
            }
        }
    }

    pub(super) fn keep_spare(&mut self, seat: Seat, session: L, now: Duration) {
        self.ahead.retain(|ahead| *ahead != seat);
        self.put_back(seat, session, Doing::Spare { since: now });
    }

    fn put_back(&mut self, seat: Seat, session: L, doing: Doing) {
        self.describe(seat, doing, Some(session.memory()));
        if let Some(held) = self.held.get_mut(&seat) {
            held.pid = session.pid();
            held.session = Some(session);
            held.stop = None;
        }
    }

    fn describe(&mut self, seat: Seat, doing: Doing, memory: Option<u64>) {
        if let Some(live) = self.live.iter_mut().find(|live| live.seat == seat) {
            live.doing = doing;
            live.memory = memory.unwrap_or(live.memory);
        }
    }

    /// Those that a person sits at are in use.
    pub(super) fn refresh_held(&mut self, now: Duration) {
        for live in &mut self.live {
            let terminal = self.held.get(&live.seat).and_then(|held| held.terminal.as_ref());
            live.is_held = terminal.is_some_and(TerminalSeat::is_held);
            if let (true, Doing::Idle { since, .. }) = (live.is_held, &mut live.doing) {
                *since = now;
            }
        }
    }

    /// One that waits on another engine, and knows this conversation. One that a person sits at stays where it is.
    pub(super) fn take_from_another_engine(&mut self, terms: &Terms, prior: &Known) -> Option<L> {
        let is_it = |live: &&Live| match &live.doing {
            Doing::Idle { known, .. } => {
                live.terms.engine != terms.engine
                    && live.terms.is_same_but_for_the_engine(terms)
                    && known.answers(prior)
                    && !live.is_held
            }
            Doing::Busy | Doing::Called { .. } | Doing::Spare { .. } => false,
        };
        let seat = self.live.iter().find(is_it)?.seat;
        self.remove(seat)
    }

    /// Frees a seat. Whoever waited there is handed out, to be closed.
    pub(super) fn remove(&mut self, seat: Seat) -> Option<L> {
        self.live.retain(|live| live.seat != seat);
        self.ahead.retain(|ahead| *ahead != seat);
        self.held.remove(&seat)?.session
    }

    pub(super) fn remove_all(&mut self, seats: &[Seat]) -> Vec<L> {
        seats.iter().filter_map(|seat| self.remove(*seat)).collect()
    }

    /// Those that wait for this conversation of this tenant to go on.
    pub(super) fn waiting_for(&self, tenant: &str, label: &str) -> Vec<Seat> {
        let is_its =
            |seat: &Seat| self.held.get(seat).is_some_and(|held| held.label.as_deref() == Some(label));
        let waits = |live: &&Live| live.doing != Doing::Busy && live.terms.tenant == tenant;
        let idle = self.live.iter().filter(waits).map(|live| live.seat);
        idle.filter(is_its).collect()
    }

    /// A place in the queue: at its end, or where one was that was called and found no room.
    pub(super) fn queue(&mut self, tenant: &str, place: Place) -> (Ticket, oneshot::Receiver<()>) {
        let (call, called) = oneshot::channel();
        let ticket = Ticket(self.number());
        let at = match place {
            Place::Last => self.waiting.len(),
            Place::First => 0,
        };
        self.waiting.insert(at, Waiting { tenant: tenant.to_owned() });
        self.calls.insert(at, (ticket, call));
        (ticket, called)
    }

    /// Gives up a place. True if it was called already: then another has to be called instead.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(at) = self.calls.iter().position(|(waiting, _)| *waiting == ticket) else {
            self.arrive(ticket);
            return true;
        };
        self.waiting.remove(at);
        self.calls.remove(at);
        false
    }

    /// Calls who is served next.
    pub(super) fn call_next(&mut self, limits: Limits) {
        while let Some(at) = leasing::served_next(&self.pool(limits)) {
            let waiting = self.waiting.remove(at);
            let (ticket, call) = self.calls.remove(at);
            // Who is gone has no use for it.
            if call.send(()).is_ok() {
                self.called.push(waiting);
                self.called_tickets.push(ticket);
                return;
            }
        }
    }

    /// One who was called looks, or is gone.
    pub(super) fn arrive(&mut self, ticket: Ticket) {
        if let Some(at) = self.called_tickets.iter().position(|called| *called == ticket) {
            self.called_tickets.remove(at);
            self.called.remove(at);
        }
    }

    /// Whether anybody waits for a session.
    pub(super) fn are_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether somebody waits who could have a session that a person sits at.
    pub(super) fn wait_for_people(&self) -> bool {
        !self.waiting.is_empty() && self.live.iter().any(|live| live.is_held)
    }

    /// Nobody comes in any more, and nobody waits.
    pub(super) fn close(&mut self) {
        self.doors = Doors::Closing;
        self.waiting.clear();
        self.calls.clear();
        self.called.clear();
        self.called_tickets.clear();
    }

    pub(super) fn are_busy(&self) -> bool {
        self.live.iter().any(|live| live.doing == Doing::Busy)
    }

    pub(super) fn listed(&self, now: Duration) -> Vec<Listed> {
        let listed = self.live.iter().filter_map(|live| {
            let held = self.held.get(&live.seat)?;
            let state = match live.doing {
                Doing::Busy => State::Busy,
                Doing::Idle { .. } => State::Idle,
                Doing::Called { .. } => State::Called,
                Doing::Spare { .. } => State::Spare,
            };
            Some(Listed {
                seat: live.seat,
                label: held.label.clone(),
                terminal: held.terminal.clone(),
                terms: live.terms.clone(),
                jail: held.jail.clone(),
                pid: held.pid,
                state,
                age: now.saturating_sub(held.began),
                turns: held.turns,
                asked: held.asked,
                memory: live.memory,
            })
        });
        listed.collect()
    }
}

/// Where in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Last,
    First,
}
