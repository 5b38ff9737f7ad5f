//! Claude Code. Facts: observed on 2.1.197.
//!
//! `launch` starts it, `control` is what is said to it, `decoder` what it says on its standard output, `transcript` what
//! it writes into its own file. `terminal` is what is different where its own screen is driven: `screen` what it shows,
//! `prompt` what it takes, `hook` what it asks, `last_words` why it ended, `order` in which order its file is read.

mod calls;
mod control;
mod decoder;
mod heard;
mod hook;
mod last_words;
mod launch;
mod message;
mod network;
mod order;
mod prompt;
mod provider;
mod recorded;
mod remembered;
mod repository;
mod result;
mod running_cost;
mod screen;
mod screen_change;
mod seed;
mod state;
mod tenant;
mod terminal;
mod transcript;

pub(crate) use remembered::remembered;

use crate::agent::{
    Agent, ByHand, CostReports, Decoder, Engine, Launch, Order, Refusal, Seed, Setup, Stage, Task,
    TranscriptPlace, Whereabouts, pairs, words,
};
use crate::bridge::SERVER;
use crate::canonical::Message;
use crate::endpoint::{Configuration, Provider};
use crate::event::Usage;
use crate::jail::{AgentState, StatePlaces};
use crate::network::AgentNetwork;
use crate::package::{Native, Package};
use crate::repository_config::{ConfigEntry, InstructionFiles};
use crate::source::Twins;
use crate::tenant::{AccessRefusal, TenantAccess};
use crate::terminal::Interactive;

/// The npm package of Claude Code.
pub static CLAUDE: Package = Package {
    slot: "claude",
    npm: "@anthropic-ai/claude-code",
    program: "claude",
    verified: "2.1.197",
    natives: &[
        Native { os: "linux", arch: "x86_64", path: "@anthropic-ai/claude-code-linux-x64/claude" },
        Native { os: "linux", arch: "x86_64", path: "@anthropic-ai/claude-code-linux-x64-musl/claude" },
        Native { os: "linux", arch: "aarch64", path: "@anthropic-ai/claude-code-linux-arm64/claude" },
        Native { os: "linux", arch: "aarch64", path: "@anthropic-ai/claude-code-linux-arm64-musl/claude" },
        Native { os: "macos", arch: "x86_64", path: "@anthropic-ai/claude-code-darwin-x64/claude" },
        Native { os: "macos", arch: "aarch64", path: "@anthropic-ai/claude-code-darwin-arm64/claude" },
    ],
};

/// Claude Code driven by stream-json over pipes.
pub struct Claude;

/// Claude Code's own terminal program.
pub struct ClaudeTerminal;

impl Agent for Claude {
    fn name(&self) -> &'static str {
        "claude-headless"
    }
    fn title(&self) -> &'static str {
        "Claude Code"
    }
    fn engine(&self) -> Engine {
        Engine::Stream
    }
    fn package(&self) -> &'static Package {
        &CLAUDE
    }
    fn login(&self) -> &'static [&'static str] {
        &["auth", "login"]
    }
    fn rehearsed(&self, stage: &Stage) -> Setup {
        rehearsed(stage)
    }
    fn network(&self, configuration: &Configuration<'_>) -> AgentNetwork {
        network::network(configuration)
    }
    fn tenant_access(&self, configuration: &Configuration<'_>) -> Result<TenantAccess, AccessRefusal> {
        tenant::access(configuration)
    }
    fn tenant_setup(&self, stage: &Stage, access: &TenantAccess) -> Setup {
        tenant::setup(stage, access)
    }
    fn by_hand(&self, prompt: &str) -> ByHand {
        ByHand {
            args: words(["-p", "--permission-mode", "bypassPermissions", prompt]),
            // The user who pastes it may be root.
            env: launch::in_sandbox(),
        }
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
    fn tool_name(&self, tool: &str) -> Option<String> {
        Some(format!("mcp__{SERVER}__{tool}"))
    }
    fn speak(&self, order: &Order) -> Option<String> {
        Some(control::line(order))
    }
    fn cost_reports(&self) -> CostReports {
        CostReports::Always
    }
    /// Some versions add what the session had used before to what this process uses.
    fn decoder(&self, before: Option<Usage>) -> Box<dyn Decoder> {
        Box::new(decoder::Claude { before, reports_cost: true, ..decoder::Claude::default() })
    }
    fn provider(&self, configuration: &Configuration<'_>) -> Option<Provider> {
        provider::provider(configuration)
    }
    /// Both have one `uuid`.
    fn twins(&self) -> Twins {
        Twins::Named
    }
    fn seed(&self, seed: &Seed<'_>) -> Option<String> {
        Some(seed::seed(seed))
    }
    fn recorded(&self, transcript: &str) -> Option<Vec<Message>> {
        Some(recorded::recorded(transcript))
    }
    fn transcript(&self, whereabouts: &Whereabouts<'_>) -> Option<TranscriptPlace> {
        Some(transcript::place(whereabouts))
    }
    fn state(&self, places: &StatePlaces<'_>) -> AgentState {
        state::state(places)
    }
}

