//! The clock on the wall, for what agents print.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use ostler_agent::agent::Clock;

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// A time, as people say it: with the date if that is another day.
pub fn said(seconds: i64) -> String {
    let zone = TimeZone::system();
    let Ok(at) = jiff::Timestamp::from_second(seconds) else { return format!("second {seconds}") };
    let (at, today) = (at.to_zoned(zone.clone()), jiff::Timestamp::now().to_zoned(zone).date());
    let form = if at.date() == today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    at.strftime(form).to_string()
}

/// What it shows now. Agents read it as we do: from `TZ`, else from the machine's settings.
pub(super) fn shown() -> Clock {
    let east = TimeZone::system().to_offset(jiff::Timestamp::now()).seconds();
    Clock { now: Some(now()), east: i64::from(east) }
}
