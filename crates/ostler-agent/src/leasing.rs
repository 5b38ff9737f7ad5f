//! Which live session a conversation gets: one that knows it, one that waits for a new one, or a new process, for which
//! others may have to go; or it has to wait, or is sent away.
//!
//! One function decides ([`decide`]) over a description of the pool; whoever has the pool does what it says at once,
//! while nobody else looks. [`sweep`] says what has to go without anybody asking, [`missing_spares`] what could be
//! started ahead, and [`served_next`] who of those who wait has his turn.
//!
//! Invariant: a session is only ever given to a conversation with the same [`Terms`], the tenant among them, and never
//! while it is at work.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::access::{KeyKind, KeyMemory};
use crate::agent::{Engine, Permissions};
use crate::fingerprint::Known;

/// Everything that changes how a session behaves, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Whose it is: never anybody else's.
    pub tenant: String,
    /// Whose agent it is: the owner's, or one of the tenant's own.
    pub kind: KeyKind,
    /// Whether it is remembered.
    pub memory: KeyMemory,
    /// The agent, by its name.
    pub agent: String,
    /// How it is driven.
    pub engine: Engine,
    /// The model, if not the agent's own choice.
    pub model: Option<String>,
    /// Where it works.
    pub workspace: Place,
    /// What is added to its own system prompt.
    pub system_prompt: Option<String>,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// Whether a client is asked for more.
    pub asks_client: bool,
    /// Further rules of what it may do, in the agent's own syntax.
    pub allow: Vec<String>,
    /// What is offered to it besides its own tools, in one form: equal texts are equal tools.
    pub tools: String,
}

impl Terms {
    /// Whether they are the same but for the engine: a session can be handed over from the one to the other.
    pub fn is_same_but_for_the_engine(&self, other: &Self) -> bool {
        Self { engine: other.engine, ..self.clone() } == *other
    }
}

/// Where a session works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a folder of its own, made for it.
    Own,
    /// In this one: absolute, with links resolved.
    Folder(PathBuf),
}

/// Which of the live sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub u64);

/// One live session, as the pool sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// Which.
    pub seat: Seat,
    /// Its terms.
    pub terms: Terms,
    /// What it does.
    pub doing: Doing,
    /// What its processes take, in bytes, as last measured.
    pub memory: u64,
    /// Whether a person sits at it. Then it goes for nobody.
    pub is_held: bool,
}

/// What a live session does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Doing {
    /// It is at work, or being started or ended.
    Busy,
    /// It waits for the conversation that it knows to go on.
    Idle {
        /// What it knows.
        known: Known,
        /// Since when.
        since: Duration,
    },
    /// It called tools of whoever asked, and waits for what comes of them: its turn is not over.
    Called {
        /// What it knows, the calls included.
        known: Known,
        /// Since when.
        since: Duration,
    },
    /// It waits for a conversation.
    Spare {
        /// Since when.
        since: Duration,
    },
}

impl Live {
    /// Since when nobody needs it.
    fn rests_since(&self) -> Option<Duration> {
        match self.doing {
            Doing::Busy => None,
            Doing::Idle { since, .. } | Doing::Called { since, .. } | Doing::Spare { since } => Some(since),
        }
    }
}

impl Live {
    /// How long it may wait.
    fn may_rest(&self, limits: &Limits) -> Duration {
        match self.doing {
            Doing::Called { .. } => limits.called,
            Doing::Idle { .. } | Doing::Spare { .. } | Doing::Busy => limits.rest,
        }
    }
}

/// How much there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Sessions at once, busy ones included.
    pub live: usize,
    /// Sessions of one tenant at once.
    pub live_of_tenant: usize,
    /// Sessions that wait, spares included.
    pub idle: usize,
    /// How long one waits before it has to go.
    pub rest: Duration,
    /// How long one waits for what comes of its calls.
    pub called: Duration,
    /// What all sessions may take together, in bytes.
    pub memory: u64,
    /// What a new one is expected to take, in bytes.
    pub expected: u64,
    /// How many may wait for a session.
    pub waiting: usize,
    /// How many of one tenant may.
    pub waiting_of_tenant: usize,
}

impl Default for Limits {
    /// For a machine that people also work at. A session of Claude Code takes about 115 MB.
    fn default() -> Self {
        Self {
            live: 16,
            live_of_tenant: 16,
            idle: 8,
            rest: Duration::from_secs(15 * 60),
            called: Duration::from_secs(10 * 60),
            memory: 4 << 30,
            expected: 128 << 20,
            waiting: 64,
            waiting_of_tenant: 32,
        }
    }
}

/// Whether there will be new sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doors {
    /// Yes.
    Open,
    /// No: what is under way is brought to its end.
    Closing,
}

