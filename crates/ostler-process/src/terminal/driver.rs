//! One live terminal program: what it draws and writes becomes events, what it is to be told is typed.
//!
//! What to do is decided by the machines of `ostler-agent`: `typing` for a prompt, `dialogs` for what is asked on the
//! screen, `interrupting` for a turn that is broken off, `turning` for its end. Here they are told what happened, and what
//! they say is done. Whoever has a driver waits for [`Driver::next`], keeps the raw bytes, and hands the rest to
//! [`Driver::take`]; nothing happens between two calls but in the kernel. The drawing is in `docs/design/terminal.md`.

mod deciding;

use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::agent::{Agent, Decoder, Exit, Permissions, Source};
use ostler_agent::answering::{self, Answering};
use ostler_agent::dialogs::Dialog;
use ostler_agent::event::AgentEvent;
use ostler_agent::interrupting::{self, Interrupting, Left};
use ostler_agent::look::{Look, ScreenChange};
use ostler_agent::terminal::{Interactive, StateFile, Status};
use ostler_agent::turning::{self, Turning};
use ostler_agent::typing::{self, Cause, Prepared, Sight, Typing};
use serde_json::Value;

use deciding::Happened;

use super::files::{Files, Known, Whence};
use super::pty::{Pty, Size};
use super::pump::{self, Pump};
use super::seat::{Keys, Seat, Wish, Wishes};

/// How soon after something was drawn it is looked at, while somebody waits for it. A frame is drawn in several pieces.
const LOOK_SOON: Duration = Duration::from_millis(25);

/// The same, while nobody does: a program that works draws ten times a second.
const LOOK_LATE: Duration = Duration::from_millis(400);

/// How long a record may be kept back because it came before what it follows from. Agents write every tenth of a second.
const KEPT_BACK: Duration = Duration::from_millis(700);

/// How soon a machine is told the time again that wants to be told at once.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How often one step may lead to the next. More would be a machine that goes round.
const MOST_STEPS: usize = 64;

/// What a driver is made of.
pub struct Start<'a> {
    /// The agent.
    pub agent: &'a dyn Agent,
    /// How its terminal program is driven.
    pub interactive: &'static dyn Interactive,
    /// Reads its records.
    pub decoder: Box<dyn Decoder>,
    /// Its terminal.
    pub pty: Pty,
    /// How large that is.
    pub size: Size,
    /// Where it keeps what it writes.
    pub whence: Whence,
    /// Its process, as it knows itself.
    pub own_pid: u32,
    /// The same, as we know it.
    pub pid: u32,
    /// The session, where it is known before the program says so.
    pub session: Option<String>,
    /// What is answered when it asks.
    pub permissions: Permissions,
}

/// What arrived. Hand it to [`Driver::take`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrived {
    /// So many bytes, to be kept first: [`Driver::drawn`]. None are the end.
    Drawn(usize),
    /// Some of what was typed was taken.
    Taken,
    /// Files of the program changed.
    Files(Vec<PathBuf>),
    /// A person at the terminal wishes something.
    Wished(Wish),
}

/// What a driver tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// The agent's record has this; or, for the end of a turn, the agent does not record it and it was seen otherwise.
    Event(AgentEvent),
    /// Its records grew, or it says that it does something else: it lives.
    Alive,
    /// Text on its screen changed, or only its spinner moved: it lives.
    Screen(ScreenChange),
    /// It has the prompt.
    Submitted,
    /// It does not have the prompt, and its input box is empty.
    NotSubmitted(Cause),
    /// The turn was broken off, and it takes another prompt.
    Settled(Left),
    /// The turn was to be broken off, and it was not.
    Unsettled,
    /// A dialog was answered.
    Answered(Dialog),
    /// A dialog is up that nobody may answer.
    Blocked {
        /// What it is about.
        reason: String,
        /// What the screen shows.
        screen: String,
    },
    /// The turn is over, and a prompt would be taken.
    TurnOver,
    /// A person has the keys.
    Held,
    /// The person who had the keys gave them back.
    Released,
    /// Nobody has the other end of the terminal any more.
    Closed,
}

/// A dialog that is up.
struct Up {
    dialog: Dialog,
    since: Duration,
    /// That it is answered was told.
    is_told: bool,
}

/// What is being done about a prompt or a turn.
enum Doing {
    Nothing,
    Typing(Typing),
    Interrupting(Interrupting),
}

