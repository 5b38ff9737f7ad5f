//! The wall around each process of a session, and what the process may load. Both are decided at every start, because the
//! workspace and its repository may have changed since the last one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_agent::agent::{Agent, Enforcement, Permissions};
use ostler_agent::jail::JailKind;
use ostler_agent::repository_config::Masking;
use ostler_process::file_scope::FileScope;
use ostler_process::run::PlannedJail;
use ostler_process::trust::Decision;

use crate::ground::{Ground, failed};
use crate::live::SessionFailure;

/// A process that is to be started.
pub struct SessionProcess {
    /// The agent.
    pub agent: &'static dyn Agent,
    /// Its program.
    pub program: PathBuf,
    /// What the wall lets it do.
    pub permissions: Permissions,
    /// Where it works: links resolved.
    pub workspace: PathBuf,
    /// Whether the workspace was made for this session alone.
    pub has_own_workspace: bool,
    /// The folder with what this session alone needs. It need not exist.
    pub private: PathBuf,
    /// Where it loads settings of a project from: the workspace, or a directory without any.
    pub project: PathBuf,
    /// The whole environment that it is started in, but for what its launch adds.
    pub env: Vec<(OsString, OsString)>,
}

/// Decides on the wall around processes of sessions.
pub trait Jailer: Send + Sync {
    /// The wall around processes with these permissions; `None` if they have none.
    fn wall(&self, permissions: Permissions) -> Result<Option<JailKind>, SessionFailure>;

    /// The wall around a process, which is of the kind that [`Jailer::wall`] says. Reads files: not for the runtime's own
    /// thread.
    fn plan(&self, process: &SessionProcess) -> Result<Option<PlannedJail>, SessionFailure>;

    /// Which files the host opens for processes behind the wall.
    fn files(&self) -> FileScope {
        FileScope::Anywhere
    }
}

/// No process has a wall.
pub struct Unjailed;

impl Jailer for Unjailed {
    fn wall(&self, _permissions: Permissions) -> Result<Option<JailKind>, SessionFailure> {
        Ok(None)
    }

    fn plan(&self, _process: &SessionProcess) -> Result<Option<PlannedJail>, SessionFailure> {
        Ok(None)
    }
}

/// What a process may do, and who decides beyond that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// What it may do without asking.
    pub(crate) permissions: Permissions,
    /// Whether a client is asked for more, and the agent therefore has to ask.
    pub(crate) asks_client: bool,
}

impl Grant {
    /// For an agent whose questions policy answers.
    pub(crate) fn without_questions(permissions: Permissions) -> Self {
        Self { permissions, asks_client: false }
    }

    /// What the wall must let through: also what a client may allow, but never more than changes of the workspace.
    fn jailed_permissions(self) -> Permissions {
        match (self.asks_client, self.permissions) {
            (true, Permissions::Deny) => Permissions::Edits,
            (_, permissions) => permissions,
        }
    }

    /// Who enforces the permissions behind this wall. An agent that may do everything inside a jail would never ask.
    fn enforcement(self, wall: Option<JailKind>) -> Enforcement {
        match (wall, self.asks_client) {
            (Some(_), false) => Enforcement::Kernel,
            (Some(_), true) | (None, _) => Enforcement::Agent,
        }
    }
}

/// What confines a process.
pub(crate) struct Confinement {
    /// Whether it may load what the repository brings.
    pub(crate) trust: Decision,
    /// Who enforces its permissions.
    pub(crate) enforcement: Enforcement,
    /// The wall around it.
    pub(crate) jail: Option<Arc<PlannedJail>>,
}

impl Ground {
    /// What will confine the next process in a workspace; nothing is prepared for it.
    pub(crate) fn check_confinement(
        &self,
        grant: Grant,
        workspace: Option<&Path>,
    ) -> Result<(Decision, Enforcement), SessionFailure> {
        let wall = self.jailer.wall(grant.jailed_permissions())?;
        let trust = match workspace {
            None => Decision::Nothing,
            Some(workspace) => self.trust.decide(self.agent, workspace, masking(wall))?,
        };
        Ok((trust, grant.enforcement(wall)))
    }

