//! Whether an agent that says nothing is working or stuck: one pure function from what happened to what to do.
//!
//! The watchdog owns no clock, process or channel. It is told what happened and when, answers with an [`Action`], and
//! says with [`Watchdog::wake_at`] when it wants to be asked again, so nothing polls. One of them watches a whole run,
//! over all its processes: after a stop, the next [`Input::Spawned`] arms it anew, but the time that was used stays used.
//!
//! Invariants: no input defers the ceiling; `Stop` comes at most once for a process, and once for a wait without one;
//! all that it will ever say by itself is in `dues`, which is what it judges by, wakes by and explains itself by.

mod due;
mod input;
mod limits;
mod open;
mod quiet;
mod repetition;
mod stopwatch;
mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use input::{EventKind, Input, ResultHash, Signature, Speaker, canonical};
pub use limits::{Limits, Repeats};
pub use verdict::{Channel, Next, OpenCall, Seen, State, Verdict};

use crate::outcome::Rule;
use open::OpenWork;
use quiet::{Findings, Once, Quiet, Traffic, Tree};
use repetition::{Repeated, Repetition};
use stopwatch::Stopwatch;

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Tell the reader, and go on.
    Warn(Warning),
    /// Look at the agent's processes and connections, and pass it on as [`Input::TreeSample`]. Optional: without it they
    /// seem idle.
    Sample,
    /// Stop the agent's process. Comes at most once for each.
    Stop(Rule),
}

/// What a reader should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "warning", rename_all = "snake_case")]
pub enum Warning {
    /// Half of a rule's time passed without a sign of life.
    Quiet {
        /// The rule.
        rule: Rule,
        /// How long nothing was heard.
        quiet: Duration,
    },
    /// A rule's time is over, but the agent's descendants are busy: it is given as much again, once.
    Spared {
        /// The rule.
        rule: Rule,
        /// How long nothing was heard.
        quiet: Duration,
    },
    /// The same call came again and again with the same result.
    Repeats {
        /// How often.
        count: u32,
    },
    /// Nine tenths of the ceiling are used: the agent should wrap up.
    Ceiling {
        /// What is left.
        left: Duration,
    },
}

/// What the agent's process is doing, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Absent,
    Alive(Stage),
    Exited { at: Duration },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Turn,
    Ended,
}

/// Whether what was heard belongs to a turn. After a result, work means that a further turn began: agents take queued
/// prompts, and start a turn by themselves when a background task ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Work,
    Aside,
}

/// Who has the keys of the agent's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    Ours,
    Persons,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pipe {
    Open,
    Closed,
}

/// Decides whether a run's agent is working or stuck.
#[derive(Debug)]
pub struct Watchdog {
    limits: Limits,
    now: Duration,
    life: Life,
    pipe: Pipe,
    keys: Keys,
    /// The rule that fired since the last start.
    ruling: Option<Rule>,
    agent: Stopwatch,
    parked: Stopwatch,
    quiet: Quiet,
    open: OpenWork,
    repetition: Repetition,
    seen: BTreeMap<Channel, Duration>,
    ceiling_notice: Once,
}

