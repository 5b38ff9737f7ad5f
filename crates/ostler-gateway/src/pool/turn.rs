//! One turn, from the question to a session that waits again or is gone. It runs as a task of the pool.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ostler_agent::event::{AgentEvent, TurnOutcome};
use ostler_agent::offering;
use ostler_agent::policy;
use ostler_agent::reply::Reply;
use ostler_agent::stopping::StopReason;
use ostler_agent::watchdog::{EventKind, Input};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::lease::{Lease, Warmth, lease};
use super::liveness::Liveness;
use super::seats::Standing;
use super::{BrokenOff, LOOK, Patience, Progress, Reply as Answered, Shared, Turn, TurnError, known_on};
use crate::live::{AnsweredBy, LiveSession, Phase, Start};
use crate::metrics::TurnMeter;

pub(super) struct Work<S: Start> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) turn: Turn,
    /// What the conversation is called.
    pub(super) label: Option<String>,
    pub(super) events: mpsc::Sender<Progress>,
    /// Whoever waited for the answer is gone, or the pool closes.
    pub(super) stop: CancellationToken,
    /// Why the turn was broken off, once it is.
    pub(super) broken_off: Arc<OnceLock<BrokenOff>>,
    /// Whoever waited for the answer takes nothing of it.
    pub(super) is_deaf: AtomicBool,
}

/// What became of a session that was asked.
enum Asked {
    /// The turn is over, and the session kept or closed.
    Over,
    /// It had ended while it waited, and never heard the question.
    Stale,
    Failed(TurnError),
}

/// What a turn came to so far.
#[derive(Default)]
struct Course {
    reply: Reply,
    /// Work beside the turn: a session that has some goes on by itself.
    tasks: BTreeSet<String>,
    heard: Heard,
    /// Whether tools of whoever asked were called.
    called: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Heard {
    #[default]
    Nothing,
    Something,
}

impl Course {
    fn hear(&mut self, event: &AgentEvent) {
        self.reply.hear(event);
        self.heard = Heard::Something;
        match event {
            AgentEvent::ToolStarted { tool, within: None, .. } => {
                self.called |= offering::named(tool).is_some();
            }
            AgentEvent::TaskOpened { task } => {
                self.tasks.insert(task.clone());
            }
            AgentEvent::TaskClosed { task } => {
                self.tasks.remove(task);
            }
            _ => {}
        }
    }
}

impl<S: Start> Work<S> {
    pub(super) async fn run(self, mut answers: Option<mpsc::Receiver<Answered>>) {
        let mut meter = TurnMeter::begin(self.shared.metrics.get(), &self.turn.terms);
        let checked = self
            .turn
            .history
            .paired()
            .map_err(TurnError::from)
            .and_then(|()| Ok(self.shared.start.check(&self.turn.terms, &self.turn.history)?));
        if let Err(error) = checked {
            meter.on_error(&error);
            meter.count();
            return self.tell(Err(error)).await;
        }
        loop {
            let admitted = || self.report(Progress::Admitted);
            let label = self.label.as_deref();
            let leased = lease(&self.shared, &self.turn, label, &self.stop, &mut meter, &admitted).await;
            let failed = match leased {
                Ok(None) => {
                    self.break_off();
                    return;
                }
                Ok(Some(lease)) => match self.ask(lease, &mut answers, &mut meter).await {
                    Asked::Over => return,
                    // Another one, or a new one: each that is found so is gone, so this ends.
                    Asked::Stale => continue,
                    Asked::Failed(error) => error,
                },
                Err(error) => error,
            };
            meter.on_error(&failed);
            meter.count();
            self.tell(Err(failed)).await;
            return;
        }
    }

    /// Tells how far the turn has come. There is room: nothing else was told yet, and few sessions are tried.
    fn report(&self, progress: Progress) {
        // The client may have disconnected.
        let _ = self.events.try_send(progress);
    }