/// One live terminal program.
pub struct Driver<'a> {
    agent: &'a dyn Agent,
    interactive: &'static dyn Interactive,
    decoder: Box<dyn Decoder>,
    pump: Pump,
    seat: Seat,
    wishes: Wishes,
    /// Held from the first key until what is typed is settled, so that no person types into it.
    keys: Option<Keys>,
    /// It was told that a person has them.
    is_held: bool,
    files: Files,
    answering: Answering,
    /// The dialog that is up.
    up: Option<Up>,
    turning: Turning,
    doing: Doing,
    /// A turn was broken off, and its end is not told yet.
    settled: Option<Left>,
    status: Option<Status>,
    sight: Option<Sight>,
    /// What the screen showed when it was last looked at.
    last_look: Look,
    /// When the screen is looked at next.
    look_at: Option<Duration>,
    /// When the machines were last told the time.
    asked_at: Duration,
    /// When what is kept back is told.
    quiet_at: Option<Duration>,
    /// The session that was told.
    session: Option<String>,
    told: Vec<Told>,
    records_are_held: bool,
}

impl<'a> Driver<'a> {
    /// For a program that was just started. What is in the records of its session by now was told before.
    pub fn new(start: Start<'a>) -> Self {
        let Start { agent, interactive, decoder, pty, size, whence, own_pid, pid, session, permissions } =
            start;
        let (seat, wishes) = Seat::new(size);
        let mut driver = Self {
            agent,
            interactive,
            decoder,
            pump: Pump::new(pty),
            seat,
            wishes,
            keys: None,
            is_held: false,
            files: Files::new(interactive, whence, own_pid, pid),
            answering: Answering::new(permissions),
            up: None,
            turning: Turning::new(),
            doing: Doing::Nothing,
            settled: None,
            status: None,
            sight: None,
            last_look: Look::default(),
            look_at: None,
            asked_at: Duration::ZERO,
            quiet_at: None,
            session: None,
            told: Vec::new(),
            records_are_held: false,
        };
        if let Some(session) = session {
            driver.files.follow(agent, &session, Known::All);
        }
        driver
    }

    /// Waits for what arrives next. Cancel safe.
    pub async fn next(&mut self) -> Arrived {
        tokio::select! {
            biased;
            arrived = self.pump.next() => match arrived {
                pump::Arrived::Drawn(count) => Arrived::Drawn(count),
                pump::Arrived::Taken => Arrived::Taken,
            },
            wish = self.wishes.next() => Arrived::Wished(wish),
            files = self.files.changed(), if !self.records_are_held => Arrived::Files(files),
        }
    }

    /// Whether what the program writes down is left where it is for now, because nobody has room for it.
    pub fn hold_records(&mut self, held: bool) {
        self.records_are_held = held;
    }

    /// The bytes that arrived last.
    pub fn drawn(&self, count: usize) -> &[u8] {
        self.pump.drawn(count)
    }

    /// Takes what arrived, and tells what it means.
    pub fn take(&mut self, now: Duration, arrived: Arrived) -> Vec<Told> {
        match arrived {
            Arrived::Drawn(0) => self.told.push(Told::Closed),
            Arrived::Drawn(count) => self.was_drawn(now, count),
            Arrived::Taken => {
                if self.pump.is_taken() {
                    self.step(now, Happened::Time);
                }
            }
            Arrived::Files(paths) => self.files_changed(now, &paths),
            Arrived::Wished(wish) => self.wished(now, wish),
        }
        self.tell(now)
    }

    /// Time went by.
    pub fn tick(&mut self, now: Duration) -> Vec<Told> {
        self.tell(now)
    }

    /// When [`Driver::tick`] is wanted, if nothing else comes.
    pub fn wake_at(&self) -> Option<Duration> {
        let doing = match &self.doing {
            // Nothing is said about it before it was taken.
            Doing::Typing(_) | Doing::Interrupting(_) if !self.pump.is_taken() => None,
            Doing::Typing(typing) => typing.wake_at(),
            Doing::Interrupting(interrupting) => interrupting.wake_at(),
            Doing::Nothing => None,
        };
        // One that wants to be asked at once, and was, is asked again a little later.
        let again = self.asked_at.saturating_add(ASK_AGAIN);
        let machines = [doing, self.answering.wake_at(), self.turning.wake_at()];
        let machines = machines.map(|at| at.map(|at| if at <= self.asked_at { again } else { at }));
        machines.into_iter().chain([self.look_at, self.quiet_at]).flatten().min()
    }

