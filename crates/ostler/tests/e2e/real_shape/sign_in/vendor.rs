//! A vendor that gives tokens: behind a proxy, for agents that know its host by name, and on loopback, for those that can be
//! told another address. All other requests go to a scripted model.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// The hosts of which it has certificates.
const HOSTS: [&str; 3] = ["platform.claude.com", "api.anthropic.com", "models.example"];

/// In the year 2096.
const LATER: u64 = 4_000_000_000;

/// How long it thinks about new tokens: long enough that a second process wants some too.
const THINKING: Duration = Duration::from_secs(1);

/// Ends with the process of the tests.
pub(crate) struct Vendor {
    /// The address of the proxy, and of the vendor itself.
    pub(crate) proxy: String,
    /// The authority that vouches for its certificates.
    pub(crate) authority: String,
    tokens: Arc<Mutex<Tokens>>,
}

#[derive(Default)]
struct Tokens {
    /// The refresh tokens that were sent, in their order.
    used: Vec<String>,
    /// How often new ones were given.
    given: usize,
}

impl Vendor {
    /// `model` is the address of a scripted model.
    pub(crate) fn start(model: &str) -> Self {
        let model = model.strip_prefix("http://").unwrap().to_owned();
        let (config, authority) = certify();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let tokens = Arc::<Mutex<Tokens>>::default();
        let shared = tokens.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, tokens, model) = (config.clone(), shared.clone(), model.clone());
                std::thread::spawn(move || serve(stream, config, &tokens, &model));
            }
        });
        Self { proxy, authority, tokens }
    }

    /// The refresh tokens that were sent.
    pub(crate) fn refreshes(&self) -> Vec<String> {
        self.tokens.lock().unwrap().used.clone()
    }

    /// The one that can be used next.
    pub(crate) fn refresh_token(&self) -> String {
        format!("refresh-{}", self.tokens.lock().unwrap().given)
    }
}

fn certify() -> (Arc<ServerConfig>, String) {
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // With one name for both, a certificate would seem to vouch for itself.
    authority.distinguished_name.push(DnType::CommonName, "An authority of tests");
    let root = authority.self_signed(&authority_key).unwrap().pem();
    let server = CertificateParams::new(HOSTS.map(str::to_owned)).unwrap();
    let server = server.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    let chain = vec![CertificateDer::from(server.der().to_vec())];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    (Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()), root)
}

/// One connection. What breaks off is the agent's own affair.
fn serve(mut stream: TcpStream, config: Arc<ServerConfig>, tokens: &Mutex<Tokens>, model: &str) {
    let Some(head) = read_head(&mut stream) else { return };
    if !head.starts_with("CONNECT ") {
        answer(&mut stream, &head, tokens, model);
    } else if stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").is_ok() {
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
        if let Some(head) = read_head(&mut stream) {
            answer(&mut stream, &head, tokens, model);
        }
    }
}

/// A request without its body.
fn read_head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

fn answer(stream: &mut (impl Read + Write), head: &str, tokens: &Mutex<Tokens>, model: &str) {
    let length = BufReader::new(head.as_bytes()).lines().map_while(Result::ok).find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length:").and_then(|value| value.trim().parse().ok())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    if stream.read_exact(&mut body).is_err() {
        return;
    }
    if !head.starts_with("POST ") || !head.contains("/oauth/token") {
        forward(stream, head, &body, model);
        return;
    }
    let (status, answer) = refresh(&String::from_utf8_lossy(&body), tokens);
    let answer = answer.to_string();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    );
    let _ = stream.flush();
}

/// Passes a request on, and its answer back until that ends.
fn forward(stream: &mut impl Write, head: &str, body: &[u8], model: &str) {
    let is_kept = |line: &&str| {
        let line = line.to_ascii_lowercase();
        !line.is_empty() && !line.starts_with("connection:") && !line.starts_with("host:")
    };
    let kept: Vec<&str> = head.split("\r\n").filter(is_kept).collect();
    let head = format!("{}\r\nhost: {model}\r\nconnection: close\r\n\r\n", kept.join("\r\n"));
    let mut upstream = TcpStream::connect(model).unwrap();
    upstream.write_all(head.as_bytes()).unwrap();
    upstream.write_all(body).unwrap();
    let _ = std::io::copy(&mut upstream, stream);
    let _ = stream.flush();
}

/// A JSON web token that expires then. Nobody checks its signature.
pub(crate) fn web_token(expires: u64) -> String {
    let account = json!({"chatgpt_plan_type": "pro", "chatgpt_account_id": "a", "chatgpt_user_id": "u"});
    let claims = json!({"email": "ada@example.com", "exp": expires, "https://api.openai.com/auth": account});
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{}", part(&json!({"alg": "none", "typ": "JWT"})), part(&claims), part(&json!("signed")))
}

fn refresh(body: &str, tokens: &Mutex<Tokens>) -> (&'static str, Value) {
    let asked: Value = serde_json::from_str(body).unwrap_or_default();
    let token = asked["refresh_token"].as_str().map(str::to_owned).unwrap_or_else(|| body.to_owned());
    let number = {
        let mut tokens = tokens.lock().unwrap();
        tokens.used.push(token.clone());
        if token != format!("refresh-{}", tokens.given) {
            return (
                "400 Bad Request",
                json!({"error": "invalid_grant", "error_description": "used already"}),
            );
        }
        tokens.given += 1;
        tokens.given
    };
    std::thread::sleep(THINKING);
    let tokens = json!({
        "access_token": web_token(LATER),
        "id_token": web_token(LATER),
        "refresh_token": format!("refresh-{number}"),
        "expires_in": 28_800,
        "token_type": "Bearer",
        "scope": "user:inference user:profile",
    });
    ("200 OK", tokens)
}
