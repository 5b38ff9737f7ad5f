//! What a jailed process can reach in the network. Decided here; `ostler-process` enforces it with a network namespace and
//! a proxy outside of it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::endpoint::Endpoint;

mod host_rule;
mod unresolved;

pub use host_rule::{HostRule, HostRuleError};
pub use unresolved::find_unresolved;

/// The name of this machine.
const LOCALHOST: &str = "localhost";

/// More ports of this machine than one jail needs.
const MOST_LISTENERS: usize = 48;

/// What a jailed agent may reach: `--net`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NetAccess {
    /// The model provider and the bridge.
    #[default]
    Provider,
    /// These hosts as well.
    Hosts(Vec<HostRule>),
    /// Everything.
    All,
}

/// Why a text is no [`NetAccess`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetAccessError {
    /// It is another word.
    #[error("must be provider, hosts=HOST,HOST… or all")]
    Unknown,
    /// One of its hosts cannot be permitted.
    #[error(transparent)]
    Host(#[from] HostRuleError),
}

impl FromStr for NetAccess {
    type Err = NetAccessError;

    fn from_str(text: &str) -> Result<Self, NetAccessError> {
        match text.trim() {
            "provider" => Ok(Self::Provider),
            "all" => Ok(Self::All),
            other => {
                let hosts = other.strip_prefix("hosts=").ok_or(NetAccessError::Unknown)?;
                let rules = hosts.split(',').map(str::parse).collect::<Result<_, _>>()?;
                Ok(Self::Hosts(rules))
            }
        }
    }
}

impl fmt::Display for NetAccess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provider => out.write_str("provider"),
            Self::Hosts(rules) => {
                let rules: Vec<String> = rules.iter().map(HostRule::to_string).collect();
                write!(out, "hosts={}", rules.join(","))
            }
            Self::All => out.write_str("all"),
        }
    }
}

/// What an agent reaches in the network on its own account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentNetwork {
    /// The addresses of its provider, as it is configured.
    pub endpoints: Vec<Endpoint>,
    /// Other hosts that it needs: for sign-in, and to refresh tokens.
    pub hosts: Vec<HostRule>,
    /// Hosts that it asks and works without. A denial is recorded, and reported only if a tool mentions the host.
    pub dispensable: &'static [&'static str],
    /// Why it does not use the proxy of the jail, with what helps: its own settings name another one.
    pub obstacle: Option<String>,
}

/// What a jail lets through to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetPolicy {
    /// What was requested.
    pub access: NetAccess,
    rules: Vec<HostRule>,
    dispensable: &'static [&'static str],
    /// Ports of this machine that exist in the jail too.
    listen: Vec<SocketAddr>,
}

/// Whether a host may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostVerdict {
    /// It may.
    Allowed,
    /// It may not.
    Denied,
}

/// How a permitted host was named, which decides where its name may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permitted {
    /// By its whole name: wherever that leads.
    Exactly,
    /// As one of many: somebody else decides which addresses such names have, so that none of this machine is meant.
    ByPattern,
}

impl NetPolicy {
    /// What a jail lets through; nothing is limited if there is none.
    pub fn decide(access: &NetAccess, agent: &AgentNetwork) -> Option<Self> {
        let wanted = match access {
            NetAccess::All => return None,
            NetAccess::Provider => &[][..],
            NetAccess::Hosts(rules) => rules,
        };
        let mut policy = Self {
            access: access.clone(),
            rules: agent.hosts.clone(),
            dispensable: agent.dispensable,
            listen: Vec::new(),
        };
        for endpoint in &agent.endpoints {
            policy.permit(endpoint);
        }
        for rule in wanted {
            match rule.endpoint() {
                Some(endpoint) => policy.permit(&endpoint),
                None => policy.rules.push(rule.clone()),
            }
        }
        Some(policy)
    }

    /// Lets an address through: a port of this machine, or a host.
    pub fn permit(&mut self, endpoint: &Endpoint) {
        // The proxy leads there too: some programs use it for every address.
        self.rules.push(HostRule::exact(endpoint));
        for address in loopback_addresses(endpoint) {
            if !self.listen.contains(&address) && self.listen.len() < MOST_LISTENERS {
                self.listen.push(address);
            }
        }
    }

