//! Thrash: the same complete call with the same result, in a row.

use std::collections::VecDeque;
use std::time::Duration;

use super::Repeats;
use super::input::{ResultHash, Signature};

/// One call is no row. A smaller setting is read as this.
const SHORTEST_ROW: u32 = 2;

/// What the last call means for the row that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeated {
    Fine,
    Suspect { count: u32 },
    Thrash,
}

/// The row of equal calls that the last one belongs to.
#[derive(Debug)]
pub(super) struct Repetition {
    last: Option<(Signature, ResultHash)>,
    count: u32,
    /// When the last calls of the row ended: as many as are warned about, and never more than stop it.
    ends: VecDeque<Duration>,
}

impl Repetition {
    pub(super) const NEW: Self = Self { last: None, count: 0, ends: VecDeque::new() };

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The row is over: something else happened.
    pub(super) fn broken(&mut self) {
        *self = Self::NEW;
    }

    pub(super) fn ended(
        &mut self,
        call: (Signature, ResultHash),
        at: Duration,
        limits: &Repeats,
    ) -> Repeated {
        if self.last != Some(call) {
            self.broken();
            self.last = Some(call);
        }
        self.count = self.count.saturating_add(1);
        let warn = limits.warn.max(SHORTEST_ROW);
        self.ends.push_back(at);
        while self.ends.len() > warn as usize {
            self.ends.pop_front();
        }
        let since_first = self.ends.front().map_or(Duration::ZERO, |first| at.saturating_sub(*first));
        let fast = self.count >= warn && since_first <= limits.fast;
        if fast || self.count >= limits.stop.max(SHORTEST_ROW) {
            Repeated::Thrash
        } else if self.count == warn {
            Repeated::Suspect { count: self.count }
        } else {
            Repeated::Fine
        }
    }
}