impl Watchdog {
    /// A watchdog for a run that has no process yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            now: Duration::ZERO,
            life: Life::Absent,
            pipe: Pipe::Open,
            keys: Keys::Ours,
            ruling: None,
            agent: Stopwatch::NEW,
            parked: Stopwatch::NEW,
            quiet: Quiet::new(Duration::ZERO),
            open: OpenWork::NONE,
            repetition: Repetition::NEW,
            seen: BTreeMap::new(),
            ceiling_notice: Once::Due,
        }
    }

    /// Takes what happened `elapsed` after the run began, and says what to do. Never panics; time that runs backwards
    /// stands still.
    pub fn step(&mut self, elapsed: Duration, input: Input) -> Action {
        self.now = self.now.max(elapsed);
        // Asked before the input is looked at, so that no input can defer it.
        let ceiling = self.ceiling_is_reached();
        let repeated = self.note(input);
        if ceiling {
            return self.stop(Rule::Ceiling);
        }
        match (repeated, self.ruling, self.life) {
            (Repeated::Suspect { count }, None, Life::Alive(_)) => Action::Warn(Warning::Repeats { count }),
            (Repeated::Thrash, None, Life::Alive(_)) => self.stop(Rule::Loop),
            (Repeated::Fine | Repeated::Suspect { .. } | Repeated::Thrash, _, _) => self.judge(),
        }
    }

    /// When to send the next [`Input::Tick`], since the run began. Never before the last step; nothing while nothing
    /// can become due by itself.
    pub fn wake_at(&self) -> Option<Duration> {
        self.dues().into_iter().flatten().map(|due| due.at.max(self.now)).min()
    }

    /// When something was last seen on a channel, whether it counted or not: since the run began.
    pub fn last_seen(&self, channel: Channel) -> Option<Duration> {
        self.seen.get(&channel).copied()
    }

    /// Where the run is.
    pub fn state(&self) -> State {
        match self.life {
            _ if self.ruling.is_some() => State::Stopped,
            Life::Exited { .. } => State::Exited,
            Life::Absent | Life::Alive(_) if self.parked.is_running() => State::Parked,
            Life::Absent => State::Absent,
            Life::Alive(_) if self.keys == Keys::Persons => State::Held,
            Life::Alive(Stage::Starting) => State::Starting,
            Life::Alive(Stage::Turn) if self.open.is_empty() => State::Working,
            Life::Alive(Stage::Ended) if !self.open.has_tasks() => State::Ending,
            Life::Alive(Stage::Turn | Stage::Ended) => State::Waiting,
        }
    }

    fn ceiling_is_reached(&self) -> bool {
        let reached = self.agent.reaches(self.limits.ceiling).is_some_and(|at| at <= self.now);
        self.ruling.is_none() && reached
    }

    fn stop(&mut self, rule: Rule) -> Action {
        self.ruling = Some(rule);
        Action::Stop(rule)
    }

    /// Remembers what happened.
    fn note(&mut self, input: Input) -> Repeated {
        match input {
            Input::Spawned => self.spawned(),
            Input::Prompted => self.begin_turn(),
            Input::Event(kind) => self.heard(Channel::Record, word(kind)),
            Input::Retrying { delay } => {
                self.heard(Channel::Record, Word::Aside);
                self.quiet.announced = Some(self.agent.read(self.now).saturating_add(delay));
            }
            Input::CallOpened { call, tool, signature, by } => {
                self.open.open_call(call, tool, signature, self.now);
                self.heard(Channel::Record, spoken(by));
            }
            Input::CallClosed { call, result } => {
                self.heard(Channel::Record, Word::Aside);
                return self.call_closed(&call, result);
            }
            Input::TaskOpened { task } => {
                self.open.open_task(task);
                self.heard(Channel::Record, Word::Aside);
            }
            Input::TaskClosed { task } => {
                self.open.close_task(&task);
                self.heard(Channel::Record, Word::Aside);
            }
            Input::BridgeCall => self.heard(Channel::Bridge, Word::Aside),
            Input::TranscriptGrew => self.transcript_grew(),
            Input::ScreenText => self.screen_changed(),
            Input::ScreenSpinner => self.spinner_moved(),
            Input::TreeSample { cpu, io, received } => self.sampled(cpu, io, received),
            Input::TreeBusy => {
                self.quiet.busy(self.agent.read(self.now));
                self.tree_is_busy();
            }
            Input::AnswerReceived => self.answer_received(),
            Input::KeepAliveReceived => self.keep_alive_received(),
            Input::WorkspaceChanged => {
                self.seen.insert(Channel::Workspace, self.now);
                if self.state() == State::Waiting {
                    self.heard(Channel::Workspace, Word::Aside);
                }
            }
            Input::Parked => self.parked.start(self.now),
            Input::Unparked => self.unpark(),
            Input::Held => self.keys = Keys::Persons,
            Input::Released => self.release(),
            Input::ResultSeen => {
                self.open.end_turn();
                self.heard(Channel::Record, Word::Aside);
                self.enter(Stage::Ended);
            }
            Input::Eof => {
                self.pipe = Pipe::Closed;
                self.leave();
            }
            Input::Exited => self.exited(),
            Input::Tick => {}
        }
        self.run_clock();
        Repeated::Fine
    }

    fn spawned(&mut self) {
        self.parked.hold(self.now);
        self.life = Life::Alive(Stage::Starting);
        self.pipe = Pipe::Open;
        self.keys = Keys::Ours;
        self.ruling = None;
        self.open = OpenWork::NONE;
        self.quiet = Quiet::new(self.agent.read(self.now));
    }

    fn begin_turn(&mut self) {
        if self.life == Life::Alive(Stage::Ended) {
            self.enter(Stage::Turn);
            self.quiet.broken(self.agent.read(self.now));
        }
    }

    /// Something that counts as life.
    fn heard(&mut self, channel: Channel, word: Word) {
        self.seen.insert(channel, self.now);
        self.quiet.broken(self.agent.read(self.now));
        if word == Word::Work {
            self.quiet.announced = None;
        }
        match (self.life, word) {
            (Life::Alive(Stage::Starting), _) | (Life::Alive(Stage::Ended), Word::Work) => {
                self.enter(Stage::Turn);
            }
            (Life::Alive(Stage::Turn | Stage::Ended) | Life::Absent | Life::Exited { .. }, _) => {}
        }
    }

    /// A process that only wrote has not said yet that it is there: it keeps the longer of the two limits. Some agents
    /// open their session seconds before their first record.
    fn transcript_grew(&mut self) {
        let is_starting = self.life == Life::Alive(Stage::Starting);
        self.heard(Channel::Transcript, Word::Aside);
        if is_starting && self.limits.start > self.limits.silence {
            self.enter(Stage::Starting);
        }
    }

    /// Text counts while a turn is under way: what is drawn before the first record, or after the result, is the
    /// program's own.
    fn screen_changed(&mut self) {
        self.seen.insert(Channel::Screen, self.now);
        if matches!(self.state(), State::Working | State::Waiting) {
            self.heard(Channel::Screen, Word::Aside);
        }
    }

    fn spinner_moved(&mut self) {
        self.seen.insert(Channel::Spinner, self.now);
        self.defer_silence();
    }

    /// While a call is open its own limit holds, which is as long as a spinner may turn.
    fn defer_silence(&mut self) {
        if self.state() == State::Working {
            self.quiet.spinner = Some(self.agent.read(self.now));
        }
    }

    fn enter(&mut self, stage: Stage) {
        match self.life {
            Life::Alive(_) => self.life = Life::Alive(stage),
            Life::Absent | Life::Exited { .. } => {}
        }
    }

    fn call_closed(&mut self, call: &str, result: ResultHash) -> Repeated {
        match self.open.close_call(call) {
            Some(signature) => {
                let at = self.agent.read(self.now);
                self.repetition.ended((signature, result), at, &self.limits.repeats)
            }
            // What it was is not known, so it cannot be called the same.
            None => {
                self.repetition.broken();
                Repeated::Fine
            }
        }
    }

    fn sampled(&mut self, cpu: Duration, io: u64, received: u64) {
        let Findings { tree, traffic } = self.quiet.sampled(self.agent.read(self.now), cpu, io, received);
        match tree {
            Tree::Busy => self.tree_is_busy(),
            Tree::Idle | Tree::Unknown => {}
        }
        match traffic {
            Traffic::Stream => self.answer_received(),
            Traffic::KeepAlive => self.keep_alive_received(),
            Traffic::None => {}
        }
    }

    /// Agents that report whole messages only are silent while the model's answer streams.
    fn answer_received(&mut self) {
        self.seen.insert(Channel::Connection, self.now);
        if matches!(self.state(), State::Working | State::Waiting) {
            self.heard(Channel::Connection, Word::Aside);
        }
    }

    /// A provider may send keep-alives over a connection on which no answer comes any more.
    fn keep_alive_received(&mut self) {
        self.seen.insert(Channel::KeepAlive, self.now);
        self.defer_silence();
    }

    fn tree_is_busy(&mut self) {
        self.seen.insert(Channel::Tree, self.now);
        if self.state() == State::Waiting {
            self.heard(Channel::Tree, Word::Aside);
        }
    }

    /// The agent is given a whole period again: it may have to notice first that the network is back.
    fn unpark(&mut self) {
        if self.parked.is_running() {
            self.parked.hold(self.now);
            self.quiet.broken(self.agent.read(self.now));
        }
    }

    /// A person kept the agent waiting, or did its work: it is given a whole period again.
    fn release(&mut self) {
        if self.keys == Keys::Persons {
            self.keys = Keys::Ours;
            self.quiet.broken(self.agent.read(self.now));
        }
    }

    fn exited(&mut self) {
        match self.life {
            Life::Alive(_) => self.life = Life::Exited { at: self.now },
            Life::Absent | Life::Exited { .. } => {}
        }
        self.leave();
    }

    /// A process is over once it ended and its output was read to the end.
    fn leave(&mut self) {
        match (self.life, self.pipe) {
            (Life::Exited { .. }, Pipe::Closed) => self.life = Life::Absent,
            (Life::Exited { .. }, Pipe::Open) | (Life::Absent | Life::Alive(_), _) => {}
        }
    }

    /// Only a living process uses the agent's time, and only while the run is not parked.
    fn run_clock(&mut self) {
        match (self.life, self.parked.is_running()) {
            (Life::Alive(_), false) => self.agent.start(self.now),
            (Life::Alive(_), true) | (Life::Absent | Life::Exited { .. }, false) => self.agent.hold(self.now),
            (Life::Absent | Life::Exited { .. }, true) => {
                self.agent.hold(self.now);
                self.arm_for_the_wait();
            }
        }
    }

    /// A run that waits without a process has done with the last one, and with the rule that stopped it: otherwise
    /// nothing would end the wait.
    fn arm_for_the_wait(&mut self) {
        if self.ruling.is_some_and(|rule| rule != Rule::MaxWait) {
            self.ruling = None;
            self.life = Life::Absent;
        }
    }
}

fn word(kind: EventKind) -> Word {
    match kind {
        EventKind::Started | EventKind::Asked | EventKind::Said | EventKind::Thought => Word::Work,
        EventKind::SubAgent
        | EventKind::Spent
        | EventKind::Blocked
        | EventKind::Noted
        | EventKind::Unknown => Word::Aside,
    }
}

fn spoken(by: Speaker) -> Word {
    match by {
        Speaker::Agent => Word::Work,
        Speaker::SubAgent => Word::Aside,
    }
}

#[cfg(test)]
mod held_tests;
#[cfg(test)]
mod no_false_kill_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod repetition_tests;
#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;
#[cfg(test)]
mod verdict_tests;
