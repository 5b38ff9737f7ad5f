//! Agents as clients: real Claude Code, the Claude Agent SDK and real Codex, each with a home of its own, talk to
//! `ostler serve` as if it were their provider. Behind it is one more Claude Code, and behind that a scripted model.
//!
//! The tools are the client's own: that it ran them is told by what they left, and that the conversation went on in one
//! session by the processes of the agent behind the server.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::DEADLINE;
use super::ground::Ground;
use super::program::clients;
use crate::player::Player;

/// Calls tools of the clients, each by the name under which its client offers it.
const SCRIPT: &str = r#"
v = 1
[[conversation]]
name = "bash"
[[conversation.step]]
expect = { contains = "run bash" }
reply = [
    { text = "I run it." },
    { tool_by_role = "mcp:program/Bash", arguments = { command = "echo by-the-client > made.txt; echo made", description = "make" } },
]
[[conversation.step]]
reply = [{ text = "It says {{tool_result}}" }]

[[conversation]]
name = "add"
[[conversation.step]]
expect = { contains = "add them up" }
reply = [{ tool_by_role = "mcp:program/mcp__calc__add", arguments = { a = 3, b = 4 } }]
[[conversation.step]]
reply = [{ text = "It is {{tool_result}}." }]

[[conversation]]
name = "exec"
[[conversation.step]]
expect = { contains = "run a command" }
reply = [
    { text = "I run it." },
    { tool_by_role = "mcp:program/exec_command", arguments = { cmd = "echo by-the-client > made.txt" } },
]
[[conversation.step]]
reply = [{ text = "It ran." }]

[[conversation]]
name = "patch"
[[conversation.step]]
expect = { contains = "apply a patch" }
reply = [
    { tool_by_role = "mcp:program/apply_patch", arguments = { input = "*** Begin Patch\n*** Add File: patched.txt\n+by the client\n*** End Patch\n" } },
]
[[conversation.step]]
reply = [{ text = "Patched." }]

[[conversation]]
name = "words"
[[conversation.step]]
reply = [{ text = "Good day." }]
"#;

/// Codex knows by a model's name which tools it offers to it.
const CONFIG: &str = "[serve.models]\n\"gpt-5.5\" = \"claude\"\n";

/// A client's home and its workspace.
struct Client {
    folder: TempDir,
    program: PathBuf,
}