/// The pool at one moment.
#[derive(Debug, Clone)]
pub struct Pool<'a> {
    /// All live sessions.
    pub live: &'a [Live],
    /// Those who wait, in the order in which they came.
    pub waiting: &'a [Waiting],
    /// Those who waited, were called, and have not looked yet: what is free is theirs first.
    pub called: &'a [Waiting],
    /// What it may hold.
    pub limits: Limits,
    /// Whether it takes anybody.
    pub doors: Doors,
}

/// Somebody who waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Whose conversation it is.
    pub tenant: String,
}

/// What somebody wants.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// On which terms.
    pub terms: &'a Terms,
    /// What the session is to know; nothing for a new conversation.
    pub prior: Option<Known>,
    /// Whether this one waited already.
    pub queued: Queued,
}

/// Whether somebody comes from the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// No: it just came, and those who wait were here before.
    Not,
    /// Yes, and it is its turn.
    Next,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// This session knows the conversation: only the last message is sent to it.
    Reuse(Seat),
    /// This session waits for any conversation on these terms.
    Spare(Seat),
    /// A new process, after these have gone.
    Spawn {
        /// Those who have to go, the one that waited longest first.
        evict: Vec<Seat>,
        /// What it has to be told before.
        opening: Opening,
    },
    /// It has to wait until one is free.
    Queue,
    /// It is sent away.
    Refuse(Refused),
}

/// What a new session has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Nothing.
    Fresh,
    /// A history that did not happen in it.
    Inject,
}

/// Why somebody is sent away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing new is begun.
    #[error("the sessions are being closed")]
    Closing,
    /// Too many wait.
    #[error("too many requests wait for a session")]
    Full,
    /// Too many of this tenant wait.
    #[error("too many requests of this key wait for a session")]
    FullForTenant,
}

/// What becomes of one who wants a session. The same pool and the same want give the same answer.
pub fn decide(pool: &Pool<'_>, wanted: &Wanted<'_>) -> Decision {
    if pool.doors == Doors::Closing {
        return Decision::Refuse(Refused::Closing);
    }
    // A session that only this tenant can use is its own, unless others wait and it has its share.
    let may_reuse = wanted.queued == Queued::Next || is_within_share(pool, &wanted.terms.tenant);
    if let Some(seat) = warm(pool.live, wanted).filter(|_| may_reuse) {
        return seat;
    }
    // Waiting clients came first.
    let may_spawn = wanted.queued == Queued::Next || (pool.waiting.is_empty() && pool.called.is_empty());
    match evictions(pool, &wanted.terms.tenant).filter(|_| may_spawn) {
        Some(evict) => {
            let opening = if wanted.prior.is_some() { Opening::Inject } else { Opening::Fresh };
            Decision::Spawn { evict, opening }
        }
        None => queue(pool, wanted),
    }
}

/// Whether a tenant may have one more session at work. While others wait it may have as many as all that want some would
/// have if each had as many.
fn is_within_share(pool: &Pool<'_>, tenant: &str) -> bool {
    let waiting = || pool.waiting.iter().chain(pool.called).map(|waiting| waiting.tenant.as_str());
    if waiting().all(|other| other == tenant) {
        return true;
    }
    let busy = pool.live.iter().filter(|live| live.doing == Doing::Busy);
    let mut tenants: BTreeSet<&str> = busy.map(|live| live.terms.tenant.as_str()).collect();
    tenants.extend(waiting());
    tenants.insert(tenant);
    at_work(pool, tenant) < (pool.limits.live / tenants.len()).max(1)
}

/// How many sessions of a tenant are at work.
pub fn at_work(pool: &Pool<'_>, tenant: &str) -> usize {
    pool.live.iter().filter(|live| live.doing == Doing::Busy && live.terms.tenant == tenant).count()
}

/// One that is there already. Of several the one that was used last: those that wait long are the first to go.
fn warm(live: &[Live], wanted: &Wanted<'_>) -> Option<Decision> {
    let ours = live.iter().filter(|live| live.terms == *wanted.terms);
    match wanted.prior {
        Some(prior) => {
            let answering = ours.filter_map(|live| match live.doing {
                Doing::Idle { known, since } | Doing::Called { known, since } if known.answers(&prior) => {
                    Some((known.whole == prior.whole, since, live.seat))
                }
                Doing::Idle { .. } | Doing::Called { .. } | Doing::Spare { .. } | Doing::Busy => None,
            });
            answering.max().map(|(_, _, seat)| Decision::Reuse(seat))
        }
        None => {
            let spares = ours.filter_map(|live| match live.doing {
                Doing::Spare { since } => Some((since, live.seat)),
                Doing::Idle { .. } | Doing::Called { .. } | Doing::Busy => None,
            });
            spares.max().map(|(_, seat)| Decision::Spare(seat))
        }
    }
}

