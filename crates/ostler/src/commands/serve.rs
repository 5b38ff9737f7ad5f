//! `ostler serve`: sessions of the agents that are here, behind the APIs that programs already speak.

mod bounds;
mod greeting;
mod jail;
mod memory;
mod place;
mod scene;
mod tenants;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_agent::access::KeyKind;
use ostler_agent::agent::{Agent, Engine};
use ostler_agent::agents::{Claude, ClaudeTerminal, Codex, OpenCode};
use ostler_agent::jail::ConfigWrites;
use ostler_agent::leasing::{Limits, Place, Terms};
use ostler_agent::network::NetAccess;
use ostler_gateway::engines::Engines;
use ostler_gateway::ground::{Ground, TrustGate};
use ostler_gateway::http::keys::{Key, Keys};
use ostler_gateway::http::models::{Manner, Served};
use ostler_gateway::http::{self, Offer, OpenError, Waiting};
use ostler_gateway::jail::Jailer;
use ostler_gateway::one_shot::OneShots;
use ostler_gateway::pool::Pool;
use ostler_gateway::provider_proxy::ProviderProxy;
use ostler_gateway::stream::Streams;
use ostler_gateway::tenants::Tenants;
use ostler_gateway::terminal::Terminals;
use ostler_process::contain::Standby;
use ostler_process::run::{for_served, inherited};
use tokio_util::sync::CancellationToken;

use self::greeting::tell;
use self::jail::{ServeJailer, ServedWall};
use self::scene::Scene;
use self::tenants::{ServeTenants, remove_homes};
use self::tls::{TlsArgs, TransportError};
use crate::config::Settings;
use crate::failure::Failure;
use crate::interrupt::Signals;
use crate::jailing::{JailFault, JailTerms};
use crate::kept_keys::{Kept, KeptKeys, KeyLimits};
use crate::surroundings::Surroundings;
use crate::{display, programs};

/// Where it listens when nobody says.
const DEFAULT_LISTEN: &str = "127.0.0.1:7433";

/// Agents that take one prompt a process.
const ONE_SHOTS: [&dyn Agent; 2] = [&Codex, &OpenCode];

/// How long turns may go on once it is asked to end.
const DRAIN: Duration = Duration::from_secs(30);

/// An answer that broke off is told as such, not begun anew behind what was told already.
const NO_SECOND_BEGINNING: &str = "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK";

/// What a person is told whose server is not the first one.
const BESIDE: &str = "warning: another `ostler serve` has the conversations of this home: this one begins without any, and \
                      what is said here is gone when it ends (for a second server that keeps its own, set OSTLER_HOME \
                      to another folder)";

/// Arguments of `ostler serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler serve
  ostler serve --rehearse
  ostler serve --listen 127.0.0.1:8080 --max-sessions 4 --spares 1
  ostler serve --listen 0.0.0.0:7433 --tls-cert server.pem --tls-key server.key

Programs that speak the Anthropic Messages, OpenAI Chat Completions or OpenAI
Responses API talk to your own agent. A conversation that goes on finds its
session warm; one that is new gets its history. The model of a request names
the agent: claude, codex, opencode, or AGENT/MODEL. The key is made at the first
start and printed once; `ostler keys` makes others. Ctrl-C ends it, and
conversations go on with the next one.")]
pub(crate) struct Args {
    /// The address to listen on; port 0 means any free one. Other machines can reach one that is not loopback: it needs
    /// TLS.
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN)]
    listen: SocketAddr,

    #[command(flatten)]
    tls: TlsArgs,

    /// Play a scripted model instead of the provider: a built-in name or a file.
    #[arg(long, value_name = "SCRIPT", num_args = 0..=1, require_equals = true, default_missing_value = "echo")]
    rehearse: Option<String>,

    /// How many sessions may live at once.
    #[arg(long, value_name = "N", default_value_t = Limits::default().live)]
    max_sessions: usize,

    /// How the agent is driven, unless a request says otherwise.
    #[arg(long, value_name = "ENGINE", default_value = "stream", value_parser = ["stream", "terminal"])]
    engine: String,

    /// How many sessions are started ahead.
    #[arg(long, value_name = "N", default_value_t = 0)]
    spares: usize,

    /// A folder below which a request may name one to work in.
    #[arg(long, value_name = "DIR")]
    allow_cwd: Vec<PathBuf>,

    /// Let agents enforce their permissions by their own means, without a jail around them.
    #[arg(long)]
    no_jail: bool,

    /// Let jailed agents reach their provider, also these hosts (`hosts=a.example,*.b.example:8443`), or
    /// everything (`all`) [default: provider].
    #[arg(long, value_name = "ACCESS", conflicts_with = "no_jail")]
    net: Option<NetAccess>,

    /// Print where it listens as JSON.
    #[arg(long)]
    json: bool,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Jail(#[from] JailFault),
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("could not use {} for sessions", .path.display())]
    Shelf {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("there is no folder {}", .path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl ServeError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Open(error) => error.hint(),
            Self::Jail(fault) => fault.hint(),
            Self::Transport(error) => Some(error.hint()),
            Self::Shelf { .. } => Some("check that Ostler's home can be written to".to_owned()),
            Self::Folder { .. } => Some("name a folder that exists".to_owned()),
        }
    }

    /// Whether it is about how the command was called.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Transport(_))
    }
}

