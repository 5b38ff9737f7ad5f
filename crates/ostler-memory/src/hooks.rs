//! Entries in the settings of agents, that call `ostler memory hook`. Settings are changed structurally: every byte that
//! is not ours stays. What cannot be read is not touched.

mod settings;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ostler_agent::remembering::Origin;
use serde::{Deserialize, Serialize};

use crate::deferral::hash;
use crate::place::Place;
use crate::private::{PrivateFolder, random_word};

pub use settings::Unreadable;

/// How long an agent waits for one of ours, in seconds; it takes milliseconds.
const TIMEOUT: u32 = 10;

/// Settings are kilobytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// How a command names Ostler's folder.
const HOME_SETTING: &str = "OSTLER_HOME=";

/// Events of agents, and what we are called with. An agent that does not know one never fires it, so each has its own.
const CLAUDE: &[(&str, &str)] = &[
    ("SessionStart", "session-start"),
    ("UserPromptSubmit", "prompt"),
    ("Stop", "stop"),
    ("PreCompact", "pre-compact"),
    ("SessionEnd", "session-end"),
];
const CODEX: &[(&str, &str)] = &[
    ("SessionStart", "session-start"),
    ("UserPromptSubmit", "prompt"),
    ("Stop", "stop"),
    ("SessionEnd", "session-end"),
];

/// OpenCode has no hooks but loads modules. This one is told when a session is idle.
const PLUGIN: &str = include_str!("hooks/plugin.js");

/// Where settings are, and what is called.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// Where memory keeps its own files.
    pub place: &'a Place,
    /// The home directory.
    pub home: &'a Path,
    /// Variables of the surroundings.
    pub variable: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// Our own program, absolute.
    pub program: &'a Path,
    /// `OSTLER_HOME`, if it is set: a hook must find the same place.
    pub ostler_home: Option<&'a Path>,
}

/// Why settings were not changed.
#[derive(Debug, thiserror::Error)]
pub enum HooksError {
    /// They cannot be read as what they should be.
    #[error("the settings `{}` were not changed: they cannot be read", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Unreadable,
    },
    /// The file could not be read or written.
    #[error("could not change the settings `{}`", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl HooksError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unreadable { path, .. } => {
                format!("mend {} and try again; nothing was changed", path.display())
            }
            Self::File { .. } => {
                "check that you may write to it and that there is room on the disk".to_owned()
            }
        })
    }
}

/// What was, or would be, done to one agent's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The agent.
    pub origin: Origin,
    /// Its settings file.
    pub path: PathBuf,
    /// What is in it now; nothing if it is not there.
    pub before: Option<String>,
    /// What will be; nothing if it will not be there.
    pub after: Option<String>,
}

impl Change {
    /// Whether there is anything to do.
    pub fn is_needed(&self) -> bool {
        self.before != self.after
    }
}

/// Which of our hooks an agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The agent.
    pub origin: Origin,
    /// Its settings file.
    pub path: PathBuf,
    /// Events with a hook of ours.
    pub present: Vec<String>,
    /// Events without.
    pub missing: Vec<String>,
    /// Why it is not known, if it is not.
    pub unreadable: Option<String>,
}

/// A note on what a file was before we changed it, and what we made of it.
#[derive(Debug, Serialize, Deserialize)]
struct Backup {
    v: u32,
    path: PathBuf,
    before: Option<String>,
    after_sha256: String,
}

