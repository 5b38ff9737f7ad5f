//! How the proxy of a jail connects to a host: directly, or by the proxy that the user has.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use ostler_agent::endpoint::Endpoint;
use ostler_agent::network::{Permitted, is_local_address, is_this_machine};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::net::lookup_host;
use tokio::task::JoinSet;

/// How long connecting may take, with the search for the name.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// The proxy that the user's variables name.
pub struct UserProxy(Matcher);

impl std::fmt::Debug for UserProxy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It may have a password in it.
        out.write_str("UserProxy")
    }
}

/// Why a host cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("it took longer than {} s", CONNECT_LIMIT.as_secs())]
    Timeout,
    #[error("its name leads to this machine")]
    Local,
    #[error("your proxy must be one for HTTP: {scheme} is not supported")]
    Scheme { scheme: String },
    #[error("your proxy cannot be reached")]
    Proxy(#[source] io::Error),
    #[error("your proxy refused: {status}")]
    Refused { status: http::StatusCode },
    #[error("your proxy does not speak HTTP")]
    Protocol(#[source] hyper::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A connection, whichever way it takes.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection to a host, and the tasks that keep it going.
pub(super) struct Connected {
    pub(super) stream: Box<dyn Stream>,
    pub(super) tasks: JoinSet<()>,
}

/// A connection to the user's proxy, for a request that names the host itself.
pub(super) struct ViaProxy {
    pub(super) stream: TcpStream,
    pub(super) authorization: Option<HeaderValue>,
}

impl UserProxy {
    /// As the usual variables say.
    pub fn from_variables(variables: &[(OsString, OsString)]) -> Self {
        let find = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| {
                let found = variables.iter().rev().find(|(known, _)| known.to_str() == Some(name));
                found.and_then(|(_, value)| value.to_str()).filter(|value| !value.is_empty())
            });
            values.next().unwrap_or_default().to_owned()
        };
        let matcher = Matcher::builder()
            .http(find(&["http_proxy", "HTTP_PROXY"]))
            .https(find(&["https_proxy", "HTTPS_PROXY"]))
            .all(find(&["all_proxy", "ALL_PROXY"]))
            .no(find(&["no_proxy", "NO_PROXY"]))
            .build();
        Self(matcher)
    }

    fn of(&self, scheme: &str, endpoint: &Endpoint) -> Option<Intercept> {
        // It could not lead back here.
        if is_this_machine(&endpoint.host) {
            return None;
        }
        let uri = Uri::builder().scheme(scheme).authority(endpoint.to_string()).path_and_query("/");
        self.0.intercept(&uri.build().ok()?)
    }

    /// A tunnel to a host.
    pub(super) async fn connect(
        &self,
        endpoint: &Endpoint,
        permitted: Permitted,
    ) -> Result<Connected, ConnectError> {
        let connecting = async {
            match self.of("https", endpoint) {
                Some(proxy) => tunnel(&proxy, endpoint).await,
                None => connect_directly(endpoint, permitted)
                    .await
                    .map(|stream| Connected { stream: Box::new(stream), tasks: JoinSet::new() }),
            }
        };
        tokio::time::timeout(CONNECT_LIMIT, connecting).await.map_err(|_| ConnectError::Timeout)?
    }

    /// The user's proxy for plain HTTP to a host, if there is one.
    pub(super) async fn connect_for_http(
        &self,
        endpoint: &Endpoint,
    ) -> Result<Option<ViaProxy>, ConnectError> {
        let Some(proxy) = self.of("http", endpoint) else { return Ok(None) };
        let connecting = connect_to(&proxy);
        let stream = tokio::time::timeout(CONNECT_LIMIT, connecting);
        let stream = stream.await.map_err(|_| ConnectError::Timeout)??;
        Ok(Some(ViaProxy { stream, authorization: proxy.basic_auth().cloned() }))
    }
}

/// Connects to a host that was permitted in this way.
pub(super) async fn connect_directly(
    endpoint: &Endpoint,
    permitted: Permitted,
) -> Result<TcpStream, ConnectError> {
    let found: Vec<SocketAddr> = lookup_host((endpoint.host.as_str(), endpoint.port)).await?.collect();
    let mut last = ConnectError::Io(io::ErrorKind::NotFound.into());
    for address in found {
        if permitted == Permitted::ByPattern && is_local_address(address.ip()) {
            last = ConnectError::Local;
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

async fn connect_to(proxy: &Intercept) -> Result<TcpStream, ConnectError> {
    let uri = proxy.uri();
    if uri.scheme_str() != Some("http") {
        return Err(ConnectError::Scheme { scheme: uri.scheme_str().unwrap_or("its kind").to_owned() });
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await;
    stream.map_err(ConnectError::Proxy)
}

/// A tunnel by a proxy.
async fn tunnel(proxy: &Intercept, endpoint: &Endpoint) -> Result<Connected, ConnectError> {
    let stream = connect_to(proxy).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(ConnectError::Protocol)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    let target = endpoint.to_string();
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = target.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let host = HeaderValue::from_str(&target).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    request.headers_mut().insert(HOST, host);
    if let Some(authorization) = proxy.basic_auth() {
        request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
    }
    let response = sender.send_request(request).await.map_err(ConnectError::Protocol)?;
    if !response.status().is_success() {
        return Err(ConnectError::Refused { status: response.status() });
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(ConnectError::Protocol)?;
    Ok(Connected { stream: Box::new(TokioIo::new(upgraded)), tasks })
}
