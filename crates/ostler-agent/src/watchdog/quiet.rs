//! How long nothing was heard, and what was asked and learned meanwhile. Measured in time of the agent.

use std::time::Duration;

/// Processor time that is work, as a share of one core. Claude's leader, which is not counted, idles at 0.8 %; waiting
/// MCP servers stay below that; a compiler or a test takes tens of percent.
const BUSY_PERMILLE: u32 = 20;

/// Bytes that are work. Less than a page in a whole sampling period is wake-ups and pings.
const BUSY_BYTES: u64 = 4096;

/// Bytes a second that are a streamed answer. A token is an event of 150 bytes and more; a keep-alive has 13 to 90 bytes
/// with all that is around it, and comes once in several seconds.
const STREAM_BYTES_PER_SECOND: u64 = 100;

/// Fewer bytes are no streamed answer however short the sample is: two keep-alives may come at once.
const LEAST_STREAM_BYTES: u128 = 256;

/// Something that is done once in a stretch of quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Once {
    Due,
    Done,
}

/// What samples of the tree say about a stretch of quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tree {
    /// No sample lies wholly within it.
    Unknown,
    Idle,
    Busy,
}

/// What samples of the leader's connections say about a stretch of quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    None,
    KeepAlive,
    Stream,
}

/// What a sample shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) tree: Tree,
    pub(super) traffic: Traffic,
}

/// A stretch of quiet.
#[derive(Debug)]
pub(super) struct Quiet {
    pub(super) since: Duration,
    pub(super) notice: Once,
    /// The one extra period for an agent that is silent while its descendants are busy.
    pub(super) spare: Once,
    pub(super) tree: Tree,
    /// When a spinner last moved in it, or a keep-alive was last received.
    pub(super) spinner: Option<Duration>,
    /// Until when the agent announced to be quiet.
    pub(super) announced: Option<Duration>,
    /// When a sample was last asked for or taken.
    pub(super) asked: Duration,
    sampled: Duration,
}

impl Quiet {
    pub(super) fn new(at: Duration) -> Self {
        Self {
            since: at,
            notice: Once::Due,
            spare: Once::Due,
            tree: Tree::Unknown,
            spinner: None,
            announced: None,
            asked: at,
            sampled: at,
        }
    }

    /// A sign of life: a new stretch begins. An announced wait continues: the agent notes its retry a moment later.
    pub(super) fn broken(&mut self, at: Duration) {
        let Self { announced, asked, sampled, .. } = *self;
        *self = Self { announced, asked, sampled, ..Self::new(at) };
    }

    /// From when on quiet is counted: from the last sign of life, or from the end of an announced wait.
    pub(super) fn counted_from(&self) -> Duration {
        self.announced.map_or(self.since, |until| until.max(self.since))
    }

    /// From when on silence is counted: also from the last move of a spinner or the last keep-alive, but never so late
    /// that these alone are left alone for longer than `longest`.
    pub(super) fn silent_since(&self, silence: Duration, longest: Duration) -> Duration {
        let since = self.counted_from();
        let latest = since.saturating_add(longest.saturating_sub(silence));
        self.spinner.map_or(since, |spinner| spinner.clamp(since, latest))
    }

    /// When a sample is wanted: not while much is heard, then once in a period.
    pub(super) fn sample_at(&self, period: Duration) -> Duration {
        self.since.max(self.asked).saturating_add(period)
    }

    pub(super) fn asked(&mut self, at: Duration) {
        self.asked = at;
    }

    /// Takes a sample that was found to be busy.
    pub(super) fn busy(&mut self, at: Duration) {
        self.asked = at;
        self.sampled = at;
        self.tree = Tree::Busy;
    }

    /// Takes a sample of what happened since the previous one. It tells something about this stretch only if all of
    /// it does: what was done before the quiet began is no sign of life in it.
    pub(super) fn sampled(&mut self, at: Duration, cpu: Duration, io: u64, received: u64) -> Findings {
        let from = self.sampled;
        self.asked = at;
        self.sampled = at;
        if from < self.since {
            return Findings { tree: Tree::Unknown, traffic: Traffic::None };
        }
        let span = at.saturating_sub(from);
        let worked = cpu.saturating_mul(1000) >= span.saturating_mul(BUSY_PERMILLE);
        let busy = (worked && !cpu.is_zero()) || io >= BUSY_BYTES;
        self.tree = if busy { Tree::Busy } else { Tree::Idle };
        Findings { tree: self.tree, traffic: traffic(received, span) }
    }
}

fn traffic(received: u64, span: Duration) -> Traffic {
    let streamed = span.as_millis().saturating_mul(u128::from(STREAM_BYTES_PER_SECOND)) / 1000;
    match received {
        0 => Traffic::None,
        _ if u128::from(received) >= streamed.max(LEAST_STREAM_BYTES) => Traffic::Stream,
        _ => Traffic::KeepAlive,
    }
}
