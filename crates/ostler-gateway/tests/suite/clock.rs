//! A clock that tests move: minutes pass at once, and none passes by itself.

use std::sync::mpsc;
use std::time::Duration;

use crate::house::DEADLINE;

/// A timer of tokio's goes off at the next whole one.
const TICK: Duration = Duration::from_millis(1);

/// Stands still until it is moved.
///
/// A clock that tokio has paused jumps ahead whenever the runtime is idle, as it is while bytes of a connection are on
/// their way. It does not while a blocking task is under way: one is, as long as this is there.
pub(crate) struct Clock {
    _still: mpsc::SyncSender<()>,
}

impl Clock {
    pub(crate) fn stopped() -> Self {
        tokio::time::pause();
        let (still, over) = mpsc::sync_channel::<()>(0);
        let waits = move || {
            // Ends when the other side is dropped. If that never happens the clock jumps, and what was waited for is late.
            let _ = over.recv_timeout(2 * DEADLINE);
        };
        drop(tokio::task::spawn_blocking(waits));
        Self { _still: still }
    }

    /// So long later, with all that is due.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::advance(time + TICK).await;
    }

    /// It runs as ever from now on.
    pub(crate) fn runs(self) {
        tokio::time::resume();
    }
}
