//! What one run's agent finds behind the door: its terms, what it handed over, its open questions.

mod asking;
mod calls;
mod handing;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_agent::artifact::Kinds;
pub use ostler_agent::bridge::Contact;
use ostler_agent::standing::Standing;
use rmcp::model::Tool as Listing;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use asking::Asking;
pub(crate) use calls::Scope;
pub(crate) use handing::{Claimed, Draft, Handed};

use crate::capability::{Capabilities, Capability};
use crate::event::{BridgeEvent, Telling};
use crate::memory::MemoryServer;
use crate::receipts::{Broken, Chain, Head, Past, Receipt, ReceiptError, ReceiptKind, Verified};
use crate::secret::{Key, NoRandomness, Token};
use crate::store::{self, Artifact, Store, StoreError};
use crate::tools::{Programs, Tool};
use crate::upstream::Upstream;

/// What a run's agent may do and must hand over.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The run's id.
    pub run: String,
    /// The how-many-eth attempt of the run this is, from 1.
    pub attempt: u32,
    /// The folder of the run, which exists.
    pub folder: PathBuf,
    /// The folder in which the agent works.
    pub workspace: PathBuf,
    /// What is granted.
    pub capabilities: Capabilities,
    /// The kinds of artifacts that there are.
    pub kinds: Kinds,
    /// The kinds that must be handed over.
    pub required: Vec<String>,
    /// What the agent was asked to do.
    pub prompt: String,
    /// Where the receipts of the run ended, if it has an outcome.
    pub head: Option<Head>,
    /// Servers of others whose tools are passed on, where that is granted.
    pub upstreams: Vec<Arc<Upstream>>,
    /// With what programs are run for the agent. Without it, tools that run programs are not offered.
    pub programs: Option<Programs>,
    /// What was said in earlier sessions, where that is granted.
    pub memory: Option<Arc<MemoryServer>>,
}

impl Terms {
    /// Memory, if the agent may search it.
    pub(crate) fn granted_memory(&self) -> Option<&Arc<MemoryServer>> {
        self.memory.as_ref().filter(|_| self.capabilities.contains(&Capability::Memory))
    }

    /// Servers of others to whom the agent may talk.
    pub(crate) fn granted_upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.iter().filter(|upstream| {
            self.capabilities.contains(&Capability::Upstream(upstream.server().to_owned()))
        })
    }

    /// Whether a tool of our own is offered.
    pub(crate) fn offers(&self, tool: Tool) -> bool {
        tool.is_granted(&self.capabilities) && (self.programs.is_some() || !tool.runs_programs())
    }

    /// All tools that are offered, as clients are told.
    pub(crate) fn listings(&self) -> Vec<Listing> {
        let own = Tool::ALL.into_iter().filter(|tool| self.offers(*tool));
        let own = own.map(|tool| tool.listing(&self.kinds));
        let memory = self.granted_memory().map(|_| MemoryServer::listings()).unwrap_or_default();
        own.chain(memory).chain(self.granted_upstreams().flat_map(|upstream| upstream.listings())).collect()
    }
}

/// A route could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// A run's id that cannot stand in an address.
    #[error("`{run}` cannot be part of an address")]
    Name {
        /// The id.
        run: String,
    },
    /// A run that has a route.
    #[error("run {run} has a route already")]
    Taken {
        /// The id.
        run: String,
    },
    /// A required kind that there is not.
    #[error("there is no kind of artifact called `{kind}`")]
    NoKind {
        /// The kind.
        kind: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// No token or key.
    #[error("could not make a secret")]
    Secret(#[from] NoRandomness),
    /// No receipts.
    #[error("could not keep receipts")]
    Receipts(#[from] ReceiptError),
    /// No artifacts.
    #[error("could not keep artifacts")]
    Store(#[from] StoreError),
    /// No client for our own preflight.
    #[error("could not make a client of our own")]
    Client(#[from] reqwest::Error),
}

impl RouteError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Name { .. } | Self::Taken { .. } | Self::Client(_) => None,
            Self::NoKind { kind, nearest } => Some(match nearest {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("write its rules into `.ostler/artifacts/{kind}.toml`"),
            }),
            Self::Secret(error) => error.hint(),
            Self::Receipts(error) => error.hint(),
            Self::Store(_) => {
                Some("look whether the disk is full, and whether the folder is yours".to_owned())
            }
        }
    }
}

/// Who is calling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The agent.
    Agent,
    /// Our own preflight.
    Probe,
}

/// All that the requests of one run share.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) terms: Terms,
    agent: Token,
    probe: Token,
    pub(crate) telling: Telling,
    /// Taken for moments only: nothing is awaited while it is held.
    ledger: Mutex<Ledger>,
    questions: asking::Questions,
    calls: calls::Calls,
    notice: Mutex<Option<String>>,
    connected: AtomicBool,
    listed: AtomicBool,
    /// Cancelled when the run no longer wants calls.
    pub(crate) closed: CancellationToken,
}

#[derive(Debug)]
struct Ledger {
    chain: Chain,
    store: Store,
    standing: Standing,
    drafts: std::collections::BTreeMap<String, String>,
    /// The hash of the newest accepted document of each kind.
    hashes: std::collections::BTreeMap<String, String>,
}

