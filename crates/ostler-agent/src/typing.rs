//! How a prompt gets into an agent's terminal program exactly once: it waits for the input box, pastes, waits, presses
//! Enter, and believes only the agent's own record.
//!
//! The text is written once at most, Enter twice at most, and nothing at all while a dialog is up or a person holds the
//! terminal. Where the prompt was not taken the box is emptied before it is told, so that nothing is glued to what comes
//! next. The machine owns no clock and no terminal; the diagram is in `docs/design/terminal.md`.

use std::time::Duration;

use crate::terminal::Status;

/// A prompt in the form in which it is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// What is written into the terminal, the marks of a paste included.
    pub bytes: Vec<u8>,
    /// The prompt as the agent records it.
    pub recorded: String,
}

impl Prepared {
    /// Whether what the agent recorded is this prompt, whatever blanks it has at its end.
    pub fn is(&self, recorded: &str) -> bool {
        self.recorded.trim_end() == recorded.trim_end()
    }
}

/// Why a prompt cannot be typed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the terminal program would not take this prompt as it is: {why}")]
pub struct Unsendable {
    /// What it would make of it.
    pub why: String,
    /// Whether only its length is in the way.
    pub is_too_long: bool,
}

impl Unsendable {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        Some("use the agent's stream engine: it takes any text".to_owned())
    }
}

/// What the screen says about the input box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// There is no box: the program starts, or shows something else.
    NoBox,
    /// A dialog is up: keys would answer it.
    Dialog,
    /// The box is there and empty.
    Empty,
    /// The box holds something that nobody submitted.
    Holds(String),
}

/// One thing that the machine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<'a> {
    /// The screen changed.
    Seen(Sight),
    /// The state file says so.
    Status(Status),
    /// The agent recorded a prompt with this text.
    Recorded(&'a str),
    /// A person took the keyboard: nothing is written until it is given back.
    Held,
    /// The person gave it back.
    Released,
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
    /// The agent has the prompt. Comes at most once, and is the end.
    Submitted,
    /// The agent did not take the prompt as it is. Comes at most once, and is the end.
    Failed(Cause),
}

/// Why a prompt was not taken. The box is empty afterwards, except where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The input box never came, or was never free. Nothing was typed.
    #[error("the terminal program did not become ready for a prompt")]
    NotReady,
    /// The paste never showed.
    #[error("the terminal program did not take the paste")]
    NotPasted,
    /// It was there, Enter was pressed, and no record came.
    #[error("the terminal program did not submit the prompt")]
    NotSubmitted,
    /// It recorded another prompt instead.
    #[error("the terminal program recorded another prompt than the one that was typed")]
    Changed,
    /// The prompt is still in the box: the session cannot be used any more.
    #[error("the prompt could neither be submitted nor taken back")]
    Stuck,
}

/// How long each step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// For the program to start and show its box.
    pub ready: Duration,
    /// An empty box for so long stands for readiness where there is no state file; so long a full one is looked at before
    /// it is emptied.
    pub settle: Duration,
    /// Between paste and Enter at least: in one write, or too soon, Enter is lost.
    pub before_enter: Duration,
    /// For the paste to show. A large one on a busy machine takes seconds.
    pub paste: Duration,
    /// Until Enter is pressed again, if the text visibly is still in the box.
    pub again: Duration,
    /// From the first Enter until the prompt counts as not taken.
    pub record: Duration,
    /// The same, while the agent is busy and the box is empty: the prompt waits its turn behind one that nobody asked for.
    pub queued: Duration,
    /// To empty the box.
    pub clear: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            ready: Duration::from_secs(60),
            settle: Duration::from_millis(400),
            before_enter: Duration::from_millis(120),
            paste: Duration::from_secs(15),
            again: Duration::from_secs(3),
            record: Duration::from_secs(20),
            queued: Duration::from_secs(600),
            clear: Duration::from_secs(3),
        }
    }
}

const ENTER: &[u8] = b"\r";

/// Ctrl-C empties a box that holds something. Once: a second one soon after would end the program.
pub(crate) const CLEAR: &[u8] = b"\x03";

