//! The fake agent's own settings. They come from the environment, because the command line belongs to the agent it
//! plays.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use ostler_agent::document::{Document, Format, Mistake};

use super::dialect::Dialect;
use super::script::Script;
use super::sessions::Sessions;

/// The environment variables that a test sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Which agent to play: `claude`, `codex`, `acp` or `tui`. Without it the program's own file name decides.
    Dialect,
    /// Path of the script, TOML unless it ends in `.json`. Without it the prompt is said back.
    Script,
    /// Folder that remembers sessions between invocations. Without it nothing is remembered.
    State,
}

impl Setting {
    /// The variable's name.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Dialect => "OSTLER_FAKE_DIALECT",
            Self::Script => "OSTLER_FAKE_SCRIPT",
            Self::State => "OSTLER_FAKE_STATE",
        }
    }

    fn value(self) -> Option<String> {
        env::var(self.variable()).ok().filter(|value| !value.is_empty())
    }
}

/// What one fake agent process was told.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) dialect: Dialect,
    pub(super) script: Script,
    /// What the script is called in complaints.
    pub(super) script_name: String,
    pub(super) sessions: Sessions,
}

impl Settings {
    /// Reads the environment and the script it names.
    pub(super) fn read(program: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let dialect = match Setting::Dialect.value() {
            Some(name) => named(&name)?,
            None => inferred(program, arguments)?,
        };
        let path = Setting::Script.value();
        let script = match &path {
            Some(path) => read_script(Path::new(path))?,
            None => Script::echo()?,
        };
        Ok(Self {
            dialect,
            script,
            script_name: path.unwrap_or_else(|| "the default script".to_owned()),
            sessions: Sessions::new(Setting::State.value().map(PathBuf::from)),
        })
    }

    /// A folder where the agent played keeps its own files: the one that `variable` names, or `default` below HOME.
    ///
    /// `None` unless a test asked for memory: a fake agent tried by hand must not write into a real agent's home.
    pub(super) fn agent_home(&self, variable: &str, default: &str) -> Option<PathBuf> {
        let filled = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        match filled(variable) {
            Some(folder) => Some(PathBuf::from(folder)),
            None if self.sessions.are_kept() => Some(PathBuf::from(filled("HOME")?).join(default)),
            None => None,
        }
    }
}

fn named(name: &str) -> anyhow::Result<Dialect> {
    match name {
        "claude" => Ok(Dialect::Claude),
        "codex" => Ok(Dialect::Codex),
        "acp" => Ok(Dialect::Acp),
        "tui" => Ok(Dialect::Tui),
        other => bail!("{}: `{other}` is not one of claude, codex, acp, tui", Setting::Dialect.variable()),
    }
}

fn inferred(program: &str, arguments: &[String]) -> anyhow::Result<Dialect> {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let speaks_acp = arguments.iter().any(|argument| argument == "acp" || argument == "--acp");
    match name {
        "claude" => Ok(Dialect::Claude),
        "codex" => Ok(Dialect::Codex),
        "tui" => Ok(Dialect::Tui),
        _ if speaks_acp || name.contains("acp") => Ok(Dialect::Acp),
        _ => Err(anyhow!("set {} or start it by an agent's name", Setting::Dialect.variable())),
    }
}

fn read_script(path: &Path) -> anyhow::Result<Script> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    let format = match path.extension() {
        Some(extension) if extension == "json" => Format::Json,
        _ => Format::Toml,
    };
    Script::read(&Document::new(path.display().to_string(), text, format)).map_err(explained)
}

/// The hint is not part of a mistake's words, and here is the last place that can add it.
fn explained(mistake: Mistake) -> anyhow::Error {
    match mistake.hint() {
        Some(hint) => anyhow!("{mistake}\n  try: {hint}"),
        None => anyhow!("{mistake}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_name_decides() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let table = [
            ("/opt/bin/claude", "-p hi", Some(Dialect::Claude)),
            ("codex", "exec hi", Some(Dialect::Codex)),
            ("tui", "", Some(Dialect::Tui)),
            ("opencode", "acp --cwd /x", Some(Dialect::Acp)),
            ("gemini", "--acp", Some(Dialect::Acp)),
            ("claude-agent-acp", "", Some(Dialect::Acp)),
            ("ostler-fake-agent", "exec hi", None),
        ];
        for (program, arguments, want) in table {
            assert_eq!(inferred(program, &words(arguments)).ok(), want, "{program} {arguments}");
        }
    }
}
