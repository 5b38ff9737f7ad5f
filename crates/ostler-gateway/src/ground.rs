//! What sessions of every engine stand on: the agent's program, the environment it is started in, a folder for each
//! conversation that has none, and the agent's own record of a session, which is written before one that is to know a
//! history, and read before one is revived.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_agent::agent::{Agent, TranscriptPlace, Whereabouts};
use ostler_agent::canonical::Message;
use ostler_agent::leasing::{Place, Terms};
use ostler_agent::repository_config::Masking;
use ostler_process::contain::{Standby, Survivors};
use ostler_process::seeding::seed;
use ostler_process::trust::{Decision, Gate, InstructionScope};

use crate::jail::Jailer;
use crate::live::{Keepsake, Phase, SessionFailure};
use crate::session_memory::SessionMemory;
use crate::tenants::Tenants;

/// What sessions of an agent need.
#[derive(Clone)]
pub struct Ground {
    /// The agent.
    pub agent: &'static dyn Agent,
    /// Its program.
    pub program: PathBuf,
    /// The whole environment that it is started in.
    pub env: Vec<(OsString, OsString)>,
    /// The home directory of whoever runs it.
    pub home: PathBuf,
    /// A folder of ours, for what sessions need. It need not exist.
    pub folder: PathBuf,
    /// Our own binary, which guards it; one waits for the next start.
    pub guard: Standby,
    /// Whether it may load what a repository brings for it.
    pub trust: TrustGate,
    /// Decides on the wall around each of its processes.
    pub jailer: Arc<dyn Jailer>,
    /// Prepares the same for tenants.
    pub tenants: Arc<dyn Tenants>,
    /// What sessions are remembered in, for a key that has a memory.
    pub memory: Option<Arc<dyn SessionMemory>>,
}

/// Decides whether agents may load what a repository brings, and reports once what they may not. Nobody is asked.
#[derive(Debug, Clone)]
pub struct TrustGate {
    gate: Gate,
    report: fn(&str),
    reported: Arc<Mutex<BTreeSet<String>>>,
}

/// Records that are longer are not compared with a conversation: its history is injected instead.
const LONGEST_RECORD: u64 = 256 * 1024 * 1024;

/// Warnings that are remembered. Past this number, no new ones are reported.
const MOST_REPORTED: usize = 1024;

impl TrustGate {
    /// By this gate; `report` prints a warning.
    pub fn new(gate: Gate, report: fn(&str)) -> Self {
        Self { gate, report, reported: Arc::default() }
    }

    /// The same for agents of tenants, which see nothing above their workspace.
    pub fn for_tenants(&self) -> Self {
        let gate = Gate { instructions: InstructionScope::Workspace, ..self.gate.clone() };
        Self { gate, ..self.clone() }
    }

    /// Whether an agent that works there may load what is for it. Reads files: not for the runtime's own thread.
    pub(crate) fn decide(
        &self,
        agent: &dyn Agent,
        workspace: &Path,
        masking: Masking,
    ) -> Result<Decision, SessionFailure> {
        let decided = Gate { masking, ..self.gate.clone() }.decide(agent, workspace);
        let decision = decided.map_err(|error| failure(&error, error.hint()))?;
        if let Some(warning) = decision.warning() {
            let text = format!("{}: {warning}", workspace.display());
            tracing::warn!(target: "ostler::pool", agent = agent.name(), "{text}");
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.len() < MOST_REPORTED && reported.insert(text.clone()) {
                (self.report)(&text);
            }
        }
        Ok(decision)
    }
}

/// Where a session works, and what was made for it.
pub(crate) struct Workplace {
    /// Removed unless a session takes it.
    pub(crate) own: Option<Own>,
    pub(crate) path: PathBuf,
}

impl Ground {
    /// A place for a new session.
    pub(crate) fn place(&self, terms: &Terms, id: &str) -> Result<Workplace, SessionFailure> {
        match &terms.workspace {
            Place::Own => {
                let path = made(&self.workspaces().join(id))?;
                Ok(Workplace { own: Some(Own(path.clone())), path })
            }
            Place::Folder(path) => Ok(Workplace { own: None, path: path.clone() }),
        }
    }

    /// The place of a session that is revived. What was made for it stays whatever becomes of it.
    pub(crate) fn place_of(&self, terms: &Terms, keepsake: &Keepsake) -> Result<PathBuf, SessionFailure> {
        let path = match (&keepsake.folder, &terms.workspace) {
            (Some(own), _) => own.clone(),
            (None, Place::Folder(path)) => path.clone(),
            (None, Place::Own) => return Err(failed("its folder is not known".to_owned())),
        };
        if path.is_dir() { Ok(path) } else { Err(failed(format!("there is no folder {}", path.display()))) }
    }

    /// Where workspaces are that were made for sessions.
    fn workspaces(&self) -> PathBuf {
        self.folder.join("workspaces")
    }

