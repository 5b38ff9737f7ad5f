//! The clock on the wall, for what agents print.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use ostler_agent::agent::Clock;
use tokio::time::Instant;

/// How long a wait may go on without a look at the clock. A machine that is suspended stops all timers, but not that.
const LOOK: Duration = Duration::from_secs(30);

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// Waits until it is that late, and at most so long by our own timers: somebody may set the clock back.
pub(super) async fn pass(until: i64, wait: Duration) {
    let began = Instant::now();
    while let Some(nap) = nap(until, now(), wait.saturating_sub(began.elapsed())) {
        tokio::time::sleep(nap).await;
    }
}

/// How long to sleep before the next look. Nothing, once it is late enough.
fn nap(until: i64, now: i64, left: Duration) -> Option<Duration> {
    let early = u64::try_from(until.saturating_sub(now)).ok().filter(|seconds| *seconds > 0)?;
    Some(left.min(LOOK).min(Duration::from_secs(early))).filter(|nap| !nap.is_zero())
}

/// A time, as people say it: with the date if that is another day.
pub fn said(seconds: i64) -> String {
    let zone = zone();
    let Ok(at) = jiff::Timestamp::from_second(seconds) else { return format!("second {seconds}") };
    let (at, today) = (at.to_zoned(zone.clone()), jiff::Timestamp::now().to_zoned(zone).date());
    let form = if at.date() == today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    at.strftime(form).to_string()
}

/// What it shows now. Agents read it as we do: from `TZ`, else from the machine's settings.
pub(crate) fn shown() -> Clock {
    let east = zone().to_offset(jiff::Timestamp::now()).seconds();
    Clock { now: Some(now()), east: i64::from(east) }
}

/// The zone of this machine. Unless a variable names another it is read from its file: for a name, every zone that there
/// is would be listed first, in some hundred system calls.
pub fn zone() -> TimeZone {
    let is_named = std::env::var_os("TZ").is_some_and(|name| !name.is_empty());
    let own = || TimeZone::tzif("", &std::fs::read("/etc/localtime").ok()?).ok();
    if is_named { None } else { own() }.unwrap_or_else(TimeZone::system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_is_that_of_the_machine() {
        let (now, system) = (jiff::Timestamp::now(), TimeZone::system());
        assert_eq!(zone().to_offset(now), system.to_offset(now));
    }

    #[test]
    fn a_machine_that_was_suspended_does_not_oversleep() {
        let secs = Duration::from_secs;
        let table = [
            // Awake: in pieces, and the rest at the end.
            (1_000, 0, secs(1_000), Some(LOOK)),
            (1_000, 990, secs(10), Some(secs(10))),
            (1_000, 1_000, secs(0), None),
            // Suspended: the clock is ahead of the timers.
            (1_000, 2_000, secs(970), None),
            (1_000, 995, secs(900), Some(secs(5))),
            // Set back: the timers are right.
            (1_000, -5_000, secs(4), Some(secs(4))),
            (1_000, -5_000, secs(0), None),
        ];
        for (until, now, left, want) in table {
            assert_eq!(nap(until, now, left), want, "until {until}, now {now}, left {left:?}");
        }
    }
}
