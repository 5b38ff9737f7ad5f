//! The hosts that the processes of a run asked for, and those that the jail denied.

use ostler_agent::event::{AgentEvent, ToolResult};
use ostler_agent::network::{HostDenial, HostVerdict, find_unresolved, opens_host};
use ostler_agent::run_event::RunEventKind;

use super::jailing::PlannedJail;
use crate::egress::{HostNotice, HostNotices};

/// Denials that one run reports. More of them add nothing.
const MOST: usize = 50;

/// What opens the network to a program that does not use the proxy.
const OPENS_ALL: &str = "--net all";

/// Watches which hosts are asked for.
#[derive(Debug, Default)]
pub(super) struct HostWatch {
    notices: Option<HostNotices>,
    denials: Vec<HostDenial>,
    /// Denied hosts that the agent works without, unless a tool wants one too.
    dispensable: Vec<HostDenial>,
}

impl HostWatch {
    pub(super) fn new(jail: Option<&PlannedJail>) -> Self {
        Self { notices: jail.and_then(PlannedJail::take_notices), ..Self::default() }
    }

    /// The next host that is asked for. Cancel safe.
    pub(super) async fn next(&mut self) -> HostNotice {
        match &mut self.notices {
            Some(notices) => notices.next().await,
            None => std::future::pending().await,
        }
    }

    /// The next one that was asked for already.
    pub(super) fn take(&mut self) -> Option<HostNotice> {
        self.notices.as_mut()?.take()
    }

    /// A notice as an event of the run.
    pub(super) fn note(&mut self, notice: &HostNotice) -> RunEventKind {
        let HostNotice { endpoint, verdict, is_dispensable } = notice;
        let host = endpoint.to_string();
        let opens = (*verdict == HostVerdict::Denied).then(|| opens_host(endpoint));
        if let Some(opens) = &opens {
            let denial = HostDenial { host: host.clone(), opens: opens.clone() };
            let known = if *is_dispensable { &mut self.dispensable } else { &mut self.denials };
            if known.len() < MOST && !known.contains(&denial) {
                known.push(denial);
            }
        }
        RunEventKind::Host { host, verdict: *verdict, opens, is_dispensable: *is_dispensable }
    }

    /// What the result of a tool shows besides: hosts that the agent works without and the tool does not, and names that a
    /// program looked for by itself instead of asking the proxy.
    pub(super) fn add_from(&mut self, event: &AgentEvent) -> Vec<RunEventKind> {
        let AgentEvent::ToolEnded { result: ToolResult { text, .. }, .. } = event else { return Vec::new() };
        if self.notices.is_none() {
            return Vec::new();
        }
        let mentions = |denial: &HostDenial| {
            let host = denial.host.rsplit_once(':').map_or(denial.host.as_str(), |(host, _)| host);
            text.contains(host)
        };
        let mut found: Vec<HostDenial> = self.dispensable.extract_if(.., |denial| mentions(denial)).collect();
        let is_known = |host: &str| self.denials.iter().any(|denial| denial.host.starts_with(host));
        found.extend(
            find_unresolved(text)
                .into_iter()
                .filter(|host| !is_known(host))
                .map(|host| HostDenial { host: host.to_owned(), opens: OPENS_ALL.to_owned() }),
        );
        found.retain(|denial| !self.denials.contains(denial));
        found.truncate(MOST.saturating_sub(self.denials.len()));
        self.denials.extend(found.iter().cloned());
        let events = found.into_iter().map(|HostDenial { host, opens }| RunEventKind::Host {
            host,
            verdict: HostVerdict::Denied,
            opens: Some(opens),
            is_dispensable: false,
        });
        events.collect()
    }

    pub(super) fn denials(&self) -> &[HostDenial] {
        &self.denials
    }
}

#[cfg(test)]
mod tests {
    use ostler_agent::endpoint::Endpoint;
    use ostler_agent::network::{AgentNetwork, NetAccess, NetPolicy};

    use super::*;
    use crate::egress::{Egress, UserProxy};

    fn tool_result(text: &str) -> AgentEvent {
        let result = ToolResult { failed: true, exit_code: Some(1), text: text.to_owned() };
        AgentEvent::ToolEnded { call: "1".to_owned(), result }
    }

    #[test]
    fn a_dispensable_host_is_reported_once_a_tool_wants_it() {
        let policy = NetPolicy::decide(&NetAccess::Provider, &AgentNetwork::default());
        let (_egress, notices) = Egress::new(policy.unwrap(), UserProxy::from_variables(&[]));
        let mut watch = HostWatch { notices: Some(notices), ..HostWatch::default() };
        let endpoint = Endpoint { host: "github.com".to_owned(), port: 443 };
        watch.note(&HostNotice { endpoint, verdict: HostVerdict::Denied, is_dispensable: true });
        assert_eq!(watch.denials(), []);
        assert_eq!(watch.add_from(&tool_result("fine")).len(), 0);
        let text = "fatal: unable to access 'https://github.com/a/b/': CONNECT tunnel failed, response 403";
        assert_eq!(watch.add_from(&tool_result(text)).len(), 1);
        assert_eq!(watch.denials()[0].opens, "--net hosts=github.com");
        let text = "ssh: Could not resolve hostname git.example.com: Name or service not known";
        assert_eq!(watch.add_from(&tool_result(text)).len(), 1);
        assert_eq!(
            watch.denials()[1].to_string(),
            "the jail does not let it reach git.example.com; --net all does"
        );
    }
}
