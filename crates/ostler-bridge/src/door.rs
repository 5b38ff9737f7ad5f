//! The door: one listener on loopback for all runs, one route a run.
//!
//! Who comes in is decided here, before anything is parsed: host, origin, token, size. What is behind it is the room of
//! the run. Nothing a client sends ends the door: a bad request is answered, a broken connection is forgotten.

mod admission;
mod reading;
mod refusal;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::attendant::Attendant;
use crate::client;
use crate::event::BridgeEvent;
use crate::route::{Room, Route, RouteError, Terms, locked};

pub use reading::MOST_BODY_BYTES;

/// Connections served at once; further ones wait in the listener's queue. An agent has a handful, its sub-agents too.
const MOST_CONNECTIONS: usize = 1024;

/// Connections that wait for one of these places. What does not fit is taken by the kernel for an attack, and some of it
/// refused, when this process is slow to get to them. Every machine has a bound of its own, mostly this.
const MOST_WAITING: i32 = 4096;

/// A connection on which nothing comes for so long is closed. Clients keep idle ones for up to 90 seconds, and take it
/// badly if one is closed just when they use it.
const IDLE_AT_MOST: Duration = Duration::from_secs(120);

/// After a stop, answers under way get this long before their connections are dropped.
const STOP_WITHIN: Duration = Duration::from_millis(500);

/// Pause after a failed accept, which mostly means that no file descriptor is free just now.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A sign of life in every answer that takes longer.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// The door could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("could not listen on loopback for the agent's calls")]
pub struct DoorError(#[source] std::io::Error);

impl DoorError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some("look whether this machine has the address 127.0.0.1, or run with `--no-bridge`".to_owned())
    }
}

type Service = StreamableHttpService<Attendant, NeverSessionManager>;

/// A route as the door knows it.
#[derive(Clone)]
struct Entry {
    room: Arc<Room>,
    service: Service,
}

type Routes = Arc<Mutex<BTreeMap<String, Entry>>>;

/// A door that listens and waits to be served.
pub struct Door {
    listener: TcpListener,
    keeper: Doorkeeper,
}

/// Makes routes, also while the door is served.
#[derive(Clone)]
pub struct Doorkeeper {
    address: SocketAddr,
    routes: Routes,
    stop: CancellationToken,
}

impl Door {
    /// Listens on a free port of loopback.
    pub async fn open() -> Result<Self, DoorError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(DoorError)?;
        // It listens already; this is how the length of its queue is changed.
        rustix::net::listen(&listener, MOST_WAITING).map_err(|errno| DoorError(errno.into()))?;
        let address = listener.local_addr().map_err(DoorError)?;
        let keeper = Doorkeeper { address, routes: Routes::default(), stop: CancellationToken::new() };
        Ok(Self { listener, keeper })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.keeper.address
    }

    /// Who makes routes.
    pub fn keeper(&self) -> Doorkeeper {
        self.keeper.clone()
    }

    /// Serves until `stop` is cancelled, then ends within a second. Owns every connection: when it returns or is
    /// dropped, none is left.
    pub async fn serve(self, stop: CancellationToken) {
        let _stopped = self.keeper.stop.clone().drop_guard();
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let bodies = Arc::new(reading::Bodies::default());
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.accept(&places) => accepted,
            };
            match accepted {
                Ok((stream, place)) => {
                    let keeper = self.keeper.clone();
                    let bodies = Arc::clone(&bodies);
                    let stop = stop.clone();
                    connections.spawn(async move {
                        converse(stream, keeper, bodies, stop).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(target: "ostler::mcp", %error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
        self.keeper.stop.cancel();
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_WITHIN, ended).await.is_err() {
            connections.shutdown().await;
        }
    }

    async fn accept(
        &self,
        places: &Arc<Semaphore>,
    ) -> std::io::Result<(TcpStream, Option<tokio::sync::OwnedSemaphorePermit>)> {
        // The semaphore is never closed, so a place always comes.
        let place = Arc::clone(places).acquire_owned().await.ok();
        let (stream, _) = self.listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, place))
    }
}

impl Doorkeeper {
    /// Makes a route for a run. The events must be read for as long as the route is there: when they are not, calls
    /// wait. The route is closed when its handle is dropped.
    pub fn admit(&self, terms: Terms) -> Result<(Route, mpsc::Receiver<BridgeEvent>), RouteError> {
        let run = terms.run.clone();
        if run.is_empty() || !run.chars().all(|char| char.is_ascii_alphanumeric() || char == '-') {
            return Err(RouteError::Name { run });
        }
        let mut routes = locked(&self.routes);
        routes.retain(|_, entry| !entry.room.closed.is_cancelled());
        if routes.contains_key(&run) {
            return Err(RouteError::Taken { run });
        }
        let closed = self.stop.child_token();
        let (room, past, events) = Room::open(terms, closed.clone())?;
        let room = Arc::new(room);
        let attendant = Attendant(Arc::clone(&room));
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_sse_keep_alive(Some(ALIVE_EVERY))
            .with_sse_retry(None)
            .with_max_request_body_bytes(MOST_BODY_BYTES)
            .with_cancellation_token(closed)
            .enforce_origin_validation();
        let make = move || Ok(attendant.clone());
        let service = StreamableHttpService::new(make, Arc::new(NeverSessionManager::default()), config);
        let client = client::for_loopback()?;
        let url = format!("http://{}/mcp/{run}", self.address);
        routes.insert(run, Entry { room: Arc::clone(&room), service });
        Ok((Route { room, url, past, client }, events))
    }

    /// The route of a run that is still open.
    fn find(&self, run: &str) -> Option<Entry> {
        let entry = locked(&self.routes).get(run).cloned();
        entry.filter(|entry| !entry.room.closed.is_cancelled())
    }
}

async fn converse(
    stream: TcpStream,
    keeper: Doorkeeper,
    bodies: Arc<reading::Bodies>,
    stop: CancellationToken,
) {
    let service = service_fn(move |request| {
        let (keeper, bodies) = (keeper.clone(), Arc::clone(&bodies));
        async move { Ok::<_, std::convert::Infallible>(admission::admit(&keeper, &bodies, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_AT_MOST)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result: Result<(), hyper::Error> = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // A client that leaves is no news.
    if let Err(error) = result {
        tracing::debug!(target: "ostler::mcp", %error, "a connection ended early");
    }
}
