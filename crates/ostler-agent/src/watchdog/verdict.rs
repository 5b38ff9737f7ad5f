//! What the watchdog thinks of a run, for people: what was last seen where, and which rule comes next.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Watchdog;
use super::due::Then;
use crate::outcome::Rule;

/// Where the watchdog believes a run to be. The diagram in `docs/design/watchdog.md` has the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There is no process: not yet, not any more, or not at the moment.
    Absent,
    /// There is a process, and nothing was heard of it.
    Starting,
    /// A turn is under way and no call is open.
    Working,
    /// A tool or sub-agent call is open, or work beside the turn.
    Waiting,
    /// The result was seen and the process is still there.
    Ending,
    /// A person has the agent's terminal.
    Held,
    /// The run waits for something that is not the agent.
    Parked,
    /// The process ended and something holds its output open.
    Exited,
    /// A rule fired.
    Stopped,
}

/// A way in which an agent shows life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A record on its standard output.
    Record,
    /// Its transcript, or a sub-agent's.
    Transcript,
    /// A call of our bridge.
    Bridge,
    /// Text on the screen of its terminal. Counts while a turn is under way.
    Screen,
    /// A spinner on that screen. Counts while no call is open, up to the limit on an open call.
    Spinner,
    /// Bytes that its connections received, as many as a streamed answer has. Counts while a turn is under way.
    Connection,
    /// Bytes that its connections received, no more than keep-alives have. Counts while no call is open, up to the limit
    /// on an open call.
    KeepAlive,
    /// Processor time or input and output of its descendants. Counts while a call is open.
    Tree,
    /// A change in the workspace. Counts while a call is open.
    Workspace,
}

/// When something was last seen on a channel, whether it counted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The channel.
    pub channel: Channel,
    /// When, since the run began.
    pub at: Duration,
}

/// A call that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The agent's id of it.
    pub call: String,
    /// The tool, as the agent names it.
    pub tool: String,
    /// Since when, since the run began.
    pub since: Duration,
}

/// The rule that fires if nothing more is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// Which.
    pub rule: Rule,
    /// When, since the run began.
    pub at: Duration,
}

/// All that the watchdog goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// When this was true, since the run began.
    pub at: Duration,
    /// Where the run is.
    pub state: State,
    /// How long nothing that counts was heard, in time of the agent.
    pub quiet: Duration,
    /// Time in which a process of the agent lived and the run was not parked: what the ceiling is about.
    pub agent_time: Duration,
    /// Time in which the run was parked.
    pub parked_time: Duration,
    /// What was last seen on each channel.
    pub seen: Vec<Seen>,
    /// Calls that are open.
    pub open_calls: Vec<OpenCall>,
    /// Work beside the turn that is open.
    pub open_tasks: Vec<String>,
    /// How often the last call was made in a row, with the same result.
    pub repeats: u32,
    /// The rule that fired.
    pub fired: Option<Rule>,
    /// The rule that fires next.
    pub next: Option<Next>,
}

impl Watchdog {
    /// What it thinks, and why. Changes nothing.
    pub fn why(&self, elapsed: Duration) -> Verdict {
        let at = self.now.max(elapsed);
        let agent_time = self.agent.read(at);
        let stops = self.dues().into_iter().flatten().filter_map(|due| match due.then {
            Then::Stop(rule) => Some(Next { rule, at: due.at }),
            Then::Spare(rule) => Some(Next { rule, at: due.at.saturating_add(self.limits.silence) }),
            Then::NoticeCeiling | Then::NoticeQuiet(_) | Then::Sample => None,
        });
        Verdict {
            at,
            state: self.state(),
            quiet: agent_time.saturating_sub(self.quiet.since),
            agent_time,
            parked_time: self.parked.read(at),
            seen: self.seen.iter().map(|(channel, at)| Seen { channel: *channel, at: *at }).collect(),
            open_calls: self.open.calls().collect(),
            open_tasks: self.open.tasks().cloned().collect(),
            repeats: self.repetition.count(),
            fired: self.ruling,
            next: stops.min_by_key(|next| next.at),
        }
    }
}
