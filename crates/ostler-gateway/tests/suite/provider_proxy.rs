//! The proxy that leads tenants to the provider.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use ostler_agent::tenant::ProviderRoute;
use ostler_gateway::provider_proxy::{IsAccepted, ProviderProxy, ProxyAccess};
use reqwest::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const OWNERS_KEY: &str = "sk-of-the-owner";

/// A provider that notes what it is asked, and sends whoever asks for models elsewhere.
struct Provider {
    url: String,
    asked: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    _tasks: JoinSet<()>,
}

impl Provider {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<_>>>::default();
        let noted = asked.clone();
        let router = Router::new().fallback(move |request: Request| {
            let target = format!("{} {}", request.method(), request.uri());
            noted.lock().unwrap().push((target, request.headers().clone()));
            async move {
                match request.uri().path() {
                    "/v1/models" => {
                        (StatusCode::FOUND, [(header::LOCATION, "http://127.0.0.1:1/")], "").into_response()
                    }
                    _ => {
                        let account =
                            [("anthropic-organization-id", "o"), ("set-cookie", "a=b"), ("request-id", "r")];
                        (account, "answered").into_response()
                    }
                }
            }
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, asked, _tasks: tasks }
    }
}

/// As the program that serves makes it: no redirect is followed.
fn client(_url: &str) -> Result<reqwest::Client, reqwest::Error> {
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let builder = reqwest::Client::builder().tls_backend_preconfigured(config);
    builder.no_proxy().redirect(reqwest::redirect::Policy::none()).build()
}

/// The proxy, and what a tenant has to use it.
struct Guest {
    access: ProxyAccess,
    http: reqwest::Client,
    is_revoked: Arc<AtomicBool>,
    closing: CancellationToken,
    serving: JoinSet<()>,
}

impl Guest {
    async fn of(provider: &Provider) -> Self {
        let (proxy, listener) = ProviderProxy::listen(client).await.unwrap();
        let route = ProviderRoute {
            name: "own".to_owned(),
            base_url: provider.url.clone(),
            headers: vec![("x-api-key".to_owned(), OWNERS_KEY.to_owned())],
            query: Vec::new(),
        };
        let access = proxy.admit("tenant", &[route]).unwrap();
        let (closing, is_revoked) = (CancellationToken::new(), Arc::<AtomicBool>::default());
        let revoked = is_revoked.clone();
        let is_accepted: IsAccepted =
            Arc::new(move |tenant| tenant == "tenant" && !revoked.load(Ordering::SeqCst));
        let mut serving = JoinSet::new();
        serving.spawn(proxy.serve(listener, is_accepted, closing.clone()));
        Self { access, http: client("").unwrap(), is_revoked, closing, serving }
    }

