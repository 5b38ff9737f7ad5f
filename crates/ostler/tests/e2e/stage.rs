//! A stage: a scripted model, a workspace, a private home, and one real agent after the other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use ostler_agent::agent::{Order, Permissions, Session, Setup, Stage as Place, Stdin, Task};
use ostler_agent::document::Format;
use ostler_rehearsal::log::{Entry, Played, RequestLog};
use ostler_rehearsal::script::{self, Play};
use ostler_rehearsal::{Rehearsal, Server};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::player::{Player, variables};
use crate::sweep::{MARK, gone, sweep};

/// The slowest play here takes under a minute alone; twice that and more under load.
const DEADLINE: Duration = Duration::from_secs(600);

/// A process that was killed, or whose parent just ended, needs a moment to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Stage {
    player: Player,
    binary: PathBuf,
    folder: TempDir,
    url: String,
    entries: watch::Receiver<Vec<Entry>>,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

/// How often a file is looked at for the end of a turn. It is a file, so nobody tells when it grows.
const LOOK: Duration = Duration::from_millis(20);

/// What a play came to.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) records: Vec<Value>,
    pub(crate) stderr: String,
}

impl Stage {
    /// A stage for a script written here, or nothing if the agent is missing and may be.
    pub(crate) async fn with(player: Player, script: &str) -> Option<Self> {
        Self::of(player, script::parse("test", &format!("v = 1\n{script}"), Format::Toml).unwrap()).await
    }

    /// A stage for a built-in script, likewise.
    pub(crate) async fn with_builtin(player: Player, name: &str) -> Option<Self> {
        Self::of(player, script::load(name).unwrap()).await
    }

    async fn of(player: Player, play: Play) -> Option<Self> {
        let binary = player.binary()?;
        let folder = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
        for name in ["workspace", "home"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let (told, entries) = watch::channel(Vec::new());
        let mut rehearsal = Rehearsal::of(play);
        rehearsal.log = RequestLog::new(move |entry: &Entry| {
            told.send_modify(|all: &mut Vec<Entry>| all.push(entry.clone()));
        });
        let server = Server::listen(SocketAddr::from(([127, 0, 0, 1], 0)), rehearsal).await.unwrap();
        let (url, stop) = (server.url(), CancellationToken::new());
        let mut serving = JoinSet::new();
        serving.spawn(server.serve(stop.clone()));
        Some(Self { player, binary, folder, url, entries, stop, serving })
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// A file that the agent should have written.
    pub(crate) fn file(&self, name: &str) -> String {
        let path = self.workspace().join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The requests of the conversation itself, without those that need no script.
    pub(crate) fn requests(&self) -> Vec<Entry> {
        self.entries.borrow().iter().filter(|entry| entry.played != Played::Plain).cloned().collect()
    }

    /// Waits until the agent has asked the model something.
    pub(crate) async fn asked(&self) {
        let mut entries = self.entries.clone();
        let asked = entries.wait_for(|entries| entries.iter().any(|entry| entry.played != Played::Plain));
        tokio::time::timeout(DEADLINE, asked).await.unwrap().unwrap();
    }

    /// Starts the agent. It ends with the stage if it does not end by itself. One that listens on has its standard
    /// input still.
    pub(crate) async fn start(&self, prompt: &str, resume: Option<&str>) -> Child {
        let (workspace, private) = (self.workspace(), self.folder.path().join("private"));
        let task = Task {
            session: resume.map_or(Session::New, Session::Resumed),
            permissions: Permissions::All,
            ..Task::new(prompt, &workspace, &private)
        };
        let launch = self.player.launch(&task);
        let added = variables(&launch);
        let place = Place::new(self.url.as_str(), self.folder.path().join("home"));
        let Setup { env, folders, files } = self.player.agent().rehearsed(&place);
        for folder in folders {
            std::fs::create_dir_all(folder).unwrap();
        }
        for file in files.into_iter().chain(launch.files) {
            std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
            std::fs::write(&file.path, file.content).unwrap();
        }
        let mut child = Command::new(&self.binary)
            .args(&launch.args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env(MARK, self.mark())
            .envs(env)
            .envs(added)
            .current_dir(&workspace)
            .stdin(Stdio::piped())
            .stdout(self.output("stdout"))
            .stderr(self.output("stderr"))
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        match launch.stdin {
            Stdin::Null | Stdin::Terminal => {}
            Stdin::Text(text) => stdin.write_all(text.as_bytes()).await.unwrap(),
            Stdin::Spoken(lines) => {
                for line in lines {
                    stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
                }
                child.stdin = Some(stdin);
            }
        }
        child
    }

    /// Ends the session of an agent that listens on, once its turn is over.
    async fn end(&self, mut stdin: ChildStdin) {
        let is_over = || {
            let written = std::fs::read_to_string(self.folder.path().join("stdout")).unwrap();
            written.lines().any(|line| line.starts_with("{\"type\":\"result\""))
        };
        while !is_over() {
            tokio::time::sleep(LOOK).await;
        }
        let line = self.player.agent().speak(&Order::End).unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Plays one prompt to its end.
    pub(crate) async fn play(&self, prompt: &str, resume: Option<&str>) -> Ended {
        let mut child = self.start(prompt, resume).await;
        let stdin = child.stdin.take();
        let ended = async {
            // An agent may also end without a result, and then nobody listens any more.
            let end = async {
                match stdin {
                    Some(stdin) => self.end(stdin).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                status = child.wait() => return status,
                () = end => {}
            }
            child.wait().await
        };
        let Ok(status) = tokio::time::timeout(DEADLINE, ended).await else {
            panic!("{:?} did not end. Requests: {:#?}", self.player, self.requests());
        };
        let written = |name| std::fs::read(self.folder.path().join(name)).unwrap();
        let stdout = String::from_utf8(written("stdout")).unwrap();
        let records = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let stderr = String::from_utf8_lossy(&written("stderr")).into_owned();
        Ended { status: status.unwrap(), records, stderr }
    }

    /// A file for what the agent writes. Not a pipe: Claude Code 2.1.197 and OpenCode 1.18.33 exit with 0 while
    /// megabytes are still on their way into a pipe, and the tail of their records, the last one included, is lost.
    fn output(&self, name: &str) -> std::fs::File {
        std::fs::File::create(self.folder.path().join(name)).unwrap()
    }

    /// Plays one prompt to its good end and returns what was said.
    pub(crate) async fn play_well(&self, prompt: &str, resume: Option<&str>) -> (Vec<String>, Ended) {
        let ended = self.play(prompt, resume).await;
        let well = ended.status.success() && self.player.ended_well(&ended);
        assert!(
            well,
            "{:?} ended with {}, {:?}\nstderr: {}\nrequests: {:#?}",
            self.player,
            ended.status,
            ended.records.last(),
            ended.stderr,
            self.requests()
        );
        (self.player.said(&ended), ended)
    }

    fn mark(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Ends the stage: the server is told to stop and does, and no process is left.
    pub(crate) async fn strike(mut self) {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.serving.join_next()).await.unwrap().unwrap().unwrap();
        assert!(gone(&self.mark(), GONE_WITHIN), "{:?} left processes behind", self.player);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        sweep(&self.mark());
    }
}
