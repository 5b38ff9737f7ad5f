//! How long a run pauses before it resumes a session after something that may pass by itself. Pauses grow with every
//! failure in a row; what makes many runs come back at different moments is decided outside.

use std::time::Duration;

/// The first pause after an outage or a crash, unless it is set. With the default of three resumes the pauses add up to
/// more than four minutes.
pub const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// Pauses after an outage or a crash, as multiples of the first: 10 s, 1 min, 3 min, then 10 min.
const OUTAGE: [u32; 4] = [1, 6, 18, 60];

/// Pauses for a limit whose reset is not known, as multiples of the first: 1, 2, 5, 10, 20 min, then 30 min. Providers
/// count requests by the minute.
const RATE_LIMIT: [u32; 6] = [6, 12, 30, 60, 120, 180];

/// The part of a pause that jitter may add.
const JITTER_PART: u32 = 4;

/// What a run pauses for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// The provider failed, or the agent crashed.
    Outage,
    /// A limit whose reset is not known.
    RateLimit,
}

/// The pause after so many failures in a row before this one. Never shorter than the one before.
pub(super) fn pause(kind: Pause, first: Duration, earlier: u32, jitter: Duration) -> Duration {
    let steps: &[u32] = match kind {
        Pause::Outage => &OUTAGE,
        Pause::RateLimit => &RATE_LIMIT,
    };
    let index = usize::try_from(earlier).unwrap_or(usize::MAX).min(steps.len() - 1);
    let pause = first.saturating_mul(steps[index]);
    pause.saturating_add(jitter.min(pause / JITTER_PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let table: [(Pause, &[u64]); 2] = [
            (Pause::Outage, &[10, 60, 180, 600, 600]),
            (Pause::RateLimit, &[60, 120, 300, 600, 1_200, 1_800, 1_800]),
        ];
        for (kind, want) in table {
            let pauses: Vec<u64> = (0..)
                .zip(want)
                .map(|(earlier, _)| pause(kind, FIRST_PAUSE, earlier, Duration::ZERO).as_secs())
                .collect();
            assert_eq!(pauses, want, "{kind:?}");
        }
        assert_eq!(pause(Pause::Outage, FIRST_PAUSE, u32::MAX, Duration::ZERO).as_secs(), 600);
    }

    #[test]
    fn jitter_adds_a_quarter_at_most() {
        let seconds = Duration::from_secs;
        assert_eq!(pause(Pause::Outage, seconds(10), 0, seconds(20)), Duration::from_millis(12_500));
        assert_eq!(pause(Pause::Outage, seconds(10), 1, seconds(7)), seconds(67));
        assert_eq!(pause(Pause::Outage, Duration::ZERO, 0, seconds(7)), Duration::ZERO);
        assert_eq!(pause(Pause::Outage, Duration::MAX, 3, seconds(7)), Duration::MAX);
    }
}
