//! Runs as a user starts them: their own home, the agent's own configuration in it, another working directory than the
//! one that the agent is to work in, and no `--rehearse`. Only the provider is scripted; it listens on loopback.
//!
//! A rehearsal brings its own home and environment, and so can hide faults that a user meets. Every test of a folder, a
//! permission or a limit should have one here:
//!
//! ```ignore
//! let Some(shape) = RealShape::of(Player::Codex) else { return };
//! let ended = shape.run(&["--permissions", "edits", "Do it."], SCRIPT);
//! ended.ends("completed", 0);
//! shape.is_empty();
//! ```

mod escapes;
mod folders;
mod hostile;
mod jailed_memory;
mod limits;
mod network;
mod own_files;
mod profiles;
mod programs;
mod provider;
mod proxied;
mod served;
mod served_jail;
mod settings;
mod sign_in;
mod tenants;
mod toolchains;
mod walled;

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ostler_agent::agent::Engine;
use rustix::process::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::player::Player;
use crate::serve::Served;
use crate::yard::{Ended, ended};
use programs::Programs;
use provider::Provider;

/// A model that declares completion at the bridge.
const DECLARES: &str = r#"
[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "mcp:ostler/declare_complete", arguments = { summary = "Done." } }]
[[conversation.step]]
reply = [{ text = "Done." }]
"#;

/// The user and the group that own nothing, on every Linux.
const NOBODY: u32 = 65_534;

/// A user with a home, an agent that is configured there, and two directories: `caller`, where Ostler is started, and
/// `workspace`, where the agent is to work.
pub(crate) struct RealShape {
    player: Player,
    folder: TempDir,
    /// The name of the workspace.
    workspace: &'static str,
    programs: Programs,
    /// The user that Ostler runs as, if not the one who runs the tests.
    user: Option<u32>,
    /// Further variables of the user.
    variables: Vec<(&'static str, String)>,
    has_bridge: bool,
}

impl RealShape {
    /// As the current user, or nothing if the agent is missing and may be.
    pub(crate) fn of(player: Player) -> Option<Self> {
        Self::with(player, None)
    }

    /// As a user without privileges: another one if the tests run as root, else the current one.
    pub(crate) fn unprivileged(player: Player) -> Option<Self> {
        Self::with(player, geteuid().is_root().then_some(NOBODY))
    }

    fn with(player: Player, user: Option<u32>) -> Option<Self> {
        let agent = player.binary()?;
        let ostler = Path::new(env!("CARGO_BIN_EXE_ostler"));
        let programs = match user {
            Some(_) => Programs::reachable_by_everyone(ostler, &agent),
            None => Programs::in_place(ostler, &agent),
        };
        let folder = tempfile::Builder::new().prefix("ostler-real-").tempdir().unwrap();
        let (workspace, variables) = ("workspace", Vec::new());
        let shape = Self { player, folder, workspace, programs, user, variables, has_bridge: false };
        for name in ["home", "caller", "before", "workspace", "ostler"] {
            std::fs::create_dir(shape.at(name)).unwrap();
        }
        // The terminal program and the one over pipes are two agents of one package.
        let names = match player.agent().engine() {
            Engine::Terminal => vec![player.agent().name(), "claude-headless"],
            Engine::Stream => vec![player.agent().name()],
        };
        let program = shape.programs.agent.display().to_string();
        let config: String =
            names.iter().map(|name| format!("[agents.{name}]\nprogram = {program:?}\n")).collect();
        std::fs::write(shape.at("ostler/config.toml"), config).unwrap();
        Some(shape)
    }

    /// With another name for the workspace.
    pub(crate) fn in_folder(mut self, name: &'static str) -> Self {
        std::fs::rename(self.workspace(), self.at(name)).unwrap();
        self.workspace = name;
        self
    }

    /// With a variable in the user's environment.
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// With this in Ostler's configuration too.
    pub(crate) fn configured(self, toml: &str) -> Self {
        let path = self.at("ostler/config.toml");
        let before = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, before + toml).unwrap();
        self
    }

    /// With a bridge, as agents have unless told otherwise. Most tests are about something else.
    pub(crate) fn with_bridge(self) -> Self {
        Self { has_bridge: true, ..self }
    }

