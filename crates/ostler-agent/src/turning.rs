//! Whether a turn in a terminal is over. One order of evidence, the surest first:
//!
//! 1. the agent's record says so: an end record, or an interruption;
//! 2. its state file says that it takes a prompt, and nothing more is written;
//! 3. without a state file: its last answer says that nothing follows, and nothing follows for a while;
//! 4. without that either: its screen shows the prompt for longer still.
//!
//! The machine owns no clock and no file; it is told what was seen and says when it wants to look again. The drawing is
//! in `docs/design/terminal.md`.

use std::time::Duration;

use crate::event::{AgentEvent, TurnOutcome};
use crate::terminal::Status;

/// How long the state file must say that a prompt is taken where the last answer stands. The end record follows within
/// 300 ms; a loaded machine needs longer to write it.
const IDLE_AND_ANSWERED: Duration = Duration::from_secs(2);

/// The same, where no answer stands: somebody may have pressed Esc before there was one. Until then the answer may
/// still be on its way into the file.
const IDLE_UNANSWERED: Duration = Duration::from_secs(5);

/// The same, after we pressed Esc: what was interrupted is written within 300 ms, or not at all.
const IDLE_INTERRUPTED: Duration = Duration::from_secs(1);

/// How long nothing must follow an answer: the file is written every 100 ms, a block at a time.
const NOTHING_FOLLOWS: Duration = Duration::from_millis(750);

/// How long the screen must show the prompt. It shows it between two steps of a turn, too.
const SCREEN_IDLE: Duration = Duration::from_secs(5);

/// What was seen.
#[derive(Debug, Clone, PartialEq)]
pub enum Input<'a> {
    /// Enter was pressed on a prompt. The turn begins when the agent's record has it.
    Typed,
    /// The prompt was not taken after all.
    Untaken,
    /// The agent's record had this, in causal order.
    Event(&'a AgentEvent),
    /// The agent's record grew, and its events were told.
    Grew {
        /// Whether its last answer says that nothing follows ([`crate::agent::Decoder::stands`]).
        stands: bool,
    },
    /// What the state file says; nothing if it is not there.
    Status(Option<&'a Status>),
    /// Whether the screen shows the prompt, and nothing that moves.
    Screen {
        /// Whether it does.
        idle: bool,
    },
    /// Esc was pressed by us.
    Interrupting,
    /// Time went by.
    Tick,
}

/// What the machine says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Nothing new.
    Open,
    /// The turn is over. Said once a turn.
    Ended {
        /// What told it. If that is not a record, [`crate::agent::Decoder::over`] tells how the turn ended.
        by: Evidence,
        /// Whether it was interrupted.
        interrupted: bool,
    },
}

/// What told that a turn is over, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// A record.
    Record,
    /// The state file.
    State,
    /// An answer that nothing followed.
    Answer,
    /// The screen.
    Screen,
}

/// The end of one turn after the other in one terminal.
#[derive(Debug, Default)]
pub struct Turning {
    stage: Stage,
    status: Option<Status>,
    /// Since when it says so.
    status_at: Duration,
    /// Since when the screen shows the prompt.
    screen_idle: Option<Duration>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No turn.
    #[default]
    Idle,
    /// A prompt was typed. Whatever ends now is another turn.
    Typed {
        /// Whether we pressed Esc since.
        is_interrupted: bool,
    },
    /// A turn is under way.
    Open(Turn),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    /// When something of it was last written.
    grew_at: Duration,
    /// Whether the last answer says that nothing follows.
    stands: bool,
    /// Whether words are the last of it.
    has_words: bool,
    /// Whether we pressed Esc.
    is_interrupted: bool,
}

impl Turning {
    /// No turn yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a turn is under way.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// Takes what was seen at `now`, and says whether the turn is over.
    pub fn step(&mut self, now: Duration, input: &Input<'_>) -> Verdict {
        match input {
            Input::Typed => self.stage = Stage::Typed { is_interrupted: false },
            Input::Untaken => {
                if matches!(self.stage, Stage::Typed { .. }) {
                    self.stage = Stage::Idle;
                }
            }
            Input::Event(event) => return self.heard(now, event),
            Input::Grew { stands } => {
                if let Stage::Open(turn) = &mut self.stage {
                    (turn.grew_at, turn.stands) = (now, *stands);
                }
            }
            Input::Status(status) => {
                if self.status.as_ref() != *status {
                    (self.status, self.status_at) = (status.cloned(), now);
                }
            }
            Input::Screen { idle: false } => self.screen_idle = None,
            Input::Screen { idle: true } => self.screen_idle = self.screen_idle.or(Some(now)),
            Input::Interrupting => match &mut self.stage {
                Stage::Open(Turn { is_interrupted, .. }) | Stage::Typed { is_interrupted } => {
                    *is_interrupted = true;
                }
                Stage::Idle => {}
            },
            Input::Tick => {}
        }
        self.judge(now)
    }