    /// Begins to type a prompt. What was being typed is given up.
    pub fn submit(&mut self, now: Duration, prompt: Prepared) {
        self.doing = Doing::Typing(Typing::new(prompt, typing::Pace::default()));
        self.show_all(now);
    }

    /// Gives up a prompt of which nothing was typed yet. Whether there was one.
    pub fn withdraw(&mut self) -> bool {
        let is_whole = self.is_waiting();
        if is_whole {
            self.rest();
        }
        is_whole
    }

    /// Begins to break the turn off.
    pub fn interrupt(&mut self, now: Duration) {
        let seen = self.sight.clone().unwrap_or(Sight::NoBox);
        let status = self.status.clone();
        self.doing = Doing::Interrupting(Interrupting::new(interrupting::Pace::default(), seen, status));
        // Whoever stops a run is not kept from it by somebody who types.
        self.take_keys();
        self.turn(now, &turning::Input::Interrupting);
        self.step(now, Happened::Time);
        self.show_all(now);
    }

    /// Whether a prompt is being typed, or waits for that.
    pub fn is_typing(&self) -> bool {
        matches!(self.doing, Doing::Typing(_))
    }

    /// Whether a prompt waits to be typed: what the agent does meanwhile is of another turn.
    pub fn is_waiting(&self) -> bool {
        matches!(&self.doing, Doing::Typing(typing) if !typing.has_begun())
    }

    /// Whether a dialog is up.
    pub fn has_dialog(&self) -> bool {
        self.interactive.dialog(&self.seat.look()).is_some()
    }

    /// What the program says it is doing.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// What the terminal shows.
    pub fn look(&self) -> Look {
        self.seat.look()
    }

    /// The end of what it printed, which may tell why it ended so. A program that was killed prints nothing more: what
    /// stands on its screen is its input box.
    pub fn printed_last(&self, exit: Exit) -> String {
        match exit {
            Exit::Code(_) => self.interactive.last_words(&self.look()),
            Exit::Signal(_) => String::new(),
        }
    }

    /// Where people watch it, and take it over.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Reads its records.
    pub fn decoder(&mut self) -> &mut dyn Decoder {
        self.decoder.as_mut()
    }

    /// Whether nothing more will be drawn.
    pub fn is_over(&self) -> bool {
        self.pump.is_over()
    }

    /// The process is gone: what it wrote last, and nothing is kept back any more.
    pub fn last_words(&mut self) -> Vec<AgentEvent> {
        let records = self.files.all_records();
        let mut events = self.decoded(&records);
        events.extend(self.decoder.quiet());
        events
    }

    /// Does all that is due, and hands out what there is to tell.
    fn tell(&mut self, now: Duration) -> Vec<Told> {
        for _ in 0..MOST_STEPS {
            let is_due = |at: Option<Duration>| at.is_some_and(|at| at <= now);
            if is_due(self.look_at) {
                self.look_at = None;
                self.look_around(now);
            } else if is_due(self.quiet_at) {
                self.quiet_at = None;
                let events = self.decoder.quiet();
                self.heard(now, events);
            } else if is_due(self.wake_at()) {
                self.asked_at = now;
                self.deal(now, answering::Input::Tick);
                self.turn(now, &turning::Input::Tick);
                self.step(now, Happened::Time);
            } else {
                break;
            }
        }
        std::mem::take(&mut self.told)
    }

    fn was_drawn(&mut self, now: Duration, count: usize) {
        let replies = self.seat.draw(self.pump.drawn(count));
        if !replies.is_empty() {
            self.pump.type_in(&replies);
        }
        let is_awaited = !matches!(self.doing, Doing::Nothing)
            || self.up.is_some()
            || !matches!(self.status, Some(Status::Busy | Status::Idle | Status::Shell));
        let at = now.saturating_add(if is_awaited { LOOK_SOON } else { LOOK_LATE });
        self.look_at = Some(self.look_at.map_or(at, |known| known.min(at)));
    }

