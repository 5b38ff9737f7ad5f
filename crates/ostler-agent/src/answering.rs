//! How a dialog is answered on a screen that may be slow: one key, then a look whether it did something.
//!
//! A key is pressed again only after the screen showed that it arrived, or after so long that it must have been lost: a
//! second Enter would answer a dialog that nobody has seen yet. The presses are counted, so that every dialog comes to an
//! end: it goes away, or the run is blocked. The machine owns no clock and no terminal.

use std::time::Duration;

use crate::agent::Permissions;
use crate::dialogs::{Answer, Dialog, Press, answer};

/// How often keys are pressed for one dialog: more than any menu has options.
const MOST_PRESSES: u32 = 40;

/// How long a key is waited for before it counts as lost.
const LOST: Duration = Duration::from_secs(3);

/// How long a dialog must stay the same before a run is blocked by it: a half drawn screen may look like one.
const SETTLED: Duration = Duration::from_secs(1);

/// One thing that the machine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The screen changed, and this dialog is up now, or none.
    Seen(Option<Dialog>),
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
    /// Nobody may answer it, or it does not react: the run stops. Comes at most once for a dialog.
    Blocked {
        /// Why, for a person.
        reason: String,
    },
}

/// Answers the dialogs of one session, one after the other.
#[derive(Debug)]
pub struct Answering {
    permissions: Permissions,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No dialog is up.
    Clear,
    /// A dialog is up and its next key may be pressed, not before the time that is told.
    Due { dialog: Dialog, at: Duration, presses: u32 },
    /// A dialog is up that nobody may answer, since then.
    Stuck { dialog: Dialog, since: Duration, reason: String },
    /// A key was pressed; nothing is seen of it yet.
    Pressed { dialog: Dialog, at: Duration, rest: Duration, presses: u32 },
    /// Given up.
    Blocked,
}

impl Answering {
    /// For a run with these permissions.
    pub fn new(permissions: Permissions) -> Self {
        Self { permissions, state: State::Clear }
    }

    /// Whether a dialog is up that is neither answered nor given up.
    pub fn is_at_work(&self) -> bool {
        matches!(self.state, State::Due { .. } | State::Pressed { .. } | State::Stuck { .. })
    }

    /// What to do after one more thing is known, `elapsed` after the session began.
    pub fn step(&mut self, elapsed: Duration, input: Input) -> Action {
        let state = std::mem::replace(&mut self.state, State::Clear);
        self.state = match (state, input) {
            (State::Blocked, Input::Seen(Some(_)) | Input::Tick) => State::Blocked,
            (_, Input::Seen(None)) => State::Clear,
            (State::Clear, Input::Seen(Some(dialog))) => State::Due { dialog, at: elapsed, presses: 0 },
            (State::Stuck { dialog: before, since, reason }, Input::Seen(Some(dialog))) => {
                if before == dialog {
                    State::Stuck { dialog, since, reason }
                } else {
                    State::Due { dialog, at: elapsed, presses: 0 }
                }
            }
            (State::Due { at, presses, .. }, Input::Seen(Some(dialog))) => State::Due { dialog, at, presses },
            (State::Pressed { dialog: before, at, rest, presses }, Input::Seen(Some(dialog))) => {
                if before == dialog {
                    State::Pressed { dialog, at, rest, presses }
                } else {
                    // Another dialog is counted anew; another pointer in the same one is not.
                    let presses = if before.is_like(&dialog) { presses } else { 0 };
                    State::Due { dialog, at: (at + rest).max(elapsed), presses }
                }
            }
            (State::Pressed { dialog, at, presses, .. }, Input::Tick) if elapsed >= at + LOST => {
                State::Due { dialog, at: elapsed, presses }
            }
            (state, Input::Tick) => state,
        };
        self.press(elapsed)
    }

    /// When a [`Input::Tick`] is wanted, if nothing else comes.
    pub fn wake_at(&self) -> Option<Duration> {
        match &self.state {
            State::Due { at, .. } => Some(*at),
            State::Pressed { at, .. } => Some(*at + LOST),
            State::Stuck { since, .. } => Some(*since + SETTLED),
            State::Clear | State::Blocked => None,
        }
    }

    fn press(&mut self, elapsed: Duration) -> Action {
        if let State::Stuck { since, reason, .. } = &self.state {
            if elapsed < *since + SETTLED {
                return Action::Nothing;
            }
            let reason = reason.clone();
            self.state = State::Blocked;
            return Action::Blocked { reason };
        }
        let State::Due { dialog, at, presses } = &self.state else { return Action::Nothing };
        if elapsed < *at {
            return Action::Nothing;
        }
        if *presses >= MOST_PRESSES {
            let reason = format!("it does not react to keys: {}", dialog.question);
            self.state = State::Blocked;
            return Action::Blocked { reason };
        }
        let (dialog, presses) = (dialog.clone(), *presses + 1);
        match answer(&dialog, self.permissions) {
            Answer::Blocked { reason } => {
                self.state = State::Stuck { dialog, since: elapsed, reason };
                Action::Nothing
            }
            Answer::Press(Press { bytes, then }) => {
                self.state = State::Pressed { dialog, at: elapsed, rest: then, presses };
                Action::Write(bytes)
            }
        }
    }
}

#[cfg(test)]
#[path = "answering_tests.rs"]
mod tests;