/// Submits one prompt, or fails with an empty box.
#[derive(Debug)]
pub struct Typing {
    prompt: Prepared,
    pace: Pace,
    state: State,
    seen: Sight,
    /// Since when that is so.
    seen_at: Duration,
    status: Option<Status>,
    /// Since when a person holds the keyboard.
    held: Option<Duration>,
    /// Nothing is typed before: the program may still have to draw what a person left.
    calm_at: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is known yet.
    New,
    /// For a box that is free.
    Waiting { since: Duration, swept: Swept },
    /// The text was written.
    Pasted { at: Duration },
    /// Enter was pressed.
    Entered { first: Duration, last: Duration, times: Times, other: Other },
    /// What is in the box is taken back.
    Clearing { at: Duration, cause: Cause },
    /// Told.
    Over,
}

/// Whether a box that was not free was emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swept {
    No,
    Yes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    Once,
    Twice,
}

/// Whether a prompt was recorded that is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    No,
    Recorded,
}

impl Typing {
    /// To be told next what the screen shows and what the state file says.
    pub fn new(prompt: Prepared, pace: Pace) -> Self {
        Self {
            prompt,
            pace,
            state: State::New,
            seen: Sight::NoBox,
            seen_at: Duration::ZERO,
            status: None,
            held: None,
            calm_at: Duration::ZERO,
        }
    }

    /// Whether something was typed. Until then a person may have the keys.
    pub fn has_begun(&self) -> bool {
        !matches!(self.state, State::New | State::Waiting { swept: Swept::No, .. })
    }

    /// Whether it was told that a person holds the keyboard.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// What to do after one more thing is known, `elapsed` after the session began.
    pub fn step(&mut self, elapsed: Duration, input: Input<'_>) -> Action {
        if self.state == State::New {
            self.state = State::Waiting { since: elapsed, swept: Swept::No };
            self.seen_at = elapsed;
        }
        match input {
            Input::Seen(sight) => {
                if sight != self.seen {
                    self.seen_at = elapsed;
                }
                self.seen = sight;
            }
            Input::Status(status) => self.status = Some(status),
            Input::Recorded(text) => return self.recorded(text),
            Input::Held => self.held = self.held.or(Some(elapsed)),
            Input::Released => self.release(elapsed),
            Input::Tick => {}
        }
        if self.held.is_some() || self.seen == Sight::Dialog && !self.is_late(elapsed) {
            return Action::Nothing;
        }
        self.go_on(elapsed)
    }

    /// When a [`Input::Tick`] is wanted, if nothing else comes. Never while a person holds the keyboard.
    pub fn wake_at(&self) -> Option<Duration> {
        if self.held.is_some() {
            return None;
        }
        let deadline = self.deadline()?;
        Some(self.chance().map_or(deadline, |chance| chance.min(deadline)))
    }

    /// When something will be pressed, if all stays as it is.
    fn chance(&self) -> Option<Duration> {
        let may_be_free = self.status.as_ref().is_none_or(Status::takes_a_prompt);
        let holds = matches!(self.seen, Sight::Holds(_));
        match self.state {
            State::Waiting { .. } if self.seen == Sight::Empty && may_be_free => {
                Some(self.calm_at.max(self.seen_at + self.pace.settle))
            }
            State::Waiting { swept: Swept::No, .. } if holds && may_be_free => {
                Some(self.calm_at.max(self.seen_at + self.pace.settle))
            }
            State::Pasted { at } if holds => Some(at + self.pace.before_enter),
            State::Entered { last, times: Times::Once, .. } if self.is_still_there() => {
                Some(last + self.pace.again)
            }
            State::New
            | State::Waiting { .. }
            | State::Pasted { .. }
            | State::Entered { .. }
            | State::Clearing { .. }
            | State::Over => None,
        }
    }

    /// When the state is given up.
    fn deadline(&self) -> Option<Duration> {
        match self.state {
            State::New | State::Over => None,
            State::Waiting { since, .. } => Some(since + self.pace.ready),
            State::Pasted { at } => Some(at + self.pace.paste),
            State::Entered { first, .. } if self.is_queued() => Some(first + self.pace.queued),
            State::Entered { first, .. } => Some(first + self.pace.record),
            State::Clearing { at, .. } => Some(at + self.pace.clear),
        }
    }

    fn is_late(&self, elapsed: Duration) -> bool {
        self.deadline().is_some_and(|deadline| elapsed >= deadline)
    }

    /// The agent works and the box is empty: what was in it was taken, and its record comes when its turn does.
    fn is_queued(&self) -> bool {
        self.seen == Sight::Empty && self.status.as_ref().is_some_and(|status| !status.takes_a_prompt())
    }

