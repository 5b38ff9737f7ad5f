//! Time of one kind, added up over the stretches in which it passes.

use std::time::Duration;

/// Adds up time. Is told what time it is, and never runs backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopwatch {
    Held { total: Duration },
    Running { before: Duration, since: Duration },
}

impl Stopwatch {
    pub(super) const NEW: Self = Self::Held { total: Duration::ZERO };

    pub(super) fn start(&mut self, now: Duration) {
        match *self {
            Self::Held { total } => *self = Self::Running { before: total, since: now },
            Self::Running { .. } => {}
        }
    }

    pub(super) fn hold(&mut self, now: Duration) {
        *self = Self::Held { total: self.read(now) };
    }

    pub(super) fn is_running(self) -> bool {
        match self {
            Self::Held { .. } => false,
            Self::Running { .. } => true,
        }
    }

    pub(super) fn read(self, now: Duration) -> Duration {
        match self {
            Self::Held { total } => total,
            Self::Running { before, since } => before.saturating_add(now.saturating_sub(since)),
        }
    }

    /// When it will show `total`, if it goes on running: since the run began. Never, for a total without bound.
    pub(super) fn reaches(self, total: Duration) -> Option<Duration> {
        match self {
            Self::Held { .. } => None,
            Self::Running { .. } if total == Duration::MAX => None,
            Self::Running { before, since } => since.checked_add(total.saturating_sub(before)),
        }
    }
}
