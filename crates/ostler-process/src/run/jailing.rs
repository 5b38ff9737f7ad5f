//! The wall around the processes of a run: the agent, and what the host runs for it.
//!
//! The first process builds it, and the others get behind the same one: what one of them writes to a cache, the next
//! one finds there.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError};

use ostler_agent::endpoint::Endpoint;
use ostler_agent::jail::{Access, JailKind, JailPolicy, JailReport, Rule, RunJail};
use ostler_agent::network::{NetAccess, NetPolicy, proxy_variables};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::contain::{Ahead, Contained, Diagnosis, Spawn, StartError};
use crate::egress::{Egress, HostLog, HostNotices, UserProxy};
use crate::file_scope::FileScope;
use crate::jail::facts::{copy_state, create_directories, real_path};
use crate::jail::layers::Layers;
use crate::jail::{Canary, Jail, JailNetwork, Namespaces, SignInSync};

/// The wall around the processes of a run, as it was decided.
#[derive(Debug)]
pub struct PlannedJail {
    /// Which wall.
    pub kind: JailKind,
    /// What it lets through.
    pub decision: RunJail,
    /// Which files the host opens for the processes.
    pub files: FileScope,
    /// What the processes must not reach. It is there as long as the run.
    pub canary: Canary,
    wall: Mutex<Wall>,
    /// Where empty directories are that stand in the place of masked ones.
    empty: PathBuf,
    /// Begins with the first process.
    sign_in: OnceLock<Option<SignInSync>>,
    /// What is limited in the network: its name for people, and the variables that lead to the proxy.
    network: Option<PlannedNetwork>,
    /// Held by this run alone. Released after the namespaces in which they are mounted.
    _layers: Option<Layers>,
}

/// The network behind a wall.
#[derive(Debug)]
struct PlannedNetwork {
    access: NetAccess,
    variables: Vec<(&'static str, String)>,
    log: Arc<HostLog>,
    /// Until somebody reads them.
    notices: StdMutex<Option<HostNotices>>,
}

/// The wall, once the first process stands behind it.
#[derive(Debug, Default)]
struct Wall {
    /// All processes of the run share them.
    namespaces: Option<Arc<Namespaces>>,
    /// The decision that holds instead, where layers cannot be mounted.
    without_layers: Option<RunJail>,
    /// What goes through to the network, if that is limited.
    egress: Option<Egress>,
    /// Reports the connections in that network.
    diagnosis: Option<Arc<Diagnosis>>,
    /// Connections out of it.
    connections: JoinSet<()>,
    /// What is hidden besides: files of a repository that is not trusted, which agents would load.
    masks: Vec<PathBuf>,
}

impl Wall {
    /// Serves what the network of the first process has passed out.
    fn open(&mut self, child: &mut Contained) -> io::Result<()> {
        let (Some(sockets), Some(egress)) = (child.take_sockets(), &self.egress) else { return Ok(()) };
        egress.serve(sockets.listeners, &mut self.connections)?;
        self.diagnosis = Some(Arc::new(Diagnosis::new(sockets.diagnosis)));
        child.diagnose_by(self.diagnosis.clone());
        Ok(())
    }
}

impl PlannedJail {
    /// What is in force and what is not, once the kernel has said what it enforces.
    pub fn report(&self, mut enforced: JailReport) -> JailReport {
        enforced.not_enforced.extend(self.decision.not_enforced.iter().cloned());
        if let Some(network) = &self.network {
            match self.kind {
                JailKind::Namespace => enforced.net = network.access.to_string(),
                JailKind::Landlock => enforced.not_enforced.push("which hosts are reached".to_owned()),
            }
        }
        enforced
    }

    /// A wall that no process stands behind yet.
    pub fn new(kind: JailKind, decision: RunJail, canary: Canary) -> Self {
        let (wall, sign_in) = (Mutex::default(), OnceLock::new());
        let (files, network, empty) = (FileScope::Anywhere, None, PathBuf::new());
        Self { kind, decision, files, canary, wall, empty, sign_in, network, _layers: None }
    }

    /// With only these files opened for the processes.
    pub fn with_files(self, files: FileScope) -> Self {
        Self { files, ..self }
    }

    /// With the layers that its decision names.
    pub fn with_layers(self, layers: Option<Layers>) -> Self {
        Self { _layers: layers, ..self }
    }

