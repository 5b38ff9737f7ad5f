//! One process of a run, from its start until nothing of it is left.
//!
//! An arm of the `select!` only says what arrived; all that is done to the process is in `climb`. How the process is
//! reached is a [`Contact`]: `pipes`, with its own record beside them in `transcript`, or `on_terminal`. What it says is in
//! `hearing`. After every arrival the ladder is asked too, so that an agent that never stops talking can be stopped.

mod bridging;
mod contact;
mod hearing;
mod on_terminal;
mod pipes;
mod quiet;
mod transcript;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use ostler_agent::agent::{Clock, Exit, Order, Source};
use ostler_agent::bridge::BridgeEvent;
use ostler_agent::event::{AgentEvent, Failure, TurnOutcome};
use ostler_agent::outcome::{CancelledBy, Rule};
use ostler_agent::prices::Observed;
use ostler_agent::quiet_cause::QuietCause;
use ostler_agent::run_event::{Channel, RunEventKind};
use ostler_agent::source;
use ostler_agent::stopping::{self, Ladder, Patience, Rung, Signal, StopReason};
use ostler_agent::waiting::{self as waits, Reach, Waits};
use ostler_agent::watchdog::{self, Input, State, Warning};
use tokio::time::Instant;

use super::bridge;
use super::clock;
use super::offline::Prober;
use super::wording::{reason_word, worded};
use super::writer::Unheard;
use super::{Request, Run, Said, Unsaid};
use crate::contain::{self, Contained, Guard, Sampler, StopSignal};
use crate::egress::HostNotice;
use crate::journal::JournalError;
pub(super) use contact::Contact;
pub(super) use on_terminal::{OnTerminal, Tools};
pub(super) use pipes::Pipes;
use quiet::QuietWatch;
pub(super) use transcript::Transcript;
pub use transcript::session_transcript;
pub(super) use transcript::{is_there, known_words, recorded_calls, transcript_file};

/// How long what is left in the pipes may take to be read, once nobody is left who could write.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// A timer that nobody waits for.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// What a process came to.
#[derive(Debug)]
pub(super) struct Rounded {
    pub(super) turn: Option<TurnOutcome>,
    /// Where the turn's end was told.
    pub(super) told_by: Source,
    pub(super) exit: Option<Exit>,
    pub(super) stop: Option<StopReason>,
    /// The failure after which it waited to try again, if nothing else came since.
    pub(super) retrying: Option<Failure>,
    /// How long nothing was heard when it was stopped.
    pub(super) quiet: Duration,
    /// Why, where that is known.
    pub(super) cause: Option<QuietCause>,
    /// None if that is not known.
    pub(super) survivors: Option<u32>,
    /// Whether a change of the workspace was recorded while it ran.
    pub(super) recorded_change: bool,
    /// The model calls whose cost is known, those of earlier processes included.
    pub(super) observed: Observed,
}

/// What arrived.
enum Arrived {
    Asked(Request),
    Bridge(BridgeEvent),
    Heard(contact::Arrived),
    Exited,
    Changed,
    Probed(Reach),
    Host(HostNotice),
    Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    Exited,
    /// Nothing is left of it.
    Over,
}

pub(super) struct Round<'r, 'a> {
    run: &'r mut Run<'a>,
    child: Contained,
    contact: Contact<'a>,
    ladder: Ladder,
    /// The last rung that was written down.
    told: Option<Rung>,
    turn: Option<TurnOutcome>,
    /// The failure after which it waits to try again, until something else comes.
    retrying: Option<Failure>,
    /// Where the end of the turn was told.
    told_by: Source,
    quiet: Duration,
    watch: QuietWatch,
    sampler: Sampler,
    /// When it was last written down that something was seen on a channel.
    seen: BTreeMap<Channel, Duration>,
    waits: Waits,
    prober: Prober,
    /// When the agent declared completion, until it is stopped for that.
    claimed: Option<Duration>,
    survivors: u32,
    life: Life,
    /// Seconds that local time is ahead of UTC.
    east: i64,
}

impl<'r, 'a> Round<'r, 'a> {
    pub(super) fn new(run: &'r mut Run<'a>, child: Contained, contact: Contact<'a>) -> Self {
        Self {
            child,
            ladder: Ladder::new(Patience::default(), contact.ear()),
            contact,
            told: None,
            turn: None,
            retrying: None,
            told_by: Source::Stdout,
            quiet: Duration::ZERO,
            watch: QuietWatch::new(run.desk.now()),
            sampler: Sampler::default(),
            seen: BTreeMap::new(),
            waits: Waits::default(),
            prober: Prober::new(run.plan.probe.as_ref()),
            claimed: None,
            survivors: 0,
            life: Life::Running,
            east: clock::shown().east,
            run,
        }
    }

