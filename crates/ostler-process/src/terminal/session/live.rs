//! A session's own task: it owns the program, and does what it is ordered to.

use std::collections::VecDeque;
use std::time::Duration;

use ostler_agent::agent;
use ostler_agent::agents::failure_of_exit;
use ostler_agent::event::AgentEvent;
use ostler_agent::interrupting::Left;
use ostler_agent::look::ScreenChange;
use ostler_agent::terminal::Interactive;
use ostler_agent::watchdog;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{About, Closed, EVENTS, Happening, Order, SessionError};
use crate::contain::{Contained, Exit, Sampler, StopSignal};
use crate::terminal::driver::{Arrived, Driver, Told};

/// How long a program that is asked to end may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// How long what is left on the terminal may take to be read, once the program has ended.
const DRAIN_LIMIT: Duration = Duration::from_millis(200);

/// A timer that nobody waits for.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// A turn that somebody asked for.
pub(super) struct Turn {
    events: mpsc::Sender<Happening>,
    /// Until the prompt was taken, or was not.
    told: Option<oneshot::Sender<Result<(), SessionError>>>,
    /// Whether the agent has the prompt: what happened before is of another turn.
    is_taken: bool,
    is_over: bool,
}

/// A session's own task.
pub(super) struct Live {
    pub(super) child: Contained,
    pub(super) sampler: Sampler,
    /// The best sign of life since the last look that is no event.
    pub(super) life: Option<watchdog::Input>,
    pub(super) driver: Driver<'static>,
    pub(super) interactive: &'static dyn Interactive,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) about: watch::Sender<About>,
    pub(super) opened: Instant,
    pub(super) turn: Option<Turn>,
    pub(super) interrupting: Option<oneshot::Sender<Result<Left, SessionError>>>,
    /// What the reader of the turn has not taken yet.
    pub(super) pending: VecDeque<Happening>,
    pub(super) blocked: Option<(String, String)>,
}

/// What arrived.
enum Input {
    Order(Option<Order>),
    Terminal(Arrived),
    Room,
    /// Whoever asked has gone before the prompt was taken.
    Forsaken,
    Exited,
    Time,
}

impl Live {
    pub(super) async fn live(mut self) -> Closed {
        loop {
            let wake = self.driver.wake_at().and_then(|at| self.opened.checked_add(at));
            let wake = wake.unwrap_or_else(|| Instant::now() + FAR);
            let has_news = self.has_news();
            self.driver.hold_records(has_news && self.pending.len() >= EVENTS);
            let input = tokio::select! {
                biased;
                order = self.orders.recv() => Input::Order(order),
                arrived = self.driver.next() => Input::Terminal(arrived),
                input = reader(self.turn.as_mut()), if has_news || self.driver.is_waiting() => input,
                _ = self.child.leader_exit() => Input::Exited,
                () = tokio::time::sleep_until(wake) => Input::Time,
            };
            let now = self.opened.elapsed();
            match input {
                Input::Order(Some(Order::Ask { prompt, events, told })) => {
                    self.ask(now, &prompt, events, told);
                }
                Input::Order(Some(Order::Interrupt { told })) => self.interrupt(now, told),
                Input::Order(Some(Order::Sample { told })) => {
                    let sample = self.sample();
                    // The client may have disconnected.
                    let _ = told.send(sample);
                }
                Input::Order(Some(Order::Close) | None) => return self.close().await,
                Input::Terminal(arrived) => {
                    let told = self.driver.take(now, arrived);
                    self.tell(told);
                }
                Input::Room => self.hand_over(),
                Input::Forsaken => self.forsaken(),
                Input::Exited => return self.bury().await,
                Input::Time => {
                    let told = self.driver.tick(now);
                    self.tell(told);
                }
            }
            self.publish();
        }
    }

