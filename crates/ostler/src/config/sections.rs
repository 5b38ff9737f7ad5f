//! What can be configured: one type per section. The doc comments are the descriptions in the published schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use ostler_agent::agents::AGENTS;
use ostler_agent::endpoint::Endpoint;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::values::{Count, FilePath, Money, NetSetting, Span, Switch, TerminalSize, below_home};
use crate::commands::run::Level;

/// The values that hold when nothing is set.
pub(super) const DEFAULTS: &str = "[display]\ncolor = \"auto\"\n\n[log]\nfilter = \"off\"\n";

/// Ostler's configuration. The file of a project that is not trusted may only tighten it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) agents: Agents,
    pub(crate) install: Install,
    pub(crate) rehearse: Rehearse,
    pub(crate) serve: Serve,
    pub(crate) run: Run,
    pub(crate) jail: Jail,
    /// What models cost, by the names that agents report, for agents that report no cost. A project's file may only set
    /// them if the project is trusted.
    pub(crate) prices: BTreeMap<String, PriceSection>,
    pub(crate) network: Network,
    pub(crate) notify: Notify,
    /// MCP servers whose tools may be passed on to agents, by name. A project's file may only set them if the project is
    /// trusted.
    pub(crate) mcp: BTreeMap<String, McpServer>,
    pub(crate) display: Display,
    pub(crate) log: Log,
}

/// Agents: which one is taken when none is named, and a section for each.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Agents {
    pub(crate) default: Option<String>,
    sections: BTreeMap<&'static str, AgentSection>,
}

/// One agent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentSection {
    /// The program to start instead of the one that Ostler installed or that is on PATH. A project's file may only
    /// set it if the project is trusted.
    pub(crate) program: Option<ProgramPath>,
}

/// Installing agents.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Install {
    /// The npm to install with, instead of the one on PATH. A project's file may only set it if the project is
    /// trusted.
    pub(crate) npm: Option<ProgramPath>,
}

/// The scripted model server.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rehearse {
    /// The address to listen on, such as `127.0.0.1:0`. A project's file may only set one that other machines can
    /// reach if the project is trusted.
    pub(crate) listen: Option<String>,
    /// The script to play: a built-in name or a file, taken from the folder of this file, or from the project's own.
    /// A project's file may only set a file if the project is trusted.
    pub(crate) script: Option<String>,
}

/// Serving agents to programs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Serve {
    /// How many sessions may wait with their process, instead of half of those that may live at once. Others are parked.
    pub(crate) max_idle: Option<Count>,
    /// How long a session waits before it is parked.
    pub(crate) idle_for: Option<Span>,
    /// What all sessions together may take of the memory, in megabytes.
    pub(crate) max_memory_mb: Option<Count>,
    /// Break off a turn in which the agent says nothing for so long.
    pub(crate) silence: Option<Span>,
    /// Break off a turn that takes longer than this.
    pub(crate) max_turn: Option<Span>,
    /// What request bodies above 64 kB may take together until their turns are over, in megabytes.
    pub(crate) max_body_mb: Option<Count>,
    /// What those of one key may take, in megabytes.
    pub(crate) max_key_body_mb: Option<Count>,
    /// How many connections may be open at once.
    pub(crate) max_connections: Option<Count>,
    /// How many of them may come from one address.
    pub(crate) max_peer_connections: Option<Count>,
    /// How many requests a minute a tenant's key may make that has no limit of its own.
    pub(crate) requests_per_minute: Option<Count>,
    /// How many turns such a key may have at once.
    pub(crate) turns_at_once: Option<Count>,
    /// How many questions of its agents such a key may have open.
    pub(crate) open_questions: Option<Count>,
    /// What conversations of all keys may take on disk, in megabytes.
    pub(crate) max_conversations_mb: Option<Count>,
    /// What those of one key may take, in megabytes.
    pub(crate) max_key_conversations_mb: Option<Count>,
    /// A PEM file with the certificate that encrypts connections, its chain included. Needs `tls_key`.
    pub(crate) tls_cert: Option<FilePath>,
    /// A PEM file with the private key of the certificate.
    pub(crate) tls_key: Option<FilePath>,
    /// Other names of models, for programs whose models have fixed names: `"gpt-4o" = "claude"`.
    pub(crate) models: BTreeMap<String, String>,
}

