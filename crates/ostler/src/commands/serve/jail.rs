//! The wall around served sessions: that of a run at the same level, decided at every start of a process.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use ostler_gateway::ground::failure;
use ostler_gateway::jail::{Jailer, SessionProcess};
use ostler_gateway::live::SessionFailure;
use ostler_process::run::PlannedJail;

use crate::jailing::{JailTerms, Prisoner, forced_wall, plan_jail};
use crate::surroundings::Surroundings;

/// Decides on the wall around processes of served sessions.
pub(super) struct ServeJailer {
    pub(super) here: Surroundings,
    /// The folder with the private folders of sessions. What a killed server leaves there is removed at the next start.
    pub(super) folder: PathBuf,
    /// Our own binary.
    pub(super) ostler: PathBuf,
    /// The home directory of a rehearsal.
    pub(super) rehearsal_home: Option<PathBuf>,
}

impl Jailer for ServeJailer {
    fn plan(&self, process: &SessionProcess) -> Result<Option<PlannedJail>, SessionFailure> {
        let workspace = Some(process.workspace.clone()).filter(|_| process.has_own_workspace);
        let own: Vec<PathBuf> = self.rehearsal_home.iter().cloned().chain(workspace).collect();
        let prisoner = Prisoner {
            agent: process.agent,
            permissions: process.permissions,
            workspace: &process.workspace,
            program: &process.program,
            ostler: &self.ostler,
            env: &process.env,
            folder: &self.folder,
            private: &process.private,
            own: &own,
            has_layers: false,
            terms: &JailTerms::default(),
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| failure(&error, None))?;
        let wall = forced_wall(&self.here).map_err(|fault| failure(&fault, fault.hint()))?;
        let Some(kind) = wall else { return Ok(None) };
        plan_jail(&prisoner, kind, &self.here).map_err(|fault| failure(&fault, fault.hint()))
    }
}
