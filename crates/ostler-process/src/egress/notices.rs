//! Which hosts were asked for: each once.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use ostler_agent::endpoint::Endpoint;
use ostler_agent::network::{HostVerdict, NetPolicy};
use tokio::sync::mpsc;

/// Hosts that one jail reports. A process that asks for more is not worth more lines.
const MOST_HOSTS: usize = 256;

/// The longest name of a host in DNS; what is longer is cut.
const LONGEST_HOST: usize = 253;

/// A host that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostNotice {
    /// Which.
    pub endpoint: Endpoint,
    /// What became of it.
    pub verdict: HostVerdict,
    /// Whether the agent works without it.
    pub is_dispensable: bool,
}

/// Receives notices. The channel has room for all that are sent.
#[derive(Debug)]
pub struct HostNotices(mpsc::Receiver<HostNotice>);

impl HostNotices {
    /// The next one. Waits for ever once there can be no more.
    pub async fn next(&mut self) -> HostNotice {
        match self.0.recv().await {
            Some(notice) => notice,
            None => std::future::pending().await,
        }
    }

    /// The next one that is there already.
    pub fn take(&mut self) -> Option<HostNotice> {
        self.0.try_recv().ok()
    }
}

/// Reports each host once.
#[derive(Debug)]
pub(crate) struct HostLog {
    known: Mutex<HashSet<HostNotice>>,
    sender: mpsc::Sender<HostNotice>,
}

impl HostLog {
    pub(super) fn new() -> (Self, HostNotices) {
        let (sender, receiver) = mpsc::channel(MOST_HOSTS);
        (Self { known: Mutex::default(), sender }, HostNotices(receiver))
    }

    /// A host that was denied and is not one that the agent works without.
    pub(crate) fn find_denied(&self) -> Option<Endpoint> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_denied =
            |notice: &&HostNotice| notice.verdict == HostVerdict::Denied && !notice.is_dispensable;
        known.iter().find(is_denied).map(|notice| notice.endpoint.clone())
    }

    pub(super) fn report(&self, endpoint: &Endpoint, verdict: HostVerdict, policy: &NetPolicy) {
        let mut endpoint = endpoint.clone();
        endpoint.host = endpoint.host.chars().take(LONGEST_HOST).collect();
        let is_dispensable = policy.is_dispensable(&endpoint.host);
        let notice = HostNotice { endpoint, verdict, is_dispensable };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST_HOSTS && known.insert(notice.clone()) {
            tracing::debug!(target: "ostler::run", host = %notice.endpoint, verdict = ?notice.verdict, "a jail asked for a host");
            // There is room: no more than that are ever sent.
            let _ = self.sender.try_send(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_agent::network::{AgentNetwork, NetAccess};

    use super::*;

    #[test]
    fn a_host_is_reported_once_and_a_flood_is_bounded() {
        let (log, mut notices) = HostLog::new();
        let policy = NetPolicy::decide(&NetAccess::Provider, &AgentNetwork::default()).unwrap();
        let endpoint = |number: usize| Endpoint { host: format!("{number}.example"), port: 443 };
        for number in (0..1000).flat_map(|number| [number, number]) {
            log.report(&endpoint(number), HostVerdict::Denied, &policy);
        }
        let mut taken = Vec::new();
        while let Some(notice) = notices.take() {
            taken.push(notice.endpoint.host);
        }
        assert_eq!(taken.len(), MOST_HOSTS);
        assert_eq!(taken[..2], ["0.example", "1.example"]);
    }
}
