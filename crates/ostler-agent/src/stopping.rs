//! How a process of an agent is ended: a ladder from asking to killing, each rung bounded, none taken twice.
//!
//! Every end of a process goes over it, also one that came by itself: what the process left behind is killed, and that
//! nothing is left is verified. The ladder owns no process and no clock; it is told what happened and says what to do.
//! The diagram is in `docs/design/stopping.md`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::Failure;
use crate::outcome::{CancelledBy, Limit, Rule};

/// Why a process is ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum StopReason {
    /// It ended by itself; what it left is swept up.
    Exited,
    /// The task is done: that was recorded, and it was given time to end by itself.
    Completed,
    /// A rule of the watchdog.
    Rule {
        /// Which.
        rule: Rule,
    },
    /// A budget.
    Limit {
        /// Which.
        limit: Limit,
    },
    /// A failure that will not pass by waiting.
    Failed {
        /// Which.
        failure: Failure,
    },
    /// A question that policy does not answer.
    Blocked {
        /// What it asks.
        dialog: String,
    },
    /// Somebody stopped it.
    Cancelled {
        /// Who.
        by: CancelledBy,
    },
}

impl StopReason {
    /// Where the ladder begins: an interrupt is for a turn that may be under way, and all asking for a living process.
    fn first_rung(&self) -> Rung {
        match self {
            Self::Rule { rule: Rule::AfterResult } => Rung::CloseStdin,
            Self::Exited | Self::Rule { rule: Rule::AfterExit } => Rung::Kill,
            Self::Rule {
                rule:
                    Rule::Start | Rule::Silence | Rule::OpenCall | Rule::Loop | Rule::Ceiling | Rule::MaxWait,
            }
            | Self::Completed
            | Self::Limit { .. }
            | Self::Failed { .. }
            | Self::Blocked { .. }
            | Self::Cancelled { .. } => Rung::Interrupt,
        }
    }
}

/// A step of the ladder, from the gentlest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The agent is asked in its own protocol to stop the turn.
    Interrupt,
    /// Its standard input is closed.
    CloseStdin,
    /// SIGINT.
    Int,
    /// SIGTERM.
    Term,
    /// All that belongs to it is killed.
    Kill,
    /// What is left is counted.
    Verify,
}

impl Rung {
    /// The word for it in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::CloseStdin => "close_stdin",
            Self::Int => "int",
            Self::Term => "term",
            Self::Kill => "kill",
            Self::Verify => "verify",
        }
    }
}

/// How long each rung is given. All together are the longest that a stop takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// To end the turn: the agent may have to stop a tool first.
    pub interrupt: Duration,
    /// To notice the end of its input and exit.
    pub close_stdin: Duration,
    /// To write its session down.
    pub int: Duration,
    /// The same, for those that take SIGINT for the end of a turn.
    pub term: Duration,
    /// For the kernel to end what was killed. Longer only for a process that hangs in a device.
    pub kill: Duration,
    /// To count what is left until nothing is.
    pub verify: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            interrupt: Duration::from_secs(5),
            close_stdin: Duration::from_secs(1),
            int: Duration::from_secs(3),
            term: Duration::from_secs(3),
            kill: Duration::from_secs(2),
            verify: Duration::from_secs(2),
        }
    }
}

impl Patience {
    fn of(&self, rung: Rung) -> Duration {
        match rung {
            Rung::Interrupt => self.interrupt,
            Rung::CloseStdin => self.close_stdin,
            Rung::Int => self.int,
            Rung::Term => self.term,
            Rung::Kill => self.kill,
            Rung::Verify => self.verify,
        }
    }
}

/// Whether the agent can be reached through its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ear {
    /// It takes orders there.
    Listens,
    /// Nobody holds the other end any more.
    Closed,
    /// It is a terminal: a turn is broken off there, but it has no end.
    Terminal,
}

/// One thing that the ladder is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The process is to be ended. The first reason stands.
    Begin(StopReason),
    /// The turn ended: what the interrupt was for is reached.
    TurnEnded,
    /// The process ended.
    Exited,
    /// Nothing that belongs to it is left.
    Gone,
    /// So many are left.
    Counted(u32),
    /// Somebody is in a hurry: kill at once.
    Hurry,
    /// Time passed.
    Tick,
}

/// What to do now. Each comes at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Tell the agent in its own protocol to stop the turn.
    Interrupt,
    /// Close its standard input.
    CloseStdin,
    /// Send it a signal.
    Signal(Signal),
    /// Kill all that belongs to it.
    KillAll,
    /// Count what is left, again until nothing is, and tell it as [`Input::Counted`].
    Verify,
    /// It is over.
    Done {
        /// How many are left. Nothing, if they could not be counted.
        survivors: Option<u32>,
    },
}

/// A signal that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT.
    Int,
    /// SIGTERM.
    Term,
}

/// What is known to be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    All,
    Descendants,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    On { rung: Rung, until: Duration },
    Done,
}

/// Ends one process of an agent. Takes each rung at most once, never goes back, and always comes to its end.
#[derive(Debug)]
pub struct Ladder {
    patience: Patience,
    ear: Ear,
    now: Duration,
    state: State,
    left: Left,
    counted: Option<u32>,
    reason: Option<StopReason>,
}

