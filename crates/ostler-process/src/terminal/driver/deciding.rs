//! The machines of a driver: what they are told, and what they say is done.

use std::time::Duration;

use ostler_agent::answering;
use ostler_agent::dialogs::{Dialog, DialogKind};
use ostler_agent::event::AgentEvent;
use ostler_agent::interrupting;
use ostler_agent::terminal::Status;
use ostler_agent::turning::{self, Evidence, Verdict};
use ostler_agent::typing::{self, Sight};

use super::{Doing, Driver, Told, Up};

/// How long a dialog must stand before it is answered: it may be half drawn.
const STANDS: Duration = Duration::from_millis(200);

/// The same, for a permission: where a hook answers, the dialog goes by itself, and a key would fall into the input box.
const HOOK_ANSWERS: Duration = Duration::from_secs(2);

/// What happened, for whatever is being done.
pub(super) enum Happened {
    Seen(Sight),
    Status(Status),
    Recorded(String),
    TurnEnded,
    /// A person took the keys.
    Held,
    Time,
}

impl Driver<'_> {
    /// A dialog is up, or none. It is answered once it has stood for a while, and not while a person has the keys.
    pub(super) fn meet(&mut self, now: Duration, dialog: Option<Dialog>) {
        let Some(dialog) = dialog.filter(|_| !self.seat.is_held()) else {
            self.up = None;
            return self.deal(now, answering::Input::Seen(None));
        };
        let known = self.up.take().filter(|up| up.dialog.is_like(&dialog));
        let (since, is_told) = known.map_or((now, false), |up| (up.since, up.is_told));
        let due = since.saturating_add(stands(dialog.kind));
        self.up = Some(Up { dialog: dialog.clone(), since, is_told });
        if due <= now || self.answering.is_at_work() {
            self.deal(now, answering::Input::Seen(Some(dialog)));
        } else {
            self.look_at = Some(self.look_at.map_or(due, |at| at.min(due)));
        }
    }

    pub(super) fn deal(&mut self, now: Duration, input: answering::Input) {
        match self.answering.step(now, input) {
            answering::Action::Nothing => {}
            answering::Action::Write(bytes) => {
                self.pump.type_in(&bytes);
                if let Some(up) = self.up.as_mut().filter(|up| !up.is_told) {
                    up.is_told = true;
                    self.told.push(Told::Answered(up.dialog.clone()));
                }
            }
            answering::Action::Blocked { reason } => {
                let screen = self.seat.look().dump();
                self.told.push(Told::Blocked { reason, screen });
            }
        }
    }

    /// Tells whatever is being done what happened, and does what it says.
    pub(super) fn step(&mut self, now: Duration, happened: Happened) {
        // What it says about the screen and the time is about what was typed, which is not there yet.
        if !self.pump.is_taken() && matches!(happened, Happened::Time | Happened::Seen(_)) {
            return;
        }
        let has_keys = self.is_typing() && self.take_keys();
        match &mut self.doing {
            Doing::Nothing => {}
            Doing::Typing(typing) => {
                let input = match &happened {
                    Happened::Seen(sight) => typing::Input::Seen(sight.clone()),
                    Happened::Status(status) => typing::Input::Status(status.clone()),
                    Happened::Recorded(text) => typing::Input::Recorded(text),
                    Happened::Held => typing::Input::Held,
                    Happened::TurnEnded => return,
                    Happened::Time => typing::Input::Tick,
                };
                let has_begun = typing.has_begun();
                let actions = match (has_keys, typing.is_held()) {
                    (false, false) => [typing.step(now, typing::Input::Held), typing.step(now, input)],
                    // What there is to see comes first.
                    (true, true) => [typing.step(now, input), typing.step(now, typing::Input::Released)],
                    (true, false) | (false, true) => [typing.step(now, input), typing::Action::Nothing],
                };
                let is_typed = actions.iter().any(|action| matches!(action, typing::Action::Write(_)));
                if !typing.has_begun() {
                    self.keys = None;
                }
                if is_typed && !has_begun {
                    self.turn(now, &turning::Input::Typed);
                }
                actions.into_iter().for_each(|action| self.type_on(now, action));
            }
            Doing::Interrupting(interrupting) => {
                let input = match happened {
                    Happened::Seen(sight) => interrupting::Input::Seen(sight),
                    Happened::Status(status) => interrupting::Input::Status(status),
                    Happened::TurnEnded => interrupting::Input::TurnEnded,
                    Happened::Recorded(_) | Happened::Held => return,
                    Happened::Time => interrupting::Input::Tick,
                };
                match interrupting.step(now, input) {
                    interrupting::Action::Nothing => {}
                    interrupting::Action::Write(bytes) => drop(self.pump.type_in(&bytes)),
                    interrupting::Action::Settled(left) => {
                        self.rest();
                        // What is left of the turn may still be on its way into the record.
                        if self.turning.is_open() {
                            self.settled = Some(left);
                        } else {
                            self.told.push(Told::Settled(left));
                        }
                    }
                    interrupting::Action::Unsettled => {
                        self.rest();
                        self.told.push(Told::Unsettled);
                    }
                }
            }
        }
    }

    fn type_on(&mut self, now: Duration, action: typing::Action) {
        match action {
            typing::Action::Nothing => {}
            typing::Action::Write(bytes) => drop(self.pump.type_in(&bytes)),
            typing::Action::Submitted => {
                self.rest();
                self.told.push(Told::Submitted);
            }
            typing::Action::Failed(cause) => {
                self.rest();
                self.told.push(Told::NotSubmitted(cause));
                self.turn(now, &turning::Input::Untaken);
            }
        }
    }

    /// Tells what may be the end of the turn.
    pub(super) fn turn(&mut self, now: Duration, input: &turning::Input<'_>) {
        match self.turning.step(now, input) {
            Verdict::Open => {}
            Verdict::Ended { interrupted, by } => {
                tracing::debug!(target: "ostler::pty", ?by, interrupted, "the turn is over");
                if by != Evidence::Record {
                    for event in self.decoder.over(interrupted) {
                        if matches!(event, AgentEvent::TurnEnded(_)) {
                            self.step(now, Happened::TurnEnded);
                        }
                        self.told.push(Told::Event(event));
                    }
                }
                self.told.push(Told::TurnOver);
                self.told.extend(self.settled.take().map(Told::Settled));
            }
        }
    }
}

fn stands(kind: DialogKind) -> Duration {
    match kind {
        DialogKind::Permission(_) => HOOK_ANSWERS,
        _ => STANDS,
    }
}
