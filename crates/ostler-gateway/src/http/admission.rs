//! Whether a request is meant for us: a page in a browser can send one to any address, under a name of its own choice.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, header};

use crate::wire::{Kind, Problem};

/// Refuses what was sent to another name, or by a page of another place.
pub(super) fn is_meant(headers: &HeaderMap, address: SocketAddr) -> Result<(), Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).unwrap_or_default();
    if !is_ours(host, address) {
        return Err(Problem::new(Kind::Forbidden, "this server does not have that name").about("host"));
    }
    match text(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if origin.strip_prefix("http://").is_some_and(|from| from == host) => Ok(()),
        Some(_) => Err(Problem::new(Kind::Forbidden, "pages of other places may not ask").about("origin")),
    }
}

/// Whether a name with its port is one of ours. Who listens for others is asked by whatever address they know.
fn is_ours(host: &str, address: SocketAddr) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse() == Ok(address.port()) => name,
        Some((_, port)) if port.parse::<u16>().is_ok() => return false,
        Some(_) | None => host,
    };
    let number = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match number {
        Ok(number) => number == address.ip() || number.is_loopback() || !address.ip().is_loopback(),
        Err(_) => name == "localhost",
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
            assert_eq!(is_ours(host, address), want, "{host}");
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
            is_meant(&headers, address).is_ok()
        };
        assert!(asked(None) && asked(Some("http://localhost:7433")));
        assert!(!asked(Some("http://evil.example")) && !asked(Some("null")));
    }
}
