//! The doors: three APIs over HTTP, in front of the pool.
//!
//! Who comes in is decided before anything is read ([`keys`], [`admission`]); what is asked is read by `wire`, answered
//! by the pool, and written by `wire`. Whoever goes away in the middle of an answer breaks his turn off: the answer is
//! dropped with the connection.

mod admission;
mod around;
mod conversing;
mod following;
mod idempotency;
pub mod keys;
mod metrics;
pub mod models;
mod native;
mod openapi;
mod page;
mod questions;
mod reading;
mod recorded;
mod repeating;
mod responses;
mod routes;
mod serving;
mod streaming;
mod unfolding;
mod visits;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as Incoming, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use ostler_agent::access::Scope;
use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::leasing::{Place, Terms};
use ostler_agent::offering::Toolset;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::conversations::{Bounds, Conversations};
use crate::live::{Phase, SessionFailure, Start};
use crate::narration::Narration;
use crate::pool::{Beside, Pool, Turn, TurnError};
use crate::wire::{Delivery, Format, Head, Kind, Piece, Problem, Request};
use conversing::{Addressed, CONVERSATION, Naming};
use idempotency::Repeats;
use keys::Keys;
use metrics::Metrics;
use models::{Model, Models, Served};
use questions::{Questions, UNREAD_ANSWERS};
use recorded::Recorded;
use streaming::Streaming;
use visits::{Lasting, Visitor, Visits};

/// How long the first word is waited for before an answer is begun. What fails until then has a status of its own.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// What could not be honoured.
const IGNORED: HeaderName = HeaderName::from_static("x-ostler-ignored");
/// The request, in logs and answers: under the name of each API.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The folder that a session is to work in.
const FOLDER: &str = "x-ostler-cwd";
/// How the agent is driven: `stream` or `terminal`.
const ENGINE: &str = "x-ostler-engine";
/// What the agent may do without asking: `deny`, `edits` or `all`, and never more than the key allows; or `ask`.
const PERMISSIONS: &str = "x-ostler-permissions";
/// Instead of such a level: what the agent would have to ask is asked of a client.
const ASK: &str = "ask";

/// How long those who sit at terminals may take to be told that it is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// What is served, and to whom.
pub struct Offer {
    /// Who may come in. Without a key only loopback is listened on.
    pub keys: Keys,
    /// The agents behind it.
    pub agents: Vec<Served>,
    /// How one is driven that can be driven in several ways, unless a request says otherwise.
    pub engine: Engine,
    /// Folders below which any request may name one to work in: absolute, with links resolved.
    pub folders: Vec<PathBuf>,
    /// Where conversations are kept. It need not exist.
    pub conversations: PathBuf,
    /// Where runs are kept. It need not exist.
    pub runs: PathBuf,
    /// How long it is waited for what is sent.
    pub waiting: Waiting,
}

/// How long it is waited for what is sent. Who takes longer is not waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// For the head of a request, also on a connection that was used before.
    pub head: Duration,
    /// For its body.
    pub body: Duration,
}

impl Default for Waiting {
    /// A large body over a slow line takes a minute.
    fn default() -> Self {
        Self { head: Duration::from_secs(30), body: Duration::from_secs(120) }
    }
}