    /// With the network limited to what `policy` lets through, by the proxy of the user where there is one. Only
    /// namespaces can do that.
    pub fn with_network(mut self, policy: NetPolicy, user_proxy: UserProxy) -> Self {
        let access = policy.access.clone();
        let variables = match self.kind {
            JailKind::Namespace => proxy_variables(policy.proxy_address()),
            JailKind::Landlock => Vec::new(),
        };
        let (egress, notices) = Egress::new(policy, user_proxy);
        let log = egress.log();
        self.wall.get_mut().egress = Some(egress).filter(|_| self.kind == JailKind::Namespace);
        let notices = StdMutex::new(Some(notices));
        self.network = Some(PlannedNetwork { access, variables, log, notices });
        self
    }

    /// Lets processes that are started from now on reach a port of this machine too. If a wall stands already, the next
    /// process builds another one.
    pub async fn permit(&self, endpoint: &Endpoint) {
        let mut wall = self.wall.lock().await;
        if wall.egress.as_mut().is_some_and(|egress| egress.permit(endpoint)) {
            self.leave(&mut wall);
        }
    }

    /// A host that was denied to a process behind the wall.
    pub fn find_denied_host(&self) -> Option<Endpoint> {
        self.network.as_ref()?.log.find_denied()
    }

    /// The hosts that processes behind the wall ask for. There is one reader.
    pub fn take_notices(&self) -> Option<HostNotices> {
        self.network.as_ref()?.notices.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// With these files and directories hidden besides. An empty directory below `private` is in the place of each
    /// directory: an agent may want to write there.
    pub fn with_masks(mut self, masks: Vec<PathBuf>, private: &Path) -> Self {
        self.wall.get_mut().masks = masks;
        self.empty = private.join("masks");
        self
    }

    /// With a directory of its own in the place of `path`, which exists: what is written there is in `source`. Only
    /// namespaces can do that.
    pub fn with_own_directory(mut self, path: PathBuf, source: PathBuf) -> Self {
        if self.kind == JailKind::Namespace {
            self.decision.create.push(source.clone());
            self.decision.policy.rules.push(Rule { path, access: Access::Substitute { source } });
        }
        self
    }

    /// Hides these files from the processes that are started from now on. If they are visible behind the wall that stands,
    /// the next process builds another one; without layers, which no two walls can share.
    pub async fn mask(&self, masks: Vec<PathBuf>) {
        let mut wall = self.wall.lock().await;
        if masks.iter().all(|mask| wall.masks.contains(mask)) {
            return;
        }
        self.leave(&mut wall);
        wall.masks.extend(masks);
    }

    /// Has the next process build another wall, if one stands. No two walls can share layers.
    fn leave(&self, wall: &mut Wall) {
        if wall.namespaces.take().is_some() && wall.without_layers.is_none() {
            wall.without_layers = Some(self.decision.without_layers());
        }
    }

    /// Starts a process behind the wall, with its environment changed as the wall needs it. Dropping the future ends what
    /// was started so far.
    pub async fn start(&self, spawn: Spawn<'_>, ahead: Option<Ahead>) -> Result<Contained, StartError> {
        if self.kind == JailKind::Landlock {
            return Contained::start_ahead(self.jailed(spawn, &self.decision, &Wall::default())?, ahead)
                .await;
        }
        // Others wait until the first one has built the wall.
        let mut wall = self.wall.lock().await;
        let decision = wall.without_layers.as_ref().unwrap_or(&self.decision);
        if let Some(namespaces) = wall.namespaces.clone() {
            let spawn = self.jailed(spawn, decision, &wall)?;
            let diagnosis = wall.diagnosis.clone();
            drop(wall);
            let mut child = Contained::start_joined(spawn, ahead, &namespaces).await?;
            child.diagnose_by(diagnosis);
            return Ok(child);
        }
        let first = Contained::start_ahead(self.jailed(spawn.clone(), decision, &wall)?, ahead).await;
        let mut child = match first {
            Err(StartError::Layer { detail, source }) if wall.without_layers.is_none() => {
                tracing::debug!(target: "ostler::run", detail, %source, "layers do not work here");
                let decision = self.decision.without_layers();
                wall.without_layers = Some(decision.clone());
                Contained::start_ahead(self.jailed(spawn, &decision, &wall)?, None).await?
            }
            first => first?,
        };
        wall.namespaces = child.take_namespaces().map(Arc::new);
        wall.open(&mut child).map_err(self.fault("could not serve its network"))?;
        Ok(child)
    }

    fn jailed<'a>(
        &self,
        mut spawn: Spawn<'a>,
        decision: &RunJail,
        wall: &Wall,
    ) -> Result<Spawn<'a>, StartError> {
        let fault = |detail: &str| self.fault(detail);
        let make = |folders: &[PathBuf]| {
            create_directories(folders).map_err(fault("could not make its directories"))
        };
        make(&decision.create)?;
        copy_state(&decision.copies).map_err(fault("could not copy the agent's own files"))?;
        self.share_sign_in();
        decision.environment.change(&mut spawn.env);
        self.set_proxy(&mut spawn.env);
        let mut policy = decision.policy.clone();
        for (index, path) in wall.masks.iter().enumerate() {
            let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            let access = match is_directory {
                true => {
                    let source = self.empty.join(index.to_string());
                    make(std::slice::from_ref(&source))?;
                    Access::Substitute { source }
                }
                false => Access::Hidden,
            };
            policy.rules.push(Rule { path: path.clone(), access });
        }
        let network = wall.egress.as_ref().map(|egress| {
            let canary = self.canary.port().map_err(fault("could not find the port of its check"))?;
            Ok(JailNetwork { listen: egress.listen(), canary })
        });
        spawn.jail = Some(Jail { kind: self.kind, policy, network: network.transpose()? });
        Ok(spawn)
    }