    fn go_on(&mut self, elapsed: Duration) -> Action {
        let late = self.is_late(elapsed);
        let settled = elapsed >= self.seen_at + self.pace.settle;
        match self.state {
            State::New | State::Over => Action::Nothing,
            State::Waiting { .. } if late => self.fail(Cause::NotReady),
            State::Waiting { .. } if elapsed < self.calm_at => Action::Nothing,
            State::Waiting { since, swept } => {
                let is_free = match &self.status {
                    Some(status) => status.takes_a_prompt(),
                    None => settled,
                };
                match self.seen {
                    Sight::Empty if is_free => {
                        self.state = State::Pasted { at: elapsed };
                        Action::Write(self.prompt.bytes.clone())
                    }
                    Sight::Holds(_) if is_free && settled && swept == Swept::No => {
                        self.state = State::Waiting { since, swept: Swept::Yes };
                        Action::Write(CLEAR.to_vec())
                    }
                    Sight::Empty | Sight::Holds(_) | Sight::NoBox | Sight::Dialog => Action::Nothing,
                }
            }
            State::Pasted { at } => match self.seen {
                Sight::Holds(_) if elapsed >= at + self.pace.before_enter => {
                    let (times, other) = (Times::Once, Other::No);
                    self.state = State::Entered { first: elapsed, last: elapsed, times, other };
                    Action::Write(ENTER.to_vec())
                }
                Sight::Empty | Sight::Holds(_) | Sight::NoBox | Sight::Dialog if late => {
                    self.take_back(elapsed, Cause::NotPasted)
                }
                Sight::Empty | Sight::Holds(_) | Sight::NoBox | Sight::Dialog => Action::Nothing,
            },
            State::Entered { other, .. } if late => {
                let cause = if other == Other::Recorded { Cause::Changed } else { Cause::NotSubmitted };
                self.take_back(elapsed, cause)
            }
            State::Entered { first, last, times: Times::Once, other }
                if elapsed >= last + self.pace.again && self.is_still_there() =>
            {
                self.state = State::Entered { first, last: elapsed, times: Times::Twice, other };
                Action::Write(ENTER.to_vec())
            }
            State::Entered { .. } => Action::Nothing,
            State::Clearing { cause, .. } if self.seen == Sight::Empty => self.fail(cause),
            State::Clearing { .. } if late => self.fail(Cause::Stuck),
            State::Clearing { .. } => Action::Nothing,
        }
    }

    /// The text is visibly in the box, and the agent does not work on it.
    fn is_still_there(&self) -> bool {
        matches!(self.seen, Sight::Holds(_)) && self.status.as_ref().is_none_or(Status::takes_a_prompt)
    }

    fn recorded(&mut self, text: &str) -> Action {
        match self.state {
            State::Pasted { .. } | State::Entered { .. } | State::Clearing { .. } if self.prompt.is(text) => {
                self.state = State::Over;
                Action::Submitted
            }
            State::Entered { first, last, times, .. } => {
                self.state = State::Entered { first, last, times, other: Other::Recorded };
                Action::Nothing
            }
            State::New
            | State::Waiting { .. }
            | State::Pasted { .. }
            | State::Clearing { .. }
            | State::Over => Action::Nothing,
        }
    }

    /// What a person did meanwhile took no time from us.
    fn release(&mut self, elapsed: Duration) {
        let Some(since) = self.held.take() else { return };
        let lost = elapsed.saturating_sub(since);
        self.calm_at = elapsed + self.pace.settle;
        match &mut self.state {
            State::New | State::Over => {}
            State::Waiting { since: at, .. } | State::Pasted { at } | State::Clearing { at, .. } => {
                *at += lost;
            }
            State::Entered { first, last, .. } => {
                *first += lost;
                *last += lost;
            }
        }
    }

    /// Empties the box if something is seen in it. With a dialog over it nothing is pressed.
    fn take_back(&mut self, elapsed: Duration, cause: Cause) -> Action {
        match self.seen {
            Sight::Empty => self.fail(cause),
            Sight::Holds(_) => {
                self.state = State::Clearing { at: elapsed, cause };
                Action::Write(CLEAR.to_vec())
            }
            Sight::NoBox | Sight::Dialog => self.fail(Cause::Stuck),
        }
    }

    fn fail(&mut self, cause: Cause) -> Action {
        self.state = State::Over;
        Action::Failed(cause)
    }
}

#[cfg(test)]
#[path = "typing_tests.rs"]
mod tests;