impl Agent for ClaudeTerminal {
    fn name(&self) -> &'static str {
        "claude"
    }
    fn title(&self) -> &'static str {
        "Claude Code"
    }
    fn engine(&self) -> Engine {
        Engine::Terminal
    }
    fn package(&self) -> &'static Package {
        &CLAUDE
    }
    fn login(&self) -> &'static [&'static str] {
        &["auth", "login"]
    }
    fn rehearsed(&self, stage: &Stage) -> Setup {
        let mut setup = rehearsed(stage);
        setup.files.push(terminal::settled(stage));
        setup
    }
    fn network(&self, configuration: &Configuration<'_>) -> AgentNetwork {
        network::network(configuration)
    }
    fn tenant_access(&self, configuration: &Configuration<'_>) -> Result<TenantAccess, AccessRefusal> {
        tenant::access(configuration)
    }
    fn tenant_setup(&self, stage: &Stage, access: &TenantAccess) -> Setup {
        let mut setup = tenant::setup(stage, access);
        setup.files.push(terminal::settled(stage));
        setup
    }
    fn by_hand(&self, prompt: &str) -> ByHand {
        ByHand { args: words([prompt]), ..ByHand::default() }
    }
    fn launch(&self, task: &Task<'_>) -> Result<Launch, Refusal> {
        terminal::Terminal.launch(task)
    }
    fn repository_config(&self) -> &'static [ConfigEntry] {
        &repository::CONFIG
    }
    fn instruction_files(&self) -> InstructionFiles {
        repository::INSTRUCTIONS
    }
    fn tool_name(&self, tool: &str) -> Option<String> {
        Claude.tool_name(tool)
    }
    /// Its transcript has tokens and no cost, and it takes no limit.
    fn decoder(&self, before: Option<Usage>) -> Box<dyn Decoder> {
        Box::new(decoder::Claude { before, ..decoder::Claude::default() })
    }
    fn provider(&self, configuration: &Configuration<'_>) -> Option<Provider> {
        Claude.provider(configuration)
    }
    fn twins(&self) -> Twins {
        Claude.twins()
    }
    fn interactive(&self) -> Option<&'static dyn Interactive> {
        Some(&terminal::Terminal)
    }
    fn seed(&self, seed: &Seed<'_>) -> Option<String> {
        Claude.seed(seed)
    }
    fn recorded(&self, transcript: &str) -> Option<Vec<Message>> {
        Claude.recorded(transcript)
    }
    fn transcript(&self, whereabouts: &Whereabouts<'_>) -> Option<TranscriptPlace> {
        Claude.transcript(whereabouts)
    }
    fn state(&self, places: &StatePlaces<'_>) -> AgentState {
        Claude.state(places)
    }
}

fn rehearsed(stage: &Stage) -> Setup {
    let settings = stage.home.join(".claude");
    Setup {
        env: pairs([
            ("HOME", stage.home.display().to_string()),
            ("TMPDIR", stage.temporary().display().to_string()),
            ("CLAUDE_CONFIG_DIR", settings.display().to_string()),
            ("ANTHROPIC_BASE_URL", stage.url.clone()),
            ("ANTHROPIC_API_KEY", stage.key.clone()),
            ("DISABLE_TELEMETRY", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ]),
        folders: vec![stage.temporary()],
        files: Vec::new(),
    }
}
