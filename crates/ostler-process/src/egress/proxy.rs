//! An HTTP proxy for a jail: it connects to hosts that are permitted, and to nothing else.

use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HOST, HeaderName, PROXY_AUTHORIZATION};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ostler_agent::endpoint::Endpoint;
use ostler_agent::network::{HostVerdict, NetPolicy, Permitted, opens_host};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::chain::{ConnectError, Connected, UserProxy, ViaProxy, connect_directly};
use super::notices::HostLog;

/// How long the head of a request may take.
const HEADER_LIMIT: Duration = Duration::from_secs(30);

/// Headers that belong to one connection. `hyper` sets those that the next one needs.
const OF_ONE_CONNECTION: [HeaderName; 5] = [
    http::header::CONNECTION,
    http::header::TE,
    http::header::UPGRADE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
];

type Body = Either<Incoming, Full<Bytes>>;

/// The proxy of a jail. Clones are the same.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) policy: Arc<NetPolicy>,
    pub(super) user_proxy: Arc<UserProxy>,
    pub(super) log: Arc<HostLog>,
}

/// Tunnels and connections that belong to one connection of a client.
type Tasks = Arc<Mutex<JoinSet<()>>>;

impl Proxy {
    /// Answers until the task is dropped.
    pub(super) async fn serve(self, listener: TcpListener) {
        super::accept(listener, move |stream| self.clone().serve_connection(stream)).await;
    }

    async fn serve_connection(self, stream: TcpStream) {
        let tasks = Tasks::default();
        let service = service_fn(|request| {
            let (proxy, tasks) = (self.clone(), tasks.clone());
            async move {
                Ok::<_, Infallible>(
                    proxy.answer(request, &tasks).await.unwrap_or_else(Refusal::into_response),
                )
            }
        });
        let mut http = server::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEADER_LIMIT);
        let served = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
        if let Err(error) = served {
            tracing::trace!(target: "ostler::run", %error, "a connection to the proxy of a jail ended");
        }
        // A tunnel goes on when the connection has become one.
        let mut tunnels = std::mem::take(&mut *tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tunnels.join_next().await.is_some() {}
    }

    async fn answer(&self, request: Request<Incoming>, tasks: &Tasks) -> Result<Response<Body>, Refusal> {
        let endpoint = find_endpoint(&request).ok_or_else(|| {
            let text = "this is the proxy of a jail of Ostler: it takes CONNECT and http:// addresses";
            refuse(StatusCode::BAD_REQUEST, text.to_owned())
        })?;
        let permitted = self.check(&endpoint)?;
        match *request.method() {
            Method::CONNECT => self.open_tunnel(request, &endpoint, permitted, tasks).await,
            _ => self.forward(request, &endpoint, permitted, tasks).await,
        }
    }

    /// Whether a host is permitted. Either is recorded.
    fn check(&self, endpoint: &Endpoint) -> Result<Permitted, Refusal> {
        let permitted = self.policy.find_permission(endpoint);
        let verdict = if permitted.is_some() { HostVerdict::Allowed } else { HostVerdict::Denied };
        self.log.report(endpoint, verdict, &self.policy);
        permitted.ok_or_else(|| {
            let text = format!("the jail does not permit {endpoint}; {} does", opens_host(endpoint));
            refuse(StatusCode::FORBIDDEN, text)
        })
    }

    async fn open_tunnel(
        &self,
        request: Request<Incoming>,
        endpoint: &Endpoint,
        permitted: Permitted,
        tasks: &Tasks,
    ) -> Result<Response<Body>, Refusal> {
        let connected = self.user_proxy.connect(endpoint, permitted).await;
        let Connected { mut stream, tasks: driving } =
            connected.map_err(|error| unreachable(endpoint, &error))?;
        spawn(tasks, async move {
            let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
            let mut inside = TokioIo::new(upgraded);
            // Either end may break off at any time.
            let _ = copy_bidirectional(&mut inside, &mut stream).await;
            drop(driving);
        });
        Ok(Response::new(Either::Right(Full::default())))
    }

    /// Sends a request for `http://` on, and its answer back.
    async fn forward(
        &self,
        mut request: Request<Incoming>,
        endpoint: &Endpoint,
        permitted: Permitted,
        tasks: &Tasks,
    ) -> Result<Response<Body>, Refusal> {
        let failed = |error: ConnectError| unreachable(endpoint, &error);
        for name in &OF_ONE_CONNECTION {
            request.headers_mut().remove(name);
        }
        let stream = match self.user_proxy.connect_for_http(endpoint).await.map_err(failed)? {
            Some(ViaProxy { stream, authorization }) => {
                if let Some(authorization) = authorization {
                    request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
                }
                stream
            }
            None => {
                let stream = connect_directly(endpoint, permitted).await.map_err(failed)?;
                name_host(&mut request);
                stream
            }
        };
        let broken = |error: hyper::Error| unreachable(endpoint, &error);
        let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        spawn(tasks, async move {
            let _ = connection.await;
        });
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok(response.map(Either::Left))
    }
}

/// Starts a task that belongs to a client's connection, and forgets those that have ended.
fn spawn(tasks: &Tasks, task: impl Future<Output = ()> + Send + 'static) {
    let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
    while tasks.try_join_next().is_some() {}
    tasks.spawn(task);
}

/// What a request wants to reach.
fn find_endpoint(request: &Request<Incoming>) -> Option<Endpoint> {
    let uri = request.uri();
    let default = match (request.method(), uri.scheme_str()) {
        (&Method::CONNECT, _) => 443,
        (_, Some("http")) => 80,
        _ => return None,
    };
    let host = uri.host()?.trim_matches(['[', ']']);
    let is_whole = !host.is_empty() && uri.authority().is_some_and(|whole| !whole.as_str().contains('@'));
    is_whole.then(|| Endpoint { host: host.to_owned(), port: uri.port_u16().unwrap_or(default) })
}

/// Makes the request one for the host itself, instead of one for a proxy.
fn name_host(request: &mut Request<Incoming>) {
    let authority = request.uri().authority().map(ToString::to_string);
    if let Some(host) = authority.and_then(|authority| HeaderValue::from_str(&authority).ok()) {
        request.headers_mut().insert(HOST, host);
    }
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
}

fn unreachable(endpoint: &Endpoint, error: &dyn Error) -> Refusal {
    let mut text = format!("{endpoint} cannot be reached: {error}");
    if let Some(cause) = error.source() {
        text = format!("{text}: {cause}");
    }
    refuse(StatusCode::BAD_GATEWAY, text)
}

/// Why a request is not served.
struct Refusal {
    status: StatusCode,
    text: String,
}

fn refuse(status: StatusCode, text: String) -> Refusal {
    Refusal { status, text }
}

impl Refusal {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Either::Right(Full::from(format!("Ostler: {}\n", self.text))));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    }
}
