//! Where a provider is reached: what is probed to tell a machine that is offline from an agent that is stuck.

use std::fmt;
use std::path::{Path, PathBuf};

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Where an agent reaches its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// What it connects to: the provider's address, or that of the proxy before it. One of several where it is not known
    /// which. Never empty.
    pub endpoints: Vec<Endpoint>,
    /// What names that address, for people.
    pub configured_by: String,
}

impl Provider {
    /// A provider with one address.
    pub fn at(endpoint: Endpoint, configured_by: String) -> Self {
        Self { endpoints: vec![endpoint], configured_by }
    }

    /// One of both, with the same origin.
    pub(crate) fn or(mut self, other: Self) -> Self {
        for endpoint in other.endpoints {
            if !self.endpoints.contains(&endpoint) {
                self.endpoints.push(endpoint);
            }
        }
        self
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.endpoints.iter().map(Endpoint::to_string).collect();
        write!(out, "{} ({})", all.join(" or "), self.configured_by)
    }
}

/// A file is there and its text is not to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// What decides which provider an agent uses.
#[derive(Clone, Copy)]
pub struct Configuration<'a> {
    /// The variables that the agent is started with.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file. None if there is none.
    pub file: &'a dyn Fn(&Path) -> Result<Option<String>, Unreadable>,
    /// The directory that the agent is started in.
    pub workspace: &'a Path,
    /// Arguments of the user for the agent.
    pub args: &'a [String],
}

impl Configuration<'_> {
    /// A variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The user's home directory.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }

    /// Whether one of these options is given, as `--x` or `--x=…`.
    pub(crate) fn has_flag(&self, flags: &[&str]) -> bool {
        let is_one = |arg: &String| flags.contains(&arg.split('=').next().unwrap_or_default());
        self.args.iter().any(is_one)
    }
}

/// The proxy of an agent.
pub(crate) struct Proxy {
    /// Its address, and what names it.
    pub(crate) named: Option<(String, String)>,
    /// The hosts that are reached without it, as in `NO_PROXY`.
    pub(crate) exempt: String,
}

impl Proxy {
    /// What an agent connects to that wants to reach `endpoint`. `None` if that is unknown.
    pub(crate) fn lead(self, endpoint: Endpoint, configured_by: String) -> Option<Provider> {
        let Some((proxy, named_by)) = self.named else { return Some(Provider::at(endpoint, configured_by)) };
        let rules = || self.exempt.split([',', ' ']).map(str::trim).filter(|rule| !rule.is_empty());
        if rules().any(|rule| endpoint.is_covered_by(rule)) {
            return Some(Provider::at(endpoint, configured_by));
        }
        // Agents read ranges of addresses in different ways.
        if rules().any(|rule| rule.contains('/')) {
            return None;
        }
        let proxy = Endpoint::of_url(&proxy).or_else(|| Endpoint::parse(&proxy))?;
        Some(Provider::at(proxy, format!("the proxy of {named_by}")))
    }
}

impl Endpoint {
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

    /// `*`, `example.com`, `.example.com`, `*.example.com`, each also with a port.
    fn is_covered_by(&self, rule: &str) -> bool {
        let rule = rule.strip_suffix(&format!(":{}", self.port)).unwrap_or(rule);
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
}

/// For the tests of what agents are configured for.
#[cfg(test)]
pub(crate) mod testing {
    use super::{Configuration, Unreadable};
    use crate::agent::find;

    /// What an agent is started with, and where its provider is then.
    #[derive(Debug, Default)]
    pub(crate) struct Case<'a> {
        pub(crate) variables: Vec<(&'a str, &'a str)>,
        pub(crate) files: Vec<(&'a str, &'a str)>,
        pub(crate) args: Vec<&'a str>,
        /// Empty if that is not known.
        pub(crate) want: &'a str,
    }

    pub(crate) fn check(agent: &str, table: &[Case<'_>]) {
        for case in table {
            let args: Vec<String> = case.args.iter().map(|arg| (*arg).to_owned()).collect();
            let found = configured(&case.variables, &case.files, |configuration| {
                let configuration = Configuration { args: &args, ..*configuration };
                find(agent).unwrap().provider(&configuration).map(|found| found.to_string())
            });
            assert_eq!(found.unwrap_or_default(), case.want, "{agent}: {case:?}");
        }
    }

    /// What is found in a home with these files.
    pub(crate) fn configured<T>(
        variables: &[(&str, &str)],
        files: &[(&str, &str)],
        find: impl FnOnce(&Configuration<'_>) -> T,
    ) -> T {
        let variable = |name: &str| {
            let home = ("HOME", "/h");
            let known = variables.iter().chain([&home]).find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        };
        let file = |path: &std::path::Path| {
            let found = files.iter().find(|(known, _)| std::path::Path::new(known) == path);
            match found {
                Some((_, "UNREADABLE")) => Err(Unreadable),
                found => Ok(found.map(|(_, text)| (*text).to_owned())),
            }
        };
        find(&Configuration { variable: &variable, file: &file, workspace: "/w".as_ref(), args: &[] })
    }
}
