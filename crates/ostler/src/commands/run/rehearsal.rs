//! The stage of a rehearsed run: a scripted model for this run alone, and a home below the run's folder.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use ostler_agent::agent::{Agent, Setup, Stage};
use ostler_process::run::{RunError, rehearsed, write_private};
use ostler_rehearsal::log::{Entry, RequestLog};
use ostler_rehearsal::script::Play;
use ostler_rehearsal::{Rehearsal, Server};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::commands::rehearse::{RehearseError, keep, open_log};
use crate::failure::Failure;

/// A scripted model that is there until it is ended, or dropped.
pub(super) struct Rehearsed {
    setup: Setup,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Rehearsed {
    pub(super) async fn start(
        play: Play,
        agent: &dyn Agent,
        folder: &Path,
        workspace: &Path,
    ) -> Result<Self, Failure> {
        let requests = std::sync::Mutex::new(open_log(folder.join("requests.ndjson"))?);
        let log = RequestLog::new(move |entry: &Entry| keep(entry, &requests));
        let workspace = Some(workspace.display().to_string());
        let rehearsal = Rehearsal { workspace, log, ..Rehearsal::of(play) };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::listen(address, rehearsal).await.map_err(RehearseError::from)?;
        let stage = Stage::new(server.url(), folder.join("home"));
        let setup = agent.rehearsed(&stage);
        write_private(&stage.home, &setup.folders, &setup.files).map_err(RunError::from)?;
        let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
        serving.spawn(server.serve(stop.clone()));
        Ok(Self { setup, stop, serving })
    }

    pub(super) fn environment(
        &self,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        rehearsed(ours, &self.setup)
    }

    /// Ends it, and waits until it has.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        self.serving.join_next().await;
    }
}