/// The doors.
pub struct Gateway<S: Start> {
    pool: Pool<S>,
    offer: Offer,
    models: Models,
    visits: Visits,
    metrics: Metrics,
    conversations: Conversations,
    questions: Questions,
    repeats: Repeats,
    /// Turns that go on when whoever asked is gone.
    turns: TaskTracker,
    /// Those who sit at terminals.
    sitters: TaskTracker,
    /// Nothing is told any more.
    ending: CancellationToken,
    address: SocketAddr,
    /// Nothing new is begun any more.
    is_closing: AtomicBool,
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
            Self::Conversations { .. } => {
                Some("set OSTLER_HOME to a folder that you can write to".to_owned())
            }
            Self::Listen { .. } => Some("choose another address with --listen".to_owned()),
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
    let models = Models::of(&offer.agents);
    let conversations = Conversations::open(&offer.conversations, Bounds::default())
        .map_err(|source| OpenError::Conversations { path: offer.conversations.clone(), source })?;
    let gateway = Gateway {
        pool,
        offer,
        models,
        visits: Visits::new(),
        metrics: Metrics::default(),
        conversations,
        questions: Questions::default(),
        repeats: Repeats::default(),
        turns: TaskTracker::new(),
        sitters: TaskTracker::new(),
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
            gateway.turns.close();
            gateway.turns.wait().await;
            gateway.questions.close().await;
            gateway.ending.cancel();
            closing.cancel();
        };
        let head = gateway.offer.waiting.head;
        tokio::join!(serving::serve(listener, router, head, closing.clone()), ending);
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
    let problem = match gateway.admit(incoming.headers(), Scope::Chat) {
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
        TurnError::Unpaired(error) => Problem::invalid(&error.to_string()).about("messages"),
        TurnError::Refused(refused) => Problem::of_refusal(*refused),
        TurnError::Session(SessionFailure { phase, hint, .. }) => {
            let kind = match phase {
                Phase::Prompt => Kind::Invalid,
                Phase::Held => Kind::Held,
                Phase::Start | Phase::Ask | Phase::Answer => Kind::Agent,
            };
            let message = match hint {
                Some(hint) => format!("{error} (try: {hint})"),
                None => error.to_string(),
            };
            Problem::new(kind, &message)
        }
        TurnError::TooLong(..) => Problem::new(Kind::TooLong, &error.to_string()),
        TurnError::Blocked(_) => Problem::new(Kind::Agent, &error.to_string()),
    }
}

impl<S: Start> Gateway<S> {
    /// Who it is, if he may do this.
    fn admit(&self, headers: &HeaderMap, wanted: Scope) -> Result<Visitor, Problem> {
        self.visits.admit(&self.offer.keys, headers, wanted)
    }

    async fn answer(&self, format: Format, incoming: Incoming) -> Response {
        self.once(format, incoming).await.unwrap_or_else(|problem| refuse(format, &problem))
    }

    async fn attempt(
        &self,
        format: Format,
        visitor: &Visitor,
        headers: &HeaderMap,
        body_read: &Value,
    ) -> Result<Response, Problem> {
        let folder = self.folder(visitor, headers)?;
        let (permissions, asks) = permissions(visitor, headers)?;
        let request = format.read(body_read)?;
        let model = self.model(visitor, &request.model)?;
        let engine = self.engine(&model, headers)?;
        let terms = terms(visitor, (model, engine), folder, permissions, &request);
        let underway = visitor.begin_turn()?;
        let naming = Naming { format, headers, terms: &terms, asks };
        let Addressed { history, recorder } = self.address(visitor, &naming, &request).await?;
        let conversation = recorder.conversation().id().to_owned();
        if self.is_held(&conversation) {
            return Err(Problem::new(Kind::Held, "somebody holds the terminal of this conversation"));
        }
        let id = recorder.turn().to_owned();
        let head = Head { id, model: request.model.clone(), created: seconds_now() };
        let (answers, asking) = match asks {
            true => {
                let (sender, answers) = mpsc::channel(UNREAD_ANSWERS);
                (Some(answers), Some((self.questions.clone(), sender)))
            }
            false => (None, None),
        };
        let beside = Beside { label: Some(conversation.clone()), answers };
        let answer = self.pool.complete_beside(Turn { terms, history }, beside);
        let answer = Recorded::new(answer, recorder, asking);
        let mut response = match request.delivery {
            Delivery::Whole => body(StatusCode::OK, &whole(format, &head, answer).await?),
            Delivery::Streamed { .. } => {
                let encoder = format.encoder(head, request.delivery);
                let response = Streaming::begin(answer, encoder, FIRST_WORD).await?;
                response.map(|body| Lasting::body(body, underway))
            }
        };
        if let Ok(ignored) = HeaderValue::from_str(&request.ignored.join(", "))
            && !request.ignored.is_empty()
        {
            response.headers_mut().insert(IGNORED, ignored);
        }
        if let Ok(conversation) = HeaderValue::from_str(&conversation) {
            response.headers_mut().insert(CONVERSATION, conversation);
        }
        Ok(response)
    }

    /// How the agent is driven: as the request says, or as it is anyway.
    fn engine(&self, model: &Model, headers: &HeaderMap) -> Result<Engine, Problem> {
        let named = headers.get(ENGINE).map(|named| named.to_str().unwrap_or("?"));
        self.engine_named(model, named, ENGINE)
    }

