//! The wall around served sessions: that of a run at the same level. Which one this machine can set is tried when the server
//! starts; what it lets through is decided at every start of a process.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ostler_agent::agent::Permissions;
use ostler_agent::jail::{ConfigWrites, JailKind, JailLevel, Resident};
use ostler_gateway::ground::failure;
use ostler_gateway::jail::{Jailer, SessionProcess};
use ostler_gateway::live::SessionFailure;
use ostler_process::run::{PlannedJail, agent_network};

use crate::jailing::{JailFault, JailTerms, NoWall, Prisoner, best_wall, limit_network, plan_jail};
use crate::surroundings::Surroundings;

/// What is printed where the user wants no jail.
const NO_JAIL: &str = "sessions have no jail: agents enforce their permissions by their own means";

/// Decides on the wall around processes of served sessions.
pub(super) struct ServeJailer {
    pub(super) here: Surroundings,
    /// The folder with the private folders of sessions. What a killed server leaves there is removed at the next start.
    pub(super) folder: PathBuf,
    /// Our own binary.
    pub(super) ostler: PathBuf,
    /// The home directory of a rehearsal.
    pub(super) rehearsal_home: Option<PathBuf>,
    pub(super) terms: JailTerms,
    pub(super) wall: ServedWall,
}

/// The wall around sessions that may not do everything.
#[derive(Debug)]
pub(super) enum ServedWall {
    /// None, because the user wants none.
    Off,
    /// This one.
    Set(JailKind),
    /// None can be set: such sessions are refused.
    Refused(NoWall),
}

impl ServedWall {
    /// Tries which wall this machine can set. Also returns a warning if it is weaker than namespaces.
    pub(super) async fn choose(
        terms: &JailTerms,
        ostler: &Path,
        here: &Surroundings,
    ) -> Result<(Self, Option<String>), JailFault> {
        let off = || (Self::Off, Some(NO_JAIL.to_owned()));
        if terms.is_off {
            return Ok(off());
        }
        match best_wall(ostler, here).await {
            Ok(None) => Ok(off()),
            Ok(Some(wall)) => Ok((Self::Set(wall.kind), wall.warning)),
            Err(JailFault::NoWall(no_wall)) => {
                let warning = format!("sessions are refused: {no_wall}; {}", no_wall.hint());
                Ok((Self::Refused(no_wall), Some(warning)))
            }
            Err(fault) => Err(fault),
        }
    }
}

impl Jailer for ServeJailer {
    fn wall(&self, permissions: Permissions) -> Result<Option<JailKind>, SessionFailure> {
        match &self.wall {
            _ if JailLevel::of(permissions).is_none() => Ok(None),
            ServedWall::Off => Ok(None),
            ServedWall::Set(kind) => Ok(Some(*kind)),
            ServedWall::Refused(no_wall) => Err(failure(no_wall, Some(no_wall.hint()))),
        }
    }

    fn plan(&self, process: &SessionProcess) -> Result<Option<PlannedJail>, SessionFailure> {
        let Some(kind) = self.wall(process.permissions)? else { return Ok(None) };
        let jailed = JailedFor {
            resident: Resident::User,
            permissions: process.permissions,
            config_writes: self.terms.config_writes,
            home: self.rehearsal_home.as_deref(),
        };
        let jail = self.plan_for(process, kind, &jailed)?;
        let network = agent_network(process.agent, &process.env, &process.project, &[]);
        let limit = |jail| limit_network(jail, &self.terms.net, &network, &process.env);
        jail.map(limit).transpose().map_err(|fault| failure(&fault, fault.hint()))
    }
}

/// For whom a process of a session is jailed.
pub(super) struct JailedFor<'a> {
    pub(super) resident: Resident,
    pub(super) permissions: Permissions,
    pub(super) config_writes: ConfigWrites,
    /// A home directory that Ostler made.
    pub(super) home: Option<&'a Path>,
}

impl ServeJailer {
    /// The wall around a process, which is of this kind.
    pub(super) fn plan_for(
        &self,
        process: &SessionProcess,
        kind: JailKind,
        jailed: &JailedFor<'_>,
    ) -> Result<Option<PlannedJail>, SessionFailure> {
        let workspace = Some(process.workspace.clone()).filter(|_| process.has_own_workspace);
        let own: Vec<PathBuf> = jailed.home.map(Path::to_owned).into_iter().chain(workspace).collect();
        let terms = JailTerms { config_writes: jailed.config_writes, ..self.terms.clone() };
        let prisoner = Prisoner {
            resident: jailed.resident,
            agent: process.agent,
            permissions: jailed.permissions,
            workspace: &process.workspace,
            program: &process.program,
            ostler: &self.ostler,
            env: &process.env,
            folder: &self.folder,
            private: &process.private,
            own: &own,
            has_layers: false,
            terms: &terms,
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| failure(&error, None))?;
        plan_jail(&prisoner, kind, &self.here).map_err(|fault| failure(&fault, fault.hint()))
    }
}