/// Programs of the agents that are here.
struct Programs {
    claude: Option<PathBuf>,
    one_shots: Vec<(&'static dyn Agent, PathBuf)>,
}

impl Programs {
    /// Those that are found. None at all is a failure.
    fn find(settings: &Settings, here: &Surroundings) -> Result<Self, Failure> {
        let claude = programs::find(&Claude, settings, here);
        let one_shots = ONE_SHOTS.into_iter().filter_map(|agent| {
            let program = programs::find(agent, settings, here).ok()?;
            Some((agent, program.path))
        });
        let one_shots: Vec<_> = one_shots.collect();
        match claude {
            Err(error) if one_shots.is_empty() => Err(error.into()),
            claude => Ok(Self { claude: claude.ok().map(|program| program.path), one_shots }),
        }
    }
}

/// Serves until Ctrl-C or SIGTERM, which is how it ends well.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let settings = here.settings()?;
    let tls = tls::load(&args.tls, args.listen, &settings.config.serve, here).map_err(ServeError::from)?;
    let programs = Programs::find(&settings, here)?;
    let folders = args.allow_cwd.iter().map(|folder| {
        let path = here.cwd.join(folder);
        path.canonicalize().map_err(|source| ServeError::Folder { path, source })
    });
    let folders = folders.collect::<Result<Vec<_>, _>>()?;
    here.home.create()?;
    let key_limits = KeyLimits::from_config(&settings.config.serve);
    let kept = KeptKeys::at(here.home.keys(), key_limits);
    report_kinds(&kept.migrate()?);
    let (keys, fresh) = kept.usable()?;
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let guard = Standby::from(std::env::current_exe().map_err(Failure::Runtime)?);
    guard.fill();
    let terms = JailTerms {
        is_off: args.no_jail,
        config_writes: ConfigWrites::Guarded,
        read: settings.config.jail.read.resolve(),
        hide: settings.config.jail.hide.resolve(),
        net: args.net.clone().or(settings.config.jail.net.clone().map(|net| net.0)).unwrap_or_default(),
    };
    let (wall, warning) =
        ServedWall::choose(&terms, guard.program(), here).await.map_err(ServeError::from)?;
    if let Some(warning) = warning {
        display::tell(&format!("warning: {warning}"));
    }
    let ours = here.variables.clone();
    let scene = match &args.rehearse {
        None => None,
        Some(name) => Some(Scene::set(name).await?),
    };
    let home = match &scene {
        None => here.user_home().unwrap_or_default(),
        Some(scene) => scene.home(),
    };
    // What a rehearsal leaves is worth nothing: the agent's own records go with its home.
    let folder = scene.as_ref().map_or(here.home.root(), |scene| scene.folder.path()).join("serve");
    let place::Place { folder, shelf, own } = place::Place::take(&folder)?;
    // What a jail shows, it shows at its path without links.
    let folder = folder.canonicalize().unwrap_or(folder);
    if own.is_some() {
        display::tell(BESIDE);
    }
    let conversations = folder.join("conversations");
    let jailer = Arc::new(ServeJailer {
        here: here.clone(),
        folder: folder.join("private"),
        ostler: guard.program().to_owned(),
        rehearsal_home: scene.as_ref().map(Scene::home),
        terms,
        wall,
    });
    let homes = folder.join("tenants");
    remove_homes(&homes, &keys.iter().map(|key| key.id.as_str()).collect::<Vec<_>>());
    let (proxy, proxy_listener) =
        ProviderProxy::listen(ostler_bridge::client::for_provider).await.map_err(Failure::Runtime)?;
    let tenants = Arc::new(ServeTenants {
        folder: homes,
        variables: ours.clone().into_iter().collect(),
        owners_home: here.user_home().unwrap_or_default(),
        owners_memory: here.home.memory(),
        scripted_model: scene.as_ref().map(|scene| scene.url.clone()),
        proxy: proxy.clone(),
        jailer: jailer.clone(),
        prepared: Mutex::default(),
    });
    let has_tenants = keys.iter().any(|key| key.policy.kind == KeyKind::Tenant);
    let trust = TrustGate::new(here.gate().with_home(home.clone()), |warning| {
        display::tell(&format!("warning: {warning}"));
    });
    let ground = |agent: &'static dyn Agent, program: PathBuf| {
        let env = match &scene {
            None => for_served(inherited(ours.clone())),
            Some(scene) => scene.env(agent, ours.clone())?,
        };
        let (home, folder, guard, trust) = (home.clone(), folder.clone(), guard.clone(), trust.clone());
        if has_tenants && let Some(warning) = tenants.find_refusal(agent, &env) {
            display::tell(&format!("warning: {warning}"));
        }
        let (jailer, tenants): (Arc<dyn Jailer>, Arc<dyn Tenants>) = (jailer.clone(), tenants.clone());
        Ok::<Ground, Failure>(Ground {
            agent,
            program,
            env,
            home,
            folder,
            guard,
            trust,
            jailer,
            tenants,
            memory: None,
        })
    };
    let (mut engines, mut agents, mut titles) = (Engines::default(), Vec::new(), Vec::new());
    if let Some(program) = programs.claude {
        // The terminal program needs all that the other does, and more.
        let mut terminal = ground(&ClaudeTerminal, program)?;
        terminal.env.push((NO_SECOND_BEGINNING.into(), "1".into()));
        engines.streams = Some(Streams(Ground { agent: &Claude, ..terminal.clone() }));
        engines.terminals = Some(Terminals(terminal));
        agents.push(Served { agent: Claude.name(), manner: Manner::Live });
        titles.push(Claude.title());
    }
    for (agent, program) in programs.one_shots {
        engines.one_shots.push(OneShots(ground(agent, program)?));
        agents.push(Served { agent: agent.name(), manner: Manner::OneShot });
        titles.push(agent.title());
    }
    let has_live = engines.streams.is_some();
    let section = &settings.config.serve;
    let limits = bounds::limits(args.max_sessions, section);
    let engine = if args.engine == Engine::Terminal.name() { Engine::Terminal } else { Engine::Stream };
    let pool = Pool::with_shelf(engines, limits, bounds::patience(section), Some(shelf));
    if let (Some(key), true) = (keys.first(), has_live) {
        pool.warm(&usual(key, engine), args.spares);
    }
    let (runs, aliases) = (here.home.runs(), section.models.clone());
    let keys = Keys::kept_by(keys, kept);
    let accepted = keys.clone();
    let first = agents.first().map_or("claude", Served::name);
    let offer = Offer {
        keys,
        agents,
        aliases,
        engine,
        folders,
        conversations,
        runs,
        waiting: Waiting::default(),
        bodies: bounds::bodies(section),
        connections: bounds::connections(section),
        bounds: bounds::conversations(section),
        tls,
    };
    let listening = http::open(args.listen, pool, offer).await.map_err(ServeError::from)?;
    tell(&args, (first, &titles), &listening.url(), fresh.as_deref())?;
    let proxy_closing = CancellationToken::new();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = listening.serve(
        async move {
            let _ = stopped.await;
        },
        DRAIN,
    );
    let asked = async {
        signals.next().await;
        let _ = stop.send(());
    };
    let served = async {
        serving.await;
        proxy_closing.cancel();
    };
    tokio::join!(
        served,
        asked,
        proxy.serve(proxy_listener, Arc::new(move |id| accepted.has(id)), proxy_closing.clone())
    );
    if let Some(scene) = scene {
        scene.strike().await;
    }
    // Nobody works in it any more.
    drop(own);
    Ok(ExitCode::SUCCESS)
}

/// Says which keys of an earlier version are the owner's and which are tenants', where their agents differ from now on.
fn report_kinds(migrated: &[Kept]) {
    for kept in migrated {
        let Kept { id, .. } = kept;
        display::tell(&match kept.policy(&KeyLimits::default()).kind {
            KeyKind::Owner => {
                format!("note: the key {id} is an owner's: its agent uses your home and sign-in")
            }
            KeyKind::Tenant => format!(
                "note: the key {id} is a tenant's: its agent has a home and a jail of its own and sees nothing of yours \
                 (`ostler keys new --owner` makes a key whose agent uses your home)"
            ),
        });
    }
}

/// What most requests are on.
fn usual(key: &Key, engine: Engine) -> Terms {
    Terms {
        tenant: key.id.clone(),
        kind: key.policy.kind,
        memory: key.policy.memory(),
        agent: Claude.name().to_owned(),
        engine,
        model: None,
        workspace: Place::Own,
        system_prompt: None,
        permissions: key.policy.permissions,
        asks_client: false,
        allow: Vec::new(),
        tools: String::new(),
    }
}