impl Ground<'_> {
    /// The settings file of an agent.
    pub fn path(&self, origin: Origin) -> PathBuf {
        let folder = |variable: &str, below: &str| {
            (self.variable)(variable)
                .filter(|path| path.is_absolute())
                .unwrap_or_else(|| self.home.join(below))
        };
        match origin {
            Origin::Claude => folder("CLAUDE_CONFIG_DIR", ".claude").join("settings.json"),
            Origin::Codex => folder("CODEX_HOME", ".codex").join("hooks.json"),
            Origin::OpenCode => folder("XDG_CONFIG_HOME", ".config").join("opencode/plugin/ostler-memory.js"),
        }
    }

    /// What calls us at an event, for a shell.
    pub fn command(&self, event: &str) -> String {
        let home =
            self.ostler_home.map(|home| format!("{HOME_SETTING}{} ", quoted(home))).unwrap_or_default();
        format!("{home}{} memory hook {event}", quoted(self.program))
    }

    fn entries(&self, origin: Origin) -> Vec<(&'static str, String)> {
        events(origin).iter().map(|(event, word)| (*event, self.command(word))).collect()
    }

    /// What installing would do.
    pub fn install(&self, origin: Origin) -> Result<Change, HooksError> {
        let path = self.path(origin);
        let before = read(&path)?;
        let after = match origin {
            Origin::OpenCode => self.plugin(),
            Origin::Claude | Origin::Codex => {
                let text = before.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or("{\n}\n");
                settings::with(text, &self.entries(origin), TIMEOUT)
                    .map_err(|source| HooksError::Unreadable { path: path.clone(), source })?
            }
        };
        Ok(Change { origin, path, before, after: Some(after) })
    }

    /// What uninstalling would do: what we made of a file becomes what it was; from one that was changed since, our
    /// entries are taken out.
    pub fn uninstall(&self, origin: Origin) -> Result<Change, HooksError> {
        let path = self.path(origin);
        let before = read(&path)?;
        let Some(text) = &before else {
            return Ok(Change { origin, path, before: None, after: None });
        };
        let backup =
            self.backup(origin).filter(|backup| backup.path == path && backup.after_sha256 == hash(text));
        let after = match (backup, origin) {
            (Some(backup), _) => backup.before,
            (None, Origin::OpenCode) => {
                if text.contains("ostler memory") {
                    None
                } else {
                    before.clone()
                }
            }
            (None, Origin::Claude | Origin::Codex) => Some(
                settings::without(text)
                    .map_err(|source| HooksError::Unreadable { path: path.clone(), source })?,
            ),
        };
        Ok(Change { origin, path, before, after })
    }

    /// Does it: a copy of what was, then the whole file at once.
    pub fn apply(&self, change: &Change) -> Result<(), HooksError> {
        let failed = |source| HooksError::File { path: change.path.clone(), source };
        if !change.is_needed() {
            return Ok(());
        }
        let note = Backup {
            v: 1,
            path: change.path.clone(),
            before: change.before.clone(),
            after_sha256: change.after.as_deref().map(hash).unwrap_or_default(),
        };
        let bytes = serde_json::to_vec(&note).map_err(|error| failed(error.into()))?;
        let folder = PrivateFolder::create(&self.place.backups()).map_err(failed)?;
        let name = change.origin.name();
        let stamp = jiff::Timestamp::now().as_second();
        folder.write(&format!("{name}-{stamp}-{}.json", random_word()), &bytes, "backup").map_err(failed)?;
        folder.write(&format!("{name}.json"), &bytes, "backup").map_err(failed)?;
        match &change.after {
            Some(text) => replace(&change.path, text).map_err(failed),
            None => fs::remove_file(&change.path).map_err(failed),
        }
    }

    /// Which of our hooks an agent has.
    pub fn standing(&self, origin: Origin) -> Standing {
        let path = self.path(origin);
        let wanted: Vec<String> = events(origin).iter().map(|(event, _)| (*event).to_owned()).collect();
        let told = read(&path).map_err(|error| error.to_string()).and_then(|text| match (text, origin) {
            (None, _) => Ok(Vec::new()),
            (Some(text), Origin::OpenCode) => {
                Ok(if text == self.plugin() { wanted.clone() } else { Vec::new() })
            }
            (Some(text), Origin::Claude | Origin::Codex) => {
                settings::present(&text, &self.entries(origin)).map_err(|error| error.to_string())
            }
        });
        let (present, unreadable) = match told {
            Ok(present) => (present, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let missing = wanted.into_iter().filter(|event| !present.contains(event)).collect();
        Standing { origin, path, present, missing, unreadable }
    }

    /// Whether the agent's sessions are captured below `root`, the folder of Ostler that a hook without one of its own
    /// would use: by whatever program of ours, as long as the user's settings call it.
    pub fn is_capturing(&self, origin: Origin, root: &Path) -> bool {
        let Ok(Some(text)) = read(&self.path(origin)) else { return false };
        match origin {
            Origin::OpenCode => {
                let named = |home: &str| text.contains(&format!("const home = {home};"));
                text.contains(r#""memory", "hook", "stop""#) && (named("null") || named(&json_text(root)))
            }
            Origin::Claude | Origin::Codex => {
                let home = format!("{} ", quoted(root));
                let is_here = |command: &String| match command.split_once(HOME_SETTING) {
                    Some((_, rest)) => rest.starts_with(&home),
                    None => true,
                };
                settings::commands_at(&text, "Stop").is_ok_and(|commands| commands.iter().any(is_here))
            }
        }
    }

    fn plugin(&self) -> String {
        let home = self.ostler_home.map_or_else(|| "null".to_owned(), json_text);
        PLUGIN.replace("\"@PROGRAM@\"", &json_text(self.program)).replace("\"@HOME@\"", &home)
    }

    fn backup(&self, origin: Origin) -> Option<Backup> {
        let folder = PrivateFolder::open(&self.place.backups()).ok()?;
        let bytes = folder.read(&format!("{}.json", origin.name()), LARGEST).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// A path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// A path for a module.
fn json_text(path: &Path) -> String {
    serde_json::Value::from(path.display().to_string()).to_string()
}

fn events(origin: Origin) -> &'static [(&'static str, &'static str)] {
    match origin {
        Origin::Claude => CLAUDE,
        Origin::Codex => CODEX,
        Origin::OpenCode => &[("session.idle", "stop")],
    }
}

fn read(path: &Path) -> Result<Option<String>, HooksError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(HooksError::File { path: path.to_owned(), source }),
    }
}

/// The whole file at once, with the mode that it had. A link stays one: what it leads to is replaced.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().ok_or_else(|| io::Error::other("it has no folder"))?;
    fs::create_dir_all(folder)?;
    let temporary = folder.join(format!(".ostler-{}", random_word()));
    let mode = fs::metadata(&path).map_or(0o600, |about| about.permissions().mode() & 0o777);
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        fs::set_permissions(&temporary, fs::Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&temporary, &path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
#[path = "hooks_tests.rs"]
mod tests;
