//! Memory with the real agents: their hooks call us, the next session is told, and their model searches with our tools.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use ostler_agent::agent::{Setup, Stage as Place};
use ostler_agent::document::Format;
use ostler_rehearsal::{Rehearsal, Server, script};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::player::Player;
use crate::sweep::{MARK, gone, sweep};
use crate::tap::Tap;

/// One turn takes seconds; under load many more.
const DEADLINE: Duration = Duration::from_secs(600);

const SESSION: &str = "5e551011-0000-4000-8000-000000000007";

const SCRIPT: &str = r#"
v = 1
[[conversation]]
name = "search"
[[conversation.step]]
expect = { contains = "Search your memory" }
reply = [{ tool_by_role = "mcp:memory/memory_search", arguments = { query = "retry limit" } }]
[[conversation.step]]
expect = { result_contains = "seven tries" }
reply = [{ text = "I found it." }]
[[conversation]]
name = "first"
[[conversation.step]]
expect = { contains = "retry limit" }
reply = [{ text = "The retry limit is seven tries." }]
[[conversation]]
name = "others"
[[conversation.step]]
reply = [{ text = "Understood: {{prompt}}" }]
"#;

/// An agent with our hooks in its settings, a model behind a tap, and a home that is nobody's.
struct Ground {
    player: Player,
    binary: PathBuf,
    folder: TempDir,
    tap: Tap,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Ground {
    async fn new(player: Player) -> Option<Self> {
        let binary = player.binary()?;
        let folder = tempfile::Builder::new().prefix("ostler-memory-").tempdir().unwrap();
        for name in ["workspace", "home"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let play = script::parse("memory", SCRIPT, Format::Toml).unwrap();
        let server =
            Server::listen(SocketAddr::from(([127, 0, 0, 1], 0)), Rehearsal::of(play)).await.unwrap();
        let tap = Tap::before(&server.url()).await;
        let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
        serving.spawn(server.serve(stop.clone()));
        let ground = Self { player, binary, folder, tap, stop, serving };
        for folder in ground.setup().folders {
            std::fs::create_dir_all(folder).unwrap();
        }
        for file in ground.setup().files {
            std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
            let server = if player == Player::Codex { ground.server() } else { String::new() };
            std::fs::write(&file.path, file.content + &server).unwrap();
        }
        let target = match player {
            Player::Codex => "codex",
            Player::OpenCode => "opencode",
            _ => "claude",
        };
        ground.ostler(&["memory", "hooks", "install", "--target", target]).await;
        Some(ground)
    }

    /// Our tools, in Codex's settings.
    fn server(&self) -> String {
        format!(
            "\n[mcp_servers.memory]\ncommand = {:?}\nargs = [\"memory\", \"mcp\"]\nenv = {{ OSTLER_HOME = {:?} }}\n",
            env!("CARGO_BIN_EXE_ostler"),
            self.at("ostler")
        )
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn setup(&self) -> Setup {
        self.player.agent().rehearsed(&Place::new(self.tap.url.as_str(), self.at("home")))
    }

    fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("OSTLER_HOME", self.at("ostler"))
            .env(MARK, self.folder.path())
            .envs(self.setup().env)
            .envs(self.player.agent().by_hand("").env)
            // A rehearsal loads no modules; here one is ours.
            .env_remove("OPENCODE_PURE")
            .current_dir(self.at("workspace"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn ostler(&self, args: &[&str]) -> String {
        self.ostler_in("ostler", args).await
    }

    /// With another home of Ostler, where nothing was remembered yet.
    async fn ostler_in(&self, home: &str, args: &[&str]) -> String {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_ostler"));
        let output =
            self.command(&program).env("OSTLER_HOME", self.at(home)).args(args).output().await.unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// One turn, in a process of its own.
    async fn turn(&self, session: &[&str], prompt: &str) -> String {
        let mcp = serde_json::json!({"mcpServers": {"memory": {
            "command": env!("CARGO_BIN_EXE_ostler"), "args": ["memory", "mcp"], "env": {"OSTLER_HOME": self.at("ostler")},
        }}})
        .to_string();
        let args: Vec<&str> = match self.player {
            Player::Codex => [&["exec"], session, &CODEX, &[prompt]].concat(),
            Player::OpenCode => vec!["run", "--title", "memory", prompt],
            _ => [&["-p", prompt, "--permission-mode", "bypassPermissions", "--mcp-config", &mcp], session]
                .concat(),
        };
        let played = self.command(&self.binary).args(args).output();
        let output = tokio::time::timeout(DEADLINE, played).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    /// All that is stored and was part of a conversation, as who said what.
    async fn stored(&self) -> Vec<(String, String)> {
        self.stored_in("ostler").await
    }

    /// The same for somebody who begins to remember now, from what the agent has kept itself.
    async fn taken_in(&self) -> Vec<(String, String)> {
        self.ostler_in("anew", &["memory", "backfill"]).await;
        self.stored_in("anew").await
    }

    async fn stored_in(&self, home: &str) -> Vec<(String, String)> {
        let lines = self.ostler_in(home, &["memory", "export"]).await;
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        lines
            .filter(|line| line["mark"] == "" && line["kind"] == "said")
            .map(|line| (word(&line["role"]), word(&line["text"])))
            .collect()
    }

    async fn strike(mut self) {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.serving.join_next()).await.unwrap();
        let mark = self.folder.path().display().to_string();
        assert!(gone(&mark, Duration::from_secs(30)), "{:?} left processes behind", self.player);
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        sweep(&self.folder.path().display().to_string());
    }
}

/// Codex runs hooks that its user has trusted; here nobody is asked.
const CODEX: [&str; 3] = [
    "--dangerously-bypass-approvals-and-sandbox",
    "--dangerously-bypass-hook-trust",
    "--skip-git-repo-check",
];

/// Three turns are three Stop hooks, and each message is there once. The next session is told, and can search.
async fn is_remembered(player: Player) {
    let Some(ground) = Ground::new(player).await else { return };
    let (first, later): (&[&str], &[&str]) = match player {
        Player::Codex => (&[], &["resume", "--last"]),
        _ => (&["--session-id", SESSION], &["--resume", SESSION]),
    };
    ground.turn(first, "What is the retry limit?").await;
    ground.turn(later, "And the port?").await;
    ground.turn(later, "Thank you").await;
    let pair = |role: &str, text: &str| (role.to_owned(), text.to_owned());
    let mut want = vec![
        pair("user", "What is the retry limit?"),
        pair("assistant", "The retry limit is seven tries."),
        pair("user", "And the port?"),
        pair("assistant", "Understood: And the port?"),
        pair("user", "Thank you"),
        pair("assistant", "Understood: Thank you"),
    ];
    let mut found = ground.stored().await;
    want.sort();
    found.sort();
    assert_eq!(found, want);
    let mut found = ground.taken_in().await;
    found.sort();
    assert_eq!(found, want);

    ground.turn(&[], "Begin anew").await;
    let asked = ground.tap.conversation();
    let last = asked.last().unwrap().to_string();
    assert!(last.contains("Begin anew") && last.contains("Remembered by Ostler"), "{last}");
    assert!(last.contains("Understood: Thank you") && last.contains("[m"), "{last}");

    ground.turn(&[], "Search your memory, please").await;
    let asked = ground.tap.conversation();
    let result = asked.last().unwrap().to_string();
    let hits: Value =
        serde_json::from_str(&ground.ostler(&["memory", "recall", "--json", "seven tries"]).await).unwrap();
    let hit =
        hits["hits"].as_array().unwrap().iter().find(|hit| hit["text"] == "The retry limit is seven tries.");
    let hit = hit.unwrap();
    for part in [&hit["id"], &hit["key"], &hit["session"]] {
        assert!(result.contains(part.as_str().unwrap()), "{part} is not in {result}");
    }
    ground.strike().await;
}

#[tokio::test]
async fn claude() {
    is_remembered(Player::ClaudeOneShot).await;
}

#[tokio::test]
async fn codex() {
    is_remembered(Player::Codex).await;
}

/// It has no hooks: a module of ours is told when a session is idle, and its database is read.
#[tokio::test]
async fn opencode() {
    let Some(ground) = Ground::new(Player::OpenCode).await else { return };
    ground.turn(&[], "Hello").await;
    let want = [("user", "Hello"), ("assistant", "Understood: Hello")];
    let want = want.map(|(role, text)| (role.to_owned(), text.to_owned()));
    assert_eq!(ground.stored().await, want);
    assert_eq!(ground.taken_in().await, want);
    ground.strike().await;
}
