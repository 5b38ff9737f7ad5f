//! When a living agent is waited for without its clock running: while it waits for its provider as it announced, and
//! while the provider cannot be reached from this machine at all.
//!
//! Nothing here waits or probes. It is told what happened and says what to do; the watchdog bounds all waits of a run
//! together (`max_wait`).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::event::{AgentEvent, Blocked, FailureClass};

/// How much later than announced an agent may come back: it has to notice, and the provider to answer.
const LATER_THAN_ANNOUNCED: Duration = Duration::from_secs(30);

/// The part of `silence` that an announced wait may take without being waited for: the next try is in the other.
const PART_OF_SILENCE: u32 = 2;

/// Whether the provider can be reached from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It was not tried, or it is not known where it is.
    Unknown,
    /// Somebody answers there.
    Reachable,
    /// Nobody does.
    Unreachable,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The agent failed to reach its provider and will try again, after so long if it says so.
    Retrying {
        /// After how long.
        delay: Option<Duration>,
        /// What kind of failure it was.
        class: FailureClass,
    },
    /// It said something else.
    Heard,
    /// A probe came back.
    Probed(Reach),
    /// It asks a person something, and waits so long for the answer.
    Asked {
        /// The number of the question.
        question: u64,
        /// How long.
        within: Duration,
    },
    /// It no longer waits for that answer.
    Settled {
        /// The number of the question.
        question: u64,
    },
    /// Its process ended, or is being stopped.
    Over,
    /// Time passed.
    Tick,
}

impl Input {
    /// What an event of the agent means here.
    pub fn of(event: &AgentEvent) -> Self {
        match event {
            AgentEvent::Blocked(Blocked::Retrying { delay, class, .. }) => {
                Self::Retrying { delay: *delay, class: *class }
            }
            _ => Self::Heard,
        }
    }
}

/// What to do, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct Orders {
    /// What becomes of the run's clock.
    pub clock: Clock,
    /// What becomes of the probe.
    pub probe: Probe,
}

/// What becomes of the run's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// It stays as it is.
    #[default]
    Same,
    /// It stops, for this reason.
    Park(Why),
    /// It goes on.
    Unpark,
}

/// Why it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The agent said that it waits so long.
    Announced(Duration),
    /// The provider cannot be reached.
    Offline,
    /// A person is asked, for so long.
    Asked(Duration),
}

/// What becomes of the probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Probe {
    /// It stays as it is.
    #[default]
    Same,
    /// One is made, unless one is under way.
    Now,
    /// One is made after a pause.
    Again,
    /// There is none any more.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Working,
    Announced { until: Duration },
    Offline,
}

/// Decides about the waits of one process.
#[derive(Debug)]
pub struct Waits {
    state: State,
    /// Questions to a person that are open. What else the agent does meanwhile does not settle them.
    questions: BTreeSet<u64>,
    silence: Duration,
}

impl Waits {
    /// For a process of a run with this `silence`.
    pub fn new(silence: Duration) -> Self {
        Self { state: State::Working, questions: BTreeSet::new(), silence }
    }

    /// Takes what happened `at` that time, and says what to do.
    pub fn step(&mut self, at: Duration, input: Input) -> Orders {
        let orders = match input {
            Input::Asked { question, within } => {
                self.questions.insert(question);
                Orders { clock: Clock::Park(Why::Asked(within)), probe: Probe::Same }
            }
            Input::Settled { question } => {
                let clock = if self.questions.remove(&question) { Clock::Unpark } else { Clock::Same };
                Orders { clock, probe: Probe::Same }
            }
            Input::Over => {
                let asked = !std::mem::take(&mut self.questions).is_empty();
                let orders = self.wait(at, input);
                Orders { clock: if asked { Clock::Unpark } else { orders.clock }, ..orders }
            }
            Input::Retrying { .. } | Input::Heard | Input::Probed(_) | Input::Tick => self.wait(at, input),
        };
        match orders.clock {
            // One wait is over, another is not.
            Clock::Unpark if self.is_waiting() => Orders { clock: Clock::Same, ..orders },
            Clock::Same | Clock::Park(_) | Clock::Unpark => orders,
        }
    }

    fn is_waiting(&self) -> bool {
        self.state != State::Working || !self.questions.is_empty()
    }

    /// Waits for the provider.
    fn wait(&mut self, at: Duration, input: Input) -> Orders {
        match (input, self.state) {
            (Input::Asked { .. } | Input::Settled { .. }, _) => Orders::default(),
            // It tries by itself, and nothing has changed.
            (Input::Retrying { .. }, State::Offline) => Orders::default(),
            (Input::Retrying { delay, class }, State::Working | State::Announced { .. }) => {
                let probe = if class == FailureClass::Provider { Probe::Now } else { Probe::Same };
                Orders { clock: self.announced(at, delay), probe }
            }
            (Input::Heard | Input::Over, state) => {
                self.state = State::Working;
                let clock = if state == State::Working { Clock::Same } else { Clock::Unpark };
                Orders { clock, probe: Probe::Off }
            }
            (Input::Probed(Reach::Unreachable), state) => {
                self.state = State::Offline;
                let clock = if state == State::Offline { Clock::Same } else { Clock::Park(Why::Offline) };
                Orders { clock, probe: Probe::Again }
            }
            (Input::Probed(Reach::Reachable | Reach::Unknown), State::Offline) => {
                self.state = State::Working;
                Orders { clock: Clock::Unpark, probe: Probe::Off }
            }
            (Input::Probed(Reach::Reachable | Reach::Unknown), State::Working | State::Announced { .. }) => {
                Orders { clock: Clock::Same, probe: Probe::Off }
            }
            (Input::Tick, State::Announced { until }) if at >= until => {
                self.state = State::Working;
                Orders { clock: Clock::Unpark, probe: Probe::Same }
            }
            (Input::Tick, State::Working | State::Announced { .. } | State::Offline) => Orders::default(),
        }
    }

