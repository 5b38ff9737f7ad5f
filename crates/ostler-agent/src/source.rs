//! Which of an agent's two records is listened to: its standard output, or the transcript that it keeps for itself.
//!
//! The standard output is the source for as long as it speaks. A transcript that goes on without it is looked into; if
//! there is work in it that was not heard, it becomes the source, until the standard output speaks again. Nothing here
//! reads: it is told what happened and says what to do. The diagram is in `docs/design/channels.md`.

use std::time::Duration;

/// How long the standard output may be behind the transcript. Both are written at once; a transcript is flushed a tenth
/// of a second later.
const LONGEST_LAG: Duration = Duration::from_secs(5);

/// The same, once the standard output was closed: a process that ends by itself is gone by then.
const LAG_OF_A_CLOSED_PIPE: Duration = Duration::from_secs(1);

/// The part of the watchdog's `silence` that the lag may take, so that a dead pipe is found before the agent is stopped.
const PART_OF_SILENCE: u32 = 3;

/// Whether a record of the transcript can be told from one that was heard on the standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twins {
    /// Both have the same id, so that looking costs nothing but time.
    Named,
    /// They look different: the transcript is only read once the standard output was closed.
    Unnamed,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A record came on the standard output.
    Heard,
    /// The standard output was closed.
    Closed,
    /// The transcript grew.
    Grew,
    /// What was read has work in it that was not heard.
    Found,
    /// It has not.
    Vain,
    /// The end of the turn was told.
    Ended,
    /// Time passed.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing.
    Nothing,
    /// What the transcript has by now was heard: begin behind it, should it ever be read.
    Skip,
    /// Read what is new in the transcript, and say whether there was work in it.
    Look,
    /// Read what is new in the transcript, and tell it.
    Read,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The standard output tells what happens.
    Stdout,
    /// The transcript has something that the standard output has not.
    Behind { since: Duration },
    /// The transcript tells what happens.
    Transcript,
    /// The turn is over.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pipe {
    Open,
    Closed,
}

/// Decides which record of one process is listened to.
#[derive(Debug)]
pub struct Sources {
    state: State,
    pipe: Pipe,
    twins: Twins,
    lag: Duration,
}

impl Sources {
    /// For a process that has said nothing yet, in a run with this `silence`.
    pub fn new(twins: Twins, silence: Duration) -> Self {
        let lag = LONGEST_LAG.min(silence / PART_OF_SILENCE);
        Self { state: State::Stdout, pipe: Pipe::Open, twins, lag }
    }

    /// Takes what happened `at` that time, and says what to do.
    pub fn step(&mut self, at: Duration, input: Input) -> Action {
        match (input, self.state) {
            (Input::Heard, State::Behind { .. }) => {
                self.state = State::Stdout;
                match self.twins {
                    Twins::Named => Action::Nothing,
                    Twins::Unnamed => Action::Skip,
                }
            }
            (Input::Heard, State::Stdout | State::Transcript | State::Over) => {
                self.state = State::Stdout;
                Action::Nothing
            }
            (Input::Closed, state) => {
                self.pipe = Pipe::Closed;
                if let State::Behind { .. } = state {
                    self.state = State::Behind { since: at };
                }
                Action::Nothing
            }
            (Input::Grew, State::Stdout) => self.fall_behind(at),
            // Without ids the end of a turn could not be told from the one that was told already.
            (Input::Grew, State::Over) => match self.twins {
                Twins::Named => self.fall_behind(at),
                Twins::Unnamed => Action::Nothing,
            },
            (Input::Grew, State::Transcript) => Action::Read,
            (Input::Grew | Input::Tick, State::Behind { .. }) => self.look_if_due(at),
            (Input::Found, _) => {
                self.state = State::Transcript;
                Action::Nothing
            }
            (Input::Vain, _) => {
                self.state = State::Stdout;
                Action::Nothing
            }
            (Input::Ended, _) => {
                self.state = State::Over;
                Action::Nothing
            }
            (Input::Tick, State::Stdout | State::Transcript | State::Over) => Action::Nothing,
        }
    }

