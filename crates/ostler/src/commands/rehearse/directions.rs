//! What to set for each agent, and the private homes that this refers to.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, ByHand, Engine, PrivateFile, Stage};
use ostler_agent::agents::AGENTS;
use tempfile::TempDir;

use super::RehearseError;
use crate::config::Settings;
use crate::programs;
use crate::surroundings::Surroundings;

/// What the printed commands ask the agent.
const PROMPT: &str = "Please do what the script says";

/// Directions for every agent. Their homes are gone when this is dropped.
pub(super) struct Directions {
    pub(super) agents: Vec<Direction>,
    _homes: TempDir,
}

/// How to start one agent by hand.
pub(super) struct Direction {
    pub(super) agent: &'static dyn Agent,
    /// Where its program is, if it is here.
    pub(super) program: Option<PathBuf>,
    pub(super) env: Vec<(String, String)>,
    pub(super) args: Vec<String>,
}

impl Directions {
    /// Writes the private settings and tells what refers to them.
    pub(super) fn write(url: &str, settings: &Settings, here: &Surroundings) -> Result<Self, RehearseError> {
        let temp = std::env::temp_dir();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| RehearseError::Stage { path, source }
        };
        let homes = tempfile::Builder::new()
            .prefix("ostler-rehearsal-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(failed(&temp))?;
        let mut agents = Vec::new();
        // An agent's terminal program asks questions at its first start; by hand it is no way to begin.
        for agent in AGENTS.iter().copied().filter(|agent| agent.engine() == Engine::Stream) {
            let stage = Stage::new(url, homes.path().join(agent.package().slot));
            let setup = agent.rehearsed(&stage);
            for folder in std::iter::once(&stage.home).chain(&setup.folders) {
                create_private(folder).map_err(failed(folder))?;
            }
            for file in &setup.files {
                write_private(file).map_err(failed(&file.path))?;
            }
            let program = programs::find(agent, settings, here).ok().map(|program| program.path);
            let ByHand { args, env } = agent.by_hand(PROMPT);
            agents.push(Direction { agent, program, env: [setup.env, env].concat(), args });
        }
        Ok(Self { agents, _homes: homes })
    }
}

impl Direction {
    /// A command to paste into a shell: nothing of the person's own environment but what every program needs.
    pub(super) fn command(&self) -> String {
        let mut text = "env -i PATH=\"$PATH\" TERM=\"$TERM\" LANG=C.UTF-8 \\\n".to_owned();
        for (name, value) in &self.env {
            text.push_str(&format!("    {name}={} \\\n", quoted(value)));
        }
        let fallback = || self.agent.package().program.to_owned();
        let program = self.program.as_ref().map_or_else(fallback, |path| path.display().to_string());
        let words: Vec<_> = std::iter::once(&program).chain(&self.args).map(|word| quoted(word)).collect();
        text.push_str(&format!("    {} </dev/null\n", words.join(" ")));
        text
    }
}

fn quoted(word: &str) -> String {
    // A word with a NUL cannot be quoted, and cannot be in a variable or an argument either.
    shlex::try_quote(word).map_or_else(|_| String::new(), std::borrow::Cow::into_owned)
}

fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn write_private(file: &PrivateFile) -> io::Result<()> {
    if let Some(folder) = file.path.parent() {
        create_private(folder)?;
    }
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file.path)?;
    opened.write_all(file.content.as_bytes())
}
