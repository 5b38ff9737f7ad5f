//! Whether the provider can be reached from this machine: an agent that cannot reach it is not stuck, and waiting costs
//! nothing.
//!
//! A probe connects and sends nothing. It says that nobody answers there only if nobody does within a few seconds.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use ostler_agent::completion::is_in_doubt;
use ostler_agent::endpoint::Endpoint;
use ostler_agent::run_event::RunEventKind;
use ostler_agent::waiting::{Probe, Reach};
use ostler_agent::watchdog::Input;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Run;
use super::round::Rounded;
use crate::journal::JournalError;

/// How long a probe may take, with the search for the name.
const PROBE_LIMIT: Duration = Duration::from_secs(3);

/// Before the second probe. Each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// A person who comes back to a machine that was offline does not wait longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Probes while something else goes on. At most one is under way; dropping it ends that.
pub(super) struct Prober {
    endpoint: Option<Endpoint>,
    probing: JoinSet<Reach>,
    pause: Duration,
}

impl Prober {
    pub(super) fn new(endpoint: Option<&Endpoint>) -> Self {
        Self { endpoint: endpoint.cloned(), probing: JoinSet::new(), pause: FIRST_PAUSE }
    }

    /// Does as it is told. Never blocks.
    pub(super) fn order(&mut self, order: Probe) {
        match order {
            Probe::Same => {}
            Probe::Now => self.begin(Duration::ZERO),
            Probe::Again => {
                self.begin(self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
            Probe::Off => {
                if !self.probing.is_empty() {
                    self.probing.abort_all();
                }
                self.pause = FIRST_PAUSE;
            }
        }
    }

    fn begin(&mut self, pause: Duration) {
        let Some(endpoint) = self.endpoint.clone() else { return };
        // What was aborted is taken off the list first.
        while self.probing.try_join_next().is_some() {}
        if self.probing.is_empty() {
            self.probing.spawn(async move {
                tokio::time::sleep(pause).await;
                probe(&endpoint).await
            });
        }
    }

    /// Waits for what a probe finds; for ever if none is under way. Cancel safe.
    pub(super) async fn answer(&mut self) -> Reach {
        loop {
            match self.probing.join_next().await {
                Some(Ok(reach)) => return reach,
                // It was called off.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// Whether somebody answers there. Cancel safe; ends within a few seconds.
pub(super) async fn probe(endpoint: &Endpoint) -> Reach {
    match tokio::time::timeout(PROBE_LIMIT, connect(endpoint)).await {
        Ok(true) => Reach::Reachable,
        Ok(false) | Err(_) => Reach::Unreachable,
    }
}

async fn connect(endpoint: &Endpoint) -> bool {
    for address in addresses(endpoint).await {
        if TcpStream::connect(address).await.is_ok() {
            return true;
        }
    }
    false
}

/// A name is looked up on a thread of its own, which is not waited for: without a network that may take half a minute.
async fn addresses(endpoint: &Endpoint) -> Vec<SocketAddr> {
    let (host, port) = (endpoint.host.clone(), endpoint.port);
    if let Ok(address) = host.parse::<IpAddr>() {
        return vec![SocketAddr::new(address, port)];
    }
    let (answer, answered) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("ostler-lookup".to_owned());
    let started = thread.spawn(move || {
        let found = (host.as_str(), port).to_socket_addrs();
        if answer.send(found.map(Iterator::collect).unwrap_or_default()).is_err() {
            tracing::debug!("a name was found too late");
        }
    });
    match started {
        Ok(_) => answered.await.unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// How a wait for the network ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// It is there again, or somebody asked to stop.
    Over,
    /// It took too long.
    TooLong,
}

impl Run<'_> {
    /// Whether the provider can be reached, if how a process ended leaves that in doubt. That somebody asks to stop ends it.
    pub(super) async fn reach(&mut self, rounded: &Rounded) -> Reach {
        let Some(endpoint) = &self.plan.probe else { return Reach::Unknown };
        if !is_in_doubt(rounded.turn.as_ref(), rounded.stop.as_ref()) {
            return Reach::Unknown;
        }
        tokio::select! {
            biased;
            () = self.requests.stop() => Reach::Unknown,
            reach = probe(endpoint) => reach,
        }
    }

    /// Waits without a process until the provider can be reached. That somebody asks to stop ends it.
    pub(super) async fn wait_for_the_network(&mut self, patience: Duration) -> Result<Waited, JournalError> {
        self.desk.tell(RunEventKind::Parked { reason: offline(self.plan.probe.as_ref()), until: None })?;
        // What it would say is in `patience`.
        let _ = self.dog.step(self.desk.now(), Input::Parked);
        let mut prober = Prober::new(self.plan.probe.as_ref());
        let until = Instant::now().checked_add(patience);
        prober.order(Probe::Again);
        let waited = loop {
            tokio::select! {
                biased;
                () = self.requests.stop() => break Waited::Over,
                () = sleep_until(until) => break Waited::TooLong,
                reach = prober.answer() => match reach {
                    Reach::Reachable | Reach::Unknown => break Waited::Over,
                    Reach::Unreachable => prober.order(Probe::Again),
                },
            }
        };
        let _ = self.dog.step(self.desk.now(), Input::Unparked);
        self.desk.tell(RunEventKind::Unparked)?;
        Ok(waited)
    }
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// What is said of it.
pub(super) fn offline(endpoint: Option<&Endpoint>) -> String {
    match endpoint {
        Some(endpoint) => format!("offline: {endpoint} cannot be reached"),
        None => "offline".to_owned(),
    }
}
