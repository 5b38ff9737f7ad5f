//! OpenCode. Facts: observed on 1.18.33.
//!
//! `launch` starts it, `decoder` reads its standard output, `log` what it logs. Its own record is a database, which is
//! not read.

mod decoder;
mod launch;
mod log;
mod model_prices;
mod network;
mod remembered;
mod repository;
mod settings;
mod state;
mod tenant;

pub(crate) use remembered::remembered;

use serde_json::json;

use crate::agent::{
    Agent, ByHand, CostReports, Decoder, Engine, Launch, PrivateFile, Refusal, Setup, Stage, Task,
    TranscriptPlace, Whereabouts, pairs, words,
};
use crate::bridge::SERVER;
use crate::endpoint::Configuration;
use crate::event::Usage;
use crate::jail::{AgentState, StatePlaces};
use crate::network::AgentNetwork;
use crate::package::{Native, Package};
use crate::repository_config::{ConfigEntry, Content};
use crate::tenant::{AccessRefusal, TenantAccess};

/// The npm package of OpenCode.
pub static OPENCODE: Package = Package {
    slot: "opencode",
    npm: "opencode-ai",
    program: "opencode",
    verified: "1.18.33",
    natives: &[
        Native { os: "linux", arch: "x86_64", path: "opencode-linux-x64/bin/opencode" },
        // For processors without AVX2, on which the first one dies at once.
        Native { os: "linux", arch: "x86_64", path: "opencode-linux-x64-baseline/bin/opencode" },
        Native { os: "linux", arch: "x86_64", path: "opencode-linux-x64-musl/bin/opencode" },
        Native { os: "linux", arch: "x86_64", path: "opencode-linux-x64-baseline-musl/bin/opencode" },
        Native { os: "linux", arch: "aarch64", path: "opencode-linux-arm64/bin/opencode" },
        Native { os: "linux", arch: "aarch64", path: "opencode-linux-arm64-musl/bin/opencode" },
        Native { os: "macos", arch: "x86_64", path: "opencode-darwin-x64/bin/opencode" },
        Native { os: "macos", arch: "x86_64", path: "opencode-darwin-x64-baseline/bin/opencode" },
        Native { os: "macos", arch: "aarch64", path: "opencode-darwin-arm64/bin/opencode" },
    ],
};

/// OpenCode driven by `run --format json`.
pub struct OpenCode;

impl Agent for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }
    fn title(&self) -> &'static str {
        "OpenCode"
    }
    fn engine(&self) -> Engine {
        Engine::Stream
    }
    fn package(&self) -> &'static Package {
        &OPENCODE
    }
    fn settings_variable(&self) -> Option<&'static str> {
        Some(settings::VARIABLE)
    }
    fn login(&self) -> &'static [&'static str] {
        &["auth", "login"]
    }
    fn rehearsed(&self, stage: &Stage) -> Setup {
        let config = stage.home.join("opencode.json");
        let one = || "1".to_owned();
        Setup {
            env: pairs([
                ("HOME", stage.home.display().to_string()),
                ("TMPDIR", stage.temporary().display().to_string()),
                ("OPENCODE_CONFIG", config.display().to_string()),
                ("OPENCODE_DISABLE_MODELS_FETCH", one()),
                ("OPENCODE_DISABLE_AUTOUPDATE", one()),
                ("OPENCODE_PURE", one()),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", one()),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", one()),
                // At every start it fetches a plugin package in the background; told to be offline, it tries nothing.
                ("npm_config_offline", "true".to_owned()),
            ]),
            folders: vec![stage.temporary()],
            files: vec![PrivateFile { path: config, content: provider(stage) }],
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
        ByHand {
            args: words(["run", "--title", "rehearsal", prompt]),
            env: pairs([("OPENCODE_PERMISSION", json!({"*": "allow"}).to_string())]),
        }
    }
    fn launch(&self, task: &Task<'_>) -> Result<Launch, Refusal> {
        launch::launch(task)
    }
    fn repository_config(&self) -> &'static [ConfigEntry] {
        &repository::CONFIG
    }
    fn before_own_edits(&self, path: &str, bytes: &[u8]) -> Content {
        repository::before_own_edits(path, bytes)
    }
    fn tool_name(&self, tool: &str) -> Option<String> {
        Some(format!("{SERVER}_{tool}"))
    }
    fn cost_reports(&self) -> CostReports {
        CostReports::ByModel(&model_prices::OwnPrices)
    }
    /// It tells what each step used: `before` is not needed.
    fn decoder(&self, _before: Option<Usage>) -> Box<dyn Decoder> {
        Box::new(decoder::OpenCode::default())
    }
    fn transcript(&self, whereabouts: &Whereabouts<'_>) -> Option<TranscriptPlace> {
        let folder = whereabouts.folder("XDG_DATA_HOME", ".local/share").join("opencode");
        let files = ["opencode.db-wal", "opencode.db"].map(|name| folder.join(name));
        Some(TranscriptPlace::Growth { files: files.into() })
    }
    fn state(&self, places: &StatePlaces<'_>) -> AgentState {
        state::state(places)
    }
}

fn provider(stage: &Stage) -> String {
    // Without `enabled_providers` it offers hosted models that need no key.
    json!({
        "autoupdate": false,
        "share": "disabled",
        "enabled_providers": ["rehearsal"],
        "model": "rehearsal/scripted",
        "small_model": "rehearsal/scripted",
        "provider": {"rehearsal": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": format!("{}/v1", stage.url), "apiKey": stage.key},
            "models": {"scripted": {"name": "scripted", "limit": {"context": 128_000, "output": 8_000}}},
        }},
    })
    .to_string()
}
