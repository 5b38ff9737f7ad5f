//! What a jail denied, found in the error text of a tool, and the one setting that opens it.

mod error_text;

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::never::Obstacle;
use super::{Access, Grant, JailLevel, RunJail};
use error_text::{Cause, Report};

/// What a tool tried to do at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// To read or execute it.
    Read,
    /// To change, make or remove it.
    Write,
}

/// The setting that opens what was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// An entry of `[jail] read`.
    JailRead(PathBuf),
    /// Without this entry of `[jail] hide`.
    JailHide(PathBuf),
    /// `--allow-config-writes`.
    AllowConfigWrites,
    /// `--permissions edits`.
    Edits,
    /// `--permissions all`.
    All,
    /// `--no-jail`.
    NoJail,
}

/// What a jail denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// Where.
    pub path: PathBuf,
    /// What the tool tried.
    pub wanted: Wanted,
    /// What opens it.
    pub opens: Opening,
}

impl fmt::Display for Opening {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JailRead(path) => write!(out, "[jail] read = [\"{}\"]", path.display()),
            Self::JailHide(path) => write!(out, "[jail] hide without \"{}\"", path.display()),
            Self::AllowConfigWrites => out.write_str("--allow-config-writes"),
            Self::Edits => out.write_str("--permissions edits"),
            Self::All => out.write_str("--permissions all"),
            Self::NoJail => out.write_str("--no-jail"),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, wanted, opens } = self;
        match wanted {
            Wanted::Read => write!(out, "the jail does not show {}; {opens} does", path.display()),
            Wanted::Write => {
                write!(out, "the jail keeps {} from being changed; {opens} allows it", path.display())
            }
        }
    }
}

impl RunJail {
    /// What the jail denied according to the error text of a tool that worked in `directory`. `could` says whether the user
    /// could have done it without a jail: what fails for another reason is no denial.
    pub fn denials(
        &self,
        text: &str,
        directory: &Path,
        could: &dyn Fn(&Path, Wanted) -> bool,
    ) -> Vec<Denial> {
        let mut denials: Vec<Denial> = Vec::new();
        for report in error_text::reports(text) {
            let paths = report.paths.iter().map(|path| self.absolute(directory, path));
            let found = paths.into_iter().find_map(|path| self.judge(&report, path, could));
            denials.extend(found.filter(|denial| !denials.contains(denial)));
        }
        denials
    }

    fn absolute(&self, directory: &Path, path: &str) -> PathBuf {
        let path = match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => directory.join(path),
        };
        let mut clean = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(clean.pop()),
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(part),
            }
        }
        clean
    }

    fn judge(&self, report: &Report, path: PathBuf, could: &dyn Fn(&Path, Wanted) -> bool) -> Option<Denial> {
        let path = self.locked(path);
        let rule = self.policy.rule(&path);
        let wanted = match (rule.map(|rule| &rule.access), self.policy.grant(&path)) {
            // The host's own file is not there, or cannot be opened; one that the tool made itself could be.
            (Some(Access::Substitute { .. }), _) => match report.cause {
                Cause::Missing | Cause::Denied => report.wanted,
                Cause::ReadOnly | Cause::Busy => return None,
            },
            // What is mounted cannot be moved or removed.
            (Some(_), Grant::Write) if report.cause == Cause::Busy && rule?.path == path => &[Wanted::Write],
            (_, Grant::Write) => return None,
            (_, Grant::Read) => match report.cause {
                Cause::Missing => return None,
                Cause::Denied | Cause::ReadOnly | Cause::Busy => &[Wanted::Write],
            },
            (_, Grant::None) => report.wanted,
        };
        let wanted = *wanted.iter().find(|wanted| could(&path, **wanted))?;
        let opens = match wanted {
            Wanted::Read => self.opens_reading(&path),
            Wanted::Write => self.opens_writing(&path),
        };
        Some(Denial { path, wanted, opens })
    }

    /// What a lock file of git stands for.
    fn locked(&self, path: PathBuf) -> PathBuf {
        let is_guarded =
            |path: &Path| self.policy.rule(path).is_some_and(|rule| rule.access == Access::Guarded);
        let unlocked = path.to_str().and_then(|path| path.strip_suffix(".lock")).map(PathBuf::from);
        unlocked.filter(|unlocked| is_guarded(unlocked)).unwrap_or(path)
    }

    fn opens_reading(&self, path: &Path) -> Opening {
        if let Some(hidden) = self.boundary.hidden.iter().find(|hidden| path.starts_with(hidden)) {
            return Opening::JailHide(hidden.clone());
        }
        match self.boundary.obstacle(path) {
            Some(Obstacle::Inside(_) | Obstacle::Above(_) | Obstacle::NoFiles) => Opening::NoJail,
            None => Opening::JailRead(path.to_owned()),
        }
    }

    fn opens_writing(&self, path: &Path) -> Opening {
        let rule = self.policy.rule(path);
        let guarded = rule.filter(|rule| rule.access == Access::Guarded);
        match (guarded, self.level) {
            _ if self.boundary.around(path).is_some() => Opening::NoJail,
            (_, JailLevel::Deny) if path.starts_with(&self.workspace) => Opening::Edits,
            (Some(rule), _) if self.config_guards.contains(&rule.path) => Opening::AllowConfigWrites,
            _ => Opening::All,
        }
    }
}

#[cfg(test)]
#[path = "denial_tests.rs"]
mod tests;