/// Who has to go so that one more of this tenant has room; nothing, if that is not to be had.
fn evictions(pool: &Pool<'_>, tenant: &str) -> Option<Vec<Seat>> {
    let limits = &pool.limits;
    let is_of_tenant = |live: &Live| live.terms.tenant == tenant;
    let mut count = pool.live.len();
    let mut of_tenant = pool.live.iter().filter(|live| is_of_tenant(live)).count();
    let mut memory: u64 = pool.live.iter().map(|live| live.memory).fold(0, u64::saturating_add);
    let mut evict = Vec::new();
    for live in resting(pool.live).into_iter().filter(|live| !live.is_held) {
        let is_crowded = of_tenant >= limits.live_of_tenant;
        let is_full = count >= limits.live || memory.saturating_add(limits.expected) > limits.memory;
        if !is_crowded && !is_full {
            break;
        }
        // Where only the tenant has too many, nobody else's has to go.
        if !is_full && !is_of_tenant(live) {
            continue;
        }
        count -= 1;
        of_tenant -= usize::from(is_of_tenant(live));
        memory = memory.saturating_sub(live.memory);
        evict.push(live.seat);
    }
    // A single one may always be: else a low ceiling would be a pool that does nothing.
    let fits = memory.saturating_add(limits.expected) <= limits.memory || count == 0;
    (fits && count < limits.live && of_tenant < limits.live_of_tenant).then_some(evict)
}

fn queue(pool: &Pool<'_>, wanted: &Wanted<'_>) -> Decision {
    if wanted.queued == Queued::Next {
        return Decision::Queue;
    }
    let tenant = &wanted.terms.tenant;
    let of_tenant = pool.waiting.iter().filter(|waiting| waiting.tenant == *tenant).count();
    if of_tenant >= pool.limits.waiting_of_tenant {
        Decision::Refuse(Refused::FullForTenant)
    } else if pool.waiting.len() >= pool.limits.waiting {
        Decision::Refuse(Refused::Full)
    } else {
        Decision::Queue
    }
}

/// Sessions that nobody needs now, the one that waited longest first.
fn resting(live: &[Live]) -> Vec<&Live> {
    let mut resting: Vec<(Duration, &Live)> =
        live.iter().filter_map(|live| Some((live.rests_since()?, live))).collect();
    resting.sort_by_key(|(since, live)| (*since, live.seat));
    resting.into_iter().map(|(_, live)| live).collect()
}

/// Who has to go now, without anybody asking: waited too long, too many wait, or all together take too much.
pub fn sweep(pool: &Pool<'_>, now: Duration) -> Vec<Seat> {
    let resting = resting(pool.live);
    let mut memory: u64 = pool.live.iter().map(|live| live.memory).fold(0, u64::saturating_add);
    let mut left = resting.len();
    let mut evict = Vec::new();
    for live in resting {
        let waited = now.saturating_sub(live.rests_since().unwrap_or(now));
        let may_stay =
            waited < live.may_rest(&pool.limits) && left <= pool.limits.idle && memory <= pool.limits.memory;
        let must_go = pool.doors == Doors::Closing || !(may_stay || live.is_held);
        if must_go {
            left -= 1;
            memory = memory.saturating_sub(live.memory);
            evict.push(live.seat);
        }
    }
    evict
}

/// When [`sweep`] has to be asked again, if nothing happens.
pub fn wake_at(pool: &Pool<'_>) -> Option<Duration> {
    let until = |live: &Live| Some(live.rests_since()?.saturating_add(live.may_rest(&pool.limits)));
    pool.live.iter().filter_map(until).min()
}

/// How many sessions on these terms should be started ahead, where so many are wanted. Nobody goes for a spare, and
/// nobody who waits is kept waiting by one.
pub fn missing_spares(pool: &Pool<'_>, terms: &Terms, wanted: usize) -> usize {
    let is_spare = |live: &&Live| matches!(live.doing, Doing::Spare { .. }) && live.terms == *terms;
    let missing = wanted.saturating_sub(pool.live.iter().filter(is_spare).count());
    let has_room = |more: usize| {
        let mut live = pool.live.to_vec();
        let fill = |at| Live {
            seat: Seat(u64::MAX - at),
            terms: terms.clone(),
            doing: Doing::Busy,
            memory: pool.limits.expected,
            is_held: false,
        };
        live.extend((1..more as u64).map(fill));
        let filled = Pool { live: &live, ..pool.clone() };
        evictions(&filled, &terms.tenant).is_some_and(|evict| evict.is_empty())
    };
    let rest = resting(pool.live).len();
    let room = pool.limits.idle.saturating_sub(rest);
    if pool.doors == Doors::Closing || !pool.waiting.is_empty() || !pool.called.is_empty() {
        return 0;
    }
    (1..=missing.min(room)).take_while(|more| has_room(*more)).count()
}

/// Who of those who wait is served next: the tenant with the fewest sessions at work, and of those who came first.
pub fn served_next(pool: &Pool<'_>) -> Option<usize> {
    let waiting = pool.waiting.iter().enumerate();
    waiting.min_by_key(|(at, waiting)| (at_work(pool, &waiting.tenant), *at)).map(|(at, _)| at)
}

#[cfg(test)]
#[path = "leasing_tests.rs"]
mod tests;
