//! Codex. Facts: observed on 0.166.0.
//!
//! `launch` starts it, `decoder` reads its standard output, `rollout` its own file, `calls` what each model call used.

mod calls;
mod decoder;
mod launch;
mod network;
mod provider;
mod remembered;
mod repository;
mod rollout;
mod state;
mod tenant;

pub(crate) use remembered::remembered;

use std::path::PathBuf;

use crate::agent::{
    Agent, ByHand, Decoder, Engine, Launch, PrivateFile, Refusal, Setup, Stage, Task, TranscriptPlace,
    Whereabouts, pairs, words,
};
use crate::bridge::SERVER;
use crate::endpoint::{Configuration, Provider};
use crate::event::Usage;
use crate::jail::{AgentState, StatePlaces};
use crate::network::AgentNetwork;
use crate::package::{Native, Package};
use crate::repository_config::{ConfigEntry, InstructionFiles};
use crate::tenant::{AccessRefusal, TenantAccess};

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

/// The variable that a rehearsed Codex finds its key in.
const REHEARSAL_KEY: &str = "OSTLER_REHEARSAL_KEY";

/// Codex driven by `exec --json`.
pub struct Codex;

/// The longest prompt that it takes, in characters: "Input exceeds the maximum length of 1048576 characters."
const LONGEST_PROMPT: usize = 1_048_576;

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
    fn is_too_long(&self, prompt: &str) -> bool {
        prompt.len() > LONGEST_PROMPT && prompt.chars().count() > LONGEST_PROMPT
    }
    fn package(&self) -> &'static Package {
        &CODEX
    }
    fn login(&self) -> &'static [&'static str] {
        &["login"]
    }
    fn rehearsed(&self, stage: &Stage) -> Setup {
        let home = stage.home.join(".codex");
        Setup {
            env: pairs([
                ("HOME", stage.home.display().to_string()),
                ("TMPDIR", stage.temporary().display().to_string()),
                ("CODEX_HOME", home.display().to_string()),
                (REHEARSAL_KEY, stage.key.clone()),
            ]),
            folders: vec![stage.temporary()],
            files: vec![PrivateFile { path: home.join("config.toml"), content: provider(&stage.url) }],
        }
    }
    fn network(&self, configuration: &Configuration<'_>) -> AgentNetwork {
        network::network(configuration)
    }
    fn tenant_access(&self, configuration: &Configuration<'_>) -> Result<TenantAccess, AccessRefusal> {
        tenant::access(configuration)
    }
    fn tenant_setup(&self, stage: &Stage, access: &TenantAccess) -> Setup {
        match access.is_rehearsed() {
            true => self.rehearsed(&Stage { url: access.first_url(&stage.url), ..stage.clone() }),
            false => tenant::setup(stage, access),
        }
    }
    fn by_hand(&self, prompt: &str) -> ByHand {
        let args = words(["exec", "--dangerously-bypass-approvals-and-sandbox", prompt]);
        ByHand { args, ..ByHand::default() }
    }
    fn launch(&self, task: &Task<'_>) -> Result<Launch, Refusal> {
        launch::launch(task)
    }
    fn repository_config(&self) -> &'static [ConfigEntry] {
        &repository::CONFIG
    }
    fn instruction_files(&self) -> InstructionFiles {
        repository::INSTRUCTIONS
    }
    /// Its model calls a tool of a server by the server's namespace; `mcp__ostler__x` in one word is refused.
    fn tool_name(&self, tool: &str) -> Option<String> {
        Some(format!("mcp__{SERVER}.{tool}"))
    }
    fn decoder(&self, before: Option<Usage>) -> Box<dyn Decoder> {
        Box::new(decoder::Codex::new(before))
    }
    fn provider(&self, configuration: &Configuration<'_>) -> Option<Provider> {
        provider::provider(configuration)
    }
    /// `<home>/sessions/<year>/<month>/<day>/rollout-<time>-<thread>.jsonl`: the day is that of the first turn.
    fn transcript(&self, whereabouts: &Whereabouts<'_>) -> Option<TranscriptPlace> {
        Some(TranscriptPlace::Below {
            folder: whereabouts.folder("CODEX_HOME", ".codex").join("sessions"),
            suffix: format!("-{}.jsonl", whereabouts.session),
        })
    }
    fn state(&self, places: &StatePlaces<'_>) -> AgentState {
        state::state(places)
    }
}

/// Where its settings and sign-in are.
fn codex_home(configuration: &Configuration<'_>) -> Option<PathBuf> {
    let named = configuration.variable("CODEX_HOME").map(PathBuf::from);
    named.or_else(|| Some(configuration.home()?.join(".codex")))
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
env_key = "{REHEARSAL_KEY}"
"#
    )
}
