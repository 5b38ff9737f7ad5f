//! The bridge of a run: opened before the agent starts, served beside it, ended with it.
//!
//! `wanted` is what was asked for, found to be possible before anything is written; here it is opened. What the run asks
//! of it is in `ostler-process`, what it does in `ostler-bridge`.

mod exporting;
mod kinds;
mod server;
mod wanted;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use ostler_agent::bridge::{Access, BridgeEvent, Contact};
use ostler_agent::endpoint::Endpoint;
use ostler_agent::standing::Standing;
use ostler_bridge::door::{Door, DoorError};
use ostler_bridge::memory::MemoryServer;
use ostler_bridge::preflight::PreflightError;
use ostler_bridge::receipts::{Head, Past};
use ostler_bridge::route::{self, Route, RouteError, Terms};
use ostler_bridge::tools::Programs;
use ostler_bridge::upstream::{Upstream, UpstreamError};
use ostler_memory::place::Place as MemoryPlace;
use ostler_process::run::{Answering, Bridge, HandedOut};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(super) use server::Around;
use server::{Server, ServerError};
pub(crate) use wanted::BridgeUsage;
pub(super) use wanted::Wanted;

use crate::display;

/// Why there is no bridge, and therefore no agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Door(#[from] DoorError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error("it did not pass its own trial")]
    Preflight {
        source: PreflightError,
        /// Where the receipts end now: that this attempt began is among them.
        kept: Value,
    },
    #[error("it was stopped")]
    Stopped,
}

impl OpenError {
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Door(error) => error.hint(),
            Self::Server(error) => error.hint(),
            Self::Upstream(error) => error.hint(),
            Self::Route(error) => error.hint(),
            Self::Preflight { source, .. } => source.hint(),
            Self::Stopped => None,
        }
    }

    /// What is kept of the bridge, if that is no longer what it was.
    pub(super) fn kept(&self) -> Option<Value> {
        match self {
            Self::Preflight { kept, .. } => Some(kept.clone()),
            Self::Door(_) | Self::Server(_) | Self::Upstream(_) | Self::Route(_) | Self::Stopped => None,
        }
    }
}

/// What of the run the bridge must know.
pub(super) struct About<'a> {
    pub(super) run: &'a str,
    pub(super) attempt: u32,
    pub(super) folder: &'a Path,
    pub(super) workspace: &'a Path,
    pub(super) prompt: &'a str,
    /// What its last outcome kept of the bridge.
    pub(super) kept: Option<&'a Value>,
}

/// A bridge that is open. Let go, it ends with everything that was started for it.
pub(super) struct Bridged {
    route: Route,
    required: Vec<String>,
    /// Where copies of what is accepted are wanted.
    export: Option<PathBuf>,
    stop: CancellationToken,
    /// The door and the programs behind it, until they are ended.
    behind: Mutex<Option<Behind>>,
}

struct Behind {
    serving: JoinSet<()>,
    servers: Vec<Server>,
}

