//! The proxy of a jail, by bytes: no wall is needed to try it.

use std::ffi::OsString;

use ostler_agent::endpoint::Endpoint;
use ostler_agent::network::{AgentNetwork, HostVerdict, NetAccess, NetPolicy, Permitted};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::chain::{ConnectError, connect_directly};
use super::{Egress, HostNotices, UserProxy};

/// A server that answers one line of HTTP to each connection and reports what was sent to it first.
async fn serve(
    answer: &'static str,
    tasks: &mut JoinSet<()>,
) -> (String, tokio::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, received) = tokio::sync::mpsc::channel(16);
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let count = stream.read(&mut head).await.unwrap();
            sender.send(String::from_utf8_lossy(&head[..count]).into_owned()).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            // What follows in a tunnel comes back.
            let (mut reader, mut writer) = stream.split();
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        }
    });
    (address, received)
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nyes!";

/// The proxy of a jail with this access.
async fn proxy(access: &str, variables: &[(&str, &str)], tasks: &mut JoinSet<()>) -> (String, HostNotices) {
    let access: NetAccess = access.parse().unwrap();
    let policy = NetPolicy::decide(&access, &AgentNetwork::default()).unwrap();
    let variables: Vec<(OsString, OsString)> =
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let (egress, notices) = Egress::new(policy, UserProxy::from_variables(&variables));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Where it is bound in a jail decides what it is.
    egress.serve(vec![(egress.listen()[0], listener)], tasks).unwrap();
    (address, notices)
}

/// What comes back for these bytes, to the end or to the end of a head.
async fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn what_is_not_permitted_is_refused_with_what_opens_it() {
    let mut tasks = JoinSet::new();
    let (secret, _received) = serve(ANSWER, &mut tasks).await;
    let (address, mut notices) = proxy("provider", &[], &mut tasks).await;
    let close = "connection: close\r\n\r\n";
    for request in [
        format!("CONNECT {secret} HTTP/1.1\r\nhost: {secret}\r\n{close}"),
        format!("GET http://{secret}/ HTTP/1.1\r\nhost: {secret}\r\n{close}"),
        // The header does not decide.
        format!("GET http://{secret}/ HTTP/1.1\r\nhost: permitted.example\r\n{close}"),
    ] {
        let answer = ask(&address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{request}: {answer}");
        assert!(answer.contains(&format!("does not permit {secret}; --net hosts={secret} does")), "{answer}");
    }
    let notice = notices.take().unwrap();
    assert_eq!((notice.endpoint.to_string(), notice.verdict), (secret, HostVerdict::Denied));
    assert_eq!(notices.take(), None, "each is reported once");
    for request in [
        "GET / HTTP/1.1\r\nhost: a.example\r\n",
        "GET https://a.example/ HTTP/1.1\r\nhost: a.example\r\n",
        "GET ftp://a.example/ HTTP/1.1\r\nhost: a.example\r\n",
        "GET http://permitted.example@a.example/ HTTP/1.1\r\nhost: a.example\r\n",
        "nonsense\r\n",
    ] {
        let answer = ask(&address, &format!("{request}{close}")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request}: {answer}");
    }
    assert_eq!(notices.take(), None);
}

#[tokio::test]
async fn a_permitted_host_is_reached_by_a_tunnel_and_by_plain_http() {
    let mut tasks = JoinSet::new();
    let (host, mut received) = serve(ANSWER, &mut tasks).await;
    let (address, _notices) = proxy(&format!("hosts={host}"), &[], &mut tasks).await;
    let request = format!(
        "GET http://{host}/a?b=c HTTP/1.1\r\nhost: other.example\r\nproxy-connection: keep-alive\r\nconnection: close\r\n\r\n"
    );
    let answer = ask(&address, &request).await;
    assert!(answer.ends_with("yes!"), "{answer}");
    let forwarded = received.recv().await.unwrap();
    assert!(forwarded.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{forwarded}");
    assert!(forwarded.contains(&format!("host: {host}\r\n")) && !forwarded.contains("proxy-"), "{forwarded}");

    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream.write_all(format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = vec![0; 512];
    let count = stream.read(&mut head).await.unwrap();
    assert!(head[..count].starts_with(b"HTTP/1.1 200 "), "{head:?}");
    stream.write_all(b"through the tunnel").await.unwrap();
    assert_eq!(received.recv().await.unwrap(), "through the tunnel");
}

#[tokio::test]
async fn the_proxy_of_the_user_is_used_where_it_is_named() {
    let mut tasks = JoinSet::new();
    let (users, mut at_users) = serve("HTTP/1.1 200 Connected\r\n\r\n", &mut tasks).await;
    let named = format!("http://ada:secret@{users}");
    let variables = [("HTTPS_PROXY", named.as_str()), ("NO_PROXY", "exempt.invalid")];
    let (address, _notices) = proxy("hosts=a.example,exempt.invalid", &variables, &mut tasks).await;
    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream.write_all(b"CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n\r\n").await.unwrap();
    let asked = at_users.recv().await.unwrap();
    assert!(asked.starts_with("CONNECT a.example:443 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic YWRhOnNlY3JldA==\r\n"), "{asked}");
    let mut head = vec![0; 512];
    let count = stream.read(&mut head).await.unwrap();
    assert!(head[..count].starts_with(b"HTTP/1.1 200 "));
    // Hosts that are exempt are connected to directly: nobody knows this one.
    let request =
        "CONNECT exempt.invalid:443 HTTP/1.1\r\nhost: exempt.invalid:443\r\nconnection: close\r\n\r\n";
    assert!(ask(&address, request).await.starts_with("HTTP/1.1 502 "));
    assert!(at_users.try_recv().is_err());
}

#[tokio::test]
async fn a_proxy_of_another_kind_is_named_and_not_passed_over() {
    let mut tasks = JoinSet::new();
    let variables = [("ALL_PROXY", "socks5://127.0.0.1:1")];
    let (address, _notices) = proxy("hosts=a.example", &variables, &mut tasks).await;
    let request = "CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\nconnection: close\r\n\r\n";
    let answer = ask(&address, request).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("socks5 is not supported"), "{answer}");
}

#[tokio::test]
async fn a_pattern_does_not_lead_to_this_machine() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
    let error = connect_directly(&endpoint, Permitted::ByPattern).await.unwrap_err();
    assert!(matches!(error, ConnectError::Local), "{error}");
    connect_directly(&endpoint, Permitted::Exactly).await.unwrap();
}

#[tokio::test]
async fn connections_end_with_their_tasks() {
    let mut tasks = JoinSet::new();
    let (address, _notices) = proxy("provider", &[], &mut tasks).await;
    let mut stream = TcpStream::connect(&address).await.unwrap();
    drop(tasks);
    let mut rest = Vec::new();
    // Reset or closed: either way it has ended.
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
}
