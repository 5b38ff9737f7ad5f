//! What is wanted of the bridge, and whether that is possible. Nothing is started or written here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ostler_agent::agent::Agent;
use ostler_agent::bridge::Tools;
use ostler_bridge::capability::{self, Capabilities, Capability, NoCapability};
use ostler_process::journal::JournalError;

use super::kinds::{KindsError, Rules};
use super::server::{Chosen, Wall, Way};
use crate::commands::run::choice::Choice;
use crate::commands::run::terms::{BridgeTerms, Terms};
use crate::config::{Origin, Settings};
use crate::surroundings::Surroundings;

/// What cannot be asked of a bridge.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BridgeUsage {
    #[error("agent `{agent}` cannot use a bridge, which {flag} needs")]
    NoBridge { agent: &'static str, flag: &'static str },
    #[error(transparent)]
    Capability(#[from] NoCapability),
    #[error("there is no kind of artifact called `{kind}`")]
    NoKind { kind: String, nearest: Option<String> },
    #[error("artifacts are required, and the capability `artifacts` is not granted")]
    NotGranted,
    #[error("there is no MCP server called `{name}`")]
    NoServer { name: String },
    #[error("two MCP servers are called `{name}`")]
    Twice { name: String },
    #[error("the MCP server `{name}` has {what}")]
    Server { name: String, what: String },
    #[error("the MCP server `{name}` has a header with `${{{variable}}}`, and there is no such variable")]
    Variable { name: String, variable: String },
    #[error("artifacts cannot be exported to {}: it is not a folder", .path.display())]
    Export { path: PathBuf },
    #[error(transparent)]
    Kinds(#[from] KindsError),
}

impl BridgeUsage {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoBridge { flag, .. } => format!("leave out {flag}, or use another agent"),
            Self::Capability(error) => return error.hint(),
            Self::NoKind { nearest: Some(name), .. } => format!("did you mean `{name}`?"),
            Self::NoKind { kind, nearest: None } => {
                format!("write its rules into `.ostler/artifacts/{kind}.toml`")
            }
            Self::NotGranted => "add `artifacts` to --capabilities".to_owned(),
            Self::NoServer { name } => {
                format!("say how it is reached: --mcp {name}=URL, or a section [mcp.{name}] in config.toml")
            }
            Self::Twice { .. } => "call one of them otherwise".to_owned(),
            Self::Server { name, .. } => {
                format!("write --mcp {name}=http://127.0.0.1:PORT/mcp, or --mcp '{name}=PROGRAM ARGUMENTS'")
            }
            Self::Variable { variable, .. } => format!("set {variable}"),
            Self::Export { .. } => "name a folder, or one that can be made".to_owned(),
            Self::Kinds(error) => return error.hint(),
        })
    }
}

/// What is wanted, and possible.
pub(in crate::commands::run) struct Wanted {
    pub(super) capabilities: Capabilities,
    pub(super) rules: Rules,
    pub(super) required: Vec<String>,
    pub(super) servers: Vec<Chosen>,
    /// Where memory is kept.
    pub(super) memory: PathBuf,
    pub(super) export: Option<PathBuf>,
}

impl Wanted {
    /// For a run; nothing, if it has no bridge.
    pub(in crate::commands::run) fn of(
        choice: &Choice,
        terms: &Terms,
        settings: &Settings,
        here: &Surroundings,
    ) -> Result<Option<Self>, BridgeUsage> {
        let Some(asked) = &terms.bridge else { return Ok(None) };
        let agent = choice.agent.agent();
        if Tools::of(agent).is_none() {
            return without(agent, asked).map(|()| None);
        }
        let earlier = choice.earlier.as_ref().map(|(kept, _)| kept.folder.as_path());
        let rules = Rules::of(&choice.workspace, earlier)?;
        if let Some(kind) = asked.require.iter().find(|kind| rules.kinds.find(kind).is_none()) {
            let nearest = rules.kinds.nearest(kind).map(str::to_owned);
            return Err(BridgeUsage::NoKind { kind: kind.clone(), nearest });
        }
        let mut capabilities = match &asked.capabilities {
            Some(list) => capability::parse(list)?,
            None => capability::usual(),
        };
        if !asked.require.is_empty() && !capabilities.contains(&Capability::Artifacts) {
            return Err(BridgeUsage::NotGranted);
        }
        if let Some(path) = asked.export.as_ref().filter(|path| path.exists() && !path.is_dir()) {
            return Err(BridgeUsage::Export { path: path.clone() });
        }
        let servers = servers(asked, &capabilities, settings, here)?;
        // To name a server is to grant it.
        capabilities.extend(servers.iter().map(|server| Capability::Upstream(server.name.clone())));
        let (required, export) = (asked.require.clone(), asked.export.clone());
        Ok(Some(Self { capabilities, rules, required, servers, memory: here.home.memory(), export }))
    }

