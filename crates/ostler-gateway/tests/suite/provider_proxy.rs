//! The proxy that leads tenants to the provider.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use ostler_agent::tenant::ProviderRoute;
use ostler_gateway::provider_proxy::{ProviderProxy, ProxyAccess};
use tokio::net::TcpListener;
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
                    _ => "answered".into_response(),
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

#[tokio::test]
async fn a_tenant_reaches_the_provider_and_nothing_else_of_the_owners() {
    let provider = Provider::start().await;
    let (proxy, listener) = ProviderProxy::listen(client).await.unwrap();
    let route = ProviderRoute {
        name: "own".to_owned(),
        base_url: provider.url.clone(),
        headers: vec![("x-api-key".to_owned(), OWNERS_KEY.to_owned())],
        query: Vec::new(),
    };
    let ProxyAccess { url, placeholder } = proxy.admit(&[route]).unwrap();
    let closing = CancellationToken::new();
    let mut serving = JoinSet::new();
    serving.spawn(proxy.serve(listener, closing.clone()));
    let http = client("").unwrap();
    let ask = async |method: reqwest::Method, path: &str, key: &str| {
        let request = http.request(method, format!("{url}{path}")).header("x-api-key", key).body("{}");
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    use reqwest::Method;
    assert_eq!(
        ask(Method::POST, "/own/v1/messages?beta=true", &placeholder).await,
        (200, "answered".to_owned())
    );
    assert_eq!(ask(Method::GET, "/own/v1/models", &placeholder).await.0, 302, "no redirect is followed");
    for (method, path, key, want) in [
        (Method::POST, "/own/v1/messages", "another", 401),
        (Method::POST, "/own/v1/messages", OWNERS_KEY, 401),
        (Method::GET, "/own/v1/files", &placeholder, 403),
        (Method::DELETE, "/own/v1/messages", &placeholder, 403),
        (Method::POST, "/other/v1/messages", &placeholder, 404),
        (Method::POST, "/", &placeholder, 404),
    ] {
        let (status, body) = ask(method.clone(), path, key).await;
        assert_eq!(status, want, "{method} {path}: {body}");
        assert!(body.contains("\"message\""), "{body}");
    }
    let asked = provider.asked.lock().unwrap().clone();
    let targets: Vec<&str> = asked.iter().map(|(target, _)| target.as_str()).collect();
    assert_eq!(targets, ["POST /v1/messages?beta=true", "GET /v1/models"]);
    assert!(asked.iter().all(|(_, headers)| headers["x-api-key"] == OWNERS_KEY));
    closing.cancel();
    serving.join_next().await.unwrap().unwrap();
}
