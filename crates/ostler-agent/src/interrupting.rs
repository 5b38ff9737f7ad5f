//! How a turn of an agent's terminal program is broken off so that the session stays usable: Esc, and what it leaves.
//!
//! Before any output the prompt comes back into the input box, where it would be glued to the next one: it is taken out.
//! The machine ends when the agent is idle with an empty box, or says that this was not reached; then the process is to
//! be ended. It owns no clock and no terminal; the diagram is in `docs/design/terminal.md`.

use std::time::Duration;

use crate::terminal::Status;
use crate::typing::{CLEAR, Sight};

/// One thing that the machine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The screen changed.
    Seen(Sight),
    /// The state file says so.
    Status(Status),
    /// The agent recorded that the turn was interrupted, or that it ended.
    TurnEnded,
    /// Time passed.
    Tick,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Write these bytes into the terminal.
    Write(Vec<u8>),
    /// The session is idle with an empty box. Comes at most once, and is the end.
    Settled(Left),
    /// It did not become so in time. Comes at most once, and is the end.
    Unsettled,
}

/// What an interrupt left of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The agent recorded how it ended.
    Record,
    /// No record. It was before any output: the prompt came back and was taken out of the box.
    Nothing,
}

/// How long each step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Until Esc is pressed again, while the agent still says that it is busy.
    pub again: Duration,
    /// Idle for so long, with an empty box: settled. The prompt comes back at once, and a record is flushed within it.
    pub settle: Duration,
    /// In all.
    pub limit: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            again: Duration::from_millis(1_500),
            settle: Duration::from_millis(300),
            limit: Duration::from_secs(8),
        }
    }
}

const ESC: &[u8] = b"\x1b";

/// How often Esc is pressed: for the turn, for a lost key, and for a view that the second one may have opened.
const MOST_ESCAPES: u32 = 3;

/// Breaks off one turn.
#[derive(Debug)]
pub struct Interrupting {
    pace: Pace,
    state: State,
    seen: Sight,
    status: Option<Status>,
    left: Left,
    /// Since when it is idle with an empty box.
    calm: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Escaping { began: Duration, last: Duration, times: u32, taken_out: TakenOut },
    Over,
}

/// Whether the prompt was taken out of the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakenOut {
    No,
    Yes,
}

impl Interrupting {
    /// Of a turn that is under way, with what is known of it. To be stepped at once with a [`Input::Tick`].
    pub fn new(pace: Pace, seen: Sight, status: Option<Status>) -> Self {
        Self { pace, state: State::New, seen, status, left: Left::Nothing, calm: None }
    }

    /// What to do after one more thing is known, `elapsed` after the session began.
    pub fn step(&mut self, elapsed: Duration, input: Input) -> Action {
        match input {
            Input::Seen(sight) => self.seen = sight,
            Input::Status(status) => self.status = Some(status),
            Input::TurnEnded => self.left = Left::Record,
            Input::Tick => {}
        }
        let is_calm = self.seen == Sight::Empty && self.is_idle();
        self.calm = if is_calm { self.calm.or(Some(elapsed)) } else { None };
        match self.state {
            State::Over => Action::Nothing,
            State::New => {
                self.state =
                    State::Escaping { began: elapsed, last: elapsed, times: 1, taken_out: TakenOut::No };
                // Pressed on an idle agent it would be the first of two that open another view.
                if is_calm { self.go_on(elapsed) } else { Action::Write(ESC.to_vec()) }
            }
            State::Escaping { .. } => self.go_on(elapsed),
        }
    }

    /// When a [`Input::Tick`] is wanted, if nothing else comes.
    pub fn wake_at(&self) -> Option<Duration> {
        let State::Escaping { began, last, times, .. } = self.state else { return None };
        let limit = began + self.pace.limit;
        let calm = self.calm.map(|since| since + self.pace.settle);
        let is_held = matches!(self.seen, Sight::Holds(_)) && self.is_idle();
        let may_press = times < MOST_ESCAPES && self.calm.is_none() && !is_held;
        let again = may_press.then(|| last + self.pace.again);
        Some([calm, again].into_iter().flatten().fold(limit, Duration::min))
    }

    /// Without a state file an input box is all that is known.
    fn is_idle(&self) -> bool {
        self.status.as_ref().is_none_or(Status::takes_a_prompt)
    }

    fn go_on(&mut self, elapsed: Duration) -> Action {
        let State::Escaping { began, last, times, taken_out } = self.state else { return Action::Nothing };
        if self.calm.is_some_and(|since| elapsed >= since + self.pace.settle) {
            self.state = State::Over;
            return Action::Settled(self.left);
        }
        if elapsed >= began + self.pace.limit {
            self.state = State::Over;
            return Action::Unsettled;
        }
        if matches!(self.seen, Sight::Holds(_)) && self.is_idle() {
            if taken_out == TakenOut::Yes {
                return Action::Nothing;
            }
            self.state = State::Escaping { began, last: elapsed, times, taken_out: TakenOut::Yes };
            return Action::Write(CLEAR.to_vec());
        }
        if self.calm.is_none() && times < MOST_ESCAPES && elapsed >= last + self.pace.again {
            self.state = State::Escaping { began, last: elapsed, times: times + 1, taken_out };
            return Action::Write(ESC.to_vec());
        }
        Action::Nothing
    }
}

#[cfg(test)]
#[path = "interrupting_tests.rs"]
mod tests;