    /// When it wants a [`Input::Tick`].
    pub fn wake_at(&self) -> Option<Duration> {
        let Stage::Open(turn) = self.stage else { return None };
        self.awaited(&turn).map(|(at, _)| at)
    }

    fn heard(&mut self, now: Duration, event: &AgentEvent) -> Verdict {
        match (self.stage, event) {
            (Stage::Open(_), AgentEvent::TurnEnded(outcome)) => {
                self.stage = Stage::Idle;
                let interrupted = *outcome == TurnOutcome::Interrupted;
                return Verdict::Ended { by: Evidence::Record, interrupted };
            }
            (Stage::Idle, AgentEvent::Asked { .. }) => self.open(now, false),
            (Stage::Typed { is_interrupted }, AgentEvent::Asked { .. }) => self.open(now, is_interrupted),
            // A turn that nobody typed begins by itself.
            (Stage::Idle, _) if is_answer(event) => self.open(now, false),
            (Stage::Idle | Stage::Typed { .. }, _) => return Verdict::Open,
            (Stage::Open(_), _) => {}
        }
        if let Stage::Open(turn) = &mut self.stage {
            turn.grew_at = now;
            if is_answer(event) {
                turn.has_words = matches!(event, AgentEvent::Said { .. });
            }
        }
        Verdict::Open
    }

    fn open(&mut self, now: Duration, is_interrupted: bool) {
        self.stage = Stage::Open(Turn { grew_at: now, stands: false, has_words: false, is_interrupted });
    }

    fn judge(&mut self, now: Duration) -> Verdict {
        let Stage::Open(turn) = self.stage else { return Verdict::Open };
        match self.awaited(&turn) {
            Some((at, by)) if now >= at => {
                self.stage = Stage::Idle;
                let is_answered = turn.stands || turn.has_words;
                Verdict::Ended { by, interrupted: turn.is_interrupted || !is_answered }
            }
            Some(_) | None => Verdict::Open,
        }
    }

    /// When the turn is over if nothing more is seen, and by what.
    fn awaited(&self, turn: &Turn) -> Option<(Duration, Evidence)> {
        let (since, quiet, by) = match &self.status {
            // It says itself that it works, or asks.
            Some(Status::Busy | Status::Waiting { .. }) => return None,
            Some(Status::Idle | Status::Shell) => {
                let quiet = match (turn.is_interrupted, turn.stands) {
                    (true, _) => IDLE_INTERRUPTED,
                    (false, true) => IDLE_AND_ANSWERED,
                    (false, false) => IDLE_UNANSWERED,
                };
                (self.status_at, quiet, Evidence::State)
            }
            None if turn.stands => (turn.grew_at, NOTHING_FOLLOWS, Evidence::Answer),
            None => (self.screen_idle?, SCREEN_IDLE, Evidence::Screen),
        };
        Some((since.max(turn.grew_at) + quiet, by))
    }
}

/// Whether it is of the answer itself. What a sub-agent says is not.
fn is_answer(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::Said { within, .. } | AgentEvent::ToolStarted { within, .. } => within.is_none(),
        AgentEvent::Thought { .. } | AgentEvent::ToolEnded { .. } => true,
        AgentEvent::Started { .. }
        | AgentEvent::Asked { .. }
        | AgentEvent::TaskOpened { .. }
        | AgentEvent::TaskClosed { .. }
        | AgentEvent::Spent(_)
        | AgentEvent::SpentSoFar(_)
        | AgentEvent::Unpriced { .. }
        | AgentEvent::Blocked(_)
        | AgentEvent::Noted { .. }
        | AgentEvent::TurnEnded(_)
        | AgentEvent::Unknown { .. } => false,
    }
}

#[cfg(test)]
#[path = "turning_tests.rs"]
mod tests;
