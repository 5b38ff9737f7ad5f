//! A proxy on loopback that leads the agents of tenants to the provider. An agent sends a placeholder; the proxy replaces
//! it by the owner's key, so that the key is nowhere in the tenant's jail.
//!
//! It forwards requests for answers and for the list of models, and nothing else: what the owner stored at the provider is
//! not the tenant's. It does not follow redirects, which could lead the key elsewhere. A tenant whose key was revoked is
//! refused at the next request.

mod body;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::{fmt, io};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ostler_agent::tenant::{ProviderRoute, is_forwarded, is_of_account, is_permitted};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use body::{BodyRoom, CheckedBody};

/// Connections of all tenants at once. The next one waits until another ends.
const MOST_CONNECTIONS: usize = 1024;

/// How placeholders begin, for people who find one.
const PREFIX: &str = "ostler-placeholder-";

/// Headers that belong to one connection.
const OF_CONNECTION: [HeaderName; 5] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::TE, header::TRAILER, header::UPGRADE];

type ProxyBody = BoxBody<Bytes, reqwest::Error>;

/// Makes the client for a provider's address.
pub type MakeClient = fn(&str) -> Result<reqwest::Client, reqwest::Error>;

/// Whether a tenant's key is still accepted.
pub type IsAccepted = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The proxy, while it listens. Clones are the same.
#[derive(Clone)]
pub struct ProviderProxy {
    address: SocketAddr,
    make_client: MakeClient,
    /// By their placeholders.
    guests: Arc<RwLock<HashMap<String, Arc<Guest>>>>,
    bodies: BodyRoom,
}

/// Who may use the proxy, and where it leads them.
struct Guest {
    tenant: String,
    bodies: BodyRoom,
    routes: Vec<(ProviderRoute, reqwest::Client)>,
}

/// What an agent needs to use the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyAccess {
    /// The proxy's address. The name of a route follows.
    pub url: String,
    /// The key that the agent sends instead of the owner's.
    pub placeholder: String,
}

impl fmt::Debug for ProviderProxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProviderProxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ProviderProxy {
    /// Listens on loopback. [`ProviderProxy::serve`] answers.
    pub async fn listen(make_client: MakeClient) -> io::Result<(Self, TcpListener)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok((Self { address, make_client, guests: Arc::default(), bodies: BodyRoom::of_all() }, listener))
    }

    /// The port that agents must reach.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Lets an agent of a tenant use these routes.
    pub fn admit(&self, tenant: &str, routes: &[ProviderRoute]) -> Result<ProxyAccess, reqwest::Error> {
        let client = |route: &ProviderRoute| Ok((route.clone(), (self.make_client)(&route.base_url)?));
        let routes = routes.iter().map(client).collect::<Result<_, reqwest::Error>>()?;
        let placeholder = format!("{PREFIX}{}", Uuid::new_v4().simple());
        let mut guests = self.guests.write().unwrap_or_else(PoisonError::into_inner);
        let guest = Guest { tenant: tenant.to_owned(), bodies: BodyRoom::of_one(), routes };
        guests.insert(placeholder.clone(), Arc::new(guest));
        Ok(ProxyAccess { url: format!("http://{}", self.address), placeholder })
    }

    /// Answers until `closing`, then ends all connections.
    pub async fn serve(self, listener: TcpListener, is_accepted: IsAccepted, closing: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            let has_room = connections.len() < MOST_CONNECTIONS;
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept(), if has_room => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(self.clone().connect(stream, is_accepted.clone()))),
                    Err(error) => tracing::debug!(target: "ostler::http", %error, "no connection to the provider proxy"),
                },
            }
        }
    }

    async fn connect(self, stream: TcpStream, is_accepted: IsAccepted) {
        // Pieces of an answer are small, and wanted at once.
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| {
            let guest = self.find_guest(request.headers()).filter(|guest| is_accepted(&guest.tenant));
            let proxy = self.clone();
            async move {
                Ok::<_, Infallible>(proxy.answer(request, guest).await.unwrap_or_else(|refusal| *refusal))
            }
        });
        let mut http = http1::Builder::new();
        let served = http.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
        if let Err(error) = served {
            tracing::trace!(target: "ostler::http", %error, "a connection to the provider proxy ended");
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        guest: Option<Arc<Guest>>,
    ) -> Result<Response<ProxyBody>, Box<Response<ProxyBody>>> {
        let guest = guest.ok_or_else(|| refuse(StatusCode::UNAUTHORIZED, "this key opens no provider"))?;
        let path = request.uri().path();
        let found = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let route = found.and_then(|(name, _)| guest.routes.iter().find(|(route, _)| route.name == name));
        let (Some((route, client)), Some((name, _))) = (route, found) else {
            return Err(refuse(StatusCode::NOT_FOUND, "there is no such provider"));
        };
        let rest = path.get(1 + name.len()..).unwrap_or_default();
        if !is_permitted(request.method().as_str(), rest) {
            let message = "a tenant may only ask for answers of models, and for the list of models";
            return Err(refuse(StatusCode::FORBIDDEN, message));
        }
        let url = forwarded_url(route, rest, request.uri().query());
        let headers = forwarded_headers(request.headers(), route);
        let (method, body) = (request.method().clone(), request.into_body());
        let body = body::read(body, &guest.bodies, &self.bodies).await;
        let CheckedBody { bytes, permits } = body.map_err(|(status, message)| refuse(status, &message))?;
        let sent = client.request(method, url).headers(headers).body(bytes).send().await;
        drop(permits);
        let response = sent.map_err(|error| {
            // Its address is the owner's.
            let error = error.without_url();
            tracing::warn!(target: "ostler::http", %error, provider = route.name, "the provider cannot be reached");
            refuse(StatusCode::BAD_GATEWAY, "the provider cannot be reached")
        })?;
        let mut response: Response<reqwest::Body> = response.into();
        let names: Vec<HeaderName> = response.headers().keys().cloned().collect();
        for name in names.iter().filter(|name| OF_CONNECTION.contains(name) || is_of_account(name.as_str())) {
            response.headers_mut().remove(name);
        }
        Ok(response.map(|body| body.boxed()))
    }

    fn find_guest(&self, headers: &HeaderMap) -> Option<Arc<Guest>> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let placeholder = text("x-api-key").or(bearer)?;
        self.guests.read().unwrap_or_else(PoisonError::into_inner).get(placeholder).cloned()
    }
}