    fn ask(
        &mut self,
        now: Duration,
        prompt: &str,
        events: mpsc::Sender<Happening>,
        told: oneshot::Sender<Result<(), SessionError>>,
    ) {
        // Whoever asked before may have gone just now.
        let is_gone = |turn: &Turn| turn.told.as_ref().is_some_and(oneshot::Sender::is_closed);
        if self.turn.as_ref().is_some_and(is_gone) {
            self.forsaken();
        }
        // A person may have answered what nobody else may.
        if self.blocked.is_some() && !self.driver.has_dialog() {
            self.blocked = None;
        }
        let refusal = match (self.interactive.sendable(prompt), &self.turn, self.blocked.clone()) {
            (Err(unsendable), _, _) => unsendable.into(),
            (Ok(_), Some(_), _) => SessionError::Busy,
            (Ok(_), None, Some((reason, screen))) => SessionError::Blocked { reason, screen },
            (Ok(prepared), None, None) => {
                self.pending.clear();
                self.turn = Some(Turn { events, told: Some(told), is_taken: false, is_over: false });
                return self.driver.submit(now, prepared);
            }
        };
        // The client may have disconnected.
        let _ = told.send(Err(refusal));
    }

    fn interrupt(&mut self, now: Duration, told: oneshot::Sender<Result<Left, SessionError>>) {
        if self.turn.is_none() {
            let _ = told.send(Ok(Left::Nothing));
            return;
        }
        self.interrupting = Some(told);
        self.driver.interrupt(now);
    }

    /// The sample comes last: after it the watchdog stops what has shown no life before.
    fn sample(&mut self) -> Vec<watchdog::Input> {
        self.life.take().into_iter().chain([self.sampler.sample(&self.child)]).collect()
    }

    fn tell(&mut self, told: Vec<Told>) {
        for told in told {
            match told {
                // The usage of a turn is reported at its end.
                Told::Event(AgentEvent::SpentSoFar(_)) => {}
                Told::Event(event) => self.happened(Happening::Event(event)),
                Told::Submitted => self.taken(),
                Told::NotSubmitted(cause) => {
                    self.answer(Err(cause.into()));
                    self.turn = None;
                }
                Told::Blocked { reason, screen } => {
                    self.blocked = Some((reason.clone(), screen.clone()));
                    let error = SessionError::Blocked { reason: reason.clone(), screen: screen.clone() };
                    self.answer(Err(error));
                    // What was refused is not typed later, when somebody has answered the dialog.
                    if self.driver.withdraw() {
                        self.turn = None;
                    }
                    self.happened(Happening::Blocked { reason, screen });
                }
                Told::TurnOver if self.is_taken() => self.end_turn(),
                // Of a turn that somebody else asked for: it may be recorded when the prompt is already typed.
                Told::TurnOver => {}
                Told::Settled(left) => {
                    self.end_turn();
                    if let Some(told) = self.interrupting.take() {
                        let _ = told.send(Ok(left));
                    }
                }
                Told::Unsettled => {
                    if let Some(told) = self.interrupting.take() {
                        let _ = told.send(Err(SessionError::Unsettled));
                    }
                }
                Told::Answered(_) => self.blocked = None,
                Told::Alive => self.life = Some(watchdog::Input::TranscriptGrew),
                Told::Screen(ScreenChange::Text) => self.life = Some(watchdog::Input::ScreenText),
                Told::Screen(ScreenChange::Spinner) => {
                    // More was seen already, or the same.
                    self.life.get_or_insert(watchdog::Input::ScreenSpinner);
                }
                Told::Screen(ScreenChange::Nothing) | Told::Held | Told::Released | Told::Closed => {}
            }
        }
    }

    fn happened(&mut self, happening: Happening) {
        if let Happening::Event(AgentEvent::Started { session, .. }) = &happening {
            let session = Some(session.clone());
            self.about.send_if_modified(|about| {
                let is_new = about.session != session;
                about.session = session;
                is_new
            });
        }
        // Before the prompt is taken it is of another turn.
        if self.is_taken() {
            self.pending.push_back(happening);
            self.hand_over();
        }
    }

