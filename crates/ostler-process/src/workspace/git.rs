//! What git says about a workspace, in figures. No program that the repository names is run: see `harmless`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::harmless::{LIST_SETTINGS, SETTINGS, VARIABLES, without_filters};
use crate::capture::{Captured, capture};

/// Lines that are different from a commit. Files that git does not know are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffStat {
    /// How many files are different.
    pub files: u64,
    /// Lines that were added.
    pub inserted: u64,
    /// Lines that were taken away.
    pub deleted: u64,
}

/// What is different from the commit that was checked out when the snapshot was taken, commits made since included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// The commit.
    pub since: String,
    /// What was different already when the snapshot was taken, if that could be found out in time.
    pub before: Option<DiffStat>,
    /// What is different now.
    pub now: DiffStat,
}

/// Where a repository stands.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    git: Git,
    commit: String,
    before: Option<DiffStat>,
}

#[derive(Debug, Clone)]
struct Git {
    program: PathBuf,
    path: OsString,
}

/// Where the repository stands now, if there is one and it has a commit. Dropping the future ends git.
pub(super) async fn standing(root: &Path) -> Option<Standing> {
    if !is_versioned(root) {
        return None;
    }
    let git = Git::find()?;
    let said = git.run(root, &["rev-parse", "--verify", "--quiet", "HEAD"], &[]).await?;
    let commit = said.trim().to_owned();
    let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_commit {
        return None;
    }
    let before = git.stat(root, &commit).await;
    Some(Standing { git, commit, before })
}

/// Whether git would find a repository with files here. To ask git itself would take a process, beside an agent that
/// wants to start.
fn is_versioned(root: &Path) -> bool {
    root.ancestors().any(|folder| folder.join(".git").symlink_metadata().is_ok())
}

/// What is different since then. Dropping the future ends git.
pub(super) async fn diff(root: &Path, standing: &Standing) -> Option<Diff> {
    let now = standing.git.stat(root, &standing.commit).await?;
    Some(Diff { since: standing.commit.clone(), before: standing.before, now })
}

impl Git {
    /// Absolute places only: `.` on the `PATH` would be the workspace.
    fn find() -> Option<Self> {
        let folders: Vec<PathBuf> =
            env::split_paths(&env::var_os("PATH")?).filter(|folder| folder.is_absolute()).collect();
        let path = env::join_paths(folders).ok()?;
        let program = which::which_in("git", Some(&path), Path::new("/")).ok()?;
        Some(Self { program, path })
    }

    async fn stat(&self, root: &Path, commit: &str) -> Option<DiffStat> {
        let listed = self.run(root, &LIST_SETTINGS, &[]).await?;
        let filters = without_filters(&listed)?;
        let asked = [
            "diff",
            "--shortstat",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            "--ignore-submodules=all",
            commit,
            "--",
            ".",
        ];
        shortstat(&self.run(root, &asked, &filters).await?)
    }

    async fn run(&self, root: &Path, arguments: &[&str], settings: &[String]) -> Option<String> {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", &self.path).env("LC_ALL", "C");
        // The user's own settings say how lines end, and which repositories are trusted.
        for name in ["HOME", "XDG_CONFIG_HOME"] {
            command.envs(env::var_os(name).map(|value| (OsStr::new(name).to_owned(), value)));
        }
        command.envs(VARIABLES).arg("--no-pager");
        for setting in SETTINGS.into_iter().chain(settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        command.args(arguments).current_dir(root).stdin(Stdio::null());
        match capture(&mut command).await {
            Ok(Captured { status, stdout, .. }) if status.success() => Some(stdout),
            Ok(Captured { status, stderr, .. }) => {
                tracing::debug!(%status, said = stderr.trim(), "git has no answer");
                None
            }
            Err(error) => {
                tracing::debug!(%error, "git does not start");
                None
            }
        }
    }
}

/// ` 3 files changed, 10 insertions(+), 2 deletions(-)`, of which each part may be missing.
fn shortstat(said: &str) -> Option<DiffStat> {
    let mut stat = DiffStat::default();
    for part in said.trim().split(", ").filter(|part| !part.is_empty()) {
        let (number, what) = part.split_once(' ')?;
        let number = number.parse().ok()?;
        match what.split(['(', ' ']).next()? {
            "file" | "files" => stat.files = number,
            "insertion" | "insertions" => stat.inserted = number,
            "deletion" | "deletions" => stat.deleted = number,
            _ => return None,
        }
    }
    Some(stat)
}

#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;
