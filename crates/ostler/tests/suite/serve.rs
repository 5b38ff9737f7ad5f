//! What `ostler serve` prints about the jail of its sessions when it starts, and on which addresses it listens.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use crate::ground::Ground;

/// A loaded machine needs many times what this takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// The standard error of a server that is ended once it listens.
fn serve(ground: &Ground, args: &[&str]) -> String {
    ground.program("claude", "echo '2.1.197 (Claude Code)'");
    let mut command = ground.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut server = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    let mut stderr = String::new();
    server.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0), "{stderr}");
    assert!(line.contains("listening"), "{line} {stderr}");
    stderr
}

#[test]
fn only_a_wall_that_is_weaker_than_namespaces_is_named() {
    let ground = Ground::new();
    assert_eq!(serve(&ground, &[]), "");
    assert!(ground.at("ostler/jail-works").exists(), "runs need not try it again");
    let told = "warning: sessions have no jail: agents enforce their permissions by their own means\n";
    assert_eq!(serve(&ground, &["--no-jail"]), told);
    // No wall can be tried without a directory for the attempt.
    let told = serve(&Ground::new().with("TMPDIR", "/there/is/none"), &[]);
    assert_eq!(told.lines().count(), 1, "{told}");
    let reasons = ["sessions are refused", "`deny` and `edits`", "Landlock (", "--no-jail"];
    assert!(reasons.iter().all(|reason| told.contains(reason)), "{told}");
}

#[test]
fn a_wall_that_does_not_exist_is_refused() {
    let ground = Ground::new().with("OSTLER_FORCE_JAIL", "brick");
    ground.program("claude", "echo '2.1.197 (Claude Code)'");
    let ended = ground.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("`brick` is not a wall"), "{}", ended.stderr);
}

/// A server that listens, and what it printed.
struct Listening {
    child: Child,
    line: Value,
}

impl Listening {
    fn start(ground: &Ground, listen: &str, args: &[&str]) -> Self {
        ground.program("claude", "echo '2.1.197 (Claude Code)'");
        let mut command = ground.command(&["serve", "--listen", listen, "--json"]);
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line = serde_json::from_str(&line).unwrap_or_default();
        Self { child, line }
    }

    /// Its host and port, behind that scheme.
    fn address(&self, scheme: &str) -> String {
        let url = self.line["url"].as_str().unwrap();
        url.strip_prefix(scheme).unwrap().to_owned()
    }

    /// Ends it, and returns what it printed for people.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{stderr}");
        stderr
    }
}

/// Writes a certificate of `localhost` and its key.
fn certify(ground: &Ground, name: &str) {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    ground.put(&format!("project/{name}.pem"), &certificate.pem());
    let path = ground.put(&format!("project/{name}.key"), &key.serialize_pem());
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// The answer to a request over TLS, of a client that trusts that certificate.
fn ask_over_tls(ground: &Ground, address: &str, certificate: &str, request: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ground.at(certificate)).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream);
    write!(stream, "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn other_machines_are_served_with_tls_or_by_an_explicit_flag() {
    let ground = Ground::new();
    certify(&ground, "server");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7433"] {
        let refused = ground.run(&["serve", "--listen", address]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        for words in ["without TLS", "--tls-cert FILE --tls-key FILE", "--insecure-http"] {
            assert!(refused.stderr.contains(words), "{}", refused.stderr);
        }
    }
    let plain = Listening::start(&ground, "0.0.0.0:0", &["--insecure-http"]);
    assert!(plain.address("http://").starts_with("0.0.0.0:"));
    let told = plain.end();
    assert!(told.contains("warning: others on the network can read"), "{told}");
    let args = ["--tls-cert", "server.pem", "--tls-key", "server.key"];
    let encrypted = Listening::start(&ground, "0.0.0.0:0", &args);
    let address = encrypted.address("https://").replace("0.0.0.0", "127.0.0.1");
    let answer = ask_over_tls(&ground, &address, "project/server.pem", "GET /healthz");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok\n"), "{answer}");
    assert_eq!(encrypted.end(), "");
}

