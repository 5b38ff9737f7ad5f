//! The scripted model's listener: accepts, bounds, hands over to `answering`. One connection, one owned task.
//!
//! Nothing a client sends ends the server: a bad request is answered with a 4xx, a broken connection is forgotten.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::director::Director;
use crate::log::RequestLog;
use crate::script::Play;

mod answering;
mod body;
mod reading;

/// Connections served at once; further ones wait in the listener's queue. Each may hold a request of up to
/// `reading::LONGEST_BODY`, so this bounds memory too.
const MOST_CONNECTIONS: usize = 512;

/// A client that has not sent its headers by then is not going to.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// After a stop, answers under way get this long before their connections are dropped.
const STOP_WITHIN: Duration = Duration::from_millis(500);

/// Pause after a failed accept, which mostly means that no file descriptor is free just now.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// What is played, and for whom.
#[derive(Debug)]
pub struct Rehearsal {
    /// The script.
    pub play: Play,
    /// What `{{run}}` stands for.
    pub run: String,
    /// What `{{workspace}}` stands for; if not said, what the agent tells the model.
    pub workspace: Option<String>,
    /// Where requests are logged.
    pub log: RequestLog,
}

impl Rehearsal {
    /// A rehearsal of `play` with nothing else said.
    pub fn of(play: Play) -> Self {
        Self { play, run: "rehearsal".to_owned(), workspace: None, log: RequestLog::none() }
    }
}

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
#[error("could not listen on {address}")]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

impl ListenError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self.source.kind() {
            std::io::ErrorKind::AddrInUse => Some(format!(
                "another program uses port {}: choose another, or 0 for any free one",
                self.address.port()
            )),
            std::io::ErrorKind::PermissionDenied => {
                Some("choose a port above 1023, or 0 for any free one".to_owned())
            }
            std::io::ErrorKind::AddrNotAvailable => {
                Some("use an address of this machine, such as 127.0.0.1".to_owned())
            }
            _ => None,
        }
    }
}

/// A scripted model that listens and waits to be served.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    director: Director,
    log: RequestLog,
}

impl Server {
    /// Listens on `address`; port 0 means any free one. Requests wait until `serve`.
    pub async fn listen(address: SocketAddr, rehearsal: Rehearsal) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let Rehearsal { play, run, workspace, log } = rehearsal;
        let shared = Arc::new(Shared { director: Director::new(play, run, workspace), log });
        Ok(Self { listener, address, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as agents want it: without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until `stop` is cancelled, then ends within a second. Owns every connection: when it returns or is
    /// dropped, none is left.
    pub async fn serve(self, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
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
                    let shared = Arc::clone(&self.shared);
                    let stop = stop.clone();
                    connections.spawn(async move {
                        converse(stream, shared, stop).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(target: "ostler::http", %error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
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

async fn converse(stream: TcpStream, shared: Arc<Shared>, stop: CancellationToken) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { answering::answer(&shared, request).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result: Result<(), hyper::Error> = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // A client that leaves, or was cut off by the script, is no news.
    if let Err(error) = result {
        tracing::debug!(target: "ostler::http", %error, "a connection ended early");
    }
}
