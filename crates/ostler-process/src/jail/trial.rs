//! Whether a wall can be set on this machine: tried, because no setting says so for certain.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ostler_agent::jail::{Access, JailKind, JailPolicy, JailReport, Rule};

use super::{Canary, CanaryError, Jail, JailNetwork};
use crate::contain::{Contained, Exit, Spawn, StartError, Stdin};

/// What our own program needs to start.
const LIBRARIES: [&str; 5] = ["/usr", "/lib", "/lib64", "/nix", "/gnu"];

/// Why a wall cannot be set here.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The attempt could not be prepared.
    #[error(transparent)]
    Canary(#[from] CanaryError),
    /// The directory for the attempt could not be made.
    #[error("could not make a directory for the attempt")]
    Folder(#[source] std::io::Error),
    /// It could not be set, or does not hold.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It was set, and no program runs behind it.
    #[error("the wall stands, but a program behind it ended with {exit:?}")]
    Exit {
        /// How the program ended.
        exit: Exit,
    },
}

/// Sets a wall around a process of our own program, which prints its version, and says what the kernel enforces.
pub async fn try_wall(kind: JailKind, ostler: &Path) -> Result<JailReport, TrialError> {
    let folder = tempfile::tempdir().map_err(TrialError::Folder)?;
    let canary = Canary::create(folder.path())?;
    let port = canary.port().map_err(TrialError::Folder)?;
    let network = Some(JailNetwork { listen: Vec::new(), canary: port });
    let network = network.filter(|_| kind == JailKind::Namespace);
    let paths = LIBRARIES.into_iter().map(PathBuf::from).chain([ostler.to_owned()]);
    let rules = paths.map(|path| Rule { path, access: Access::Read }).collect();
    let spawn = Spawn {
        program: ostler.to_owned(),
        args: vec![OsString::from("--version")],
        env: Vec::new(),
        cwd: PathBuf::from("/"),
        stdin: Stdin::Null,
        run: "jail-trial",
        tier: None,
        jail: Some(Jail { kind, policy: JailPolicy { rules, canary: canary.path() }, network }),
        guard: ostler.to_owned(),
    };
    let mut child = Contained::start(spawn).await?;
    let exit = child.leader_exit().await;
    let report = child.jail().cloned();
    let _ = child.kill_all().await;
    match (exit, report) {
        (Exit::Code(0), Some(report)) => Ok(report),
        _ => Err(TrialError::Exit { exit }),
    }
}
