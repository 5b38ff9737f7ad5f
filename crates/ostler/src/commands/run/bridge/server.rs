//! MCP servers of others: an address, or a program that is started, contained and jailed as everything of a run.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::endpoint::Endpoint;
use ostler_agent::network::opens_host;
use ostler_bridge::upstream::{Link, UpstreamError};
use ostler_process::contain::{Contained, Spawn, StartError, Stdin, StopSignal};
use ostler_process::run::{PlannedJail, start_in};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;

use super::OpenError;

/// What is kept of what a server says on the side. The rest is read and forgotten.
const MOST_KEPT: usize = 4 * 1024 * 1024;

/// How long a server that is asked to end is waited for, before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// A server that is wanted.
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) way: Way,
    pub(super) wall: Wall,
}

/// What is around its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wall {
    /// What is around all programs of the run.
    OfRun,
    /// `jail = false`.
    None,
}

/// How it is reached.
pub(super) enum Way {
    Http { url: String, headers: Vec<(String, String)> },
    Program { program: String, args: Vec<String> },
}

/// What a program finds around itself.
pub(in crate::commands::run) struct Around<'a> {
    pub(in crate::commands::run) run: &'a str,
    pub(in crate::commands::run) env: &'a [(OsString, OsString)],
    pub(in crate::commands::run) workspace: &'a Path,
    pub(in crate::commands::run) guard: &'a Path,
    /// The wall of the run, if it has one.
    pub(in crate::commands::run) jail: Option<&'a Arc<PlannedJail>>,
    /// The run's folder, for what servers say on the side.
    pub(in crate::commands::run) folder: &'a Path,
}

/// A server that does not start.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands::run) enum ServerError {
    #[error("could not start the MCP server `{name}`")]
    Start {
        name: String,
        #[source]
        source: Box<StartError>,
    },
    #[error("the MCP server `{name}` needs {}, which is not visible in the jail", .path.display())]
    Invisible { name: String, path: PathBuf },
    /// It started, and does not serve: perhaps because it did not reach a host.
    #[error("the MCP server `{name}` does not serve, and the jail did not let it reach {host}")]
    Offline {
        name: String,
        host: Endpoint,
        #[source]
        source: Box<UpstreamError>,
    },
    /// It started, and does not serve: perhaps because it does not see a file that its command names.
    #[error("the MCP server `{name}` does not serve in the jail")]
    Blind {
        name: String,
        path: PathBuf,
        #[source]
        source: Box<UpstreamError>,
    },
}

impl ServerError {
    pub(in crate::commands::run) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Start { name, .. } => {
                format!("try its command by hand, and look at what follows `--mcp {name}=`")
            }
            Self::Invisible { name, path } => open_jail(name, path),
            Self::Offline { name, host, .. } => {
                let opens = opens_host(host);
                format!("{opens} permits it; or set `jail = false` in [mcp.{name}] of your config.toml")
            }
            Self::Blind { name, path, .. } => {
                format!(
                    "its command names {}, which is not visible in the jail: {}",
                    path.display(),
                    open_jail(name, path)
                )
            }
        })
    }
}

/// What to write so that a server sees a path.
fn open_jail(name: &str, path: &Path) -> String {
    let folder = path.parent().filter(|folder| folder.parent().is_some()).unwrap_or(path);
    format!(
        "add `{}` to [jail] read, or set `jail = false` in [mcp.{name}] of your config.toml",
        folder.display()
    )
}

/// A program that serves. Let go, it is ended.
pub(super) struct Server {
    child: Contained,
    _draining: JoinSet<()>,
}

impl Server {
    /// Ends it and all that it started. Answers how many could not be ended.
    pub(super) async fn end(mut self) -> u32 {
        // What it does with that is its own matter: it is killed soon.
        let _ = self.child.signal(StopSignal::Terminate);
        let _ = tokio::time::timeout(GRACE, self.child.leader_exit()).await;
        self.child.kill_all().await.0
    }
}

/// The way to a server; its program is started.
pub(super) async fn reach(
    chosen: &Chosen,
    around: &Around<'_>,
) -> Result<(Link, Option<Server>), ServerError> {
    let (program, args) = match &chosen.way {
        Way::Http { url, headers } => {
            return Ok((Link::Http { url: url.clone(), headers: headers.clone() }, None));
        }
        Way::Program { program, args } => (program, args),
    };
    let jail = around.jail.filter(|_| chosen.wall == Wall::OfRun);
    if let Some(path) = jail.and_then(|jail| jail.hidden_program(program, around.env, around.workspace)) {
        return Err(ServerError::Invisible { name: chosen.name.clone(), path });
    }
    let failed = |source| ServerError::Start { name: chosen.name.clone(), source: Box::new(source) };
    let spawn = Spawn {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env: around.env.to_vec(),
        cwd: around.workspace.to_owned(),
        stdin: Stdin::Piped,
        run: around.run,
        tier: None,
        jail: None,
        guard: around.guard.to_owned(),
    };
    let mut child = start_in(jail.map(Arc::as_ref), spawn, None).await.map_err(failed)?;
    let mut draining = JoinSet::new();
    if let Some(stderr) = child.stderr.take() {
        draining.spawn(drain(stderr, around.folder.join("raw").join(format!("mcp-{}", chosen.name))));
    }
    let reader =
        child.stdout.take().map_or_else(|| Box::new(tokio::io::empty()) as _, |pipe| Box::new(pipe) as _);
    let writer =
        child.stdin.take().map_or_else(|| Box::new(tokio::io::sink()) as _, |pipe| Box::new(pipe) as _);
    Ok((Link::Pipes { reader, writer }, Some(Server { child, _draining: draining })))
}

/// Why a server that was reached does not serve.
pub(super) fn unserved(chosen: &Chosen, around: &Around<'_>, error: UpstreamError) -> OpenError {
    let jail = around.jail.filter(|_| chosen.wall == Wall::OfRun);
    let (Way::Program { args, .. }, Some(jail)) = (&chosen.way, jail) else { return error.into() };
    let name = chosen.name.clone();
    if let Some(host) = jail.find_denied_host() {
        return ServerError::Offline { name, host, source: Box::new(error) }.into();
    }
    match args.iter().find_map(|word| jail.hidden_path(Path::new(word))) {
        Some(path) => ServerError::Blind { name, path, source: Box::new(error) }.into(),
        None => error.into(),
    }
}

/// Keeps the beginning of what a server says on the side, and reads all of it: one that is not read would stop.
async fn drain(mut stderr: Receiver, path: PathBuf) {
    let mut kept = OpenOptions::new().append(true).create(true).mode(0o600).open(path).ok();
    let (mut buffer, mut left) = (vec![0; 8 * 1024], MOST_KEPT);
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let count = count.min(left);
        left -= count;
        if kept.as_mut().is_some_and(|file| file.write_all(&buffer[..count]).is_err()) {
            kept = None;
        }
    }
}