    /// The agent has the prompt. What happens from now on is of its turn.
    fn taken(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.is_taken = true;
        }
        self.answer(Ok(()));
    }

    /// Nobody waits for the answer any more: a prompt of which nothing was typed is not typed.
    fn forsaken(&mut self) {
        if self.driver.withdraw() {
            self.turn = None;
        }
    }

    /// Whether the agent has the prompt.
    fn is_taken(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.is_taken)
    }

    /// Whether there is something to read for whoever asked.
    fn has_news(&self) -> bool {
        !self.pending.is_empty() && self.is_taken()
    }

    /// Tells whoever asked what became of the prompt.
    fn answer(&mut self, answer: Result<(), SessionError>) {
        if let Some(told) = self.turn.as_mut().and_then(|turn| turn.told.take()) {
            let _ = told.send(answer);
        }
    }

    fn end_turn(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.is_over = true;
        }
        self.hand_over();
    }

    /// Hands over as much as there is room for. A reader that is gone has seen enough.
    fn hand_over(&mut self) {
        let Some(turn) = &self.turn else { return };
        while let Some(happening) = self.pending.pop_front() {
            match turn.events.try_send(happening) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(happening)) => {
                    self.pending.push_front(happening);
                    return;
                }
                Err(mpsc::error::TrySendError::Closed(_)) => self.pending.clear(),
            }
        }
        if turn.is_over {
            self.turn = None;
        }
    }

    fn publish(&self) {
        let status = self.driver.status();
        self.about.send_if_modified(|about| {
            let is_new = about.status.as_ref() != status;
            if is_new {
                about.status = status.cloned();
            }
            is_new
        });
    }

    /// It has ended by itself. A turn that was under way is told how it ended, and whoever reads it is waited for a
    /// while.
    async fn bury(mut self) -> Closed {
        let survivors = self.child.kill_all().await;
        let exit = self.child.leader_exit().await;
        self.drain().await;
        for event in self.driver.last_words() {
            self.happened(Happening::Event(event));
        }
        let end = match exit {
            Exit::Code(code) => Some(agent::Exit::Code(code)),
            Exit::Signal(signal) => Some(agent::Exit::Signal(signal)),
            // Its guardian was killed, and it with it.
            Exit::Unknown => None,
        };
        let printed = end.map(|end| self.driver.printed_last(end)).unwrap_or_default();
        let missing = if self.turn.is_some() { "before it had answered" } else { "between two turns" };
        let reason = end.map(|end| failure_of_exit(end, &printed, missing).detail);
        self.about.send_modify(|about| about.ended = reason);
        if self.turn.as_ref().is_some_and(|turn| turn.is_taken && !turn.is_over) {
            let decoder = self.driver.decoder();
            let events = match end {
                Some(end) => decoder.exited(end, &printed),
                None => decoder.over(false),
            };
            events.into_iter().for_each(|event| self.happened(Happening::Event(event)));
            self.end_turn();
        }
        // A prompt that was not taken will not be.
        let over = self.about.borrow().over();
        self.answer(Err(over));
        let read = async {
            while self.has_news() {
                let _ = reader(self.turn.as_mut()).await;
                self.hand_over();
            }
        };
        let _ = tokio::time::timeout(FAREWELL, read).await;
        Closed { exit, survivors }
    }

    /// Reads what is left on the terminal: then its screen shows what was printed last.
    async fn drain(&mut self) {
        let drained = async {
            while !self.driver.is_over() {
                let arrived = self.driver.next().await;
                let told = self.driver.take(self.opened.elapsed(), arrived);
                self.tell(told);
            }
        };
        let _ = tokio::time::timeout(DRAIN_LIMIT, drained).await;
    }

    /// Asks it to end, and ends all that is left.
    async fn close(mut self) -> Closed {
        if let Err(error) = self.child.signal(StopSignal::Interrupt) {
            tracing::debug!(target: "ostler::pty", %error, "the program could not be asked to end");
        }
        let drained = async {
            loop {
                tokio::select! {
                    biased;
                    exit = self.child.leader_exit() => return exit,
                    _ = self.driver.next() => {}
                }
            }
        };
        let _ = tokio::time::timeout(FAREWELL, drained).await;
        let survivors = self.child.kill_all().await;
        for event in self.driver.last_words() {
            self.happened(Happening::Event(event));
        }
        let exit = self.child.leader_exit().await;
        Closed { exit, survivors }
    }
}

/// Waits for whoever asked: until they have read something, or have gone before there was anything to read.
async fn reader(turn: Option<&mut Turn>) -> Input {
    match turn {
        Some(Turn { told: Some(told), .. }) => {
            told.closed().await;
            Input::Forsaken
        }
        // A reader that is gone takes all.
        Some(turn) => {
            let _ = turn.events.reserve().await;
            Input::Room
        }
        None => std::future::pending().await,
    }
}
