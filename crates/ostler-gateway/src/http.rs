//! The doors: three APIs over HTTP, in front of the pool.
//!
//! Who comes in is decided before anything is read ([`keys`], [`admission`]); what is asked is read by `wire`, answered
//! by the pool, and written by `wire`. Whoever goes away in the middle of an answer breaks his turn off: the answer is
//! dropped with the connection.

mod admission;
pub mod keys;
mod models;
mod reading;
mod streaming;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as Incoming, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::leasing::{Place, Terms};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::live::{Phase, SessionFailure, Start};
use crate::narration::Narration;
use crate::pool::{Answer, Pool, Turn, TurnError};
use crate::wire::{Delivery, Format, Head, Kind, Piece, Problem, Request};
use keys::{Key, Keys};
use models::Models;
use streaming::Streaming;

/// How long the first word is waited for before an answer is begun. What fails until then has a status of its own.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// How long connections may take to end once there is nothing more to say.
const FAREWELL: Duration = Duration::from_secs(2);

/// What could not be honoured.
const IGNORED: HeaderName = HeaderName::from_static("x-ostler-ignored");
/// The request, in logs and answers: under the name of each API.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The folder that a session is to work in.
const FOLDER: &str = "x-ostler-cwd";

/// What is served, and to whom.
pub struct Offer {
    /// Who may come in. Without a key only loopback is listened on.
    pub keys: Keys,
    /// The agent behind it, by its name.
    pub agent: &'static str,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// Folders below which a request may name one to work in: absolute, with links resolved.
    pub folders: Vec<PathBuf>,
}

/// The doors.
pub struct Gateway<S: Start> {
    pool: Pool<S>,
    offer: Offer,
    models: Models,
    address: SocketAddr,
}

/// They could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Everybody could come in.
    #[error("{address} can be reached from elsewhere, and there is no key")]
    Keyless {
        /// Where it was to listen.
        address: SocketAddr,
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
    /// It broke while it was served.
    #[error("could not go on serving")]
    Serve(#[source] std::io::Error),
}

impl OpenError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Keyless { .. } => Some("make a key, or listen on 127.0.0.1".to_owned()),
            Self::Listen { .. } => Some("choose another address with --listen".to_owned()),
            Self::Serve(_) => None,
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
    let models = Models::of(offer.agent);
    Ok(Listening { listener, gateway: Arc::new(Gateway { pool, offer, models, address }) })
}

impl<S: Start> Listening<S> {
    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// Serves until `stop` is ready, then lets turns end for so long, breaks off the rest, and closes all sessions.
    pub async fn serve(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
        drain: Duration,
    ) -> Result<(), OpenError> {
        let Self { listener, gateway } = self;
        let router = Router::new()
            .route("/", get(page))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(|| async { "ok\n" }))
            .route("/v1/models", get(models::list::<S>))
            .route("/v1/messages", post(messages::<S>))
            .route("/v1/messages/count_tokens", post(count_tokens::<S>))
            .route("/v1/chat/completions", post(chat::<S>))
            .route("/v1/responses", post(responses::<S>))
            .fallback(absent)
            .with_state(gateway.clone());
        let (closing, closed) = tokio::sync::oneshot::channel::<()>();
        let served = axum::serve(listener, router).with_graceful_shutdown(async move {
            // Also where nobody says so any more.
            let _ = closed.await;
        });
        let ending = async {
            stop.await;
            let _ = closing.send(());
            gateway.pool.close(drain).await;
        };
        let mut serving = std::pin::pin!(served.into_future());
        let served = tokio::select! {
            served = serving.as_mut() => {
                gateway.pool.close(drain).await;
                served
            }
            // Who does not read what he asked for is not waited for.
            () = ending => tokio::time::timeout(FAREWELL, serving).await.unwrap_or(Ok(())),
        };
        served.map_err(OpenError::Serve)
    }
}

async fn page() -> &'static str {
    "Ostler serves live sessions of an agent: POST /v1/messages, /v1/chat/completions, /v1/responses; GET /v1/models.\n"
}

async fn absent(incoming: Incoming) -> Response {
    let message = format!("there is nothing at {}", incoming.uri().path());
    refuse(Format::Chat, &Problem::new(Kind::Absent, &message))
}

async fn messages<S: Start>(State(gateway): State<Arc<Gateway<S>>>, incoming: Incoming) -> Response {
    gateway.answer(Format::Messages, incoming).await
}

async fn chat<S: Start>(State(gateway): State<Arc<Gateway<S>>>, incoming: Incoming) -> Response {
    gateway.answer(Format::Chat, incoming).await
}

async fn responses<S: Start>(State(gateway): State<Arc<Gateway<S>>>, incoming: Incoming) -> Response {
    gateway.answer(Format::Responses, incoming).await
}

/// Nobody tells how many they are, and they are not guessed.
async fn count_tokens<S: Start>(State(gateway): State<Arc<Gateway<S>>>, incoming: Incoming) -> Response {
    let problem = match gateway.admit(incoming.headers()) {
        Ok(_) => Problem::new(Kind::Unbuilt, "an agent does not count tokens ahead"),
        Err(problem) => problem,
    };
    refuse(Format::Messages, &problem)
}