    /// A path below the folder of this test.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the agent is to work.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.at(self.workspace)
    }

    /// The user that Ostler runs as.
    pub(crate) fn user_id(&self) -> u32 {
        self.user.unwrap_or_else(|| geteuid().as_raw())
    }

    /// Where Ostler is started.
    pub(crate) fn caller(&self) -> PathBuf {
        self.at("caller")
    }

    /// Runs the agent in the workspace, to its outcome, with a provider that follows this script (TOML without `v = 1`).
    pub(crate) fn run(&self, args: &[&str], script: &str) -> Ended {
        let _provider = self.play(script);
        Ended::of(ended(self.start(args)))
    }

    /// Starts a provider that follows this script, and configures the agent to use it. It ends when it is dropped.
    pub(crate) fn play(&self, script: &str) -> Provider {
        let provider = Provider::start(script);
        self.configure(&provider.url);
        provider
    }

    /// Starts `ostler run` in the caller's directory, for the workspace.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.ostler(&["run", "-a", self.player.agent().name(), "--json"]);
        command.arg("--cwd").arg(Path::new("..").join(self.workspace)).args(args);
        command.stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Starts `ostler serve` in the caller's directory, for a client that may do everything in the workspace.
    pub(crate) fn serve(&self) -> Served {
        self.serve_with(&[])
    }

    /// The same, with these arguments besides.
    pub(crate) fn serve_with(&self, args: &[&str]) -> Served {
        let mut keys = self.ostler(&["keys", "new", "--owner", "--permissions", "all", "--json"]);
        keys.args(["--scope", "sessions:read", "--scope", "sessions:write", "--folder"]);
        let made = keys.arg(self.workspace()).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        self.start_serving(made["key"].as_str().unwrap(), args)
    }

    /// Makes a key with these arguments.
    pub(crate) fn make_key(&self, args: &[&str]) -> String {
        let made = self.ostler(&["keys", "new", "--json"]).args(args).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        made["key"].as_str().unwrap().to_owned()
    }

    /// Starts `ostler serve` for a client that has this key already.
    pub(crate) fn serve_again(&self, key: &str) -> Served {
        self.start_serving(key, &[])
    }

    fn start_serving(&self, key: &str, args: &[&str]) -> Served {
        let mut command = self.ostler(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.args(args);
        Served::by(command, tempfile::tempdir().unwrap(), Some(key.to_owned()))
    }

    /// Ostler, as a shell in the caller's directory would start it after `cd before; cd ../caller`.
    pub(crate) fn ostler(&self, args: &[&str]) -> Command {
        self.own(self.folder.path());
        let mut command = Command::new(&self.programs.ostler);
        command.args(args).current_dir(self.caller()).env_clear();
        command.envs([
            ("HOME", self.at("home")),
            ("OSTLER_HOME", self.at("ostler")),
            ("PWD", self.caller()),
            ("OLDPWD", self.at("before")),
        ]);
        command.envs([
            ("PATH", "/usr/bin:/bin"),
            ("LANG", "C.UTF-8"),
            ("TERM", "xterm-256color"),
            ("SHELL", "/bin/sh"),
            ("USER", "ada"),
            ("LOGNAME", "ada"),
            // The test has no network, and its provider is on loopback.
            ("OSTLER_CFG__NETWORK__PROBE", "off"),
        ]);
        command.env("OSTLER_CFG__RUN__BRIDGE", self.has_bridge.to_string());
        command.envs(offline(self.player)).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Writes the agent's own configuration into the user's home, as its documentation tells users to.
    fn configure(&self, url: &str) {
        let files = match self.player.agent().package().slot {
            "claude" => claude(url),
            "codex" => vec![(".codex/config.toml", codex(url))],
            "opencode" => vec![(".config/opencode/opencode.json", opencode(url))],
            other => panic!("how users configure {other} is not known"),
        };
        for (path, content) in files {
            let path = self.at("home").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }

    /// Gives everything below the folder to the user that Ostler runs as.
    fn own(&self, path: &Path) {
        let Some(user) = self.user else { return };
        chown(path, Some(user), Some(user)).unwrap();
        let entries = std::fs::read_dir(path).unwrap().flatten();
        for entry in entries.filter(|entry| !entry.file_type().unwrap().is_symlink()) {
            match entry.file_type().unwrap().is_dir() {
                true => self.own(&entry.path()),
                false => chown(entry.path(), Some(user), Some(user)).unwrap(),
            }
        }
    }

    /// The names in a folder of this test, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.at(folder)).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Fails if a process is left that has the user's home in its environment.
    pub(crate) fn is_empty(&self) {
        let home = self.at("home").display().to_string();
        let is_ours = |pid: &Path| {
            let environ = std::fs::read(pid.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environ).contains(&home)
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let left: Vec<PathBuf> = all.filter(|pid| is_ours(pid)).collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "{:?} left processes behind", self.player);
    }
}

/// What keeps an agent from trying hosts that a test does not have. It changes nothing else.
fn offline(player: Player) -> Vec<(&'static str, &'static str)> {
    match player.agent().package().slot {
        "opencode" => vec![
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("npm_config_offline", "true"),
        ],
        "claude" => vec![("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")],
        _ => Vec::new(),
    }
}

/// A gateway and its token, as users of one set them; and the answer to the questions of the first start.
fn claude(url: &str) -> Vec<(&'static str, String)> {
    let settings = json!({"env": {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "dummy"}});
    let settled = json!({"hasCompletedOnboarding": true});
    vec![(".claude/settings.json", settings.to_string()), (".claude.json", settled.to_string())]
}

/// A provider of the user's own. The model decides which tools Codex offers: this one has a shell and `apply_patch`.
fn codex(url: &str) -> String {
    format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"own\"\n\
         features = {{ plugins = false, apps = false, remote_plugin = false }}\n\n\
         [model_providers.own]\nname = \"own\"\nbase_url = \"{url}/v1\"\n"
    )
}

/// A model that takes pictures: to another one OpenCode sends none.
fn opencode(url: &str) -> String {
    let limit = json!({"context": 128_000, "output": 8_000});
    let modalities = json!({"input": ["text", "image"], "output": ["text"]});
    json!({
        "model": "own/scripted",
        "small_model": "own/scripted",
        "enabled_providers": ["own"],
        "provider": {"own": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": format!("{url}/v1"), "apiKey": "dummy"},
            "models": {"scripted": {
                "name": "scripted", "limit": limit, "attachment": true, "modalities": modalities,
            }},
        }},
    })
    .to_string()
}