    async fn ask(
        &self,
        mut lease: Lease<S>,
        answers: &mut Option<mpsc::Receiver<Answered>>,
        meter: &mut TurnMeter<'_>,
    ) -> Asked {
        let (warmth, seat) = (lease.warmth, lease.seat);
        meter.leased(lease.start);
        let Some(session) = lease.session() else { return Asked::Stale };
        session.answered_by(if answers.is_some() { AnsweredBy::Owner } else { AnsweredBy::Policy });
        let question = match warmth {
            Warmth::Warm | Warmth::Called => Cow::Borrowed(self.turn.history.last()),
            // What came of calls was told with the history.
            Warmth::Cold => Cow::Owned(self.turn.history.asked()),
        };
        let Some(asked) = self.unless_left(session.ask(&question, self.turn.slash)).await else {
            self.break_off();
            // How much of the question it has heard nobody knows.
            lease.close().await;
            return Asked::Over;
        };
        self.shared.seats().began_turn(seat, session, self.label.as_deref(), &self.stop);
        let mut course = Course::default();
        let failed = match asked {
            Ok(()) => {
                self.report(Progress::Asked);
                match self.listen(&mut lease, &mut course, answers, meter).await {
                    Ok(end) => {
                        // Before the end is reported: a client that has read it finds the turn counted.
                        meter.count();
                        return self.ended(lease, &course, end).await;
                    }
                    Err(error) => error,
                }
            }
            // A person sits at it: it is theirs, and goes on waiting as it was.
            Err(error) if error.phase == Phase::Held && warmth == Warmth::Warm => {
                let known = known_on(&self.turn.terms, self.turn.history.prior());
                lease.keep(known, Standing::Over, &self.turn.terms);
                return Asked::Failed(error.into());
            }
            Err(error) => error.into(),
        };
        lease.close().await;
        let is_stale = warmth != Warmth::Cold
            && course.heard == Heard::Nothing
            && matches!(failed, TurnError::Session(_))
            && !self.stop.is_cancelled();
        if is_stale { Asked::Stale } else { Asked::Failed(failed) }
    }

    /// The turn is being broken off: for the reason that came first.
    fn break_off(&self) -> BrokenOff {
        let is_closing = self.shared.stop.is_cancelled();
        *self.broken_off.get_or_init(|| if is_closing { BrokenOff::Closing } else { BrokenOff::Asked })
    }

    /// What comes of it, unless whoever asked goes away and it does not end soon.
    async fn unless_left<F: Future>(&self, doing: F) -> Option<F::Output> {
        let mut doing = std::pin::pin!(doing);
        tokio::select! {
            biased;
            done = &mut doing => Some(done),
            () = self.stop.cancelled() => tokio::time::timeout(self.shared.patience.settle, doing).await.ok(),
        }
    }

    /// Hands on what the agent says until its turn ends.
    async fn listen(
        &self,
        lease: &mut Lease<S>,
        course: &mut Course,
        answers: &mut Option<mpsc::Receiver<Answered>>,
        meter: &mut TurnMeter<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let patience = self.shared.patience;
        let last = Instant::now() + patience.turn;
        let Some(session) = lease.session() else { return Ok(TurnOutcome::Interrupted) };
        let mut liveness = Liveness::new(&patience, session);
        let mut settle = None;
        for event in std::mem::take(&mut lease.early) {
            meter.on_event(&event);
            // What was used before says nothing about this turn.
            if !matches!(event, AgentEvent::Spent(_)) {
                course.hear(&event);
            }
            self.tell(Ok(event)).await;
        }
        loop {
            let Some(session) = lease.session() else { return Ok(TurnOutcome::Interrupted) };
            let until = settle.unwrap_or_else(|| liveness.wake_at());
            let event = tokio::select! {
                biased;
                () = self.stop.cancelled(), if settle.is_none() => {
                    settle = Some(Instant::now() + patience.settle);
                    self.break_off();
                    session.interrupt().await?;
                    continue;
                }
                Answered { request, decision } = next_of(answers) => {
                    session.answer(&request, decision).await?;
                    liveness.step(session, Input::Event(EventKind::Noted)).await?;
                    continue;
                }
                event = session.next() => event?,
                () = tokio::time::sleep_until(until) => {
                    if settle.is_some() {
                        return Err(TurnError::BrokenOff(self.break_off(), patience.settle));
                    }
                    liveness.step(session, Input::Tick).await?;
                    continue;
                }
            };
            course.hear(&event);
            meter.on_event(&event);
            let input = Input::of(&event);
            match event {
                AgentEvent::TurnEnded(end) => return Ok(end),
                AgentEvent::Blocked(ref blocked) => {
                    if let Some(StopReason::Blocked { dialog }) = policy::unanswerable(blocked) {
                        return Err(TurnError::Blocked(dialog));
                    }
                }
                _ => {}
            }
            if !self.events.is_closed() {
                // A turn has its limit also while nobody reads.
                let told = tokio::time::timeout_at(settle.unwrap_or(last), self.tell(Ok(event))).await;
                if told.is_err() {
                    self.stop.cancel();
                }
            }
            // Not before: while nobody takes what it said the agent is not read, and not silent.
            if settle.is_none()
                && let Some(session) = lease.session()
            {
                liveness.step(session, input).await?;
            }
        }
    }

