//! Memory of agents behind a wall: their own hooks reach no store there, so the host captures their sessions and gives
//! new ones the context. Only for users who have installed the hooks.

use std::process::Command;

use serde_json::{Value, json};

use super::RealShape;
use super::provider::Provider;
use crate::player::Player;
use crate::tap::Tap;
use crate::yard::{Ended, ended};

const SCRIPT: &str = r#"
[[conversation]]
name = "first"
[[conversation.step]]
expect = { contains = "What is the retry limit" }
reply = [{ text = "The retry limit is seven tries." }]
[[conversation]]
name = "others"
[[conversation.step]]
reply = [{ text = "Understood: {{prompt}}" }]
"#;

/// Uses a tool, after which a hook of the user's own looks around.
const USES_A_TOOL: &str = r#"
[[conversation]]
[[conversation.step]]
reply = [{ tool = "Bash", arguments = { command = "touch x", description = "Touch it" } }]
[[conversation.step]]
reply = [{ text = "Done." }]
"#;

/// A user whose agent is jailed, with a provider that can be listened to.
struct Ground {
    shape: RealShape,
    tap: Tap,
    _provider: Provider,
}

impl Ground {
    async fn new(player: Player, wall: &str, script: &str) -> Option<Self> {
        let shape = RealShape::unprivileged(player)?.variable("OSTLER_FORCE_JAIL", wall);
        let provider = Provider::start(script);
        let tap = Tap::before(&provider.url).await;
        shape.configure(&tap.url);
        Some(Self { shape, tap, _provider: provider })
    }

    async fn install_hooks(&self) {
        let target = self.shape.player.agent().package().slot;
        self.output(self.shape.ostler(&["memory", "hooks", "install", "--target", target])).await;
    }

