//! A real agent on a private stage: a scripted model that is up already, and the same home for whoever starts it.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_agent::agent::{Agent, Launch, Permissions, Stage, Stdin, Task};
use ostler_agent::agents::{Claude, ClaudeTerminal, Codex, OpenCode};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PROMPT: &str = "Do as the script says.";

/// The scripted model as a process of its own, so that both sides have the same one and neither pays for it.
pub(crate) struct Model {
    child: Child,
    url: String,
    _script: tempfile::NamedTempFile,
}

impl Model {
    pub(crate) fn start(ostler: &Path, script: &str) -> Self {
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        file.write_all(script.as_bytes()).unwrap();
        let mut child = Command::new(ostler)
            .args(["rehearse", "--listen", "127.0.0.1:0", "--json", "--script"])
            .arg(file.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        // It tells every request, and must not wait for a reader.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        let told: serde_json::Value = serde_json::from_str(&first).unwrap();
        Self { child, url: told["url"].as_str().unwrap().to_owned(), _script: file }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// One agent, its home, its workspace and its environment.
pub(crate) struct Player {
    pub(crate) agent: &'static dyn Agent,
    pub(crate) program: PathBuf,
    folder: TempDir,
    launch: Launch,
    env: Vec<(String, String)>,
}

impl Player {
    /// Those that are installed for tests.
    pub(crate) fn all(model: &Model) -> Vec<Self> {
        let agents: [&'static dyn Agent; 3] = [&Claude, &Codex, &OpenCode];
        let place = std::env::var_os("OSTLER_TEST_AGENTS").map(PathBuf::from).unwrap_or_default();
        let found = agents.into_iter().filter_map(|agent| match native(agent, &place) {
            Some(program) => Some(Self::new(agent, program, model)),
            None => {
                println!("{}: not installed for tests; ./test agents installs it", agent.name());
                None
            }
        });
        found.collect()
    }

    /// The terminal program, if it is installed for tests.
    pub(crate) fn on_terminal(model: &Model) -> Option<Self> {
        Self::of(&ClaudeTerminal, model)
    }

    /// That one, if it is installed for tests.
    pub(crate) fn of(agent: &'static dyn Agent, model: &Model) -> Option<Self> {
        let place = std::env::var_os("OSTLER_TEST_AGENTS").map(PathBuf::from).unwrap_or_default();
        let program = native(agent, &place);
        if program.is_none() {
            println!("{}: not installed for tests; ./test agents installs it", agent.name());
        }
        Some(Self::new(agent, program?, model))
    }

    /// With what it is started.
    pub(crate) fn launched(&self) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
        let root = if rustix::process::geteuid().is_root() { &*self.launch.as_root.env } else { &[] };
        let env = self.env.iter().chain(&self.launch.env).chain(root);
        let env = env.map(|(name, value)| (name.into(), value.into())).collect();
        (self.launch.args.iter().map(Into::into).collect(), env)
    }

    fn new(agent: &'static dyn Agent, program: PathBuf, model: &Model) -> Self {
        let folder = tempfile::Builder::new().prefix("ostler-figures-").tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["workspace", "home", "ostler", "private"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        let config = format!("[agents.{}]\nprogram = {:?}\n", agent.name(), program.display().to_string());
        std::fs::write(root.join("ostler/config.toml"), config).unwrap();
        let setup = agent.rehearsed(&Stage::new(model.url.as_str(), root.join("home")));
        for folder in &setup.folders {
            std::fs::create_dir_all(folder).unwrap();
        }
        let (workspace, private) = (root.join("workspace"), root.join("private"));
        let task = Task { permissions: Permissions::All, ..Task::new(PROMPT, &workspace, &private) };
        let launch = agent.launch(&task).unwrap();
        for file in setup.files.iter().chain(&launch.files) {
            std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
            std::fs::write(&file.path, &file.content).unwrap();
        }
        let mut env = setup.env;
        for name in ["PATH", "LANG", "TERM"] {
            env.extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
        }
        Self { agent, program, folder, launch, env }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.env.iter().cloned()).current_dir(self.root().join("workspace"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    /// The agent as Ostler starts it, with nothing between: its input is written and closed at once.
    pub(crate) fn bare(&self) -> Duration {
        let input = match &self.launch.stdin {
            Stdin::Null | Stdin::Terminal => String::new(),
            Stdin::Text(text) => text.clone(),
            Stdin::Spoken(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
        };
        let mut command = self.command(&self.program);
        command.args(&self.launch.args).envs(self.launch.env.iter().cloned());
        if rustix::process::geteuid().is_root() {
            command.envs(self.launch.as_root.env.iter().cloned());
        }
        timed(command, &input)
    }

    /// The same through `ostler run`.
    pub(crate) fn through(&self, ostler: &Path) -> Duration {
        timed(self.ostler(ostler), "")
    }

    /// How long the program takes to tell its version: Ostler asks for it unless it knows.
    pub(crate) fn asked_for_version(&self) -> Duration {
        let mut command = self.command(&self.program);
        command.arg("--version");
        timed(command, "")
    }

    pub(crate) fn ostler(&self, ostler: &Path) -> Command {
        let mut command = self.command(ostler);
        command.args([
            "run",
            "-a",
            self.agent.name(),
            "--permissions",
            "all",
            "--no-bridge",
            "--json",
            PROMPT,
        ]);
        // Said by name, so that both sides have the same whatever is taken for an outer agent's.
        command.args(self.env.iter().map(|(name, value)| format!("--env={name}={value}")));
        command.env("OSTLER_HOME", self.root().join("ostler"));
        command
    }
}

fn timed(mut command: Command, input: &str) -> Duration {
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    // An agent that does not read has ended, which its status tells.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let mut said = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut said).unwrap();
    let status = child.wait().unwrap();
    let took = began.elapsed();
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&said));
    took
}

fn native(agent: &dyn Agent, place: &Path) -> Option<PathBuf> {
    let paths = agent.package().native_paths(std::env::consts::OS, std::env::consts::ARCH);
    paths.into_iter().map(|path| place.join("node_modules").join(path)).find(|path| path.is_file())
}