fn forwarded_url(route: &ProviderRoute, rest: &str, query: Option<&str>) -> String {
    let mut url = format!("{}{rest}", route.base_url.trim_end_matches('/'));
    let own = route.query.iter().map(|(name, value)| format!("{name}={value}"));
    // What the owner chose is not chosen again.
    let is_own = |pair: &&str| route.query.iter().any(|(name, _)| pair.split('=').next() == Some(name));
    let asked = query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !is_own(pair));
    let query: Vec<String> = asked.map(str::to_owned).chain(own).collect();
    if !query.is_empty() {
        url = format!("{url}?{}", query.join("&"));
    }
    url
}

fn forwarded_headers(of_agent: &HeaderMap, route: &ProviderRoute) -> HeaderMap {
    let forwarded = of_agent.iter().filter(|(name, _)| is_forwarded(name.as_str()));
    let mut headers = HeaderMap::new();
    for (name, value) in forwarded {
        headers.append(name.clone(), value.clone());
    }
    for (name, value) in &route.headers {
        let parsed = (HeaderName::try_from(name), HeaderValue::try_from(value));
        if let (Ok(name), Ok(mut value)) = parsed {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    headers
}

/// In the form in which both providers' clients find the message.
fn refuse(status: StatusCode, message: &str) -> Box<Response<ProxyBody>> {
    let body = json!({"type": "error", "error": {"type": "ostler_provider_proxy", "message": message}});
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Box::new(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> ProviderRoute {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        ProviderRoute {
            name: "own".to_owned(),
            base_url: "https://provider.example/v1/".to_owned(),
            headers: vec![pair("authorization", "Bearer real")],
            query: vec![pair("api-version", "2")],
        }
    }

    #[test]
    fn addresses_are_the_providers() {
        assert_eq!(
            forwarded_url(&route(), "/responses", Some("beta=true")),
            "https://provider.example/v1/responses?beta=true&api-version=2"
        );
        assert_eq!(
            forwarded_url(&route(), "/responses", Some("api-version=1&api-version=3")),
            "https://provider.example/v1/responses?api-version=2"
        );
        let plain = ProviderRoute { query: Vec::new(), ..route() };
        assert_eq!(forwarded_url(&plain, "/models", None), "https://provider.example/v1/models");
    }

    #[test]
    fn the_placeholder_is_replaced_by_the_owners_key() {
        let mut sent = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer placeholder"),
            ("x-api-key", "placeholder"),
            ("host", "127.0.0.1:1"),
            ("connection", "keep-alive"),
            ("cookie", "a=b"),
            ("content-length", "2"),
            ("anthropic-beta", "x"),
            ("openai-organization", "another"),
        ] {
            sent.insert(name, HeaderValue::from_static(value));
        }
        let headers = forwarded_headers(&sent, &route());
        let mut got: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        got.sort_unstable();
        assert_eq!(got, [("anthropic-beta", "x"), ("authorization", "Bearer real")]);
    }
}
