//! How much is served at once, and how long anything may take: as the flags and `[serve]` say.

use ostler_agent::leasing::Limits;
use ostler_gateway::conversations::Bounds;
use ostler_gateway::http::{BodyLimits, ConnectionLimits};
use ostler_gateway::pool::Patience;

use crate::config::{Count, ServeSection};

/// Bytes of a megabyte, as people count memory.
const MEGABYTE: u64 = 1 << 20;

/// How many sessions there may be. As many as half of them wait, unless it is said how many.
pub(super) fn limits(sessions: usize, section: &ServeSection) -> Limits {
    let live = sessions.max(1);
    let usual = Limits::default();
    Limits {
        live,
        live_of_tenant: live,
        idle: section.max_idle.map_or(live.div_ceil(2), |count| count.0 as usize),
        rest: section.idle_for.map_or(usual.rest, |span| span.0),
        memory: section.max_memory_mb.map_or(usual.memory, |count| u64::from(count.0) * MEGABYTE),
        ..usual
    }
}

/// How many bytes of request bodies are in memory at once.
pub(super) fn bodies(section: &ServeSection) -> BodyLimits {
    let usual = BodyLimits::default();
    let bytes = |count: Option<Count>, usual| count.map_or(usual, |count| (count.0 as usize) << 20);
    BodyLimits {
        total: bytes(section.max_body_mb, usual.total),
        of_key: bytes(section.max_key_body_mb, usual.of_key),
    }
}

/// How much of conversations is kept on disk.
pub(super) fn conversations(section: &ServeSection) -> Bounds {
    let usual = Bounds::default();
    let bytes = |count: Option<Count>, usual| count.map_or(usual, |count| u64::from(count.0) * MEGABYTE);
    Bounds {
        bytes: bytes(section.max_key_conversations_mb, usual.bytes),
        total_bytes: bytes(section.max_conversations_mb, usual.total_bytes),
        ..usual
    }
}

/// How many connections there are at once.
pub(super) fn connections(section: &ServeSection) -> ConnectionLimits {
    let usual = ConnectionLimits::default();
    let count = |count: Option<Count>, usual| count.map_or(usual, |count| (count.0 as usize).max(1));
    ConnectionLimits {
        total: count(section.max_connections, usual.total),
        of_peer: count(section.max_peer_connections, usual.of_peer),
    }
}

/// How long a turn may take.
pub(super) fn patience(section: &ServeSection) -> Patience {
    let usual = Patience::default();
    Patience {
        silence: section.silence.map_or(usual.silence, |span| span.0),
        turn: section.max_turn.map_or(usual.turn, |span| span.0),
        ..usual
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;

    fn section(text: &str) -> ServeSection {
        toml::from_str::<Config>(text).unwrap().serve
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        let section = section("");
        assert_eq!(limits(16, &section), Limits::default());
        assert_eq!(patience(&section), Patience::default());
        assert_eq!(bodies(&section), BodyLimits::default());
        assert_eq!(connections(&section), ConnectionLimits::default());
        assert_eq!(conversations(&section), Bounds::default());
        let many = limits(64, &section);
        assert_eq!((many.live, many.live_of_tenant, many.idle), (64, 64, 32));
        let one = limits(0, &section);
        assert_eq!((one.live, one.idle), (1, 1));
    }

    #[test]
    fn what_is_said_holds() {
        let section = section(
            "[serve]\nmax_idle = 0\nidle_for = \"2m\"\nmax_memory_mb = 512\nsilence = \"5m\"\nmax_turn = \"3h\"\nmax_body_mb = 64\nmax_key_body_mb = 32\nmax_connections = 9\nmax_peer_connections = 0\n\
             max_conversations_mb = 100\nmax_key_conversations_mb = 10",
        );
        let limits = limits(4, &section);
        assert_eq!((limits.idle, limits.rest, limits.memory), (0, Duration::from_secs(120), 512 << 20));
        assert_eq!(bodies(&section), BodyLimits { total: 64 << 20, of_key: 32 << 20 });
        assert_eq!(connections(&section), ConnectionLimits { total: 9, of_peer: 1 });
        let kept = conversations(&section);
        assert_eq!((kept.bytes, kept.total_bytes), (10 << 20, 100 << 20));
        let patience = patience(&section);
        assert_eq!((patience.silence.as_secs(), patience.turn.as_secs()), (300, 3 * 60 * 60));
    }
}
