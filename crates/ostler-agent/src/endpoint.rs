//! Where a provider is reached: what is probed to tell a machine that is offline from an agent that is stuck.

use std::fmt;

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A variable of the agent's environment.
type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Endpoint {
    /// A host at the usual port.
    pub(crate) fn secure(host: &str) -> Self {
        Self { host: host.to_owned(), port: 443 }
    }

    /// Reads `host:port`, `[address]:port`. The port must be there.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.trim().rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(address) => address.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        let is_host =
            !host.is_empty() && !host.contains(|letter: char| letter.is_whitespace() || letter == '/');
        let port = port.parse().ok().filter(|port| *port != 0)?;
        is_host.then(|| Self { host: host.to_owned(), port })
    }

    /// Where a URL leads: `https://user@host:8443/path`.
    pub fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.trim().split_once("://")?;
        let place = rest.split(['/', '?', '#']).next()?;
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        let port = match scheme.to_ascii_lowercase().as_str() {
            "https" => 443,
            "http" => 80,
            _ => 1080,
        };
        Self::parse(place).or_else(|| Self::parse(&format!("{place}:{port}")))
    }

    /// What a program connects to that wants to reach this one: the proxy that its environment names, if any.
    pub fn through_proxy(self, variable: Variable<'_>) -> Self {
        let named = |names: [&str; 2]| names.into_iter().find_map(variable).filter(|value| !value.is_empty());
        let exempt = named(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        let is_exempt = exempt.split(',').map(str::trim).any(|rule| self.is_covered_by(rule));
        if self.is_local() || is_exempt {
            return self;
        }
        let proxy = named(["HTTPS_PROXY", "https_proxy"]).or_else(|| named(["ALL_PROXY", "all_proxy"]));
        proxy.and_then(|proxy| Self::of_url(&proxy).or_else(|| Self::parse(&proxy))).unwrap_or(self)
    }

    fn is_local(&self) -> bool {
        let address: Result<std::net::IpAddr, _> = self.host.parse();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// `*`, `example.com`, `.example.com`.
    fn is_covered_by(&self, rule: &str) -> bool {
        let domain = rule.trim_start_matches("*.").trim_start_matches('.');
        let is_below =
            |host: &str| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        rule == "*" || (!domain.is_empty() && is_below(&self.host))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::find;

    #[test]
    fn places_are_read() {
        let table = [
            ("127.0.0.1:80", Some("127.0.0.1:80")),
            ("[::1]:80", Some("[::1]:80")),
            ("host:80", Some("host:80")),
            ("host", None),
            (":80", None),
            ("::1:80", None),
            ("host:0", None),
            ("host:70000", None),
            ("http://host:80", None),
            ("", None),
        ];
        for (text, want) in table {
            assert_eq!(Endpoint::parse(text).map(|found| found.to_string()).as_deref(), want, "{text}");
        }
        let table = [
            ("https://api.example.com/v1", Some("api.example.com:443")),
            ("http://127.0.0.1:4321", Some("127.0.0.1:4321")),
            ("http://user:p%40ss@proxy:3128/", Some("proxy:3128")),
            ("HTTP://host?x", Some("host:80")),
            ("not a url", None),
        ];
        for (url, want) in table {
            assert_eq!(Endpoint::of_url(url).map(|found| found.to_string()).as_deref(), want, "{url}");
        }
    }

    /// An agent, its variables, and where its provider is.
    type Case = (&'static str, &'static [(&'static str, &'static str)], Option<&'static str>);

    #[test]
    fn agents_say_where_their_provider_is() {
        let table: &[Case] = &[
            ("claude-headless", &[], Some("api.anthropic.com:443")),
            ("claude-headless", &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")], Some("127.0.0.1:9")),
            (
                "claude-headless",
                &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"), ("HTTPS_PROXY", "http://p:3128")],
                Some("127.0.0.1:9"),
            ),
            ("claude-headless", &[("HTTPS_PROXY", "http://p:3128")], Some("p:3128")),
            ("claude-headless", &[("https_proxy", "p:3128")], Some("p:3128")),
            (
                "claude-headless",
                &[("HTTPS_PROXY", "http://p:3128"), ("NO_PROXY", "x, .anthropic.com")],
                Some("api.anthropic.com:443"),
            ),
            ("claude-headless", &[("CLAUDE_CODE_USE_BEDROCK", "1")], None),
            ("codex", &[], Some("chatgpt.com:443")),
            ("codex", &[("OPENAI_API_KEY", "k")], Some("api.openai.com:443")),
            ("codex", &[("OSTLER_REHEARSAL_KEY", "k")], None),
            ("opencode", &[], None),
        ];
        for (agent, variables, want) in table {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            let found = find(agent).unwrap().endpoint(&variable).map(|found| found.to_string());
            assert_eq!(found.as_deref(), *want, "{agent} {variables:?}");
        }
    }
}
