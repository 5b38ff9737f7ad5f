//! A host that a jail lets through, as people write it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::{Permitted, is_this_machine};
use crate::endpoint::Endpoint;

/// A host, or all hosts below a domain; on one port, or on all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    name: HostName,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostName {
    /// This one, in lower case.
    Exact(String),
    /// All below this domain, and not the domain itself: `*.example.com`.
    Below(String),
}

/// Why a text is no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostRuleError {
    /// It has other parts.
    #[error("`{text}` is not a host: write {instead}")]
    NotHost {
        /// As it was written.
        text: String,
        /// What may have been meant.
        instead: String,
    },
    /// It is all of them.
    #[error("`*` would be every host: write `--net all` if that is wanted")]
    Every,
    /// It is this machine.
    #[error("`{text}` needs a port, such as {text}:8080: other ports of this machine stay closed")]
    NoPort {
        /// As it was written.
        text: String,
    },
}

impl HostRule {
    /// This host on this port.
    pub fn exact(endpoint: &Endpoint) -> Self {
        Self { name: HostName::Exact(normalize(&endpoint.host)), port: Some(endpoint.port) }
    }

    /// A host that an agent's file names.
    pub(crate) fn host(name: &str) -> Self {
        let name = match name.strip_prefix("*.") {
            Some(domain) => HostName::Below(domain.to_owned()),
            None => HostName::Exact(name.to_owned()),
        };
        Self { name, port: None }
    }

    /// The port of this machine that it names, if it does.
    pub(super) fn endpoint(&self) -> Option<Endpoint> {
        match (&self.name, self.port) {
            (HostName::Exact(host), Some(port)) if is_this_machine(host) => {
                Some(Endpoint { host: host.clone(), port })
            }
            _ => None,
        }
    }

    /// Whether and how it permits an address.
    pub(super) fn permits(&self, endpoint: &Endpoint) -> Option<Permitted> {
        let host = normalize(&endpoint.host);
        let permitted = match &self.name {
            HostName::Exact(name) => (host == *name).then_some(Permitted::Exactly),
            HostName::Below(domain) => host
                .strip_suffix(domain.as_str())
                .filter(|rest| rest.len() > 1 && rest.ends_with('.'))
                .map(|_| Permitted::ByPattern),
        };
        permitted.filter(|_| self.port.is_none_or(|port| port == endpoint.port))
    }
}

/// Names are compared in lower case, and without the dot at the end of the root.
fn normalize(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => host.to_ascii_lowercase(),
    }
}

impl FromStr for HostRule {
    type Err = HostRuleError;

    fn from_str(text: &str) -> Result<Self, HostRuleError> {
        let text = text.trim();
        if text == "*" {
            return Err(HostRuleError::Every);
        }
        // An IPv6 address has colons too.
        let endpoint = Endpoint::parse(text).filter(|_| text.parse::<IpAddr>().is_err());
        let (host, port) = match endpoint {
            Some(endpoint) => (endpoint.host, Some(endpoint.port)),
            None => (text.to_owned(), None),
        };
        let domain = host.strip_prefix("*.");
        let name = domain.unwrap_or(&host);
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let is_address = domain.is_none() && name.parse::<IpAddr>().is_ok();
        let is_name = !name.is_empty() && name.chars().all(is_letter) && !name.starts_with(['.', '-']);
        if !is_address && !is_name {
            let meant = Endpoint::of_url(text).map(|endpoint| endpoint.host);
            let instead = meant.unwrap_or_else(|| "a name such as api.example.com".to_owned());
            return Err(HostRuleError::NotHost { text: text.to_owned(), instead });
        }
        if port.is_none() && domain.is_none() && is_this_machine(name) {
            return Err(HostRuleError::NoPort { text: text.to_owned() });
        }
        let normal = normalize(name);
        let name = if domain.is_some() { HostName::Below(normal) } else { HostName::Exact(normal) };
        Ok(Self { name, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match &self.name {
            HostName::Exact(host) => host.clone(),
            HostName::Below(domain) => format!("*.{domain}"),
        };
        match self.port {
            None => out.write_str(&host),
            Some(port) => write!(out, "{}", Endpoint { host, port }),
        }
    }
}
