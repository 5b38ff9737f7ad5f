//! How long is too long: the settings, and what they are unless set.

use std::time::Duration;

/// How long is too long. `Duration::MAX` is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nothing of any kind since the process was started.
    pub start: Duration,
    /// Nothing on any channel while no call is open.
    pub silence: Duration,
    /// Nothing on any channel while a call is open, or work beside the turn.
    pub open_call: Duration,
    /// The same call with the same result.
    pub repeats: Repeats,
    /// The result was seen, nothing is open beside the turn, and the process lives.
    pub after_result: Duration,
    /// The process ended and its output is still open.
    pub after_exit: Duration,
    /// All time in which a process of the agent lives.
    pub ceiling: Duration,
    /// All time in which the run is parked.
    pub max_wait: Duration,
}

/// How often the same call with the same result may come in a row. Fewer than two are read as two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    /// As many are suspect.
    pub warn: u32,
    /// As many are thrash.
    pub stop: u32,
    /// As many as are suspect are thrash already if they came within this time.
    pub fast: Duration,
}

impl Limits {
    /// Those of a turn without a run, which has a limit on silence and one on the whole turn. While a call is open, or
    /// only keep-alives are received, silence may last twice as long.
    pub fn of_turn(silence: Duration, turn: Duration) -> Self {
        let never = Duration::MAX;
        Self {
            start: silence,
            silence,
            open_call: silence.saturating_mul(2),
            repeats: Repeats { warn: u32::MAX, stop: u32::MAX, fast: Duration::ZERO },
            after_result: never,
            after_exit: never,
            ceiling: turn,
            max_wait: never,
        }
    }
}

impl Default for Limits {
    /// Agents give up a dead connection by themselves after about five minutes: `silence` lets them recover first.
    fn default() -> Self {
        const MINUTE: u64 = 60;
        Self {
            start: Duration::from_secs(120),
            silence: Duration::from_secs(6 * MINUTE),
            open_call: Duration::from_secs(30 * MINUTE),
            repeats: Repeats { warn: 5, stop: 20, fast: Duration::from_secs(60) },
            after_result: Duration::from_secs(10),
            after_exit: Duration::from_secs(2),
            ceiling: Duration::from_secs(60 * MINUTE),
            max_wait: Duration::from_secs(12 * 60 * MINUTE),
        }
    }
}
