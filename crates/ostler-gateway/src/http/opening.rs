//! Listening, and serving until the end: what is routed where, and in which order all of it ends.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request as Incoming;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bodies::Bodies;
use super::followers::Followers;
use super::idempotency::Repeats;
use super::models::{AliasError, Models, Served};
use super::questions::Questions;
use super::serving::Door;
use super::visits::Visits;
use super::{Gateway, Offer, around, routes, serving};
use crate::conversations::Conversations;
use crate::live::Start;
use crate::metrics::Metrics;
use crate::pool::Pool;
use crate::wire::{Kind, Problem};

/// How long those who sit at terminals may take to be told that it is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// They could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Everybody could come in.
    #[error("{address} can be reached from elsewhere, and there is no key")]
    Keyless {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// A model cannot have another name.
    #[error(transparent)]
    Alias(#[from] AliasError),
    /// A metric is not one that Prometheus takes.
    #[error("could not register the metrics")]
    Metrics(#[from] prometheus::Error),
    /// Conversations cannot be kept.
    #[error("could not open the conversations in {}", .path.display())]
    Conversations {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The address cannot be had.
    #[error("could not listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl OpenError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Keyless { .. } => Some("make a key, or listen on 127.0.0.1".to_owned()),
            Self::Alias(_) => Some("mend `[serve.models]` in the configuration".to_owned()),
            Self::Conversations { .. } => {
                Some("set OSTLER_HOME to a folder that you can write to".to_owned())
            }
            Self::Listen { .. } => Some("choose another address with --listen".to_owned()),
            Self::Metrics(_) => None,
        }
    }
}

/// Doors that listen, and wait to be served.
pub struct Listening<S: Start> {
    listener: TcpListener,
    gateway: Arc<Gateway<S>>,
}

/// Listens.
pub async fn open<S: Start>(
    address: SocketAddr,
    pool: Pool<S>,
    offer: Offer,
) -> Result<Listening<S>, OpenError> {
    if !address.ip().is_loopback() && offer.keys.is_empty() {
        return Err(OpenError::Keyless { address });
    }
    let listen = |source| OpenError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let models = Models::of(&offer.agents, &offer.aliases)?;
    let conversations = Conversations::open(&offer.conversations, offer.bounds)
        .map_err(|source| OpenError::Conversations { path: offer.conversations.clone(), source })?;
    conversations.protect(pool.live_labels());
    let metrics = Arc::new(Metrics::new(offer.agents.iter().map(Served::name))?);
    pool.observe(metrics.clone());
    let bodies = Bodies::new(offer.bodies);
    let gateway = Gateway {
        pool,
        bodies,
        offer,
        models,
        visits: Visits::new(),
        metrics,
        conversations,
        questions: Questions::default(),
        followers: Followers::default(),
        repeats: Repeats::default(),
        turns: TaskTracker::new(),
        sitters: TaskTracker::new(),
        parting: CancellationToken::new(),
        ending: CancellationToken::new(),
        address,
        is_closing: AtomicBool::new(false),
    };
    Ok(Listening { listener, gateway: Arc::new(gateway) })
}

impl<S: Start> Listening<S> {
    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.gateway.offer.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.gateway.address)
    }

    /// Serves until `stop` is ready, then lets turns end for so long, breaks off the rest, and closes all sessions. Who
    /// comes meanwhile is told that nothing new is begun.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static, drain: Duration) {
        let Self { listener, gateway } = self;
        let mut router = Router::new();
        for routes::Route { doc, door } in routes::all::<S>() {
            router = router.route(doc.path, door);
        }
        let router = router
            .fallback(absent)
            .method_not_allowed_fallback(unsuited)
            .layer(from_fn_with_state(gateway.clone(), around::around::<S>))
            .with_state(gateway.clone());
        let closing = CancellationToken::new();
        let ending = async {
            stop.await;
            gateway.is_closing.store(true, Ordering::Relaxed);
            gateway.pool.close(drain).await;
            gateway.parting.cancel();
            gateway.turns.close();
            gateway.turns.wait().await;
            gateway.questions.close().await;
            gateway.ending.cancel();
            closing.cancel();
        };
        let Offer { waiting, connections, .. } = gateway.offer;
        let door = Door { router, tls: gateway.offer.tls.clone(), waiting };
        tokio::join!(serving::serve(listener, door, connections, closing.clone()), ending);
        gateway.sitters.close();
        // Who does not read that it is over is not waited for.
        let _ = tokio::time::timeout(FAREWELL, gateway.sitters.wait()).await;
    }
}

async fn absent(incoming: Incoming) -> Response {
    let message = format!("there is nothing at {}", incoming.uri().path());
    around::refuse_at(incoming.uri().path(), &Problem::new(Kind::Absent, &message))
}

async fn unsuited(incoming: Incoming) -> Response {
    let message = format!("{} is not for {}", incoming.uri().path(), incoming.method());
    let mut response = around::refuse_at(incoming.uri().path(), &Problem::new(Kind::Invalid, &message));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}
