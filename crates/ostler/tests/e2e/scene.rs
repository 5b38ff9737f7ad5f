//! A real agent behind `ostler serve`, and the scripted model before which it stands: what the model is told is heard.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::agent::Stage;
use ostler_agent::document::Format;
use ostler_process::run::write_private;
use ostler_rehearsal::{Rehearsal, Server, script};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::player::Player;
use crate::serve::Served;
use crate::tap::Tap;

/// How long anything may take: a loaded machine needs many times what it takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A scripted model, and what an agent needs to talk to it.
pub(crate) struct Scene {
    pub(crate) player: Player,
    pub(crate) tap: Tap,
    /// The agent's own home.
    pub(crate) home: TempDir,
    program: PathBuf,
    env: Vec<(String, String)>,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Scene {
    async fn set(player: Player, play: &str) -> Option<Self> {
        let program = player.binary()?;
        let home = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
        let play = script::parse("test", play, Format::Toml).unwrap();
        let server =
            Server::listen(SocketAddr::from(([127, 0, 0, 1], 0)), Rehearsal::of(play)).await.unwrap();
        let tap = Tap::before(&server.url()).await;
        let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
        serving.spawn(server.serve(stop.clone()));
        let setup = player.agent().rehearsed(&Stage::new(tap.url.as_str(), home.path()));
        write_private(home.path(), &setup.folders, &setup.files).unwrap();
        let mut env = setup.env;
        let name = player.agent().name().to_uppercase().replace('-', "_");
        env.push((format!("OSTLER_CFG__AGENTS__{name}__PROGRAM"), program.display().to_string()));
        Some(Self { player, tap, home, program, env, stop, serving })
    }

    fn env(&self) -> Vec<(&str, &str)> {
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// A server.
    pub(crate) fn served(&self) -> Served {
        self.served_with(&[])
    }

    /// A server with these arguments.
    pub(crate) fn served_with(&self, args: &[&str]) -> Served {
        Served::with(&self.program, args, &self.env())
    }

    /// A server with further settings.
    pub(crate) fn served_under(&self, settings: &[(&str, &str)]) -> Served {
        Served::with(&self.program, &[], &[&self.env()[..], settings].concat())
    }

    /// A server on a home that exists already, used with a key that it has.
    pub(crate) fn served_at(&self, home: TempDir, key: &str) -> Served {
        Served::at(home, Some(key.to_owned()), &self.program, &[], &self.env())
    }

    /// Ends a server so, and starts another one with what it left.
    pub(crate) fn again(&self, served: Served, signal: Signal) -> Served {
        served.again(signal, &self.program, &[], &self.env())
    }
}

/// Plays with this agent and a model that does as the script says. Nothing, where the agent is not.
pub(crate) async fn played(player: Player, script: &str, play: impl FnOnce(&Scene) + Send + 'static) {
    let Some(scene) = Scene::set(player, script).await else { return };
    let scene = tokio::task::spawn_blocking(move || {
        play(&scene);
        scene
    });
    let mut scene = scene.await.unwrap();
    scene.stop.cancel();
    tokio::time::timeout(DEADLINE, scene.serving.join_next()).await.unwrap().unwrap().unwrap();
}