    async fn ask(&self, method: Method, path: &str, key: &str, body: &str) -> (u16, String) {
        let request = self.http.request(method, format!("{}{path}", self.access.url));
        let response = request.header("x-api-key", key).body(body.to_owned()).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Sends these bytes, and reads the line with the status.
    async fn send_raw(&self, request: &str) -> String {
        let address = self.access.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = request.replace("KEY", &self.access.placeholder);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    async fn close(mut self) {
        self.closing.cancel();
        self.serving.join_next().await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_tenant_reaches_the_provider_and_nothing_else_of_the_owners() {
    let provider = Provider::start().await;
    let guest = Guest::of(&provider).await;
    let placeholder = guest.access.placeholder.clone();
    assert_eq!(
        guest.ask(Method::POST, "/own/v1/messages?beta=true", &placeholder, "{}").await,
        (200, "answered".to_owned())
    );
    let moved = guest.ask(Method::GET, "/own/v1/models", &placeholder, "").await;
    assert_eq!(moved.0, 302, "no redirect is followed");
    for (method, path, key, body, want) in [
        (Method::POST, "/own/v1/messages", "another", "{}", 401),
        (Method::POST, "/own/v1/messages", OWNERS_KEY, "{}", 401),
        (Method::GET, "/own/v1/files", &placeholder, "", 403),
        (Method::DELETE, "/own/v1/messages", &placeholder, "", 403),
        (Method::POST, "/own/v1/messages/batches", &placeholder, "{}", 403),
        (Method::GET, "/own/v1/models/%2e%2e/files", &placeholder, "", 403),
        (Method::GET, "/own/v1/responses/resp_1", &placeholder, "", 403),
        (Method::POST, "/own/responses", &placeholder, r#"{"previous_response_id": "resp_1"}"#, 403),
        (Method::POST, "/own/responses", &placeholder, r#"{"conversation": "conv_1"}"#, 403),
        (Method::POST, "/own/responses", &placeholder, r#"{"store": true}"#, 403),
        (Method::POST, "/own/v1/messages", &placeholder, r#"{"container": "container_1"}"#, 403),
        (Method::POST, "/own/v1/messages", &placeholder, r#"{"messages": [{"file_id": "file_1"}]}"#, 403),
        (Method::POST, "/own/v1/messages", &placeholder, "not JSON", 403),
        (Method::POST, "/other/v1/messages", &placeholder, "{}", 404),
        (Method::POST, "/", &placeholder, "{}", 404),
    ] {
        let (status, answer) = guest.ask(method.clone(), path, key, body).await;
        assert_eq!(status, want, "{method} {path} {body}: {answer}");
        assert!(answer.contains("\"message\""), "{answer}");
    }
    let asked = provider.asked.lock().unwrap().clone();
    let targets: Vec<&str> = asked.iter().map(|(target, _)| target.as_str()).collect();
    assert_eq!(targets, ["POST /v1/messages?beta=true", "GET /v1/models"]);
    assert!(asked.iter().all(|(_, headers)| headers["x-api-key"] == OWNERS_KEY));
    guest.close().await;
}

#[tokio::test]
async fn no_odd_request_leads_a_tenant_elsewhere() {
    let provider = Provider::start().await;
    let guest = Guest::of(&provider).await;
    let end = "connection: close\r\ncontent-length: 2\r\n\r\n{}";
    for (request, want) in [
        // The address in the line of the request is not where it goes.
        (
            format!(
                "POST http://other.example/own/v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: KEY\r\n{end}"
            ),
            "200",
        ),
        (
            format!("POST http://other.example/own/v1/files HTTP/1.1\r\nhost: x\r\nx-api-key: KEY\r\n{end}"),
            "403",
        ),
        (
            "CONNECT provider.example:443 HTTP/1.1\r\nhost: x\r\nx-api-key: KEY\r\nconnection: close\r\n\r\n"
                .to_owned(),
            "404",
        ),
        // Two keys, and headers that choose what is the owner's.
        (
            format!(
                "POST /own/v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: KEY\r\nx-api-key: other\r\n\
                 authorization: Bearer other\r\nopenai-organization: other\r\ncookie: a=b\r\n{end}"
            ),
            "200",
        ),
        (
            format!(
                "POST /own/v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: other\r\nx-api-key: KEY\r\n{end}"
            ),
            "401",
        ),
        // An upgrade is a request like any other.
        (
            "GET /own/v1/models HTTP/1.1\r\nhost: x\r\nx-api-key: KEY\r\nconnection: upgrade, close\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: eA==\r\n\r\n"
                .to_owned(),
            "302",
        ),
        // A second request hidden in the body of the first.
        (
            "POST /own/v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: KEY\r\nconnection: close\r\n\
             content-length: 60\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n\
             GET /v1/files HTTP/1.1\r\nhost: x\r\n\r\n"
                .to_owned(),
            "",
        ),
    ] {
        let answer = guest.send_raw(&request).await;
        assert!(answer.contains(want), "{request}: {answer}");
    }
    for (target, headers) in provider.asked.lock().unwrap().iter() {
        assert!(["POST /v1/messages", "GET /v1/models"].contains(&target.as_str()), "{target}");
        let keys: Vec<_> = headers.get_all("x-api-key").iter().collect();
        assert_eq!(keys, [OWNERS_KEY]);
        for name in ["authorization", "openai-organization", "cookie", "upgrade"] {
            assert!(!headers.contains_key(name), "{name}: {headers:?}");
        }
        assert!(!headers["host"].to_str().unwrap().contains("other"), "{headers:?}");
    }
    guest.close().await;
}

#[tokio::test]
async fn answers_do_not_name_the_owners_account() {
    let provider = Provider::start().await;
    let guest = Guest::of(&provider).await;
    let request = guest.http.post(format!("{}/own/v1/messages", guest.access.url)).body("{}");
    let response = request.header("x-api-key", &guest.access.placeholder).send().await.unwrap();
    let names: Vec<&str> = response.headers().keys().map(|name| name.as_str()).collect();
    assert!(names.contains(&"request-id"), "{names:?}");
    assert!(!names.contains(&"anthropic-organization-id") && !names.contains(&"set-cookie"), "{names:?}");
    guest.close().await;
}

#[tokio::test]
async fn the_placeholder_of_a_revoked_key_opens_nothing() {
    let provider = Provider::start().await;
    let guest = Guest::of(&provider).await;
    let placeholder = guest.access.placeholder.clone();
    assert_eq!(guest.ask(Method::POST, "/own/v1/messages", &placeholder, "{}").await.0, 200);
    guest.is_revoked.store(true, Ordering::SeqCst);
    assert_eq!(guest.ask(Method::POST, "/own/v1/messages", &placeholder, "{}").await.0, 401);
    guest.close().await;
}
