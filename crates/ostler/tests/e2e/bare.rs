//! Claude Code by itself, in every version: started as Ostler starts it, without a run around it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_agent::agent::{
    Agent, Permissions, Session, Stage as Place, Stdin, Task, TranscriptPlace, Whereabouts,
};
use ostler_agent::agents::ClaudeTerminal;
use ostler_agent::document::Format;
use ostler_agent::history::History;
use ostler_process::contain::{self, Contained, Spawn, Survivors};
use ostler_process::file_scope::FileScope;
use ostler_process::seeding::{Seeded, seed};
use ostler_process::terminal::pty::Size;
use ostler_process::terminal::session::{Opening, Session as Live};
use ostler_rehearsal::{Rehearsal, Server, script};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::player::{Player, variables};
use crate::tap::Tap;

/// A start, a turn and an end take a few seconds; a loaded machine needs many times that.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// How often a file is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The real programs: the pinned one, and a newer one.
pub(crate) fn programs() -> Vec<PathBuf> {
    let players = [Player::ClaudeTerminal, Player::ClaudeTerminalNewer];
    players.into_iter().filter_map(Player::binary).collect()
}

/// A home, a workspace, a scripted model, and what it is told.
pub(crate) struct Ground {
    pub(crate) folder: TempDir,
    pub(crate) tap: Tap,
    pub(crate) env: Vec<(String, String)>,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Ground {
    pub(crate) async fn of(agent: &dyn Agent, script: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
        for name in ["home", "workspace", "private"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let play = script::parse("test", script, Format::Toml).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::listen(address, Rehearsal::of(play)).await.unwrap();
        let tap = Tap::before(&server.url()).await;
        let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
        serving.spawn(server.serve(stop.clone()));
        let place = Place::new(tap.url.as_str(), folder.path().join("home"));
        let setup = agent.rehearsed(&place);
        for path in setup.folders {
            std::fs::create_dir_all(path).unwrap();
        }
        write(setup.files.iter().map(|file| (&*file.path, &*file.content)));
        let mut env = setup.env;
        env.push(("PATH".to_owned(), "/usr/bin:/bin".to_owned()));
        Self { folder, tap, env, stop, serving }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace").canonicalize().unwrap()
    }

    pub(crate) fn seed(&self, agent: &dyn Agent, session: &str, history: &History) -> Seeded {
        let variable = |name: &str| self.variable(name);
        let (home, workspace) = (self.folder.path().join("home"), self.workspace());
        let whereabouts = Whereabouts { home: &home, variable: &variable, workspace: &workspace, session };
        seed(agent, &whereabouts, None, &history.sound(), &FileScope::Anywhere).unwrap()
    }

    /// One turn of the terminal program, to its end record; nothing of it is left. The prompt is an argument here: how
    /// it is typed is another test's matter. Returns the record of the session.
    pub(crate) async fn turn_on_a_terminal(
        &self,
        program: &Path,
        session: Session<'_>,
        permissions: Permissions,
        prompt: &str,
    ) -> Vec<Value> {
        let (workspace, private) = (self.workspace(), self.folder.path().join("private"));
        let (guard, extra) =
            (PathBuf::from(env!("CARGO_BIN_EXE_ostler")), ["--".to_owned(), prompt.to_owned()]);
        let task = Task {
            session,
            permissions,
            extra: &extra,
            answerer: Some(&guard),
            ..Task::new("", &workspace, &private)
        };
        let launch = ClaudeTerminal.launch(&task).unwrap();
        assert_eq!(launch.stdin, Stdin::Terminal);
        write(launch.files.iter().map(|file| (&*file.path, &*file.content)));
        let (Session::Minted(id) | Session::Resumed(id)) = session else { panic!("a session with an id") };
        let record = self.record(id);
        let (added, run) = (variables(&launch), format!("bare-{id}"));
        let env = self.env.iter().chain(&added);
        let mut contained = Contained::start(Spawn {
            program: program.to_owned(),
            args: launch.args.iter().map(OsString::from).collect(),
            env: env.map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: workspace,
            stdin: contain::Stdin::Terminal(Size::USUAL),
            run: &run,
            tier: None,
            jail: None,
            guard: guard.clone(),
        })
        .await
        .unwrap();
        let terminal = contained.terminal.take().unwrap();
        let mut screen = Vec::new();
        let turn = async {
            let mut buffer = [0; 4096];
            loop {
                tokio::select! {
                    count = terminal.read(&mut buffer) => {
                        let count = count.unwrap();
                        screen.extend_from_slice(&buffer[..count]);
                        assert_ne!(count, 0, "it ended: {}", String::from_utf8_lossy(&screen));
                    }
                    () = tokio::time::sleep(LOOK) => {
                        let written = std::fs::read_to_string(&record).unwrap_or_default();
                        if written.contains("\"turn_duration\"") {
                            return;
                        }
                    }
                }
            }
        };
        let ended = tokio::time::timeout(DEADLINE, turn).await;
        assert!(ended.is_ok(), "{}: {}", program.display(), String::from_utf8_lossy(&screen));
        assert_eq!(contained.kill_all().await, Survivors(0));
        let written = std::fs::read_to_string(&record).unwrap();
        // What was killed may have left the beginning of a line.
        written.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// A live session: a new one, or one that goes on with what was written.
    pub(crate) async fn opened(&self, program: &Path, session: Session<'_>) -> Live {
        let (workspace, private) = (self.workspace(), self.folder.path().join("private"));
        let (Session::Minted(id) | Session::Resumed(id)) = session else { panic!("a session with an id") };
        let task = Task { session, ..Task::new("", &workspace, &private) };
        let launch = ClaudeTerminal.launch(&task).unwrap();
        write(launch.files.iter().map(|file| (&*file.path, &*file.content)));
        let env = self.env.iter().chain(&launch.env);
        let opened = Live::open(Opening {
            agent: &ClaudeTerminal,
            program: program.to_owned(),
            args: launch.args.iter().map(OsString::from).collect(),
            env: env.map(|(name, value)| (name.into(), value.into())).collect(),
            workspace: workspace.clone(),
            permissions: task.permissions,
            session: Some(id.to_owned()),
            size: Size::USUAL,
            name: "injection",
            guard: PathBuf::from(env!("CARGO_BIN_EXE_ostler")),
            jail: None,
        });
        tokio::time::timeout(DEADLINE, opened).await.unwrap().unwrap()
    }

    /// Where the record of a session is.
    fn record(&self, session: &str) -> PathBuf {
        let (home, workspace) = (self.folder.path().join("home"), self.workspace());
        let whereabouts = Whereabouts {
            home: &home,
            variable: &|name| self.variable(name),
            workspace: &workspace,
            session,
        };
        let place = ClaudeTerminal.transcript(&whereabouts);
        let Some(TranscriptPlace::File { path, .. }) = place else { panic!("it has one") };
        path
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    pub(crate) async fn strike(mut self) {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.serving.join_next()).await.unwrap().unwrap().unwrap();
    }
}

fn write<'a>(files: impl Iterator<Item = (&'a Path, &'a str)>) {
    for (path, content) in files {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}