    /// The ports of this machine that exist in the jail too.
    pub fn listen(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// A port for the proxy that differs from all permitted ones. No other process listens in a new network namespace.
    pub fn proxy_address(&self) -> SocketAddr {
        let is_free = |port: &u16| self.listen.iter().all(|address| address.port() != *port);
        let port = (3128..u16::MAX).find(is_free).unwrap_or(u16::MAX);
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// Whether the proxy may connect to an address.
    pub fn find_permission(&self, endpoint: &Endpoint) -> Option<Permitted> {
        self.rules
            .iter()
            .filter_map(|rule| rule.permits(endpoint))
            .min_by_key(|by| *by == Permitted::ByPattern)
    }

    /// Whether an agent asks for this host and works without it.
    pub fn is_dispensable(&self, host: &str) -> bool {
        self.dispensable.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

/// What lets a process in the jail reach a host.
pub fn opens_host(endpoint: &Endpoint) -> String {
    let standard = endpoint.port == 443 || endpoint.port == 80;
    match standard && !is_this_machine(&endpoint.host) {
        true => format!("--net hosts={}", endpoint.host),
        false => format!("--net hosts={endpoint}"),
    }
}

/// Whether a name or an address means this machine.
pub fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case(LOCALHOST) || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether an address is one that no host elsewhere has.
pub fn is_local_address(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    address.is_loopback() || address.is_unspecified() || is_link_local
}

fn loopback_addresses(endpoint: &Endpoint) -> Vec<SocketAddr> {
    let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let found: Vec<IpAddr> = match endpoint.host.parse::<IpAddr>() {
        Ok(address) if address.is_loopback() => vec![address],
        Err(_) if endpoint.host.eq_ignore_ascii_case(LOCALHOST) => both.to_vec(),
        Ok(_) | Err(_) => Vec::new(),
    };
    found.into_iter().map(|address| (address, endpoint.port).into()).collect()
}

/// The variables that lead programs in the jail to its proxy. Those of the user are replaced: the proxy uses them.
pub fn proxy_variables(proxy: SocketAddr) -> Vec<(&'static str, String)> {
    let url = format!("http://{proxy}");
    let exempt = "localhost,127.0.0.1,::1".to_owned();
    let proxies = PROXY_VARIABLES.iter().map(|name| (*name, url.clone()));
    let exempts = ["NO_PROXY", "no_proxy"].map(|name| (name, exempt.clone()));
    // Node.js looks at the others only with this one.
    proxies.chain(exempts).chain([("NODE_USE_ENV_PROXY", "1".to_owned())]).collect()
}

/// The usual variables that name a proxy.
pub const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// What a jail denied: a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostDenial {
    /// `host:port`.
    pub host: String,
    /// The setting that opens it.
    pub opens: String,
}

impl fmt::Display for HostDenial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the jail does not let it reach {}; {} does", self.host, self.opens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        Endpoint::parse(text).unwrap()
    }

    fn policy(access: &str, endpoints: &[&str]) -> NetPolicy {
        let agent = AgentNetwork {
            endpoints: endpoints.iter().copied().map(endpoint).collect(),
            hosts: vec!["auth.example.com".parse().unwrap()],
            dispensable: &["telemetry.example.com"],
            obstacle: None,
        };
        NetPolicy::decide(&access.parse().unwrap(), &agent).unwrap()
    }

    #[test]
    fn levels_are_read_and_written_alike() {
        for text in ["provider", "all", "hosts=a.example,*.b.example:8080,[::1]:80,localhost:5432"] {
            assert_eq!(text.parse::<NetAccess>().unwrap().to_string(), text);
        }
        let table = [
            ("everything", "must be provider, hosts=HOST,HOST… or all"),
            ("hosts=", "`` is not a host"),
            ("hosts=https://a.example/x", "`https://a.example/x` is not a host: write a.example"),
            ("hosts=localhost", "`localhost` needs a port"),
            ("hosts=*", "`*` would be every host: write `--net all`"),
        ];
        for (text, want) in table {
            let error = text.parse::<NetAccess>().unwrap_err().to_string();
            assert!(error.starts_with(want), "{text}: {error}");
        }
    }

    #[test]
    fn only_what_was_permitted_is_reached() {
        let policy =
            policy("hosts=registry.example,*.cdn.example:443,localhost:8080", &["api.example.com:443"]);
        let table = [
            ("api.example.com:443", Some(Permitted::Exactly)),
            ("API.example.com.:443", Some(Permitted::Exactly)),
            ("api.example.com:22", None),
            ("xapi.example.com:443", None),
            ("auth.example.com:443", Some(Permitted::Exactly)),
            ("registry.example:443", Some(Permitted::Exactly)),
            ("registry.example:4873", Some(Permitted::Exactly)),
            ("a.registry.example:443", None),
            ("x.y.cdn.example:443", Some(Permitted::ByPattern)),
            ("cdn.example:443", None),
            ("evilcdn.example:443", None),
            ("x.cdn.example:80", None),
            ("127.0.0.1:443", None),
            ("localhost:443", None),
            ("localhost:8080", Some(Permitted::Exactly)),
            ("127.0.0.1:8080", None),
        ];
        for (text, want) in table {
            assert_eq!(policy.find_permission(&endpoint(text)), want, "{text}");
        }
        assert!(policy.is_dispensable("Telemetry.example.com") && !policy.is_dispensable("example.com"));
    }

    #[test]
    fn ports_of_this_machine_exist_in_the_jail_too() {
        let mut policy = policy("hosts=localhost:3128", &["127.0.0.1:4321", "[::1]:99"]);
        policy.permit(&endpoint("127.0.0.1:4321"));
        let listen: Vec<String> = policy.listen().iter().map(SocketAddr::to_string).collect();
        assert_eq!(listen, ["127.0.0.1:4321", "[::1]:99", "127.0.0.1:3128", "[::1]:3128"]);
        assert_eq!(policy.proxy_address().to_string(), "127.0.0.1:3129");
        assert_eq!(NetPolicy::decide(&NetAccess::All, &AgentNetwork::default()), None);
    }

    #[test]
    fn what_opens_a_host_can_be_written_so() {
        for (text, want) in [
            ("a.example:443", "--net hosts=a.example"),
            ("a.example:22", "--net hosts=a.example:22"),
            ("127.0.0.1:80", "--net hosts=127.0.0.1:80"),
            ("[2001:db8::1]:443", "--net hosts=2001:db8::1"),
        ] {
            let opens = opens_host(&endpoint(text));
            assert_eq!(opens, want);
            let access: NetAccess = opens.strip_prefix("--net ").unwrap().parse().unwrap();
            let policy = NetPolicy::decide(&access, &AgentNetwork::default()).unwrap();
            let reached = policy.find_permission(&endpoint(text)).is_some() || !policy.listen().is_empty();
            assert!(reached, "{text}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_known() {
        for (text, want) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", true),
            ("169.254.169.254", true),
            ("fe80::1", true),
            ("10.0.0.1", false),
            ("1.1.1.1", false),
        ] {
            assert_eq!(is_local_address(text.parse().unwrap()), want, "{text}");
        }
    }
}
