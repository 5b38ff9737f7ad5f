//! The clock on the wall, for what agents print.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use ostler_agent::agent::Clock;

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// What it shows now. Agents read it as we do: from `TZ`, else from the machine's settings.
pub(super) fn shown() -> Clock {
    let east = TimeZone::system().to_offset(jiff::Timestamp::now()).seconds();
    Clock { now: Some(now()), east: i64::from(east) }
}