    fn engine_named(&self, model: &Model, named: Option<&str>, field: &str) -> Result<Engine, Problem> {
        let wanted = named.map(|named| {
            let found = [Engine::Stream, Engine::Terminal].into_iter().find(|engine| engine.name() == named);
            found.ok_or_else(|| Problem::invalid("this must be `stream` or `terminal`").about(field))
        });
        let engine = model.served.engine(wanted.transpose()?, self.offer.engine);
        engine.ok_or_else(|| Problem::invalid("this agent is not driven in that way").about(field))
    }

    /// The model, if the key may ask it.
    fn model(&self, visitor: &Visitor, named: &str) -> Result<Model, Problem> {
        let model = self.models.find(named)?;
        if !visitor.key.policy.allows_model(named) {
            return Err(Problem::new(Kind::Forbidden, "this key may not ask this model").about("model"));
        }
        Ok(model)
    }

    /// Whether a person has the terminal of this conversation.
    fn is_held(&self, conversation: &str) -> bool {
        self.pool.sessions().iter().any(|listed| {
            listed.label.as_deref() == Some(conversation)
                && listed.terminal.as_ref().is_some_and(|seat| seat.is_held())
        })
    }

    /// The folder that a request names, if it may.
    fn folder(&self, visitor: &Visitor, headers: &HeaderMap) -> Result<Place, Problem> {
        let Some(named) = headers.get(FOLDER) else { return Ok(Place::Own) };
        let forbidden = Problem::new(Kind::Forbidden, "this folder may not be worked in").about(FOLDER);
        self.allowed_folder(visitor, named.to_str().map_err(|_| forbidden)?, FOLDER)
    }

    fn allowed_folder(&self, visitor: &Visitor, named: &str, field: &str) -> Result<Place, Problem> {
        let forbidden = || Problem::new(Kind::Forbidden, "this folder may not be worked in").about(field);
        let folder = PathBuf::from(named).canonicalize().map_err(|_| forbidden())?;
        let is_allowed = self.offer.folders.iter().any(|root| folder.starts_with(root))
            || visitor.key.policy.allows_folder(&folder);
        if is_allowed && folder.is_dir() { Ok(Place::Folder(folder)) } else { Err(forbidden()) }
    }
}

fn terms(
    visitor: &Visitor,
    (model, engine): (Model, Engine),
    workspace: Place,
    permissions: Permissions,
    request: &Request,
) -> Terms {
    Terms {
        tenant: visitor.key.id.clone(),
        agent: model.served.agent.to_owned(),
        engine,
        model: model.name,
        workspace,
        system_prompt: request.system.clone(),
        permissions,
        allow: Vec::new(),
        tools: Toolset { tools: request.tools.clone(), own: visitor.key.policy.own_tools }.form(),
    }
}

/// What the agent may do: as much as the key allows, or what the request names, if that is not more.
fn permissions(visitor: &Visitor, headers: &HeaderMap) -> Result<(Permissions, bool), Problem> {
    let named = headers.get(PERMISSIONS).map(|named| named.to_str().unwrap_or("?"));
    allowance(visitor, named, PERMISSIONS)
}

/// The same, and whether a client is asked what the key does not allow.
fn allowance(visitor: &Visitor, named: Option<&str>, field: &str) -> Result<(Permissions, bool), Problem> {
    if named == Some(ASK) {
        return Ok((visitor.key.policy.permissions, true));
    }
    let wanted = named.map(|named| {
        let message = "this must be `deny`, `edits`, `all` or `ask`";
        Permissions::named(named).ok_or_else(|| Problem::invalid(message).about(field))
    });
    let permitted = visitor.key.policy.permits(wanted.transpose()?);
    let permitted = permitted.ok_or_else(|| {
        Problem::new(Kind::Forbidden, "this key does not allow an agent that much").about(field)
    });
    Ok((permitted?, false))
}

/// What a parameter of the query says.
fn query(uri: &Uri, name: &str) -> Option<String> {
    let pairs = uri.query()?.split('&');
    let named = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut found = named.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned());
    found.next()
}

async fn whole(format: Format, head: &Head, mut answer: Recorded) -> Result<Value, Problem> {
    let mut narration = Narration::default();
    let mut pieces: Vec<Piece> = Vec::new();
    while let Some(event) = answer.next().await {
        let event = event.map_err(|error| problem_of(&error))?;
        pieces.extend(narration.hear(&event));
    }
    format.whole(head, &pieces)
}
