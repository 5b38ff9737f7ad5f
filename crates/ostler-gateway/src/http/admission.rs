//! Whether a request is meant for us: a page in a browser can send one to any address, under a name of its own choice.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::{Authority, Scheme};
use axum::http::{HeaderMap, Uri, header};

use super::Tls;
use crate::wire::{Kind, Problem};

/// Longest head: a key, a few names. What is longer gets status 431.
pub(super) const LONGEST_HEAD: usize = 64 * 1024;

/// What the server is reached by.
#[derive(Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) address: SocketAddr,
    /// With TLS its certificate says which names it has.
    pub(super) tls: Option<&'a Tls>,
}

/// Refuses what was sent to another name, or by a page of another place, and a head that is too long.
pub(super) fn is_meant(target: &Uri, headers: &HeaderMap, server: Identity<'_>) -> Result<(), Problem> {
    if length(target, headers) > LONGEST_HEAD {
        return Err(Problem::new(Kind::LongHead, "the head of the request is longer than 64 kB"));
    }
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).unwrap_or_default();
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        // Which of them counts differs from program to program, and so does what each lets pass.
        return Err(Problem::invalid("there must be one host").about("host"));
    }
    // A target may name a server by itself, and then that name counts, not the other one.
    let is_foreign = |named: &Authority| {
        target.scheme().is_some_and(|scheme| *scheme != server.scheme()) || !server.has_name(named.as_str())
    };
    if !server.has_name(host) || target.authority().is_some_and(is_foreign) {
        return Err(Problem::new(Kind::Forbidden, "this server does not have that name").about("host"));
    }
    match text(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if origin.split_once("://") == Some((server.scheme().as_str(), host)) => Ok(()),
        Some(_) => Err(Problem::new(Kind::Forbidden, "pages of other places may not ask").about("origin")),
    }
}

/// How long a head is, but for its method and version, which are short.
fn length(target: &Uri, headers: &HeaderMap) -> usize {
    let path = target.path_and_query().map_or(0, |path| path.as_str().len());
    let server = target.authority().map_or(0, |server| server.as_str().len());
    // A colon, a blank, and the end of the line.
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    path + server + fields.sum::<usize>()
}

impl Identity<'_> {
    fn scheme(self) -> Scheme {
        if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP }
    }

    /// Whether a name with its port is the server's. Where it listens for others they use whatever address they know, and
    /// the names of its certificate.
    fn has_name(self, host: &str) -> bool {
        let address = self.address;
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.parse() == Ok(address.port()) => name,
            Some((_, port)) if port.parse::<u16>().is_ok() => return false,
            Some(_) | None => host,
        };
        let number = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match number {
            Ok(number) => number == address.ip() || number.is_loopback() || !address.ip().is_loopback(),
            Err(_) => name == "localhost" || self.tls.is_some_and(|tls| tls.is_for(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_answered() {
        let local: SocketAddr = "127.0.0.1:7433".parse().unwrap();
        let open: SocketAddr = "0.0.0.0:7433".parse().unwrap();
        let table = [
            ("127.0.0.1:7433", local, true),
            ("localhost:7433", local, true),
            ("[::1]:7433", local, true),
            ("127.0.0.1:80", local, false),
            ("evil.example:7433", local, false),
            ("evil.example", local, false),
            ("192.0.2.1:7433", local, false),
            ("192.0.2.1:7433", open, true),
            ("", local, false),
        ];
        for (host, address, want) in table {
            assert_eq!(Identity { address, tls: None }.has_name(host), want, "{host}");
        }
    }

    #[test]
    fn pages_of_other_places_are_refused() {
        let address: SocketAddr = "127.0.0.1:7433".parse().unwrap();
        let asked = |origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "localhost:7433".parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            is_meant(&Uri::from_static("/"), &headers, Identity { address, tls: None }).is_ok()
        };
        assert!(asked(None) && asked(Some("http://localhost:7433")));
        assert!(!asked(Some("http://evil.example")) && !asked(Some("null")));
    }

    #[test]
    fn one_host_is_named_and_it_is_ours() {
        let address: SocketAddr = "127.0.0.1:7433".parse().unwrap();
        let asked = |target: &'static str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().unwrap());
            }
            let meant = is_meant(&Uri::from_static(target), &headers, Identity { address, tls: None });
            meant.map_or_else(|problem| problem.kind.status(), |()| 200)
        };
        let ours = "127.0.0.1:7433";
        let table: [(&'static str, &[&str], u16); 9] = [
            ("/v1/models", &[ours], 200),
            ("http://127.0.0.1:7433/v1/models", &[ours], 200),
            ("http://localhost:7433/v1/models", &[ours], 200),
            ("http://evil.example/v1/models", &[ours], 403),
            ("http://127.0.0.1:80/v1/models", &[ours], 403),
            ("https://127.0.0.1:7433/v1/models", &[ours], 403),
            ("http://127.0.0.1:7433@evil.example/", &[ours], 403),
            ("/v1/models", &[ours, "evil.example"], 400),
            ("/v1/models", &[ours, ours], 400),
        ];
        for (target, hosts, status) in table {
            assert_eq!(asked(target, hosts), status, "{target} {hosts:?}");
        }
    }
}