    /// When to send the next [`Input::Tick`], if nothing else happens.
    pub fn wake_at(&self) -> Option<Duration> {
        let State::Behind { since } = self.state else { return None };
        let lag = match (self.pipe, self.twins) {
            (Pipe::Closed, _) => LAG_OF_A_CLOSED_PIPE.min(self.lag),
            (Pipe::Open, Twins::Named) => self.lag,
            (Pipe::Open, Twins::Unnamed) => return None,
        };
        since.checked_add(lag)
    }

    fn fall_behind(&mut self, at: Duration) -> Action {
        self.state = State::Behind { since: at };
        self.look_if_due(at)
    }

    fn look_if_due(&self, at: Duration) -> Action {
        match self.wake_at() {
            Some(due) if due <= at => Action::Look,
            Some(_) | None => Action::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Action::{Look, Nothing, Read, Skip};
    use super::Input::{Closed, Ended, Found, Grew, Heard, Tick, Vain};
    use super::Twins::{Named, Unnamed};
    use super::*;

    type Steps = &'static [(u64, Input, Action)];

    #[test]
    fn which_record_is_listened_to() {
        let table: &[(&str, Twins, Steps)] = &[
            (
                "a pipe that follows is the source",
                Named,
                &[(1, Heard, Nothing), (2, Grew, Nothing), (3, Heard, Nothing), (60, Tick, Nothing)],
            ),
            (
                "a transcript that goes on alone is looked into, and read from then on",
                Named,
                &[
                    (1, Heard, Nothing),
                    (2, Grew, Nothing),
                    (6, Tick, Nothing),
                    (7, Tick, Look),
                    (7, Found, Nothing),
                    (9, Grew, Read),
                    (12, Grew, Read),
                ],
            ),
            (
                "its growth alone is enough to look",
                Named,
                &[(2, Grew, Nothing), (8, Grew, Look), (8, Vain, Nothing), (9, Tick, Nothing)],
            ),
            (
                "what was heard already changes nothing",
                Named,
                &[
                    (2, Grew, Nothing),
                    (7, Tick, Look),
                    (7, Vain, Nothing),
                    (60, Tick, Nothing),
                    (61, Grew, Nothing),
                    (66, Tick, Look),
                ],
            ),
            (
                "a pipe that comes back is the source again",
                Named,
                &[
                    (2, Grew, Nothing),
                    (7, Tick, Look),
                    (7, Found, Nothing),
                    (8, Heard, Nothing),
                    (9, Grew, Nothing),
                    (10, Heard, Nothing),
                    (60, Tick, Nothing),
                ],
            ),
            (
                "a closed pipe is not waited for",
                Named,
                &[(1, Heard, Nothing), (2, Grew, Nothing), (3, Closed, Nothing), (4, Tick, Look)],
            ),
            (
                "a turn that begins in the transcript is found after the last one",
                Named,
                &[(1, Ended, Nothing), (2, Grew, Nothing), (7, Tick, Look)],
            ),
            (
                "without ids only a closed pipe is dead",
                Unnamed,
                &[
                    (2, Grew, Nothing),
                    (600, Tick, Nothing),
                    (601, Heard, Skip),
                    (602, Grew, Nothing),
                    (603, Closed, Nothing),
                    (604, Tick, Look),
                    (604, Found, Nothing),
                    (605, Grew, Read),
                ],
            ),
            (
                "without ids nothing is read after the end of the turn",
                Unnamed,
                &[(1, Ended, Nothing), (2, Grew, Nothing), (3, Closed, Nothing), (60, Tick, Nothing)],
            ),
        ];
        for (name, twins, steps) in table {
            let mut sources = Sources::new(*twins, Duration::from_secs(360));
            for (at, input, want) in *steps {
                let action = sources.step(Duration::from_secs(*at), *input);
                assert_eq!(action, *want, "{name}: {input:?} at {at} s");
            }
        }
    }

    #[test]
    fn a_dead_pipe_is_found_before_the_agent_is_stopped() {
        for silence in [1, 3, 30, 360] {
            let silence = Duration::from_secs(silence);
            let mut sources = Sources::new(Named, silence);
            let _ = sources.step(Duration::ZERO, Grew);
            assert!(sources.wake_at().unwrap() < silence / 2, "{silence:?}");
        }
    }
}
