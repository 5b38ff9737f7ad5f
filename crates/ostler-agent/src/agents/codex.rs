//! Codex. Facts: observed on 0.166.0.

use crate::agent::{
    Agent, DUMMY_KEY, Decoder, Engine, Launch, PrivateFile, Refusal, Session, Setup, Stage, Stdin, Task,
    pairs, words,
};
use crate::event::Usage;
use crate::package::{Native, Package};

/// The npm package of Codex.
pub static CODEX: Package = Package {
    slot: "codex",
    npm: "@openai/codex",
    program: "codex",
    verified: "0.166.0",
    natives: &[
        Native {
            os: "linux",
            arch: "x86_64",
            path: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        },
        Native {
            os: "linux",
            arch: "aarch64",
            path: "@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
        },
        Native {
            os: "macos",
            arch: "x86_64",
            path: "@openai/codex-darwin-x64/vendor/x86_64-apple-darwin/bin/codex",
        },
        Native {
            os: "macos",
            arch: "aarch64",
            path: "@openai/codex-darwin-arm64/vendor/aarch64-apple-darwin/bin/codex",
        },
    ],
};

/// The model that a rehearsed Codex believes it talks to. The name decides which tools it offers: this one has a
/// shell and `apply_patch`; newer ones take their tools through JavaScript, unknown ones lose `apply_patch`.
const REHEARSED_MODEL: &str = "gpt-5.5";

/// Background features that call home. Without network they delay the exit by seconds.
const QUIET: [&str; 8] = [
    "--disable",
    "unbounded_connection_retries",
    "--disable",
    "plugins",
    "--disable",
    "apps",
    "--disable",
    "remote_plugin",
];

/// Codex driven by `exec --json`.
pub struct Codex;

impl Agent for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }
    fn title(&self) -> &'static str {
        "Codex"
    }
    fn engine(&self) -> Engine {
        Engine::Stream
    }
    fn package(&self) -> &'static Package {
        &CODEX
    }
    fn rehearsed(&self, stage: &Stage) -> Setup {
        let home = stage.home.join(".codex");
        Setup {
            env: pairs([
                ("HOME", stage.home.display().to_string()),
                ("TMPDIR", stage.temporary().display().to_string()),
                ("CODEX_HOME", home.display().to_string()),
                ("OSTLER_REHEARSAL_KEY", DUMMY_KEY.to_owned()),
            ]),
            folders: vec![stage.temporary()],
            files: vec![PrivateFile { path: home.join("config.toml"), content: provider(&stage.url) }],
        }
    }
    fn by_hand(&self, prompt: &str) -> Vec<String> {
        words(["exec", "--dangerously-bypass-approvals-and-sandbox", prompt])
    }
    fn launch(&self, task: &Task<'_>) -> Result<Launch, Refusal> {
        let mut args = words(["exec"]);
        if matches!(task.session, Session::Resumed(_)) {
            args.push("resume".to_owned());
        }
        args.extend(words(["--json", "--dangerously-bypass-approvals-and-sandbox"]));
        args.extend(words(QUIET));
        match task.session {
            Session::Resumed(session) => args.push(session.to_owned()),
            // `resume` has no -C: there the working directory of the process decides.
            Session::New | Session::Minted(_) => {
                args.extend(words(["-C", &task.workspace.display().to_string()]));
            }
        }
        // The prompt goes to stdin, so that a long one does not meet the limit on arguments.
        args.push("-".to_owned());
        let stdin = Stdin::Text(task.prompt.to_owned());
        Ok(Launch { args, env: Vec::new(), stdin, warnings: Vec::new() })
    }
    fn decoder(&self, _before: Option<Usage>) -> Box<dyn Decoder> {
        Box::new(super::Unread)
    }
}

fn provider(url: &str) -> String {
    format!(
        r#"model = "{REHEARSED_MODEL}"
model_provider = "rehearsal"
analytics.enabled = false
features = {{ unbounded_connection_retries = false, plugins = false, apps = false, remote_plugin = false }}

[model_providers.rehearsal]
name = "rehearsal"
base_url = "{url}/v1"
env_key = "OSTLER_REHEARSAL_KEY"
"#
    )
}
