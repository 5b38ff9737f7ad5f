//! Sessions that are started ahead, and replaced when they are used.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_agent::leasing::{self, Terms};
use tokio::time::Instant;

use super::{Shared, lease};
use crate::live::Start;

/// How long none is started ahead after one could not be.
const PAUSE: Duration = Duration::from_secs(30);

impl<S: Start> Shared<S> {
    pub(super) fn spares(&self) -> MutexGuard<'_, Vec<(Terms, usize)>> {
        // Nothing under the lock can panic half-way.
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts those that are missing, in tasks of the pool.
    pub(super) fn refill(self: &Arc<Self>) {
        let not_before = *self.not_before.lock().unwrap_or_else(PoisonError::into_inner);
        if not_before.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let wanted = self.spares().clone();
        for (terms, count) in wanted {
            let reserved = {
                let mut seats = self.seats();
                let missing = leasing::missing_spares(&seats.pool(self.limits), &terms, count);
                let starting = seats.starting_spares(&terms);
                // Those that are on their way are not there yet.
                let missing = missing.saturating_sub(starting);
                (0..missing)
                    .map(|_| seats.reserve_spare(&terms, self.limits.expected, self.now()))
                    .collect::<Vec<_>>()
            };
            for seat in reserved {
                let (shared, terms) = (self.clone(), terms.clone());
                self.tasks.spawn(async move { lease::spare(&shared, &terms, seat).await });
            }
        }
    }

    /// One could not be started ahead: it is not tried again at once.
    pub(super) fn pause_spares(&self) {
        let until = Instant::now() + PAUSE;
        *self.not_before.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }
}
