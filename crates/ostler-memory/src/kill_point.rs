//! Where a test may end this process: after each step of capture and drain that touches the disk. What is then on disk
//! is what a crash leaves there. Without the variable, nothing happens.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// `name` or `name:count`: at the how many-th time that the step is reached. `any:count` counts all steps.
pub const VARIABLE: &str = "OSTLER_MEMORY_KILL_AT";

struct Wanted {
    name: String,
    count: u64,
    seen: AtomicU64,
}

static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();

/// A step was done.
pub fn reached(name: &str) {
    let wanted = WANTED.get_or_init(|| {
        let value = std::env::var(VARIABLE).ok()?;
        let (name, count) = value.split_once(':').unwrap_or((&value, "1"));
        Some(Wanted { name: name.to_owned(), count: count.parse().ok()?, seen: AtomicU64::new(0) })
    });
    let Some(wanted) = wanted else { return };
    if wanted.name != "any" && wanted.name != name {
        return;
    }
    if wanted.seen.fetch_add(1, Ordering::Relaxed) + 1 == wanted.count {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