impl Ladder {
    /// A ladder that nobody stands on yet.
    pub fn new(patience: Patience, ear: Ear) -> Self {
        let (state, left) = (State::Idle, Left::All);
        Self { patience, ear, now: Duration::ZERO, state, left, counted: None, reason: None }
    }

    /// Why the process is ended, once it is.
    pub fn reason(&self) -> Option<&StopReason> {
        self.reason.as_ref()
    }

    /// The rung it stands on.
    pub fn rung(&self) -> Option<Rung> {
        match self.state {
            State::On { rung, .. } => Some(rung),
            State::Idle | State::Done => None,
        }
    }

    /// When to send the next [`Input::Tick`], since the run began. Never before the last step.
    pub fn wake_at(&self) -> Option<Duration> {
        match self.state {
            State::On { until, .. } => Some(until.max(self.now)),
            State::Idle | State::Done => None,
        }
    }

    /// Takes what happened `elapsed` after the run began, and says what to do. Never panics.
    pub fn step(&mut self, elapsed: Duration, input: Input) -> Action {
        self.now = self.now.max(elapsed);
        match input {
            Input::Begin(reason) => self.begin(reason),
            Input::TurnEnded => self.turn_ended(),
            Input::Exited => self.exited(),
            Input::Gone => self.gone(),
            Input::Counted(count) => self.counted(count),
            Input::Hurry => self.climb(Rung::Kill),
            Input::Tick => self.tick(),
        }
    }

    fn begin(&mut self, reason: StopReason) -> Action {
        if self.reason.is_some() {
            return Action::Nothing;
        }
        let first = match self.left {
            Left::All => reason.first_rung(),
            Left::Descendants => Rung::Kill,
            Left::Nothing => Rung::Verify,
        };
        self.reason = Some(reason);
        self.climb(first)
    }

    fn turn_ended(&mut self) -> Action {
        match self.state {
            State::On { rung: Rung::Interrupt, .. } => self.climb(Rung::CloseStdin),
            State::On {
                rung: Rung::CloseStdin | Rung::Int | Rung::Term | Rung::Kill | Rung::Verify, ..
            }
            | State::Idle
            | State::Done => Action::Nothing,
        }
    }

    fn exited(&mut self) -> Action {
        if self.left == Left::All {
            self.left = Left::Descendants;
        }
        self.climb_if_begun(Rung::Kill)
    }

    fn gone(&mut self) -> Action {
        self.left = Left::Nothing;
        match self.state {
            State::On { rung: Rung::Verify, .. } => self.done(Some(0)),
            State::On { .. } | State::Idle | State::Done => self.climb_if_begun(Rung::Verify),
        }
    }

    fn counted(&mut self, count: u32) -> Action {
        match self.state {
            State::On { rung: Rung::Verify, .. } if count == 0 => self.done(Some(0)),
            State::On { rung: Rung::Verify, .. } => {
                self.counted = Some(count);
                Action::Nothing
            }
            State::On { .. } | State::Idle | State::Done => Action::Nothing,
        }
    }

    fn tick(&mut self) -> Action {
        match self.state {
            State::On { rung, until } if until <= self.now => match rung {
                Rung::Interrupt => self.climb(Rung::CloseStdin),
                Rung::CloseStdin => self.climb(Rung::Int),
                Rung::Int => self.climb(Rung::Term),
                Rung::Term => self.climb(Rung::Kill),
                Rung::Kill => self.climb(Rung::Verify),
                Rung::Verify => self.done(self.counted),
            },
            State::On { .. } | State::Idle | State::Done => Action::Nothing,
        }
    }

    fn climb_if_begun(&mut self, rung: Rung) -> Action {
        match self.state {
            State::On { .. } => self.climb(rung),
            State::Idle | State::Done => Action::Nothing,
        }
    }

    /// Steps on the rung, or on the next one that makes sense. Never goes back, nor twice on the same.
    fn climb(&mut self, rung: Rung) -> Action {
        let rung = match (rung, self.ear) {
            (Rung::Interrupt | Rung::CloseStdin, Ear::Closed) | (Rung::CloseStdin, Ear::Terminal) => {
                Rung::Int
            }
            (rung, Ear::Listens | Ear::Closed | Ear::Terminal) => rung,
        };
        match self.state {
            State::On { rung: current, .. } if current >= rung => return Action::Nothing,
            State::Done => return Action::Nothing,
            State::On { .. } | State::Idle => {}
        }
        self.state = State::On { rung, until: self.now.saturating_add(self.patience.of(rung)) };
        match rung {
            Rung::Interrupt => Action::Interrupt,
            Rung::CloseStdin => Action::CloseStdin,
            Rung::Int => Action::Signal(Signal::Int),
            Rung::Term => Action::Signal(Signal::Term),
            Rung::Kill => Action::KillAll,
            Rung::Verify => Action::Verify,
        }
    }

    fn done(&mut self, survivors: Option<u32>) -> Action {
        self.state = State::Done;
        Action::Done { survivors }
    }
}

#[cfg(test)]
#[path = "stopping_tests.rs"]
mod tests;