    /// Keeps in the folder of the run what must not change while it lasts.
    pub(in crate::commands::run) fn keep(&self, run: &Path) -> Result<(), JournalError> {
        let failed = |source| JournalError::Write { path: run.to_owned(), source };
        self.rules.keep(run).map_err(failed)
    }
}

/// An agent that cannot use a bridge: what only a bridge can give is refused, all else goes without.
fn without(agent: &dyn Agent, asked: &BridgeTerms) -> Result<(), BridgeUsage> {
    let flags = [
        ("--require-artifact", !asked.require.is_empty()),
        ("--capabilities", asked.capabilities.is_some()),
        ("--mcp", !asked.mcp.is_empty()),
        ("--export-artifacts", asked.export.is_some()),
    ];
    match flags.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(BridgeUsage::NoBridge { agent: agent.name(), flag }),
        None => Ok(()),
    }
}

/// The servers that flags name, and those of the configuration that capabilities name.
fn servers(
    asked: &BridgeTerms,
    capabilities: &Capabilities,
    settings: &Settings,
    here: &Surroundings,
) -> Result<Vec<Chosen>, BridgeUsage> {
    let configured = &settings.config.mcp;
    let wall = |name: &str, program_from: &Origin| match settings.is_mcp_jailed(
        name,
        program_from,
        here.home.user_config(),
    ) {
        true => Wall::OfRun,
        false => Wall::None,
    };
    let mut chosen: Vec<Chosen> = Vec::new();
    for word in &asked.mcp {
        let (name, place) = word.split_once('=').unwrap_or((word, ""));
        if chosen.iter().any(|server| server.name == name) {
            return Err(BridgeUsage::Twice { name: name.to_owned() });
        }
        let headers = configured.get(name).map(|server| server.headers.clone()).unwrap_or_default();
        let wall = wall(name, &Origin::Flag("--mcp"));
        chosen.push(Chosen { name: name.to_owned(), way: way(name, place, headers, here)?, wall });
    }
    for capability in capabilities {
        let Capability::Upstream(name) = capability else { continue };
        if chosen.iter().any(|server| server.name == *name) {
            continue;
        }
        let server = configured.get(name).ok_or_else(|| BridgeUsage::NoServer { name: name.clone() })?;
        let place = match (&server.url, &server.command) {
            (Some(place), None) | (None, Some(place)) => place,
            (Some(_), Some(_)) | (None, None) => {
                let what = "neither or both of `url` and `command`".to_owned();
                return Err(BridgeUsage::Server { name: name.clone(), what });
            }
        };
        let wall = wall(name, &settings.origin(&format!("mcp.{name}.command")));
        chosen.push(Chosen {
            name: name.clone(),
            way: way(name, place, server.headers.clone(), here)?,
            wall,
        });
    }
    Ok(chosen)
}

/// How a server is reached: what looks like an address is one, all else are words of a command.
fn way(
    name: &str,
    place: &str,
    headers: BTreeMap<String, String>,
    here: &Surroundings,
) -> Result<Way, BridgeUsage> {
    let wrong = |what: &str| BridgeUsage::Server { name: name.to_owned(), what: what.to_owned() };
    if place.starts_with("http://") || place.starts_with("https://") {
        let fill = |(header, text): (String, String)| Ok((header, filled(name, &text, here)?));
        let headers = headers.into_iter().map(fill).collect::<Result<Vec<_>, BridgeUsage>>()?;
        return Ok(Way::Http { url: place.to_owned(), headers });
    }
    let mut words = shlex::split(place).ok_or_else(|| wrong("a quote that is never closed"))?.into_iter();
    let program = words.next().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| wrong("neither an address nor a command"))?;
    Ok(Way::Program { program, args: words.collect() })
}

/// A header with `${NAME}` replaced by the variable, so that a key need not be in a file.
fn filled(name: &str, text: &str, here: &Surroundings) -> Result<String, BridgeUsage> {
    let (mut done, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((variable, behind)) = after.split_once('}') else { break };
        let value = here.variable(variable).and_then(|value| value.to_str());
        let value = value
            .ok_or_else(|| BridgeUsage::Variable { name: name.to_owned(), variable: variable.to_owned() })?;
        done.push_str(before);
        done.push_str(value);
        rest = behind;
    }
    Ok(done + rest)
}