    /// The session is put away before the end is told: who then goes on at once finds it.
    async fn ended(&self, mut lease: Lease<S>, course: &Course, end: TurnOutcome) -> Asked {
        let is_sound = match &end {
            TurnOutcome::Done { .. } | TurnOutcome::Called => course.tasks.is_empty(),
            // The agent gave up calls of whoever asked: nobody could bring it what came of them.
            TurnOutcome::Interrupted => course.tasks.is_empty() && !course.called,
            TurnOutcome::Failed(_) => false,
        };
        let standing = match &end {
            TurnOutcome::Called => Standing::Called,
            TurnOutcome::Done { .. } | TurnOutcome::Interrupted | TurnOutcome::Failed(_) => Standing::Over,
        };
        if let Some(request) = lease.session().and_then(|session| session.capture_request()) {
            self.shared.tasks.spawn(request.run_after_turn());
        }
        if is_sound {
            let mut messages = self.turn.history.prior().to_vec();
            messages.push(self.turn.history.last().clone());
            messages.extend_from_slice(course.reply.messages());
            lease.keep(known_on(&self.turn.terms, &messages), standing, &self.turn.terms);
        } else {
            lease.close().await;
        }
        self.tell(Ok(AgentEvent::TurnEnded(end))).await;
        Asked::Over
    }

    /// Waits for whoever reads, unless nobody does. Who takes nothing for too long is told nothing more, not even the
    /// end: there would be a hole before it.
    async fn tell(&self, told: Result<AgentEvent, TurnError>) {
        if self.is_deaf.load(Ordering::Relaxed) {
            return;
        }
        tokio::select! {
            biased;
            () = self.events.closed() => self.stop.cancel(),
            room = self.events.reserve() => {
                if let Ok(room) = room {
                    room.send(Progress::Event(told));
                }
            }
            // Nobody is waited for any more: who did not take this is not told the end either.
            () = self.shared.stop.cancelled() => {
                self.break_off();
                self.is_deaf.store(true, Ordering::Relaxed);
            }
            () = self.unread_for_too_long() => {
                self.is_deaf.store(true, Ordering::Relaxed);
                self.stop.cancel();
            }
        }
    }

    /// Ready once what waits for the client has waited for too long. That is sooner while others wait for a session.
    async fn unread_for_too_long(&self) {
        let Patience { unread, unread_while_awaited, .. } = self.shared.patience;
        let last = Instant::now() + unread;
        tokio::time::sleep(unread_while_awaited.min(unread)).await;
        while Instant::now() < last && !self.shared.seats().are_awaited() {
            tokio::time::sleep_until(last.min(Instant::now() + LOOK)).await;
        }
    }
}

/// The next answer to a question. Waits for ever where none can come. Cancel safe.
async fn next_of(answers: &mut Option<mpsc::Receiver<Answered>>) -> Answered {
    match answers {
        Some(coming) => match coming.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}