    /// Lives through it. If it cannot be written down, everything is ended at once.
    pub(super) async fn play(mut self) -> Result<Rounded, JournalError> {
        let lived = match self.live().await {
            Ok(()) => self.finish().await,
            Err(error) => Err(error),
        };
        if let Err(error) = lived {
            let _ = self.child.kill_all().await;
            return Err(error);
        }
        let exit = self.exit().await;
        let rounded = Rounded {
            turn: self.turn,
            told_by: self.told_by,
            exit,
            stop: self.ladder.reason().cloned(),
            retrying: self.retrying,
            quiet: self.quiet,
            cause: self.watch.into_cause(),
            survivors: self.child.is_accounted_for().then_some(self.survivors),
            recorded_change: self.seen.contains_key(&Channel::Workspace),
            observed: self.contact.decoder().observed(),
        };
        // What came of it is looked at while its guardian goes.
        self.run.farewells.spawn(self.child.farewell());
        Ok(rounded)
    }

    async fn live(&mut self) -> Result<(), JournalError> {
        self.watch(Input::Spawned).await?;
        while self.life != Life::Over {
            let wake = self.wake();
            let arrived = tokio::select! {
                biased;
                request = self.run.requests.next() => Arrived::Asked(request),
                event = bridge::next(self.run.bridge.as_mut()) => Arrived::Bridge(event),
                heard = self.contact.next() => Arrived::Heard(heard),
                notice = self.run.hosts.next() => Arrived::Host(notice),
                () = self.run.workplace.changed() => Arrived::Changed,
                reach = self.prober.answer() => Arrived::Probed(reach),
                _ = self.child.leader_exit(), if self.life == Life::Running => Arrived::Exited,
                () = tokio::time::sleep_until(wake) => Arrived::Time,
            };
            if let Arrived::Heard(_) = arrived {
                // Texts may say how long it takes until a limit resets.
                let clock = Clock { now: Some(clock::now()), east: self.east };
                self.contact.decoder().clock(clock);
            }
            match arrived {
                Arrived::Heard(contact::Arrived::Pipes(arrived)) => self.piped(arrived).await?,
                Arrived::Heard(contact::Arrived::Terminal(arrived)) => self.on_terminal(arrived).await?,
                Arrived::Asked(Request::Stop(by)) => self.cancel(by).await?,
                // The client may have disconnected.
                Arrived::Asked(Request::Say { text, told }) => drop(told.send(self.prompt(text).await?)),
                Arrived::Asked(Request::Answer { question, text, told }) => {
                    let _ = told.send(self.run.answer(question, &text));
                }
                Arrived::Asked(Request::Terminal { told }) => drop(told.send(self.contact.seat())),
                Arrived::Bridge(event) => self.bridged(event).await?,
                // With another run in the folder it is not known whose change it is.
                Arrived::Changed if self.run.company.is_told => {}
                Arrived::Changed => {
                    self.seen(Channel::Workspace)?;
                    self.watch(Input::WorkspaceChanged).await?;
                }
                Arrived::Probed(reach) => self.wait(waits::Input::Probed(reach)).await?,
                Arrived::Host(notice) => {
                    let event = self.run.hosts.note(&notice);
                    self.run.desk.tell(event)?;
                }
                Arrived::Exited => self.exited().await?,
                Arrived::Time => self.watch(Input::Tick).await?,
            }
            self.settle().await?;
        }
        Ok(())
    }

    fn wake(&self) -> Instant {
        let due = [
            self.run.dog.wake_at(),
            self.ladder.wake_at(),
            self.contact.wake_at(),
            self.claim_wakes_at(),
            self.looks_at(),
        ];
        let due = due.into_iter().flatten().min();
        let instant = due.and_then(|at| self.run.desk.instant(at));
        instant.unwrap_or_else(|| Instant::now() + FAR)
    }

    /// What holds after anything arrived.
    async fn settle(&mut self) -> Result<(), JournalError> {
        self.run.tell_company()?;
        let now = self.run.desk.now();
        if self.ladder.wake_at().is_some_and(|at| at <= now) {
            self.climb(stopping::Input::Tick).await?;
        }
        if self.contact.wake_at().is_some_and(|at| at <= now) {
            self.source(source::Input::Tick).await?;
            self.terminal_is_due().await?;
        }
        if self.claim_wakes_at().is_some_and(|at| at <= now) {
            self.end_claimed().await?;
        }
        if self.looks_at().is_some_and(|at| at <= now) {
            self.look_for_cause()?;
        }
        if self.life == Life::Exited && self.contact.is_over() {
            self.begin(StopReason::Exited).await?;
        }
        Ok(())
    }