#[test]
fn a_certificate_can_be_set_in_the_configuration() {
    let ground = Ground::new();
    certify(&ground, "server");
    let path = |name: &str| ground.at("project").join(name).display().to_string();
    let (certificate, key) = (path("server.pem"), path("server.key"));
    ground.put("ostler/config.toml", &format!("[serve]\ntls_cert = \"{certificate}\"\n"));
    let half = ground.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(half.code, Some(2), "{}", half.stderr);
    assert!(half.stderr.contains("`serve.tls_cert` is set in the configuration without `serve.tls_key`"));
    let both = format!("[serve]\ntls_cert = \"{certificate}\"\ntls_key = \"{key}\"\n");
    ground.put("ostler/config.toml", &both);
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let server = Listening::start(&ground, "127.0.0.1:0", &[]);
    let answer = ask_over_tls(&ground, &server.address("https://"), "project/server.pem", "GET /readyz");
    assert!(answer.ends_with("ok\n"), "{answer}");
    let told = server.end();
    assert!(told.contains("other users of this machine can read the private key"), "{told}");
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_with_its_file() {
    let ground = Ground::new();
    certify(&ground, "server");
    certify(&ground, "other");
    ground.put("project/empty", "");
    let table = [
        ("no.pem", "server.key", "could not read", "no.pem", "No such file"),
        ("server.pem", "no.key", "could not read", "no.key", "No such file"),
        ("empty", "server.key", "could not use", "empty", "no certificate"),
        ("server.pem", "server.pem", "could not use", "server.pem", "no private key"),
        ("server.pem", "other.key", "could not use", "other.key", "not that of the certificate"),
    ];
    for (certificate, key, problem, file, cause) in table {
        let args = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key];
        let refused = ground.run(&args);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        for words in [problem, file, cause] {
            assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
        }
    }
    let half = ground.run(&["serve", "--tls-cert", "server.pem"]);
    assert!(half.code == Some(2) && half.stderr.contains("--tls-key"), "{}", half.stderr);
}

/// The status of an answer, and the whole of it.
fn ask(address: &str, path: &str, key: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\nconnection: close");
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// Not even between the moment at which the keys cannot be read and the one at which they can be read again.
#[test]
fn a_revoked_key_is_refused_by_a_running_server_that_could_not_read_the_keys() {
    let ground = Ground::new();
    let server = Listening::start(&ground, "127.0.0.1:0", &[]);
    let address = server.address("http://");
    let first = server.line["key"].as_str().unwrap();
    let made = ground.run(&["keys", "new", "--json", "--owner", "--scope", "chat"]);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let (other, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    let models = |key: &str| ask(&address, "/v1/models", key);
    assert_eq!((models(first).0, models(other).0), (200, 200));
    // A directory in its place: root can read every file.
    let path = ground.at("ostler/keys.json");
    let mut keys: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    for key in [first, other] {
        let (status, answer) = models(key);
        assert!(status == 503 && answer.to_ascii_lowercase().contains("retry-after:"), "{answer}");
    }
    keys["keys"].as_array_mut().unwrap().retain(|key| key["id"] != id);
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, keys.to_string()).unwrap();
    assert_eq!((models(other).0, models(first).0), (401, 200));
    server.end();
}

/// What a key may do at most is set for all keys of tenants in the configuration.
#[test]
fn a_tenants_key_has_the_limits_of_the_configuration() {
    let ground = Ground::new();
    ground.put("ostler/config.toml", "[serve]\nrequests_per_minute = 2\nturns_at_once = 1\n");
    let server = Listening::start(&ground, "127.0.0.1:0", &[]);
    let address = server.address("http://");
    let new = |args: &[&str]| {
        let made = ground.run(&[&["keys", "new", "--json"], args].concat());
        let made: Value = serde_json::from_str(&made.stdout).unwrap();
        let limit = made["requests_per_minute"].as_u64();
        (made["key"].as_str().unwrap().to_owned(), limit)
    };
    let (tenant, limit) = new(&[]);
    assert_eq!(limit, Some(2));
    let statuses = |key: &str| -> Vec<u16> { (0..3).map(|_| ask(&address, "/v1/models", key).0).collect() };
    assert_eq!(statuses(&tenant), [200, 200, 429]);
    let (generous, limit) = new(&["--requests-per-minute", "9"]);
    assert_eq!((limit, statuses(&generous)), (Some(9), vec![200; 3]));
    let (owner, limit) = new(&["--owner"]);
    assert_eq!((limit, statuses(&owner)), (None, vec![200; 3]));
    server.end();
}

/// More connections than there may be at all, none of which begins a handshake.
#[test]
fn silent_connections_keep_nobody_from_a_handshake() {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    let ground = Ground::new();
    certify(&ground, "server");
    let args = ["--tls-cert", "server.pem", "--tls-key", "server.key"];
    let server = Listening::start(&ground, "127.0.0.1:0", &args);
    let address = server.address("https://");
    let silent: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let key = server.line["key"].as_str().unwrap();
    let models = format!("GET /v1/models HTTP/1.1\r\nx-api-key: {key}\r\nx-rest:");
    let answer = ask_over_tls(&ground, &address, "project/server.pem", &models);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"claude\""), "{answer}");
    drop(silent);
    server.end();
}
