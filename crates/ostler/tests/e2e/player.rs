//! The ways in which real agents are played, and what their records mean: just enough to judge a play.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, AsRoot, Launch, Session, Stdin, Task};
use ostler_agent::agents::{Claude, Codex, OpenCode};
use serde_json::Value;

/// A real agent, driven in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Player {
    /// `claude -p` with the prompt as text.
    ClaudeOneShot,
    /// `claude -p --input-format stream-json`.
    ClaudeStream,
    /// `codex exec --json`.
    Codex,
    /// `opencode run --format json`.
    OpenCode,
}

impl Player {
    pub(crate) fn agent(self) -> &'static dyn Agent {
        match self {
            Self::ClaudeOneShot | Self::ClaudeStream => &Claude,
            Self::Codex => &Codex,
            Self::OpenCode => &OpenCode,
        }
    }

    pub(crate) fn launch(self, task: &Task<'_>) -> Launch {
        match self {
            Self::ClaudeStream | Self::Codex | Self::OpenCode => self.agent().launch(task).unwrap(),
            Self::ClaudeOneShot => {
                let mut args = vec!["-p", "--output-format", "stream-json", "--verbose"];
                args.extend(["--permission-mode", "bypassPermissions"]);
                if let Session::Resumed(session) = task.session {
                    args.extend(["--resume", session]);
                }
                let args = args.into_iter().map(str::to_owned).collect();
                let stdin = Stdin::Text(task.prompt.to_owned());
                let (env, files, warnings) = (Vec::new(), Vec::new(), Vec::new());
                Launch { args, env, stdin, files, warnings, as_root: AsRoot::default() }
            }
        }
    }

    /// The agent's native binary, or a loud skip where it is not required.
    pub(crate) fn binary(self) -> Option<PathBuf> {
        let agents = std::env::var_os("OSTLER_TEST_AGENTS").map(PathBuf::from);
        let found = agents.and_then(|agents| native(self.agent(), &agents));
        if found.is_none() {
            let name = self.agent().name();
            let required = std::env::var_os("OSTLER_E2E").is_some_and(|value| value == "require");
            assert!(!required, "{name} is required and not below OSTLER_TEST_AGENTS: run ./test agents");
            // Not by a macro, whose output a passing test keeps to itself.
            let _ =
                writeln!(std::io::stderr(), "SKIPPED: {name} is not installed for tests; ./test runs this");
        }
        found
    }

    /// Everything the agent says it said, in order.
    pub(crate) fn said(self, records: &[Value]) -> Vec<String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match self {
            Self::ClaudeOneShot | Self::ClaudeStream => {
                let answers = records.iter().filter(|record| record["type"] == "assistant");
                let blocks = answers.flat_map(|record| record["message"]["content"].as_array().cloned());
                blocks.flatten().filter_map(|block| text(&block["text"])).collect()
            }
            Self::Codex => {
                let items = records.iter().filter(|record| record["type"] == "item.completed");
                let messages = items.filter(|record| record["item"]["type"] == "agent_message");
                messages.filter_map(|record| text(&record["item"]["text"])).collect()
            }
            Self::OpenCode => {
                let parts = records.iter().filter(|record| record["type"] == "text");
                parts.filter_map(|record| text(&record["part"]["text"])).collect()
            }
        }
    }

    /// Whether the records end with the agent's own word that the turn went well.
    pub(crate) fn ended_well(self, records: &[Value]) -> bool {
        // What Claude Code says after a result is about the session, not the turn.
        let after = |record: &&Value| record["type"] == "system" || record["type"] == "control_response";
        let Some(last) = records.iter().rev().find(|record| !after(record)) else { return false };
        match self {
            Self::ClaudeOneShot | Self::ClaudeStream => last["type"] == "result" && last["is_error"] == false,
            Self::Codex => last["type"] == "turn.completed",
            Self::OpenCode => last["type"] == "step_finish" && last["part"]["reason"] == "stop",
        }
    }

    /// The agent's own id of the session.
    pub(crate) fn session(self, records: &[Value]) -> Option<String> {
        let key = match self {
            Self::ClaudeOneShot | Self::ClaudeStream => "session_id",
            Self::Codex => "thread_id",
            Self::OpenCode => "sessionID",
        };
        records.iter().find_map(|record| record[key].as_str()).map(str::to_owned)
    }
}

fn native(agent: &dyn Agent, agents: &Path) -> Option<PathBuf> {
    let paths = agent.package().native_paths(std::env::consts::OS, std::env::consts::ARCH);
    paths.into_iter().map(|path| agents.join("node_modules").join(path)).find(|path| path.is_file())
}