    /// What a command prints. Others wait for the provider meanwhile.
    async fn output(&self, mut command: Command) -> String {
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        let output = tokio::task::spawn_blocking(move || ended(child)).await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the agent to the end of its task.
    async fn run(&self, args: &[&str]) -> Ended {
        // Codex runs hooks that its user has trusted; here nobody is asked.
        let trust: &[&str] = match self.shape.player {
            Player::Codex => &["--agent-arg=--dangerously-bypass-hook-trust"],
            _ => &[],
        };
        let child = self.shape.start(&[trust, args].concat());
        let output = tokio::task::spawn_blocking(move || ended(child)).await.unwrap();
        let ended = Ended::of(output);
        ended.ends("completed", 0);
        ended
    }

    /// All that is stored and was part of a conversation, as who said what.
    async fn stored(&self) -> Vec<(String, String)> {
        let lines = self.output(self.shape.ostler(&["memory", "export"])).await;
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let said = lines.filter(|line| line["mark"] == "" && line["kind"] == "said");
        let mut said: Vec<_> = said.map(|line| (word(&line["role"]), word(&line["text"]))).collect();
        said.sort();
        said
    }
}

fn sorted(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut pairs: Vec<_> =
        pairs.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect();
    pairs.sort();
    pairs
}

const FIRST: [(&str, &str); 2] =
    [("user", "What is the retry limit?"), ("assistant", "The retry limit is seven tries.")];
const SECOND: [(&str, &str); 2] = [("user", "And the port?"), ("assistant", "Understood: And the port?")];

/// The session is found once, the next one knows of it, and a further turn without a wall, which the hooks capture, is added
/// to the same session.
async fn is_captured(player: Player, wall: &str) {
    let Some(ground) = Ground::new(player, wall, SCRIPT).await else { return };
    ground.install_hooks().await;
    let first = ground.run(&["What is the retry limit?"]).await;
    assert_eq!(ground.stored().await, sorted(&FIRST));
    let before = ground.tap.conversation();
    assert!(!before[0].to_string().contains("Remembered by Ostler"), "nothing was remembered");

    ground.run(&["Begin anew"]).await;
    let asked = ground.tap.conversation();
    let asked = asked[before.len()].to_string();
    assert!(asked.contains("Begin anew") && asked.contains("Remembered by Ostler"), "{asked}");
    assert!(asked.contains("The retry limit is seven tries.") && asked.contains("[m"), "{asked}");

    let run = first.outcome()["run"].as_str().unwrap();
    let mut again = ground.shape.ostler(&["run", "--resume", run, "--json"]);
    if player == Player::Codex {
        again.arg("--agent-arg=--dangerously-bypass-hook-trust");
    }
    again.arg("And the port?").env_remove("OSTLER_FORCE_JAIL");
    ground.output(again).await;
    let anew = [("user", "Begin anew"), ("assistant", "Understood: Begin anew")];
    assert_eq!(ground.stored().await, sorted(&[&FIRST[..], &anew, &SECOND].concat()));
    let hits = ground.output(ground.shape.ostler(&["memory", "recall", "--json", "seven tries"])).await;
    let hits: Value = serde_json::from_str(&hits).unwrap();
    let found = hits["hits"].as_array().unwrap().iter().filter(|hit| hit["text"] == FIRST[1].1);
    let sessions: Vec<&Value> = found.map(|hit| &hit["session"]).collect();
    assert_eq!(sessions, [&first.outcome()["session"]]);
    ground.shape.is_empty();
}

#[tokio::test]
async fn claude() {
    is_captured(Player::ClaudeStream, "namespace").await;
}

#[tokio::test]
async fn claude_on_a_terminal() {
    is_captured(Player::ClaudeTerminal, "namespace").await;
}

#[tokio::test]
async fn codex() {
    is_captured(Player::Codex, "namespace").await;
}

#[tokio::test]
async fn opencode() {
    is_captured(Player::OpenCode, "namespace").await;
}

#[tokio::test]
async fn claude_behind_landlock() {
    is_captured(Player::ClaudeStream, "landlock").await;
}

#[tokio::test]
async fn nobody_is_captured_who_did_not_install_the_hooks() {
    let Some(ground) = Ground::new(Player::ClaudeStream, "namespace", SCRIPT).await else { return };
    ground.run(&["What is the retry limit?"]).await;
    assert!(!ground.shape.at("ostler/memory").exists());
}

/// The folder of memory is a file: nothing can be captured or known. The run is completed all the same, and says so.
#[tokio::test]
async fn a_run_is_completed_where_nothing_can_be_captured() {
    let Some(ground) = Ground::new(Player::ClaudeStream, "namespace", SCRIPT).await else { return };
    ground.install_hooks().await;
    std::fs::remove_dir_all(ground.shape.at("ostler/memory")).unwrap();
    std::fs::write(ground.shape.at("ostler/memory"), "").unwrap();
    let ended = ground.run(&["What is the retry limit?"]).await;
    let warned = |line: &&Value| line["text"].as_str().unwrap().contains("was not captured for memory");
    assert_eq!(ended.with("kind", "warn").filter(warned).count(), 1, "{:#?}", ended.lines);
}

/// By the time that a tool is used, our hooks for a new session and for a prompt have run.
#[tokio::test]
async fn our_hooks_leave_nothing_behind_the_wall() {
    let Some(ground) = Ground::new(Player::ClaudeStream, "namespace", USES_A_TOOL).await else { return };
    let found = ground.shape.workspace().join("found");
    let looks = format!(
        "find $HOME $OSTLER_HOME -path '*ostler/*' > {0}; echo jail=$OSTLER_JAIL >> {0}",
        found.display()
    );
    let path = ground.shape.at("home/.claude/settings.json");
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    settings["hooks"] = json!({"PostToolUse": [{"hooks": [{"type": "command", "command": looks}]}]});
    std::fs::write(&path, settings.to_string()).unwrap();
    ground.install_hooks().await;
    ground.run(&["Use it."]).await;
    let found = std::fs::read_to_string(found).unwrap();
    assert!(found.contains("/private/") && found.contains("jail=1"), "{found}");
    assert!(!found.contains("/memory"), "{found}");
}
