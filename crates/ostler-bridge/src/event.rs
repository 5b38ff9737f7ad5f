//! What happened at the bridge, for the run: its journal, its watchdog, and whoever watches.

pub use ostler_agent::bridge::{Barred, BridgeEvent, Ended, ProgramEnd, Question, Refusal, Settled, Touched};
use tokio::sync::mpsc;

/// Events that wait for the run to read them. When it is full, calls wait: the journal loses nothing, and an agent that
/// calls faster than the run reads is slowed down. The run must read until the route is closed.
pub const MOST_EVENTS: usize = 256;

/// The run's side of the events, as the bridge uses it.
#[derive(Debug, Clone)]
pub(crate) struct Telling(mpsc::Sender<BridgeEvent>);

impl Telling {
    pub(crate) fn new() -> (Self, mpsc::Receiver<BridgeEvent>) {
        let (sender, receiver) = mpsc::channel(MOST_EVENTS);
        (Self(sender), receiver)
    }

    /// Tells the run. Waits while it has not read the events before. A run that no longer listens is not waited for.
    pub(crate) async fn tell(&self, event: BridgeEvent) {
        let _ = self.0.send(event).await;
    }

    /// Room for one event, so that a fact and its event cannot be parted by a client that goes away in between.
    pub(crate) async fn room(&self) -> Room<'_> {
        Room(self.0.reserve().await.ok())
    }

    /// Tells the run if there is room. For what strangers cause: they must not be able to hold up anything.
    pub(crate) fn mention(&self, event: BridgeEvent) {
        if self.0.try_send(event).is_err() {
            tracing::debug!(target: "ostler::mcp", "a refusal was not told: the run has not read the events before");
        }
    }
}

/// Room for one event.
pub(crate) struct Room<'a>(Option<mpsc::Permit<'a, BridgeEvent>>);

impl Room<'_> {
    pub(crate) fn tell(self, event: BridgeEvent) {
        if let Some(permit) = self.0 {
            permit.send(event);
        }
    }
}
