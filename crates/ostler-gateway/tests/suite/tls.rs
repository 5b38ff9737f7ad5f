//! The same doors behind TLS.

use std::sync::Arc;
use std::time::Duration;

use ostler_agent::leasing::Limits;
use ostler_gateway::http::{ConnectionLimits, Offer, Tls, Waiting};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::house::{DEADLINE, Got, House, asked, head, messages, offer, request};
use crate::terminals::{Frame, Socket};

/// More than there may be, as in `starving`.
const SILENT: usize = 60;

/// A server with a certificate of its own, and what its clients trust.
struct Encrypted {
    house: House,
    connector: TlsConnector,
}

fn make_certificate() -> (Tls, CertificateDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let names = ["localhost", "agents.example"].map(str::to_owned);
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let tls = Tls::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    (tls, certificate.der().clone())
}

impl Encrypted {
    async fn open(connections: ConnectionLimits, waiting: Waiting) -> Self {
        let (tls, certificate) = make_certificate();
        let kept = Arc::new(tempfile::tempdir().unwrap());
        let offer = Offer { connections, waiting, tls: Some(tls), ..offer(kept.path()) };
        let house = House::with(offer, kept, Limits::default(), Duration::ZERO).await;
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        Self { house, connector: TlsConnector::from(Arc::new(config)) }
    }

    async fn usual() -> Self {
        Self::open(ConnectionLimits::default(), Waiting::default()).await
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.house.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        tokio::time::timeout(DEADLINE, self.connector.connect(name, stream)).await.unwrap().unwrap()
    }

    async fn ask(&self, head: &str, body: &str) -> Got {
        let mut stream = self.connect().await;
        stream.write_all(request(self.house.address, head, body).as_bytes()).await.unwrap();
        Got::read(&mut stream).await
    }
}

#[tokio::test]
async fn every_api_answers_over_tls() {
    let server = Encrypted::usual().await;
    let body = asked(&[("user", "say one")]).to_string();
    let got = server.ask(&head("/v1/messages", "ostler_1"), &body).await;
    assert_eq!((got.status, &got.json()["content"]), (200, &json!([{"type": "text", "text": "one"}])));
    let said = messages(&[("user", "say one"), ("assistant", "one"), ("user", "say two")]);
    let chat = json!({"model": "claude", "stream": true, "messages": said}).to_string();
    let got = server.ask(&head("/v1/chat/completions", "ostler_1"), &chat).await;
    assert!(got.status == 200 && got.body.ends_with("data: [DONE]\n\n"), "{}", got.body);
    let responses = json!({"model": "claude", "input": "say three"}).to_string();
    let got = server.ask(&head("/v1/responses", "ostler_1"), &responses).await;
    assert_eq!(got.json()["output"][0]["content"][0]["text"], "three");
    assert_eq!(server.ask(&head("/v1/messages", "no"), &body).await.status, 401);
    server.house.close().await;
}

/// A client knows the server by the names of its certificate, and a page of it has the scheme `https`.
#[tokio::test]
async fn the_names_of_the_certificate_are_the_servers() {
    let server = Encrypted::usual().await;
    let port = server.house.address.port();
    let table = [
        (format!("host: agents.example:{port}"), 200),
        (format!("host: localhost:{port}\r\norigin: https://localhost:{port}"), 200),
        (format!("host: localhost:{port}\r\norigin: http://localhost:{port}"), 403),
        (format!("host: evil.example:{port}"), 403),
    ];
    for (more, status) in table {
        let got = server.ask(&format!("GET /healthz HTTP/1.1\r\n{more}"), "").await;
        assert_eq!(got.status, status, "{more}");
    }
    server.house.close().await;
}

#[tokio::test]
async fn a_terminal_is_watched_over_tls() {
    let server = Encrypted::usual().await;
    let session = json!({"model": "claude/terminal"}).to_string();
    let got = server.ask(&head("/api/v1/sessions", "ostler_owner"), &session).await;
    let id = got.json()["id"].as_str().unwrap().to_owned();
    let turn = json!({"text": "say one", "wait": true}).to_string();
    let path = format!("/api/v1/sessions/{id}");
    assert_eq!(server.ask(&head(&format!("{path}/turns"), "ostler_owner"), &turn).await.status, 200);
    let seat = server.house.stage.terminal.lock().unwrap().as_ref().unwrap().0.clone();
    seat.draw(b"drawn");
    let stream = server.connect().await;
    let key = "x-api-key: ostler_owner";
    let mut viewer = Socket::on(stream, &server.house, &format!("{path}/terminal"), key).await.unwrap();
    let frames = viewer.until("drawn").await;
    assert!(matches!(frames.first(), Some(Frame::Text(_))), "{frames:?}");
    drop((viewer, seat));
    server.house.close().await;
}

#[tokio::test]
async fn connections_without_a_handshake_keep_nobody_out() {
    let limits = ConnectionLimits { total: 40, of_peer: 32 };
    // No connection is closed for its time here.
    let waiting = Waiting { head: 10 * DEADLINE, ..Waiting::default() };
    let server = Encrypted::open(limits, waiting).await;
    let mut silent = Vec::new();
    for number in 0..SILENT {
        let mut stream = TcpStream::connect(server.house.address).await.unwrap();
        if number % 2 == 0 {
            // The beginning of a handshake is not one.
            stream.write_all(&[22, 3, 1]).await.unwrap();
        }
        silent.push(stream);
    }
    let answered = server.ask("GET /healthz HTTP/1.1", "");
    let got = tokio::time::timeout(Duration::from_secs(10), answered).await.unwrap();
    assert_eq!(got.body, "ok\n");
    let mut byte = [0];
    let ended = tokio::time::timeout(DEADLINE, silent[0].read(&mut byte)).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "the oldest of them went");
    server.house.close().await;
}

/// The handshake and the first head together take no longer than a head may.
#[tokio::test]
async fn a_handshake_takes_no_longer_than_a_head() {
    let waiting = Waiting { head: Duration::from_millis(500), ..Waiting::default() };
    let server = Encrypted::open(ConnectionLimits::default(), waiting).await;
    let mut silent = TcpStream::connect(server.house.address).await.unwrap();
    let mut begun = TcpStream::connect(server.house.address).await.unwrap();
    begun.write_all(&[22, 3, 1]).await.unwrap();
    let mut without_head = server.connect().await;
    let mut byte = [0];
    for stream in [&mut silent, &mut begun] {
        let ended = tokio::time::timeout(DEADLINE, stream.read(&mut byte)).await.unwrap();
        assert!(matches!(ended, Ok(0) | Err(_)));
    }
    let ended = tokio::time::timeout(DEADLINE, without_head.read(&mut byte)).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)));
    // A connection that was used is not closed by the time of its first head.
    assert_eq!(server.ask("GET /healthz HTTP/1.1", "").await.status, 200);
    server.house.close().await;
}

#[tokio::test]
async fn plain_http_on_the_port_of_tls_is_refused_clearly() {
    let server = Encrypted::usual().await;
    let got = server.house.post("/v1/messages", "ostler_1", &asked(&[("user", "say one")])).await;
    assert!(got.status == 400 && got.body.contains("use https://"), "{} {}", got.status, got.body);
    // Other bytes than HTTP, and a handshake that is none.
    for bytes in [&b"\0\0\0"[..], &[22; 64]] {
        let mut stream = TcpStream::connect(server.house.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // It is closed, with whatever answer.
        let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap();
    }
    assert_eq!(server.ask("GET /healthz HTTP/1.1", "").await.status, 200);
    server.house.close().await;
}