    /// What confines the next process of a session.
    pub(crate) async fn confine(
        &self,
        id: &str,
        grant: Grant,
        workspace: &Path,
    ) -> Result<Confinement, SessionFailure> {
        let mut process = SessionProcess {
            agent: self.agent,
            program: self.program.clone(),
            permissions: grant.jailed_permissions(),
            workspace: workspace.to_owned(),
            has_own_workspace: self.has_made(workspace),
            private: self.private(id),
            project: self.private(id),
            env: self.env.clone(),
        };
        let (jailer, trust): (Arc<dyn Jailer>, _) = (self.jailer.clone(), self.trust.clone());
        let state_folder = self.state_folder(id, workspace);
        let planned = tokio::task::spawn_blocking(move || {
            let wall = jailer.wall(process.permissions)?;
            let trust = trust.decide(process.agent, &process.workspace, masking(wall))?;
            if matches!(trust, Decision::Nothing | Decision::Trusted(_)) {
                process.project.clone_from(&process.workspace);
            }
            let jail = jailer.plan(&process)?;
            for text in jail.iter().flat_map(|jail| &jail.decision.warnings) {
                tracing::warn!(target: "ostler::pool", agent = process.agent.name(), "{text}");
            }
            let jail = jail.map(|jail| {
                let private = real_private(&process.private);
                let jail = jail.with_masks(trust.masks(), &private);
                // The agent's own directories are private already, but for those of a rehearsal.
                let is_shared = |folder: &PathBuf| {
                    jail.host_path(folder) == *folder && is_real_directory(folder, &jail.files)
                };
                match state_folder.filter(is_shared) {
                    Some(folder) => jail.with_own_directory(folder, private.join("terminal")),
                    None => jail,
                }
            });
            Ok(Confinement { trust, enforcement: grant.enforcement(wall), jail: jail.map(Arc::new) })
        });
        planned.await.unwrap_or_else(|error| Err(failed(error.to_string())))
    }
}

/// The private folder of a session with links resolved. It need not exist; the one above it does where there is a jail.
fn real_private(private: &Path) -> PathBuf {
    let above = private.parent().and_then(|above| above.canonicalize().ok());
    above.zip(private.file_name()).map_or_else(|| private.to_owned(), |(above, name)| above.join(name))
}

/// Whether a directory is there, if need be made, and reached without a link.
fn is_real_directory(path: &Path, files: &FileScope) -> bool {
    files.create_directory(path).is_ok() && path.canonicalize().is_ok_and(|real| real == path)
}

/// Only namespaces can mask files.
fn masking(wall: Option<JailKind>) -> Masking {
    match wall {
        Some(JailKind::Namespace) => Masking::InPlace,
        Some(JailKind::Landlock) | None => Masking::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_asks_has_a_wall_that_lets_through_what_a_client_may_allow() {
        use Permissions::{All, Deny, Edits};
        let (wall, none) = (Some(JailKind::Namespace), None);
        let table = [
            ((Deny, false), Deny, wall, Enforcement::Kernel),
            ((Edits, false), Edits, wall, Enforcement::Kernel),
            ((Edits, false), Edits, none, Enforcement::Agent),
            ((Deny, true), Edits, wall, Enforcement::Agent),
            ((Edits, true), Edits, wall, Enforcement::Agent),
            ((All, true), All, none, Enforcement::Agent),
        ];
        for ((permissions, asks_client), jailed, wall, enforcement) in table {
            let grant = Grant { permissions, asks_client };
            assert_eq!(grant.jailed_permissions(), jailed, "{grant:?}");
            assert_eq!(grant.enforcement(wall), enforcement, "{grant:?}");
        }
    }
}