/// An answer of this status in JSON.
fn body(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// A problem in the API's own shape.
fn refuse(format: Format, problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = body(status, &format.problem(problem));
    if matches!(problem.kind, Kind::TooMany | Kind::Overloaded | Kind::Closing) {
        let wait = problem.again_at.map_or(1, |at| at.saturating_sub(seconds_now()).max(1));
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
    }
    response
}

fn seconds_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Why a turn has no end, as a problem.
pub(crate) fn problem_of(error: &TurnError) -> Problem {
    match error {
        TurnError::Refused(refused) => Problem::of_refusal(*refused),
        TurnError::Session(SessionFailure {
            phase: Phase::Start | Phase::Ask | Phase::Answer, hint, ..
        }) => {
            let message = match hint {
                Some(hint) => format!("{error} (try: {hint})"),
                None => error.to_string(),
            };
            Problem::new(Kind::Agent, &message)
        }
        TurnError::TooLong(..) => Problem::new(Kind::TooLong, &error.to_string()),
        TurnError::Blocked(_) => Problem::new(Kind::Agent, &error.to_string()),
    }
}

impl<S: Start> Gateway<S> {
    /// Who it is.
    fn admit(&self, headers: &HeaderMap) -> Result<&Key, Problem> {
        admission::is_meant(headers, self.address)?;
        self.offer.keys.admit(headers)
    }

    async fn answer(&self, format: Format, incoming: Incoming) -> Response {
        let id = Uuid::new_v4().simple().to_string();
        let mut response = match self.attempt(format, &id, incoming).await {
            Ok(response) => response,
            Err(problem) => {
                tracing::info!(target: "ostler::http", request = id, status = problem.kind.status(), "refused");
                refuse(format, &problem)
            }
        };
        if let Ok(id) = HeaderValue::from_str(&format!("req_{id}")) {
            response.headers_mut().insert(REQUEST_ID, id.clone());
            response.headers_mut().insert(X_REQUEST_ID, id);
        }
        response
    }

    async fn attempt(&self, format: Format, id: &str, incoming: Incoming) -> Result<Response, Problem> {
        let tenant = self.admit(incoming.headers())?.id.clone();
        let folder = self.folder(incoming.headers())?;
        let request = format.read(&reading::json(incoming).await?)?;
        let terms = self.terms(tenant, folder, &request)?;
        let head = Head { id: id.to_owned(), model: request.model.clone(), created: seconds_now() };
        let answer = self.pool.complete(Turn { terms, history: request.history });
        let mut response = match request.delivery {
            Delivery::Whole => body(StatusCode::OK, &whole(format, &head, answer).await?),
            Delivery::Streamed { .. } => {
                let encoder = format.encoder(head, request.delivery);
                Streaming::begin(answer, encoder, FIRST_WORD).await?
            }
        };
        if let Ok(ignored) = HeaderValue::from_str(&request.ignored.join(", "))
            && !request.ignored.is_empty()
        {
            response.headers_mut().insert(IGNORED, ignored);
        }
        Ok(response)
    }

    fn terms(&self, tenant: String, workspace: Place, request: &Request) -> Result<Terms, Problem> {
        if !request.tools.is_empty() {
            let message = "tools that the program runs itself are not offered to the agent yet";
            return Err(Problem::invalid(message).about("tools"));
        }
        if request.follows.is_some() {
            let message = "answers are not kept: send the conversation";
            return Err(Problem::invalid(message).about("previous_response_id"));
        }
        Ok(Terms {
            tenant,
            agent: self.offer.agent.to_owned(),
            engine: Engine::Stream,
            model: self.models.find(&request.model)?,
            workspace,
            system_prompt: request.system.clone(),
            permissions: self.offer.permissions,
            allow: Vec::new(),
            tools: String::new(),
        })
    }

    /// The folder that a request names, if it may.
    fn folder(&self, headers: &HeaderMap) -> Result<Place, Problem> {
        let Some(named) = headers.get(FOLDER) else { return Ok(Place::Own) };
        let forbidden = || Problem::new(Kind::Forbidden, "this folder may not be worked in").about(FOLDER);
        let named = named.to_str().map_err(|_| forbidden())?;
        let folder = PathBuf::from(named).canonicalize().map_err(|_| forbidden())?;
        let is_allowed = folder.is_dir() && self.offer.folders.iter().any(|root| folder.starts_with(root));
        if is_allowed { Ok(Place::Folder(folder)) } else { Err(forbidden()) }
    }
}

async fn whole(format: Format, head: &Head, mut answer: Answer) -> Result<Value, Problem> {
    let mut narration = Narration::default();
    let mut pieces: Vec<Piece> = Vec::new();
    while let Some(event) = answer.next().await {
        let event = event.map_err(|error| problem_of(&error))?;
        pieces.extend(narration.hear(&event));
    }
    format.whole(head, &pieces)
}

/// A list in the shape of both families of APIs.
fn listed(ids: &[String]) -> Value {
    let models = ids.iter().map(|id| {
        json!({"id": id, "object": "model", "type": "model", "display_name": id, "created": 0,
            "created_at": "1970-01-01T00:00:00Z", "owned_by": "ostler"})
    });
    json!({"object": "list", "data": models.collect::<Vec<_>>(), "has_more": false,
        "first_id": ids.first(), "last_id": ids.last()})
}
