//! A gateway with the real agent and a scripted model, and who of the agent is there.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ostler_agent::agent::{Agent as _, Stage};
use ostler_agent::agents::Claude;
use ostler_agent::document::Format;
use ostler_process::run::write_private;
use ostler_rehearsal::{Rehearsal, Server, script};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{DEADLINE, SCRIPT};
use crate::player::Player;
use crate::tap::Tap;

/// A server, ended with the test however that ends.
pub(crate) struct Ground {
    folder: TempDir,
    program: PathBuf,
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) url: String,
    pub(crate) key: String,
    model: Option<Model>,
}

/// A scripted model of ours, where it matters what it is told.
struct Model {
    tap: Tap,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Ground {
    /// `ostler serve --rehearse`: the model is the server's own.
    pub(crate) async fn rehearsed() -> Option<Self> {
        let (program, folder) = (Player::ClaudeStream.binary()?, folder());
        let script = folder.path().join("script.toml");
        fs::write(&script, SCRIPT).unwrap();
        let rehearse = format!("--rehearse={}", script.display());
        Some(Self::start(program, folder, &[&rehearse], Vec::new(), None).await)
    }

    /// The same agent, talking to a model whose wire is tapped.
    pub(crate) async fn tapped() -> Option<Self> {
        Self::tapped_with(&[]).await
    }

    pub(crate) async fn tapped_with(args: &[&str]) -> Option<Self> {
        Self::scripted(SCRIPT, args, "").await
    }

    /// With this script, and this configuration.
    pub(crate) async fn scripted(script: &str, args: &[&str], config: &str) -> Option<Self> {
        let (program, folder) = (Player::ClaudeStream.binary()?, folder());
        fs::create_dir(folder.path().join("ostler")).unwrap();
        fs::write(folder.path().join("ostler/config.toml"), config).unwrap();
        let play = script::parse("test", script, Format::Toml).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::listen(address, Rehearsal::of(play)).await.unwrap();
        let tap = Tap::before(&server.url()).await;
        let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
        serving.spawn(server.serve(stop.clone()));
        let home = folder.path().join("agent");
        let setup = Claude.rehearsed(&Stage::new(tap.url.as_str(), home.as_path()));
        write_private(&home, &setup.folders, &setup.files).unwrap();
        let model = Some(Model { tap, stop, serving });
        Some(Self::start(program, folder, args, setup.env, model).await)
    }

    async fn start(
        program: PathBuf,
        folder: TempDir,
        args: &[&str],
        env: Vec<(String, String)>,
        model: Option<Model>,
    ) -> Self {
        let mut child = ostler(folder.path(), &program)
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(args)
            .envs(env)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        tokio::time::timeout(DEADLINE, out.read_line(&mut line)).await.unwrap().unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        let (url, key) = (text("url"), text("key"));
        Self { folder, program, child, out, url, key, model }
    }

    /// A second key for this server.
    pub(crate) async fn another_key(&self) -> String {
        let mut command = ostler(self.folder.path(), &self.program);
        let made = command.args(["keys", "new", "--json"]).output().await.unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        made["key"].as_str().unwrap().to_owned()
    }

    /// Processes of the agent that belong to this server.
    pub(crate) fn agents(&self) -> BTreeSet<u32> {
        let mark = self.folder.path().display().to_string();
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
        pids.filter(|pid: &u32| {
            let is_agent =
                fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == self.program);
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            is_agent && String::from_utf8_lossy(&environ).contains(&mark)
        })
        .collect()
    }

    /// Files and sockets that the server has open.
    pub(crate) fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id().unwrap())).unwrap().count()
    }

    /// Children of the server that ended and were not waited for.
    pub(crate) fn zombies(&self) -> Vec<String> {
        let parent = format!("\nPPid:\t{}\n", self.child.id().unwrap());
        let all = fs::read_dir("/proc").unwrap().flatten();
        let status = all.filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok());
        status.filter(|status| status.contains(&parent) && status.contains("\nState:\tZ")).collect()
    }

    /// What the model was told in the conversation's last request, as role and text.
    pub(crate) fn told(&self) -> Vec<(String, String)> {
        self.all_told().pop().unwrap()
    }

    /// The same of every request.
    pub(crate) fn all_told(&self) -> Vec<Vec<(String, String)>> {
        let requests = self.model.as_ref().unwrap().tap.conversation();
        requests.iter().map(|request| messages(&request["messages"])).collect()
    }

    /// Lets the model go on where it holds.
    pub(crate) fn go_on(&self, times: usize) {
        self.model.as_ref().unwrap().tap.gate.add_permits(times);
    }

    /// Ends it as a person would: well, and with nothing left of the agent.
    pub(crate) async fn strike(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        assert_eq!(self.zombies(), Vec::<String>::new());
        kill_process(pid, Signal::INT).unwrap();
        let mut rest = String::new();
        tokio::time::timeout(DEADLINE, self.out.read_to_string(&mut rest)).await.unwrap().unwrap();
        let status = tokio::time::timeout(DEADLINE, self.child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0));
        assert_eq!(self.agents(), BTreeSet::new(), "nothing is left");
        if let Some(mut model) = self.model.take() {
            model.stop.cancel();
            tokio::time::timeout(DEADLINE, model.serving.join_next()).await.unwrap();
        }
    }
}

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap()
}

/// Our own binary, with a home of its own in which it is told where the agent is.
fn ostler(folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", program.parent().unwrap().display()))
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .env("OSTLER_HOME", folder.join("ostler"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Roles and texts, without what the agent itself adds to a prompt.
fn messages(messages: &Value) -> Vec<(String, String)> {
    let mut told = Vec::new();
    for message in messages.as_array().unwrap() {
        let texts: Vec<&str> = match &message["content"] {
            Value::String(text) => vec![text],
            blocks => blocks.as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect(),
        };
        let role = message["role"].as_str().unwrap();
        let own = texts.into_iter().filter(|text| role != "system" && !text.starts_with("<system-reminder>"));
        told.extend(own.map(|text| (role.to_owned(), text.to_owned())));
    }
    told
}