/// What holds for every run unless a flag says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Run {
    /// What the agent may do without asking. A project's file may only raise it if the project is trusted.
    pub(crate) permissions: Option<Level>,
    /// Stop if nothing is heard of it after its start.
    pub(crate) start: Option<Span>,
    /// Stop if nothing is heard while no tool runs.
    pub(crate) silence: Option<Span>,
    /// Stop if nothing is heard while a tool runs.
    pub(crate) open_call: Option<Span>,
    /// Stop when the same call came so often with the same result.
    pub(crate) r#loop: Option<Count>,
    /// Stop after this time with a running agent, its retries included.
    pub(crate) ceiling: Option<Span>,
    /// Wait no longer than this for a quota, the network or a person; not counted by the ceiling.
    pub(crate) max_wait: Option<Span>,
    /// How often a session is resumed that ended early, after an outage or after a crash.
    pub(crate) max_resumes: Option<Count>,
    /// The first pause before a resume after an outage or a crash. Later pauses are multiples of it.
    pub(crate) resume_pause: Option<Span>,
    /// When the usage limit or a rate limit is reached, wait until it is reset.
    pub(crate) wait_for_quota: Option<Switch>,
    /// Stop once the cost reaches this many US dollars.
    pub(crate) max_cost: Option<Money>,
    /// Stop once this many tokens are used, read and written.
    pub(crate) max_tokens: Option<Count>,
    /// Stop after this many turns: prompts that the agent answered, resumes included.
    pub(crate) max_turns: Option<Count>,
    /// Whether agents get a bridge, at which they hand over and declare completion.
    pub(crate) bridge: Option<Switch>,
    /// How large the terminal of an agent is that has one, as in `"120x40"`. Whoever takes it over gives it the size of
    /// their own.
    pub(crate) terminal_size: Option<TerminalSize>,
}

/// The jail around an agent that may not do everything.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Jail {
    /// What an agent can read besides the workspace and the system. A project's file may only set it if the project is
    /// trusted.
    pub(crate) read: Paths,
    /// What an agent cannot see, although it could otherwise. A project's file may only set it if the project is trusted.
    pub(crate) hide: Paths,
    /// What an agent may reach in the network: `provider`, `hosts=HOST,…` or `all` [default: provider]. A project's file may
    /// only set it if the project is trusted.
    pub(crate) net: Option<NetSetting>,
}

/// The price of one model, in US dollars per million tokens. It counts if `input` and `output` are set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PriceSection {
    /// Tokens that the model reads.
    pub(crate) input: Option<Money>,
    /// Tokens that the model writes.
    pub(crate) output: Option<Money>,
    /// Tokens that it reads from a cache [default: as `input`].
    pub(crate) cache_read: Option<Money>,
    /// Tokens that it reads and that are put into a cache [default: as `input`].
    pub(crate) cache_write: Option<Money>,
}

/// Whom to tell how a run ended.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Notify {
    /// A program and its arguments, in words as in a shell, without one: it is started when a run ends, with the
    /// outcome as JSON on its standard input, `prompt` and `cwd` included. Ostler waits 3 seconds for it and then leaves
    /// it running. A project's file may only set it if the project is trusted.
    pub(crate) command: Option<CommandWords>,
}

/// One MCP server: an address, or a program. An agent gets its tools if the run grants `upstream:NAME`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct McpServer {
    /// Where it is, as in `http://127.0.0.1:9000/mcp`.
    pub(crate) url: Option<String>,
    /// The program that serves on its standard input and output, and its arguments, in words as in a shell, without one.
    pub(crate) command: Option<String>,
    /// What is sent with every request; `${NAME}` stands for a variable.
    pub(crate) headers: BTreeMap<String, String>,
    /// Whether its program runs in the jail of the run [default: true]. `false` is obeyed only in the user's own file, and
    /// only for a program that is named there too.
    pub(crate) jail: Option<Switch>,
}

/// The way to the agents' providers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Network {
    /// Where to connect, as `host:port`, to find out whether this machine is offline when an agent cannot reach its
    /// provider, instead of the provider that the agent is known to use; `off` for nowhere. Nothing is sent. A project's
    /// file may only set it if the project is trusted.
    pub(crate) probe: Option<ProbeAt>,
}

/// A host and a port, or `off`.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct ProbeAt(#[schemars(regex(pattern = "^off$|.:[0-9]+$"))] String);

impl ProbeAt {
    /// What it says; nothing for `off`.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        Endpoint::parse(&self.0)
    }
}

impl<'de> Deserialize<'de> for ProbeAt {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text == "off" || Endpoint::parse(&text).is_some() {
            Ok(Self(text))
        } else {
            Err(D::Error::custom(format!(
                "`{text}` is not a host and a port; try: write it as in \"api.example.com:443\", or \"off\""
            )))
        }
    }
}

/// What people see.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Display {
    /// When to use colours.
    pub(crate) color: ColorWhen,
}

/// When to use colours; `auto` is on a terminal, unless NO_COLOR is set.
// The variants have no comments of their own: clap would print a paragraph on each, below every command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

/// What Ostler says about its own work.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// A level (`off`, `error`, `warn`, `info`, `debug`, `trace`), or parts with their levels, as in
    /// `ostler_process=debug`.
    pub(crate) filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "off".to_owned() }
    }
}

