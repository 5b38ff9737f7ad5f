//! When a living agent is waited for without its clock running: while its provider cannot be reached from this machine at
//! all, and while it asks a person. A retry that it announces is its own time: the clock runs, and only the watchdog's
//! limit on silence waits for it.
//!
//! Nothing here waits or probes. It is told what happened and says what to do; the watchdog bounds all waits of a run
//! together (`max_wait`).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::event::{AgentEvent, Blocked, FailureClass};

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
    /// A request of the agent failed, and it will try again.
    Retrying {
        /// What kind of failure it was.
        class: FailureClass,
    },
    /// The provider answered it, or it gave up.
    Heard,
    /// It reported something that does not show whether the provider answers.
    Aside,
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
}

impl Input {
    /// What an event of the agent means here. Only what a model produced shows that the provider answers: usage may be
    /// read late, a tool may end and a prompt may be accepted while every request fails.
    pub fn of(event: &AgentEvent) -> Self {
        match event {
            AgentEvent::Blocked(Blocked::Retrying { class, .. }) => Self::Retrying { class: *class },
            AgentEvent::Said { .. }
            | AgentEvent::Thought { .. }
            | AgentEvent::ToolStarted { .. }
            | AgentEvent::TurnEnded(_)
            | AgentEvent::Blocked(
                Blocked::Permission { .. } | Blocked::Question { .. } | Blocked::Dialog { .. },
            ) => Self::Heard,
            AgentEvent::Started { .. }
            | AgentEvent::Asked { .. }
            | AgentEvent::ToolEnded { .. }
            | AgentEvent::TaskOpened { .. }
            | AgentEvent::TaskClosed { .. }
            | AgentEvent::Spent(_)
            | AgentEvent::SpentSoFar(_)
            | AgentEvent::Unpriced { .. }
            | AgentEvent::Noted { .. }
            | AgentEvent::Unknown { .. }
            | AgentEvent::Blocked(
                Blocked::Routed { .. } | Blocked::Withdrawn { .. } | Blocked::Denied { .. },
            ) => Self::Aside,
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
    Offline,
}

/// Decides about the waits of one process.
#[derive(Debug)]
pub struct Waits {
    state: State,
    /// Questions to a person that are open. What else the agent does meanwhile does not settle them.
    questions: BTreeSet<u64>,
}

impl Default for Waits {
    fn default() -> Self {
        Self { state: State::Working, questions: BTreeSet::new() }
    }
}

impl Waits {
    /// Takes what happened, and says what to do.
    pub fn step(&mut self, input: Input) -> Orders {
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
                let orders = self.wait(input);
                Orders { clock: if asked { Clock::Unpark } else { orders.clock }, ..orders }
            }
            Input::Retrying { .. } | Input::Heard | Input::Aside | Input::Probed(_) => self.wait(input),
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
    fn wait(&mut self, input: Input) -> Orders {
        match (input, self.state) {
            (Input::Asked { .. } | Input::Settled { .. } | Input::Aside, _) => Orders::default(),
            // It tries by itself, and nothing has changed.
            (Input::Retrying { .. }, State::Offline) => Orders::default(),
            (Input::Retrying { class }, State::Working) => {
                let probe = if class == FailureClass::Provider { Probe::Now } else { Probe::Same };
                Orders { clock: Clock::Same, probe }
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
            (Input::Probed(Reach::Reachable | Reach::Unknown), State::Working) => {
                Orders { clock: Clock::Same, probe: Probe::Off }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::{Part, ToolResult, TurnOutcome, Usage};
    use crate::watchdog::{self, Action, Limits, Watchdog};

    const SAME: Orders = Orders { clock: Clock::Same, probe: Probe::Same };

    fn retrying(class: FailureClass) -> Input {
        Input::Retrying { class }
    }

    fn orders(clock: Clock, probe: Probe) -> Orders {
        Orders { clock, probe }
    }

    type Steps<'a> = &'a [(Input, Orders)];

    #[test]
    fn waits() {
        use FailureClass::{Overloaded, Provider};
        let minute = Duration::from_secs(60);
        let asked = |question| Input::Asked { question, within: minute };
        let person = Clock::Park(Why::Asked(minute));
        let (offline, unpark) = (Clock::Park(Why::Offline), Clock::Unpark);
        let table: &[(&str, Steps<'_>)] = &[
            (
                "retries are the agent's own time",
                &[
                    (retrying(Overloaded), SAME),
                    (retrying(Overloaded), SAME),
                    (Input::Heard, orders(Clock::Same, Probe::Off)),
                ],
            ),
            (
                "a provider that answers is the agent's own matter",
                &[
                    (retrying(Provider), orders(Clock::Same, Probe::Now)),
                    (Input::Probed(Reach::Reachable), orders(Clock::Same, Probe::Off)),
                ],
            ),
            (
                "one that cannot be reached is waited for, whatever the agent tries",
                &[
                    (retrying(Provider), orders(Clock::Same, Probe::Now)),
                    (Input::Probed(Reach::Unreachable), orders(offline, Probe::Again)),
                    (retrying(Provider), SAME),
                    (Input::Probed(Reach::Unreachable), orders(Clock::Same, Probe::Again)),
                    (Input::Probed(Reach::Reachable), orders(unpark, Probe::Off)),
                ],
            ),
            (
                "what does not come from the provider neither ends a wait nor calls off a probe",
                &[
                    (retrying(Provider), orders(Clock::Same, Probe::Now)),
                    (Input::Aside, SAME),
                    (Input::Probed(Reach::Unreachable), orders(offline, Probe::Again)),
                    (Input::Aside, SAME),
                ],
            ),
            (
                "an agent that goes on has reached it",
                &[
                    (Input::Probed(Reach::Unreachable), orders(offline, Probe::Again)),
                    (Input::Heard, orders(unpark, Probe::Off)),
                ],
            ),
            (
                "a question to a person is waited for, whatever else is heard",
                &[
                    (asked(1), orders(person, Probe::Same)),
                    (asked(2), orders(person, Probe::Same)),
                    (Input::Heard, orders(Clock::Same, Probe::Off)),
                    (Input::Settled { question: 1 }, SAME),
                    (Input::Probed(Reach::Unreachable), orders(offline, Probe::Again)),
                    (Input::Settled { question: 2 }, SAME),
                    (Input::Heard, orders(unpark, Probe::Off)),
                    (Input::Settled { question: 2 }, SAME),
                ],
            ),
            (
                "the end of the process ends a question",
                &[
                    (asked(1), orders(person, Probe::Same)),
                    (Input::Over, orders(unpark, Probe::Off)),
                    (Input::Settled { question: 1 }, SAME),
                ],
            ),
            (
                "the end of the process ends the wait",
                &[
                    (Input::Probed(Reach::Unreachable), orders(offline, Probe::Again)),
                    (Input::Over, orders(unpark, Probe::Off)),
                    (Input::Over, orders(Clock::Same, Probe::Off)),
                ],
            ),
        ];
        for (name, steps) in table {
            let mut waits = Waits::default();
            for (input, want) in *steps {
                assert_eq!(waits.step(*input), *want, "{name}: {input:?}");
            }
        }
    }

    #[test]
    fn only_an_answer_of_the_provider_ends_a_wait() {
        let (text, call) = (String::new, || "c".to_owned());
        let usage = Usage { input_tokens: Some(1), ..Usage::default() };
        let result = ToolResult { failed: false, exit_code: None, text: text() };
        let input = serde_json::Value::Null;
        let table = [
            (AgentEvent::Said { text: text(), part: Part::Delta, within: None }, Input::Heard),
            (AgentEvent::Thought { text: text() }, Input::Heard),
            (AgentEvent::ToolStarted { call: call(), tool: text(), input, within: None }, Input::Heard),
            (AgentEvent::TurnEnded(TurnOutcome::Interrupted), Input::Heard),
            (AgentEvent::SpentSoFar(usage), Input::Aside),
            (AgentEvent::Spent(usage), Input::Aside),
            (AgentEvent::Unpriced { model: text() }, Input::Aside),
            (AgentEvent::Noted { text: text() }, Input::Aside),
            (AgentEvent::Unknown { kind: text() }, Input::Aside),
            (AgentEvent::Asked { text: text() }, Input::Aside),
            (AgentEvent::ToolEnded { call: call(), result }, Input::Aside),
            (AgentEvent::TaskClosed { task: text() }, Input::Aside),
        ];
        for (event, want) in table {
            assert_eq!(Input::of(&event), want, "{event:?}");
        }
    }

    proptest! {
        /// Retries are ceiling time: of all that an agent reports, none parks a run.
        #[test]
        fn no_sequence_of_retries_defers_the_ceiling(
            retries in prop::collection::vec((0u64..120, 0u64..100_000, any::<bool>(), any::<bool>()), 0..40),
        ) {
            let limits = Limits { ceiling: Duration::from_secs(600), ..Limits::default() };
            let (mut waits, mut dog, mut now) = (Waits::default(), Watchdog::new(limits), Duration::ZERO);
            let mut action = dog.step(now, watchdog::Input::Spawned);
            for (pause, delay, is_provider, is_reached) in retries {
                now += Duration::from_secs(pause);
                let class = if is_provider { FailureClass::Provider } else { FailureClass::Overloaded };
                let delay = Some(Duration::from_secs(delay));
                let retry = Blocked::Retrying { attempt: 1, limit: None, delay, reason: String::new(), class };
                let event = AgentEvent::Blocked(retry);
                action = dog.step(now, watchdog::Input::of(&event));
                let orders = waits.step(Input::of(&event));
                prop_assert_eq!(orders.clock, Clock::Same);
                if orders.probe == Probe::Now {
                    let reach = if is_reached { Reach::Reachable } else { Reach::Unknown };
                    prop_assert_eq!(waits.step(Input::Probed(reach)).clock, Clock::Same);
                }
                if matches!(action, Action::Stop(_)) {
                    break;
                }
                prop_assert!(now < limits.ceiling, "{:?}", dog.why(now));
            }
            while !matches!(action, Action::Stop(_)) {
                now = dog.wake_at().unwrap();
                prop_assert!(now <= limits.ceiling, "{:?}", dog.why(now));
                action = dog.step(now, watchdog::Input::Tick);
            }
        }
    }
}