    /// When to send the next [`Input::Tick`], if nothing else happens.
    pub fn wake_at(&self) -> Option<Duration> {
        match self.state {
            State::Announced { until } => Some(until),
            State::Working | State::Offline => None,
        }
    }

    /// A wait that would be taken for a stall is waited for; a shorter one ends an earlier one.
    fn announced(&mut self, at: Duration, delay: Option<Duration>) -> Clock {
        let long = delay.filter(|delay| *delay > self.silence / PART_OF_SILENCE);
        match (long, self.state) {
            (Some(delay), _) => {
                let until = at.saturating_add(delay).saturating_add(LATER_THAN_ANNOUNCED);
                self.state = State::Announced { until };
                Clock::Park(Why::Announced(delay))
            }
            (None, State::Working) => Clock::Same,
            (None, State::Announced { .. } | State::Offline) => {
                self.state = State::Working;
                Clock::Unpark
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: Orders = Orders { clock: Clock::Same, probe: Probe::Same };

    fn retrying(delay: u64, class: FailureClass) -> Input {
        Input::Retrying { delay: Some(Duration::from_secs(delay)), class }
    }

    fn orders(clock: Clock, probe: Probe) -> Orders {
        Orders { clock, probe }
    }

    type Steps<'a> = &'a [(u64, Input, Orders)];

    #[test]
    fn waits() {
        use FailureClass::{Overloaded, Provider};
        let announced = |delay| Clock::Park(Why::Announced(Duration::from_secs(delay)));
        let minute = Duration::from_secs(60);
        let asked = |question| Input::Asked { question, within: minute };
        let person = Clock::Park(Why::Asked(minute));
        let (offline, unpark) = (Clock::Park(Why::Offline), Clock::Unpark);
        let table: &[(&str, Steps<'_>)] = &[
            (
                "a short wait is the agent's own",
                &[(1, retrying(30, Overloaded), SAME), (31, Input::Tick, SAME)],
            ),
            (
                "a long one is waited for until the next event",
                &[
                    (1, retrying(400, Overloaded), orders(announced(400), Probe::Same)),
                    (430, Input::Tick, SAME),
                    (430, Input::Heard, orders(unpark, Probe::Off)),
                    (999, Input::Tick, SAME),
                ],
            ),
            (
                "or a little longer than announced",
                &[
                    (1, retrying(400, Overloaded), orders(announced(400), Probe::Same)),
                    (431, Input::Tick, orders(unpark, Probe::Same)),
                    (432, Input::Tick, SAME),
                ],
            ),
            (
                "a shorter wait ends a longer one",
                &[
                    (1, retrying(400, Overloaded), orders(announced(400), Probe::Same)),
                    (401, retrying(5, Overloaded), orders(unpark, Probe::Same)),
                ],
            ),
            (
                "a provider that answers is the agent's own matter",
                &[
                    (1, retrying(1, Provider), orders(Clock::Same, Probe::Now)),
                    (2, Input::Probed(Reach::Reachable), orders(Clock::Same, Probe::Off)),
                ],
            ),
            (
                "one that cannot be reached is waited for, whatever the agent tries",
                &[
                    (1, retrying(1, Provider), orders(Clock::Same, Probe::Now)),
                    (2, Input::Probed(Reach::Unreachable), orders(offline, Probe::Again)),
                    (3, retrying(2, Provider), SAME),
                    (4, Input::Probed(Reach::Unreachable), orders(Clock::Same, Probe::Again)),
                    (900, Input::Tick, SAME),
                    (901, Input::Probed(Reach::Reachable), orders(unpark, Probe::Off)),
                ],
            ),
            (
                "an agent that goes on has reached it",
                &[
                    (2, Input::Probed(Reach::Unreachable), orders(offline, Probe::Again)),
                    (3, Input::Heard, orders(unpark, Probe::Off)),
                ],
            ),
            (
                "a question to a person is waited for, whatever else is heard",
                &[
                    (1, asked(1), orders(person, Probe::Same)),
                    (2, asked(2), orders(person, Probe::Same)),
                    (3, Input::Heard, orders(Clock::Same, Probe::Off)),
                    (4, Input::Settled { question: 1 }, SAME),
                    (5, Input::Probed(Reach::Unreachable), orders(offline, Probe::Again)),
                    (6, Input::Settled { question: 2 }, SAME),
                    (7, Input::Heard, orders(unpark, Probe::Off)),
                    (8, Input::Settled { question: 2 }, SAME),
                ],
            ),
            (
                "the end of the process ends a question",
                &[
                    (1, asked(1), orders(person, Probe::Same)),
                    (2, Input::Over, orders(unpark, Probe::Off)),
                    (3, Input::Settled { question: 1 }, SAME),
                ],
            ),
            (
                "the end of the process ends the wait",
                &[
                    (2, Input::Probed(Reach::Unreachable), orders(offline, Probe::Again)),
                    (3, Input::Over, orders(unpark, Probe::Off)),
                    (4, Input::Over, orders(Clock::Same, Probe::Off)),
                ],
            ),
        ];
        for (name, steps) in table {
            let mut waits = Waits::new(Duration::from_secs(360));
            for (at, input, want) in *steps {
                assert_eq!(
                    waits.step(Duration::from_secs(*at), *input),
                    *want,
                    "{name}: {input:?} at {at} s"
                );
            }
        }
    }
}