impl Bridged {
    /// Opens it, with every server that is wanted, and tries it as a client. On failure, and if `stopped` is cancelled
    /// meanwhile, every server that was started has ended.
    pub(super) async fn open(
        wanted: &Wanted,
        about: About<'_>,
        around: &Around<'_>,
        stopped: &CancellationToken,
    ) -> Result<(Self, mpsc::Receiver<BridgeEvent>), OpenError> {
        let mut servers = Vec::new();
        let opened = Self::open_with(&mut servers, wanted, about, around, stopped).await;
        match &opened {
            Ok((bridged, _)) => {
                if let Some(behind) = bridged.behind.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                    behind.servers = servers;
                }
            }
            Err(_) => {
                for server in servers {
                    server.end().await;
                }
            }
        }
        opened
    }

    async fn open_with(
        servers: &mut Vec<Server>,
        wanted: &Wanted,
        about: About<'_>,
        around: &Around<'_>,
        stopped: &CancellationToken,
    ) -> Result<(Self, mpsc::Receiver<BridgeEvent>), OpenError> {
        let door = Door::open().await?;
        if let Some(jail) = around.jail {
            let address = door.address();
            jail.permit(&Endpoint { host: address.ip().to_string(), port: address.port() }).await;
        }
        let mut upstreams = Vec::new();
        for chosen in &wanted.servers {
            // Not interrupted: a program that is being started could not be waited for.
            let (link, server) = server::reach(chosen, around).await?;
            servers.extend(server);
            let connected = stopped.run_until_cancelled(Upstream::connect(&chosen.name, link)).await;
            let connected = connected.ok_or(OpenError::Stopped)?;
            upstreams.push(Arc::new(connected.map_err(|error| server::unserved(chosen, around, error))?));
        }
        let (keeper, stop, mut serving) = (door.keeper(), CancellationToken::new(), JoinSet::new());
        serving.spawn(door.serve(stop.clone()));
        let (route, events) = keeper.admit(Terms {
            run: about.run.to_owned(),
            attempt: about.attempt,
            folder: about.folder.to_owned(),
            workspace: about.workspace.to_owned(),
            capabilities: wanted.capabilities.clone(),
            kinds: wanted.rules.kinds.clone(),
            required: wanted.required.clone(),
            prompt: about.prompt.to_owned(),
            head: about.kept.and_then(head),
            upstreams,
            programs: Some(
                Programs::new(around.guard.to_owned(), around.env.to_vec()).jailed_by(around.jail.cloned()),
            ),
            memory: Some(Arc::new(MemoryServer::new(MemoryPlace::new(&wanted.memory), about.workspace))),
        })?;
        let tried = stopped.run_until_cancelled(route.preflight()).await.ok_or(OpenError::Stopped)?;
        if let Err(source) = tried {
            let kept = json!({"contact": Contact::None, "receipts": route.head(), "broken": null, "changed": [], "exported": null});
            return Err(OpenError::Preflight { source, kept });
        }
        let behind = Mutex::new(Some(Behind { serving, servers: Vec::new() }));
        let (required, export) = (wanted.required.clone(), wanted.export.clone());
        Ok((Self { route, required, export, stop, behind }, events))
    }

    /// What a person should know of the receipts that an earlier attempt left.
    pub(super) fn warnings(&self) -> Vec<String> {
        match self.route.past() {
            Past::None | Past::Confirmed(_) => Vec::new(),
            Past::Unconfirmed(receipts) if receipts.len() <= 1 => Vec::new(),
            Past::Unconfirmed(_) => vec![
                "receipts of an attempt without an outcome do not count: nobody can say who wrote them"
                    .to_owned(),
            ],
            Past::Broken { broken, aside } => {
                vec![format!("{broken}; it does not count, and was put aside as {}", display::short(aside))]
            }
        }
    }
}

/// Where the receipts ended, as an outcome kept it.
pub(crate) fn head(kept: &Value) -> Option<Head> {
    serde_json::from_value(kept["receipts"].clone()).ok()
}

impl Bridge for Bridged {
    fn access(&self) -> Access<'_> {
        Access { url: self.route.url(), token: self.route.token().reveal() }
    }

    fn required(&self) -> &[String] {
        &self.required
    }

    fn standing(&self) -> Standing {
        self.route.standing()
    }

    fn contact(&self) -> Contact {
        self.route.contact()
    }

    fn unclaim(&self) {
        self.route.unclaim();
    }

    fn set_notice(&self, notice: String) {
        self.route.set_notice(Some(notice));
    }

    fn answer(&self, question: u64, text: String) -> Answering {
        match self.route.answer(question, text) {
            route::Answering::Given => Answering::Given,
            route::Answering::NotOpen => Answering::NotOpen,
        }
    }

    fn head(&self) -> Value {
        // A count and a hash are always JSON.
        serde_json::to_value(self.route.head()).unwrap_or_default()
    }

    fn audit(&self) -> Result<(), String> {
        match self.route.audit() {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(broken)) => Err(broken.to_string()),
            Err(error) => Err(display::with_causes(&error)),
        }
    }

    fn hand_out(&self) -> HandedOut {
        exporting::hand_out(self.route.artifacts(), self.export.as_deref())
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = u32> + '_>> {
        Box::pin(async {
            let behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner).take();
            self.stop.cancel();
            let Some(Behind { mut serving, servers }) = behind else { return 0 };
            serving.join_next().await;
            let mut survivors = 0_u32;
            for server in servers {
                survivors = survivors.saturating_add(server.end().await);
            }
            survivors
        })
    }
}