impl Client {
    fn of(player: Player) -> Option<Self> {
        let program = player.binary()?;
        let folder = tempfile::Builder::new().prefix("ostler-client-").tempdir().unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Some(Self { folder, program })
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// What it left in its workspace.
    fn made(&self, name: &str) -> String {
        let path = self.folder.path().join("work").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A program in its workspace, with a clean environment.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("IS_SANDBOX", "1")
            .current_dir(self.folder.path().join("work"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// The same, of Claude Code or what is built on it: these variables are in our documentation.
    fn claude(&self, program: &Path, ground: &Ground) -> Command {
        let mut command = self.command(program);
        command
            .env("ANTHROPIC_BASE_URL", &ground.url)
            .env("ANTHROPIC_API_KEY", &ground.key)
            .env("ANTHROPIC_MODEL", "claude")
            .env("ANTHROPIC_SMALL_FAST_MODEL", "claude")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        command
    }
}

/// The lines of JSON that it prints.
async fn lines(mut command: Command) -> Vec<Value> {
    let output = tokio::time::timeout(DEADLINE, command.output()).await.unwrap().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {stdout}{stderr}", output.status);
    stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// A turn a process, as `claude --continue` has it.
async fn claude_code(player: Player) {
    let Some(ground) = Ground::scripted(SCRIPT, &[], "").await else { return };
    let Some(client) = Client::of(player) else { return };
    let mut agents = None;
    for (prompt, want) in [("hello", "Good day."), ("run bash", "It says made"), ("thank you", "Good day.")] {
        let mut command = client.claude(&client.program, &ground);
        command.args(["-p", "--output-format", "json", "--permission-mode", "bypassPermissions"]);
        if agents.is_some() {
            command.arg("--continue");
        }
        let told = lines({
            command.arg(prompt);
            command
        });
        let told = told.await.pop().unwrap();
        assert_eq!(
            (&told["is_error"], told["result"].as_str().map(str::trim)),
            (&json!(false), Some(want)),
            "{told}"
        );
        let served = ground.agents();
        assert_eq!(served.len(), 1, "one session for the whole conversation");
        assert_eq!(*agents.get_or_insert_with(|| served.clone()), served, "{prompt}");
    }
    assert_eq!(client.made("made.txt"), "by-the-client\n");
    ground.strike().await;
}

#[tokio::test]
async fn claude_code_is_served() {
    claude_code(Player::ClaudeStream).await;
}

#[tokio::test]
async fn a_newer_claude_code_is_served() {
    claude_code(Player::ClaudeTerminalNewer).await;
}

/// Several turns in one process of the client, and a tool that is a function of the program.
#[tokio::test]
async fn the_claude_agent_sdk_is_served() {
    let Some(clients) = clients() else { return };
    let Some(ground) = Ground::scripted(SCRIPT, &[], "").await else { return };
    let Some(client) = Client::of(Player::ClaudeStream) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/agent.mjs");
    let mut command = client.claude(Path::new("node"), &ground);
    command.env("OSTLER_TEST_CLIENTS", clients).env("OSTLER_TEST_CLAUDE", &client.program);
    command.arg(script).args(["hello", "add them up", "thank you"]);
    let told = lines(command).await;
    let turn = |result: &str, calls: Value| json!({"subtype": "success", "failed": false, "result": result, "calls": calls});
    let want =
        [turn("Good day.", json!([])), turn("It is 7.", json!([[3, 4]])), turn("Good day.", json!([]))];
    assert_eq!(told, want);
    assert_eq!(ground.agents().len(), 1, "one session for the whole conversation");
    ground.strike().await;
}

/// Its tool for patches is a custom one: it takes a text, not an object.
#[tokio::test]
async fn codex_is_served() {
    let Some(ground) = Ground::scripted(SCRIPT, &[], CONFIG).await else { return };
    let Some(client) = Client::of(Player::Codex) else { return };
    let config = format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"ostler\"\n[analytics]\nenabled = false\n\
         [model_providers.ostler]\nname = \"ostler\"\nbase_url = \"{}/v1\"\nenv_key = \"OSTLER_KEY\"\n",
        ground.url
    );
    std::fs::write(client.home().join("config.toml"), config).unwrap();
    let mut agents = None;
    let turns = [
        ("hello", "Good day."),
        ("run a command", "It ran."),
        ("apply a patch", "Patched."),
        ("thanks", "Good day."),
    ];
    for (prompt, want) in turns {
        let mut command = client.command(&client.program);
        command.env("CODEX_HOME", client.home()).env("OSTLER_KEY", &ground.key).arg("exec");
        if agents.is_some() {
            command.args(["resume", "--last"]);
        }
        command.args(["--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]);
        command.args(["--disable", "plugins", "--disable", "apps", "--disable", "remote_plugin"]);
        command.arg(prompt);
        let told = lines(command).await;
        let said: Vec<&str> = told
            .iter()
            .filter(|event| event["item"]["type"] == "agent_message" && event["type"] == "item.completed")
            .filter_map(|event| event["item"]["text"].as_str())
            .collect();
        assert_eq!(said.last(), Some(&want), "{told:#?}");
        let served = ground.agents();
        assert_eq!(served.len(), 1, "one session for the whole conversation");
        assert_eq!(*agents.get_or_insert_with(|| served.clone()), served, "{prompt}");
    }
    assert_eq!(
        (client.made("made.txt").as_str(), client.made("patched.txt").as_str()),
        ("by-the-client\n", "by the client\n")
    );
    ground.strike().await;
}