    async fn cancel(&mut self, by: CancelledBy) -> Result<(), JournalError> {
        match self.ladder.reason() {
            None => self.begin(StopReason::Cancelled { by }).await,
            Some(_) => self.climb(stopping::Input::Hurry).await,
        }
    }

    async fn exited(&mut self) -> Result<(), JournalError> {
        self.life = Life::Exited;
        self.run.workplace.rest();
        if let Some(pipes) = self.contact.pipes() {
            pipes.transcript.rest();
        }
        self.tell_guard()?;
        self.stop_waiting()?;
        self.watch(Input::Exited).await?;
        self.climb(stopping::Input::Exited).await
    }

    /// A guardian that did not end by itself is told: the agent ended with it.
    fn tell_guard(&mut self) -> Result<(), JournalError> {
        let text = match (self.child.guard(), self.child.is_accounted_for()) {
            (Guard::Held, _) => return Ok(()),
            (Guard::Dismissed, _) => "its guardian was asked to end, and ended it",
            (Guard::Lost, true) => "its guardian was killed, and it was ended with all that it started",
            (Guard::Lost, false) => {
                "its guardian was killed, and it was ended; what it started and hid may live on"
            }
        };
        self.run.desk.tell(RunEventKind::Warn { text: text.to_owned() })
    }

    /// A further prompt: now, for an agent that takes one while it works, else when its turn has ended.
    async fn prompt(&mut self, text: String) -> Result<Result<Said, Unsaid>, JournalError> {
        let is_ending = self.run.dog.state() == State::Ending
            || self.ladder.reason().is_some()
            || self.life != Life::Running;
        let line = self.run.plan.agent.speak(&Order::Prompt(text.clone())).filter(|_| !is_ending);
        if line.is_none_or(|line| self.write(&line).is_err()) {
            return if self.is_our_doing() { Ok(Err(Unsaid::Ending)) } else { self.run.queue(text) };
        }
        self.run.sayings.give_now(text);
        self.watch(Input::Prompted).await?;
        Ok(Ok(Said::Now))
    }

    /// Says something to an agent that listens. What it does not take is told, never waited for.
    fn say(&mut self, order: &Order) -> Result<(), JournalError> {
        if let Some(terminal) = self.contact.terminal() {
            match order {
                Order::Interrupt => terminal.driver.interrupt(self.run.desk.now()),
                // It ends with code 0, and has written all down. Words for it would have to be typed.
                Order::End => self.signal(Signal::Int),
                // What it asks is answered on its screen.
                Order::Prompt(_) | Order::Content(_) | Order::Routed { .. } | Order::Answer { .. } => {}
            }
            return Ok(());
        }
        let Some(line) = self.run.plan.agent.speak(order) else { return Ok(()) };
        match self.write(&line) {
            Ok(()) => Ok(()),
            Err(_) => {
                let text = "the agent does not read what it is told".to_owned();
                self.run.desk.tell(RunEventKind::Warn { text })
            }
        }
    }

    /// Writes a line to an agent that listens.
    fn write(&mut self, line: &str) -> Result<(), Unheard> {
        self.contact.pipes().ok_or(Unheard)?.writer.say(line)
    }

    /// Closes its input once all that was said is written.
    fn close(&mut self) {
        if let Some(pipes) = self.contact.pipes() {
            pipes.writer.close();
        }
    }

