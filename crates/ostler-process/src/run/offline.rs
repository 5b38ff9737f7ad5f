//! Whether the provider can be reached from this machine: an agent that cannot reach it is not stuck, and waiting costs
//! nothing.
//!
//! A probe connects to what the agent itself connects to, and sends nothing. It reports the address as unreachable only if
//! no connection succeeds within a few seconds.

use std::ffi::OsString;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use ostler_agent::agent::Agent;
use ostler_agent::completion::is_in_doubt;
use ostler_agent::endpoint::{Configuration, Endpoint, Provider, Unreadable};
use ostler_agent::network::AgentNetwork;
use ostler_agent::run_event::RunEventKind;
use ostler_agent::tenant::{AccessRefusal, TenantAccess};
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

/// Larger files are not settings. One agent keeps a history in the same file.
const LARGEST_SETTINGS: u64 = 16 * 1024 * 1024;

/// The provider that an agent is configured for, when it is started with these variables and arguments; nothing if that
/// is not known.
pub fn configured_provider(
    agent: &dyn Agent,
    env: &[(OsString, OsString)],
    workspace: &Path,
    args: &[String],
) -> Option<Provider> {
    let variable = |name: &str| {
        let found = env.iter().rev().find(|(known, _)| known.to_str() == Some(name));
        found.and_then(|(_, value)| value.to_str().map(str::to_owned))
    };
    agent.provider(&Configuration { variable: &variable, file: &settings, workspace, args })
}

/// How the agent of a tenant reaches the provider that the owner's agent is configured for, when it is started with these
/// variables. `elsewhere` is a directory without settings of a project.
pub fn tenant_access(
    agent: &dyn Agent,
    env: &[(OsString, OsString)],
    elsewhere: &Path,
) -> Result<TenantAccess, AccessRefusal> {
    let variable = |name: &str| {
        let found = env.iter().rev().find(|(known, _)| known.to_str() == Some(name));
        found.and_then(|(_, value)| value.to_str().map(str::to_owned))
    };
    agent.tenant_access(&Configuration {
        variable: &variable,
        file: &settings,
        workspace: elsewhere,
        args: &[],
    })
}

/// What an agent reaches in the network when it is started with these variables and arguments, and loads the settings of a
/// project in `workspace`.
pub fn agent_network(
    agent: &dyn Agent,
    env: &[(OsString, OsString)],
    workspace: &Path,
    args: &[String],
) -> AgentNetwork {
    let variable = |name: &str| {
        let found = env.iter().rev().find(|(known, _)| known.to_str() == Some(name));
        found.and_then(|(_, value)| value.to_str().map(str::to_owned))
    };
    agent.network(&Configuration { variable: &variable, file: &settings, workspace, args })
}

/// The text of a settings file, if there is one. Whatever is no plain file is not opened: that could wait for ever.
fn settings(path: &Path) -> Result<Option<String>, Unreadable> {
    let kind = match std::fs::metadata(path) {
        Ok(kind) => kind,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(_) => return Err(Unreadable),
    };
    if !kind.is_file() || kind.len() > LARGEST_SETTINGS {
        return Err(Unreadable);
    }
    let file = std::fs::File::open(path).map_err(|_| Unreadable)?;
    let mut text = String::new();
    file.take(LARGEST_SETTINGS).read_to_string(&mut text).map_err(|_| Unreadable)?;
    Ok(Some(text))
}

/// Probes while something else goes on. At most one is under way; dropping it ends that.
pub(super) struct Prober {
    provider: Option<Provider>,
    probing: JoinSet<Reach>,
    pause: Duration,
}

impl Prober {
    pub(super) fn new(provider: Option<&Provider>) -> Self {
        Self { provider: provider.cloned(), probing: JoinSet::new(), pause: FIRST_PAUSE }
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
        let Some(provider) = self.provider.clone() else { return };
        // What was aborted is taken off the list first.
        while self.probing.try_join_next().is_some() {}
        if self.probing.is_empty() {
            self.probing.spawn(async move {
                tokio::time::sleep(pause).await;
                probe(&provider).await
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

/// Whether one of its addresses answers. Cancel safe; ends within a few seconds.
pub(super) async fn probe(provider: &Provider) -> Reach {
    let mut tries = JoinSet::new();
    for endpoint in provider.endpoints.clone() {
        tries.spawn(async move { tokio::time::timeout(PROBE_LIMIT, connect(&endpoint)).await });
    }
    while let Some(tried) = tries.join_next().await {
        if matches!(tried, Ok(Ok(true))) {
            return Reach::Reachable;
        }
    }
    Reach::Unreachable
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
        let Some(provider) = &self.plan.probe else { return Reach::Unknown };
        if !is_in_doubt(rounded.turn.as_ref(), rounded.stop.as_ref()) {
            return Reach::Unknown;
        }
        tokio::select! {
            biased;
            () = self.requests.stop() => Reach::Unknown,
            reach = probe(provider) => reach,
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

/// Why a run waits for its provider.
pub(super) fn offline(provider: Option<&Provider>) -> String {
    match provider {
        Some(provider) => format!("offline: cannot reach {provider}"),
        None => "offline".to_owned(),
    }
}
