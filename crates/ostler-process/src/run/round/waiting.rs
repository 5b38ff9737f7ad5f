//! Waits of a living agent, during which its clock stands still.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_agent::run_event::RunEventKind;
use ostler_agent::waiting::{Clock, Input, Why};
use ostler_agent::watchdog;

use super::Round;
use crate::journal::JournalError;
use crate::run::offline::offline;

impl Round<'_, '_> {
    /// Tells what happened, and does what follows.
    pub(super) async fn wait(&mut self, input: Input) -> Result<(), JournalError> {
        let orders = self.waits.step(input);
        self.prober.order(orders.probe);
        match orders.clock {
            Clock::Same => Ok(()),
            Clock::Park(why) => {
                let (reason, until) = match why {
                    Why::Offline => (offline(self.run.plan.probe.as_ref()), None),
                    Why::Asked(within) => {
                        let until = self.on_the_wall(self.run.desk.now().saturating_add(within));
                        ("the agent asks a person".to_owned(), until)
                    }
                };
                self.run.desk.tell(RunEventKind::Parked { reason, until })?;
                self.watch(watchdog::Input::Parked).await
            }
            Clock::Unpark => {
                self.run.desk.tell(RunEventKind::Unparked)?;
                self.watch(watchdog::Input::Unparked).await
            }
        }
    }

    /// The process is over, or is about to be: there is nothing to wait for.
    pub(super) fn stop_waiting(&mut self) -> Result<(), JournalError> {
        let orders = self.waits.step(Input::Over);
        self.prober.order(orders.probe);
        if orders.clock == Clock::Unpark {
            self.run.desk.tell(RunEventKind::Unparked)?;
            // What it would do is being done.
            let _ = self.run.dog.step(self.run.desk.now(), watchdog::Input::Unparked);
        }
        Ok(())
    }

    /// A time of the run, as seconds since 1970.
    fn on_the_wall(&self, at: Duration) -> Option<i64> {
        let left = at.saturating_sub(self.run.desk.now());
        let then = SystemTime::now().checked_add(left)?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(then.as_secs()).ok()
    }
}
