//! A server that is rehearsed: its model is scripted.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ostler_agent::agent::{Agent, Stage};
use ostler_process::run::{RunError, rehearsed, write_private};
use ostler_rehearsal::{Rehearsal, Server, script};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::commands::rehearse::RehearseError;
use crate::failure::Failure;

/// A scripted model, and a home that is nobody's.
pub(super) struct Scene {
    /// With the home, and the folder of the server beside it.
    pub(super) folder: TempDir,
    pub(super) url: String,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Scene {
    pub(super) async fn set(name: &str) -> Result<Self, Failure> {
        let play = script::load(name).map_err(RehearseError::from)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::listen(address, Rehearsal::of(play)).await.map_err(RehearseError::from)?;
        let folder = tempfile::Builder::new().prefix("ostler-serve-").tempdir().map_err(Failure::Runtime)?;
        let (stop, mut serving, url) = (CancellationToken::new(), JoinSet::new(), server.url());
        serving.spawn(server.serve(stop.clone()));
        Ok(Self { folder, url, stop, serving })
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// What an agent is started with, and its settings in the home.
    pub(super) fn env(
        &self,
        agent: &dyn Agent,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Vec<(OsString, OsString)>, Failure> {
        let home = self.home();
        let setup = agent.rehearsed(&Stage::new(self.url.as_str(), home.as_path()));
        write_private(&home, &setup.folders, &setup.files).map_err(RunError::from)?;
        Ok(rehearsed(ours, &setup))
    }

    pub(super) async fn strike(mut self) {
        self.stop.cancel();
        self.serving.join_next().await;
    }
}