    fn fault(&self, detail: &str) -> impl FnOnce(io::Error) -> StartError + use<> {
        let (kind, detail) = (self.kind, detail.to_owned());
        move |source| StartError::Jail { kind, detail, source: Some(source) }
    }

    /// Replaces the proxies of the user by that of the jail, which uses them.
    fn set_proxy(&self, env: &mut Vec<(OsString, OsString)>) {
        let Some(network) = &self.network else { return };
        env.retain(|(name, _)| network.variables.iter().all(|(set, _)| name != set));
        env.extend(network.variables.iter().map(|(name, value)| (name.into(), value.into())));
    }

    /// Keeps the agent's sign-in in step with the user's, from the first process on. Without it a run can use the sign-in
    /// all the same.
    fn share_sign_in(&self) {
        self.sign_in.get_or_init(|| {
            let started = SignInSync::start(self.decision.sign_in.as_ref()?);
            let fault = |error: &io::Error| {
                tracing::warn!(target: "ostler::run", %error, "the sign-in of a jailed agent is not kept in step");
            };
            started.inspect_err(fault).ok()
        });
    }

    /// Changes the variables of a process as the wall needs it. Idempotent.
    pub fn change_environment(&self, env: &mut Vec<(OsString, OsString)>) {
        self.decision.environment.change(env);
        self.set_proxy(env);
    }

    /// Where the host has what a process behind the wall finds at `path`.
    pub fn host_path(&self, path: &Path) -> PathBuf {
        self.substitutes().map_or_else(|| path.to_owned(), |policy| policy.host_path(path))
    }

    /// The policy, if other files are in the place of some.
    pub fn substitutes(&self) -> Option<&JailPolicy> {
        (self.kind == JailKind::Namespace).then_some(&self.decision.policy)
    }

    /// The program that a command would start outside, if it is not visible inside.
    pub fn hidden_program(
        &self,
        program: &str,
        env: &[(OsString, OsString)],
        workspace: &Path,
    ) -> Option<PathBuf> {
        let folders = env.iter().find(|(name, _)| name == "PATH").map(|(_, folders)| folders);
        self.hidden_path(&which::which_in(program, folders, workspace).ok()?)
    }

    /// What an absolute path leads to outside, if that is not visible inside.
    pub fn hidden_path(&self, path: &Path) -> Option<PathBuf> {
        let real = real_path(path).filter(|_| path.is_absolute())?;
        (!self.decision.shows(&real)).then_some(real)
    }
}

/// Starts a process behind the wall of its run, if that has one.
pub async fn start_in(
    jail: Option<&PlannedJail>,
    spawn: Spawn<'_>,
    ahead: Option<Ahead>,
) -> Result<Contained, StartError> {
    match jail {
        Some(jail) => jail.start(spawn, ahead).await,
        None => Contained::start_ahead(spawn, ahead).await,
    }
}