    /// Tells the watchdog, and does what it says.
    async fn watch(&mut self, input: Input) -> Result<(), JournalError> {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let (now, is_sample) = (self.run.desk.now(), matches!(input, Input::TreeSample { .. }));
            let action = self.run.dog.step(now, input);
            if is_sample {
                self.tell_sampled(now)?;
            }
            match action {
                watchdog::Action::Nothing => {}
                watchdog::Action::Warn(warning) => {
                    if let Warning::Ceiling { left } = warning {
                        self.wrap_up(left);
                    }
                    self.run.desk.tell(RunEventKind::Warn { text: worded(&warning) })?;
                }
                watchdog::Action::Sample => next = Some(self.sampler.sample(&self.child)),
                watchdog::Action::Stop(rule) => self.begin(StopReason::Rule { rule }).await?,
            }
        }
        Ok(())
    }

    /// Writes down what a sample showed. Samples are rare already.
    fn tell_sampled(&mut self, now: Duration) -> Result<(), JournalError> {
        let channels = [
            (watchdog::Channel::Tree, Channel::Tree),
            (watchdog::Channel::Connection, Channel::Connection),
            (watchdog::Channel::KeepAlive, Channel::KeepAlive),
        ];
        for (sampled, channel) in channels {
            if self.run.dog.last_seen(sampled) >= Some(now) {
                self.run.desk.tell(RunEventKind::Seen { channel })?;
            }
        }
        Ok(())
    }

    async fn begin(&mut self, reason: StopReason) -> Result<(), JournalError> {
        if self.ladder.reason().is_none() {
            self.quiet = self.run.dog.why(self.run.desk.now()).quiet;
            self.stop_waiting()?;
            if matches!(reason, StopReason::Rule { rule: Rule::Start | Rule::Silence | Rule::OpenCall }) {
                // What stands there may tell why.
                self.show_screen()?;
                self.look_for_cause()?;
            }
        }
        self.climb(stopping::Input::Begin(reason)).await
    }

    /// Tells the ladder, and does what it says.
    async fn climb(&mut self, input: stopping::Input) -> Result<(), JournalError> {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let action = self.ladder.step(self.run.desk.now(), input);
            self.tell_rung()?;
            match action {
                stopping::Action::Nothing => {}
                stopping::Action::Interrupt => self.say(&Order::Interrupt)?,
                stopping::Action::CloseStdin => self.close(),
                stopping::Action::Signal(signal) => self.signal(signal),
                stopping::Action::KillAll => {
                    self.survivors = self.child.end_all().await.0;
                    next = (self.survivors == 0).then_some(stopping::Input::Gone);
                }
                stopping::Action::Verify => {
                    self.survivors = self.child.end_all().await.0;
                    next = Some(stopping::Input::Counted(self.survivors));
                }
                stopping::Action::Done { .. } => self.life = Life::Over,
            }
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        let signal = match signal {
            Signal::Int => StopSignal::Interrupt,
            Signal::Term => StopSignal::Terminate,
        };
        if let Err(error) = self.child.signal(signal) {
            // The next rung is harder.
            tracing::warn!(target: "ostler::run", pid = self.child.pid(), %error, "could not signal the agent");
        }
    }

    /// A process that ended by itself is swept up without a word.
    fn tell_rung(&mut self) -> Result<(), JournalError> {
        let (Some(rung), Some(reason)) = (self.ladder.rung(), self.ladder.reason()) else { return Ok(()) };
        if self.told == Some(rung) || *reason == StopReason::Exited {
            return Ok(());
        }
        self.told = Some(rung);
        let reason = reason_word(reason);
        self.run.desk.tell(RunEventKind::Stopping { rung: rung.name().to_owned(), reason })
    }

    /// Whether the process would still live if it had been left alone.
    fn is_our_doing(&self) -> bool {
        match self.ladder.reason() {
            None
            | Some(StopReason::Exited | StopReason::Rule { rule: Rule::AfterExit | Rule::AfterResult }) => {
                false
            }
            Some(
                StopReason::Completed
                | StopReason::Rule { .. }
                | StopReason::Limit { .. }
                | StopReason::Failed { .. }
                | StopReason::Blocked { .. }
                | StopReason::Cancelled { .. },
            ) => true,
        }
    }

    /// How it ended. Nobody knows if its guardian ended with it.
    async fn exit(&mut self) -> Option<Exit> {
        match self.child.leader_exit().await {
            contain::Exit::Code(code) => Some(Exit::Code(code)),
            contain::Exit::Signal(signal) => Some(Exit::Signal(signal)),
            contain::Exit::Unknown => None,
        }
    }

    /// Nothing of the process is left: what it wrote last is read, and what its end means.
    async fn finish(&mut self) -> Result<(), JournalError> {
        let until = Instant::now() + DRAIN_LIMIT;
        self.drain_pipes(until).await?;
        self.drain_terminal(until).await?;
        self.last_look().await?;
        // What it called last was told before it was answered.
        self.run.catch_up()?;
        let exit = self.exit().await;
        self.watch(Input::Exited).await?;
        if let Some(exit) = exit {
            let chatter = self.contact.last_chatter(exit);
            for event in self.contact.decoder().exited(exit, &chatter) {
                // How it ended because it was stopped is neither its failure nor its success.
                let is_end = matches!(event, AgentEvent::TurnEnded(_));
                if !(is_end && self.is_our_doing()) {
                    self.heard(event).await?;
                }
            }
        }
        let (code, signal) = match exit {
            Some(Exit::Code(code)) => (Some(code), None),
            Some(Exit::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        self.run.desk.tell(RunEventKind::Exited { code, signal, survivors: self.survivors })
    }
}
