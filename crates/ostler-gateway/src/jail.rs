//! The wall around each process of a session. What it lets through is decided by whoever serves; here it is asked for, at
//! every start, because the workspace and its repository may have changed since the last one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_agent::agent::{Agent, Permissions};
use ostler_process::run::PlannedJail;

use crate::ground::{Ground, failed};
use crate::live::SessionFailure;

/// A process that is to be started.
pub struct SessionProcess {
    /// The agent.
    pub agent: &'static dyn Agent,
    /// Its program.
    pub program: PathBuf,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// Where it works: links resolved.
    pub workspace: PathBuf,
    /// Whether the workspace was made for this session alone.
    pub has_own_workspace: bool,
    /// The folder with what this session alone needs. It need not exist.
    pub private: PathBuf,
    /// The whole environment that it is started in, but for what its launch adds.
    pub env: Vec<(OsString, OsString)>,
}

/// Decides on the wall around processes of sessions.
pub trait Jailer: Send + Sync {
    /// The wall around a process; `None` if it has none. Reads files: not for the runtime's own thread.
    fn plan(&self, process: &SessionProcess) -> Result<Option<PlannedJail>, SessionFailure>;
}

/// No process has a wall.
pub struct Unjailed;

impl Jailer for Unjailed {
    fn plan(&self, _process: &SessionProcess) -> Result<Option<PlannedJail>, SessionFailure> {
        Ok(None)
    }
}

impl Ground {
    /// The wall around the next process of a session.
    pub(crate) async fn plan_jail(
        &self,
        id: &str,
        permissions: Permissions,
        workspace: &Path,
    ) -> Result<Option<PlannedJail>, SessionFailure> {
        let process = SessionProcess {
            agent: self.agent,
            program: self.program.clone(),
            permissions,
            workspace: workspace.to_owned(),
            has_own_workspace: self.has_made(workspace),
            private: self.private(id),
            env: self.env.clone(),
        };
        let jailer: Arc<dyn Jailer> = self.jailer.clone();
        let planned = tokio::task::spawn_blocking(move || jailer.plan(&process));
        planned.await.unwrap_or_else(|error| Err(failed(error.to_string())))
    }
}
