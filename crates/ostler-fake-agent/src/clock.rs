//! The wall clock, as agents stamp it into their records.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Now, as `2026-11-15T19:45:34.891Z`.
pub(super) fn timestamp() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

/// Now, since the epoch.
pub(super) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Now, in milliseconds since the epoch.
pub(super) fn epoch_ms() -> u64 {
    u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX)
}

/// A span as the whole milliseconds that records state.
pub(super) fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