impl Room {
    pub(crate) fn open(
        terms: Terms,
        closed: CancellationToken,
    ) -> Result<(Self, Past, mpsc::Receiver<BridgeEvent>), RouteError> {
        if let Some(kind) = terms.required.iter().find(|kind| terms.kinds.find(kind).is_none()) {
            let nearest = terms.kinds.nearest(kind).map(str::to_owned);
            return Err(RouteError::NoKind { kind: kind.clone(), nearest });
        }
        let store = Store::open(&terms.folder)?;
        let path = terms.folder.join("receipts.ndjson");
        let (chain, past) =
            Chain::open(&path, &terms.run, terms.attempt, Key::random()?, terms.head.as_ref())?;
        let mut standing = Standing::new(terms.required.iter().cloned());
        let mut hashes = std::collections::BTreeMap::new();
        if let Past::Confirmed(receipts) = &past {
            recall(&mut standing, receipts);
            hashes = store::hashes(receipts);
        }
        let (telling, events) = Telling::new();
        let ledger = Ledger { chain, store, standing, drafts: std::collections::BTreeMap::new(), hashes };
        let room = Self {
            terms,
            agent: Token::random()?,
            probe: Token::random()?,
            telling,
            ledger: Mutex::new(ledger),
            questions: asking::Questions::default(),
            calls: calls::Calls::default(),
            notice: Mutex::new(None),
            connected: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            closed,
        };
        Ok((room, past, events))
    }

    /// Whose token this is.
    pub(crate) fn caller(&self, token: &str) -> Option<Caller> {
        // Both are always compared, so that the time tells nothing.
        match (self.agent.is(token), self.probe.is(token)) {
            (true, _) => Some(Caller::Agent),
            (false, true) => Some(Caller::Probe),
            (false, false) => None,
        }
    }

    /// Notes a request of the agent, and tells its first one.
    pub(crate) async fn heard(&self, client: &str) {
        if !self.connected.swap(true, Ordering::Relaxed) {
            self.telling.tell(BridgeEvent::Connected { client: client.to_owned() }).await;
        }
    }

    /// Notes that the agent asked for the tools.
    pub(crate) async fn tools_listed(&self) {
        self.listed.store(true, Ordering::Relaxed);
        self.telling.tell(BridgeEvent::ToolsListed).await;
    }

    /// What is put into every answer, near the end of the run's time.
    pub(crate) fn notice(&self) -> Option<String> {
        locked(&self.notice).clone()
    }

    fn contact(&self) -> Contact {
        match (self.connected.load(Ordering::Relaxed), self.listed.load(Ordering::Relaxed)) {
            (_, true) => Contact::ToolsListed,
            (true, false) => Contact::Connected,
            (false, false) => Contact::None,
        }
    }
}

/// What receipts of an earlier attempt are worth: artifacts count, a claim does not.
fn recall(standing: &mut Standing, receipts: &[Receipt]) {
    for receipt in receipts {
        match receipt.kind {
            ReceiptKind::Artifact => {
                if let Some(kind) = receipt.field("type") {
                    standing.accepted(kind, receipt.seq);
                }
            }
            ReceiptKind::Opened | ReceiptKind::Complete => {}
        }
    }
}

/// A lock that a panic elsewhere does not spoil: what it guards is changed in single steps.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run's route, in the hands of the run. When it is dropped, the route is closed.
#[derive(Debug)]
pub struct Route {
    pub(crate) room: Arc<Room>,
    pub(crate) url: String,
    pub(crate) past: Past,
    pub(crate) client: reqwest::Client,
}

impl Route {
    /// Where the agent's MCP client goes.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it shows there, as `Authorization: Bearer …`.
    pub fn token(&self) -> &Token {
        &self.room.agent
    }

    pub(crate) fn probe(&self) -> &Token {
        &self.room.probe
    }

    /// The receipts that an earlier attempt left.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// What was handed over.
    pub fn standing(&self) -> Standing {
        locked(&self.room.ledger).standing.clone()
    }

    /// What happened between the agent and the bridge so far.
    pub fn contact(&self) -> Contact {
        self.room.contact()
    }

    /// Takes the agent's claim back: what it claimed was found to be otherwise. It has to declare again.
    pub fn unclaim(&self) {
        locked(&self.room.ledger).standing.unclaim();
    }

    /// Puts a sentence into every answer from now on, or no longer.
    pub fn set_notice(&self, notice: Option<String>) {
        *locked(&self.room.notice) = notice;
    }

    /// Answers a question of the agent. Nothing is said about one that is not open.
    pub fn answer(&self, question: u64, text: impl Into<String>) -> Answering {
        self.room.questions.answer(question, text.into())
    }

    /// The numbers of the questions that are open, the oldest first.
    pub fn open_questions(&self) -> Vec<u64> {
        self.room.questions.open()
    }

    /// The accepted documents, as they are on disk now.
    pub fn artifacts(&self) -> Vec<Artifact> {
        let hashes = locked(&self.room.ledger).hashes.clone();
        store::artifacts(&self.room.terms.folder, &hashes)
    }

    /// Where the receipts end, for the outcome.
    pub fn head(&self) -> Head {
        locked(&self.room.ledger).chain.head().clone()
    }

    /// Reads the receipts on disk again, and looks whether they are still what was written.
    pub fn audit(&self) -> Result<Result<Verified, Broken>, ReceiptError> {
        locked(&self.room.ledger).chain.audit()
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        self.room.closed.cancel();
    }
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// The agent gets it.
    Given,
    /// No such question is open.
    NotOpen,
}