    /// Whether a workspace was made for a session.
    pub(crate) fn has_made(&self, workspace: &Path) -> bool {
        let real = self.workspaces().canonicalize();
        real.is_ok_and(|real| workspace.parent() == Some(&real))
    }

    /// Files that a session needs, and nobody else.
    pub(crate) fn private(&self, id: &str) -> PathBuf {
        self.folder.join("private").join(id)
    }

    /// Writes the record of a session that is to know this.
    pub(crate) fn seed(
        &self,
        workspace: &Path,
        id: &str,
        model: Option<&str>,
        prior: &[Message],
    ) -> Result<(), SessionFailure> {
        let variable = |name: &str| self.variable(name);
        let whereabouts = Whereabouts { home: &self.home, variable: &variable, workspace, session: id };
        let seeded = seed(self.agent, &whereabouts, model, prior, &self.jailer.files());
        seeded.map(drop).map_err(|error| failure(&error, error.hint()))
    }

    /// Where the agent's own record of a session is.
    pub(crate) fn record(&self, workspace: &Path, id: &str) -> Option<PathBuf> {
        let variable = |name: &str| self.variable(name);
        let whereabouts = Whereabouts { home: &self.home, variable: &variable, workspace, session: id };
        match self.agent.transcript(&whereabouts) {
            Some(TranscriptPlace::File { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// The directory in which each terminal program says what it is doing. Claude Code removes the files of processes that it
    /// cannot signal, as it cannot from one jail to another: every jail has one of its own.
    pub(crate) fn state_folder(&self, id: &str, workspace: &Path) -> Option<PathBuf> {
        let variable = |name: &str| self.variable(name);
        let whereabouts = Whereabouts { home: &self.home, variable: &variable, workspace, session: id };
        let file = self.agent.interactive()?.state_file(&whereabouts, 0);
        file.parent().map(Path::to_owned)
    }

    /// Whether the agent's own record of a session is what it is taken to know.
    pub(crate) async fn check(
        &self,
        workspace: &Path,
        id: &str,
        knows: impl Fn(&[Message]) -> bool,
    ) -> Result<(), SessionFailure> {
        let record = self.record(workspace, id).ok_or_else(|| failed("it has no record".to_owned()))?;
        let (agent, files) = (self.agent, self.jailer.files());
        // It can be long.
        let read = tokio::task::spawn_blocking(move || {
            let content = files.read(&record, LONGEST_RECORD)?;
            io::Result::Ok(agent.recorded(&String::from_utf8_lossy(&content)))
        });
        let messages = match read.await {
            Ok(Ok(Some(messages))) => messages,
            Ok(Ok(None)) => return Err(failed("its record cannot be read".to_owned())),
            Ok(Err(error)) => return Err(failed(format!("its record cannot be read: {error}"))),
            Err(error) => return Err(failed(format!("its record cannot be read: {error}"))),
        };
        if knows(&messages) {
            Ok(())
        } else {
            Err(failed("its record is of another conversation".to_owned()))
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        let found = self.env.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.to_str().map(str::to_owned))
    }
}

/// Removes what a server that was killed has left behind in a folder for sessions, but for these folders. Only for whoever
/// has the sessions there to himself.
pub fn tidy(folder: &Path, keep: &[PathBuf]) {
    for kind in ["workspaces", "private"] {
        let Ok(entries) = std::fs::read_dir(folder.join(kind)) else { continue };
        for path in entries.filter_map(|entry| entry.ok()?.path().canonicalize().ok()) {
            if !keep.contains(&path) {
                remove(&path);
            }
        }
    }
}

pub(crate) fn failed(detail: String) -> SessionFailure {
    SessionFailure { phase: Phase::Start, detail, hint: None }
}

/// Why a session does not start, and what to try.
pub fn failure(error: &dyn std::error::Error, hint: Option<String>) -> SessionFailure {
    SessionFailure { hint, ..SessionFailure::of(Phase::Start, error) }
}

/// A folder for its owner alone, with links resolved.
fn made(path: &Path) -> Result<PathBuf, SessionFailure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.and_then(|()| path.canonicalize())
        .map_err(|error| failed(format!("could not make {}: {error}", path.display())))
}

/// A folder that is removed unless a session takes it.
pub(crate) struct Own(PathBuf);

impl Own {
    pub(crate) fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            remove(&self.0);
        }
    }
}

/// Says so if processes of a session are left.
pub(crate) fn told(survivors: Survivors) {
    if survivors.0 > 0 {
        tracing::error!(target: "ostler::pool", left = survivors.0, "processes of a session could not be ended");
    }
}

/// Removes a folder where that keeps nobody waiting: an agent may have put very many files there. When this returns it is
/// gone; who does not wait for that does not stop it.
pub(crate) async fn removed(folder: PathBuf) {
    // Only a runtime that ends does not do it; what is left then is removed at the next start.
    let _ = tokio::task::spawn_blocking(move || remove(&folder)).await;
}

/// The same, here and now: not for the runtime's own thread.
pub(crate) fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(target: "ostler::pool", %error, "the folder of a session could not be removed");
    }
}