    fn look_around(&mut self, now: Duration) {
        let look = self.seat.look();
        let dialog = self.interactive.dialog(&look);
        let sight = match &dialog {
            Some(_) => Sight::Dialog,
            None => self.interactive.sight(&look),
        };
        self.meet(now, dialog);
        let idle = sight == Sight::Empty;
        self.sight = Some(sight.clone());
        self.step(now, Happened::Seen(sight));
        self.turn(now, &turning::Input::Screen { idle });
        match self.interactive.screen_change(&self.last_look, &look) {
            ScreenChange::Nothing => {}
            change => self.told.push(Told::Screen(change)),
        }
        self.last_look = look;
    }

    /// A machine that has just begun is told all that is known.
    fn show_all(&mut self, now: Duration) {
        if let Some(status) = self.status.clone() {
            self.step(now, Happened::Status(status));
        }
        if let Some(sight) = self.sight.clone() {
            self.step(now, Happened::Seen(sight));
        }
        self.look_at = Some(now);
    }

    /// Whether the keys are ours.
    pub(super) fn take_keys(&mut self) -> bool {
        if self.keys.is_none() {
            self.keys = self.seat.keys();
        }
        self.keys.is_some()
    }

    fn wished(&mut self, now: Duration, wish: Wish) {
        match wish {
            Wish::Taken => {
                self.up = None;
                self.deal(now, answering::Input::Seen(None));
                self.step(now, Happened::Held);
                // One may have come while another was just leaving.
                if !std::mem::replace(&mut self.is_held, true) {
                    self.told.push(Told::Held);
                }
            }
            Wish::Type(bytes) => {
                self.pump.type_in(&bytes);
                // Somebody is at work, if not the agent.
                self.told.push(Told::Alive);
            }
            Wish::Resize(size) => match self.pump.resize(size) {
                Ok(()) => self.seat.resized(size),
                Err(error) => tracing::debug!(target: "ostler::pty", %error, "the terminal keeps its size"),
            },
            Wish::Left => {
                // What waits to be typed goes on once it has seen what they left.
                self.look_at = Some(now);
                self.is_held = false;
                self.told.push(Told::Released);
            }
        }
    }

    /// What was done is done: people may have the keys.
    fn rest(&mut self) {
        self.doing = Doing::Nothing;
        self.keys = None;
    }

    fn files_changed(&mut self, now: Duration, paths: &[PathBuf]) {
        for path in paths {
            if self.files.is_state(path) {
                if let Some(state) = self.files.state() {
                    self.said(now, state);
                }
            } else {
                let records = self.files.records(path);
                self.told.push(Told::Alive);
                self.read(now, &records);
            }
        }
    }

    /// What it says about itself.
    fn said(&mut self, now: Duration, state: StateFile) {
        if let Some(session) = state.session
            && self.session.as_ref() != Some(&session)
        {
            self.session = Some(session.clone());
            self.files.follow(self.agent, &session, Known::Nothing);
            self.told.push(Told::Event(AgentEvent::Started { session, model: None }));
            let records = self.files.all_records();
            self.read(now, &records);
        }
        let Some(status) = state.status else { return };
        if self.status.as_ref() == Some(&status) {
            return;
        }
        self.status = Some(status.clone());
        self.told.push(Told::Alive);
        self.step(now, Happened::Status(status.clone()));
        self.turn(now, &turning::Input::Status(Some(&status)));
        if !status.takes_a_prompt() {
            // A dialog may be up.
            self.look_at = Some(self.look_at.map_or(now, |at| at.min(now)).saturating_add(LOOK_SOON));
        }
    }

    fn read(&mut self, now: Duration, records: &[Value]) {
        if records.is_empty() {
            return;
        }
        let events = self.decoded(records);
        self.heard(now, events);
        let stands = self.decoder.stands();
        self.turn(now, &turning::Input::Grew { stands });
        self.quiet_at = Some(now.saturating_add(KEPT_BACK));
    }

    fn decoded(&mut self, records: &[Value]) -> Vec<AgentEvent> {
        let decoder = &mut self.decoder;
        records.iter().flat_map(|record| decoder.events(Source::Transcript, record)).collect()
    }

    fn heard(&mut self, now: Duration, events: Vec<AgentEvent>) {
        for event in events {
            match &event {
                AgentEvent::Asked { text } => self.step(now, Happened::Recorded(text.clone())),
                AgentEvent::TurnEnded(_) => self.step(now, Happened::TurnEnded),
                _ => {}
            }
            self.told.push(Told::Event(event.clone()));
            self.turn(now, &turning::Input::Event(&event));
        }
    }
}