impl ColorWhen {
    /// The word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Where a program is: absolute, or below the home directory.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct ProgramPath(#[schemars(regex(pattern = "^(/|~/)."))] String);

impl ProgramPath {
    /// With `~` replaced.
    pub(crate) fn resolve(&self) -> PathBuf {
        below_home(&self.0)
    }
}

/// Files and directories: absolute, or below the home directory. In a variable they are separated by `:`.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Paths(Vec<ProgramPath>);

impl Paths {
    /// With `~` replaced.
    pub(crate) fn resolve(&self) -> Vec<PathBuf> {
        self.0.iter().map(ProgramPath::resolve).collect()
    }
}

/// A program and its arguments, in words as in a shell.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct CommandWords(String);

impl CommandWords {
    /// As they were written.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for CommandWords {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let words = shlex::split(&text);
        if words.is_some_and(|words| words.first().is_some_and(|program| !program.is_empty())) {
            Ok(Self(text))
        } else {
            // The part after `try:` becomes the hint.
            Err(D::Error::custom(format!(
                "`{text}` names no program, or has a quote that is never closed try: write it as in a shell"
            )))
        }
    }
}

impl<'de> Deserialize<'de> for ProgramPath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let placed = text.starts_with('/') || text.starts_with("~/");
        if placed {
            Ok(Self(text))
        } else {
            // The part after `try:` becomes the hint.
            Err(D::Error::custom(format!(
                "`{text}` is not a path that begins with `/` or `~/`; try: write where the program is, as in \
                 \"/usr/local/bin/{}\"",
                text.rsplit('/').next().unwrap_or_default()
            )))
        }
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            List(Vec<String>),
        }
        let texts = match Written::deserialize(from)? {
            Written::Text(text) => {
                text.split(':').filter(|path| !path.is_empty()).map(str::to_owned).collect()
            }
            Written::List(texts) => texts,
        };
        let path = |text: String| match text.starts_with('/') || text == "~" || text.starts_with("~/") {
            true => Ok(ProgramPath(text)),
            false => Err(D::Error::custom(format!(
                "`{text}` is not a path that begins with `/` or `~/`; try: write the whole path"
            ))),
        };
        texts.into_iter().map(path).collect::<Result<_, _>>().map(Self)
    }
}

impl Agents {
    /// What is set as that agent's program.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        self.sections.get(name)?.program.as_ref().map(ProgramPath::resolve)
    }
}

/// A key of `[agents]`: `default`, or an agent's name.
enum AgentsKey {
    Default,
    Agent(&'static str),
}

fn known_agent(name: &str) -> Option<&'static str> {
    AGENTS.iter().map(|agent| agent.name()).find(|known| *known == name)
}

/// In the words of serde, which the reader of documents knows how to put for people.
fn expected(kind: &str, name: &str, also: &[&str]) -> String {
    let names = AGENTS.iter().map(|agent| agent.name());
    let valid: Vec<_> = also.iter().copied().chain(names).map(|name| format!("`{name}`")).collect();
    format!("unknown {kind} `{name}`, expected one of {}", valid.join(", "))
}

impl<'de> Deserialize<'de> for AgentsKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        match known_agent(&name) {
            _ if name == "default" => Ok(Self::Default),
            Some(agent) => Ok(Self::Agent(agent)),
            None => Err(D::Error::custom(expected("field", &name, &["default"]))),
        }
    }
}

struct DefaultAgent(String);

impl<'de> Deserialize<'de> for DefaultAgent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        match known_agent(&name) {
            Some(_) => Ok(Self(name)),
            None => Err(D::Error::custom(expected("variant", &name, &[]))),
        }
    }
}

impl<'de> Deserialize<'de> for Agents {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = Agents;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a table of agents")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Agents, A::Error> {
                let mut agents = Agents::default();
                while let Some(key) = map.next_key()? {
                    match key {
                        AgentsKey::Default => agents.default = Some(map.next_value::<DefaultAgent>()?.0),
                        AgentsKey::Agent(name) => {
                            agents.sections.insert(name, map.next_value()?);
                        }
                    }
                }
                Ok(agents)
            }
        }
        from.deserialize_map(Table)
    }
}

impl JsonSchema for Agents {
    fn schema_name() -> Cow<'static, str> {
        "Agents".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = AGENTS.iter().map(|agent| agent.name()).collect();
        let section = generator.subschema_for::<AgentSection>();
        let mut properties = serde_json::Map::new();
        properties.insert(
            "default".to_owned(),
            serde_json::json!({
                "description": "The agent that is taken when none is named.",
                "type": "string",
                "enum": names,
            }),
        );
        for name in names {
            properties.insert(name.to_owned(), section.clone().to_value());
        }
        json_schema!({
            "description": "Agents: which one is taken when none is named, and a section for each.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}
