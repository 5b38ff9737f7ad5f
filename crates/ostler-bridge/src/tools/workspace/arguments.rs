//! What the workspace tools take.

use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments of `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// The file, from the top of the workspace: `src/main.rs`.
    pub(super) path: String,
    /// The first line to read, from 1.
    pub(super) offset: Option<u64>,
    /// How many lines to read: 2000 unless given.
    pub(super) limit: Option<u64>,
}

/// Arguments of `list_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// The folder, from the top of the workspace; the workspace itself unless given.
    #[serde(default)]
    pub(super) path: String,
    /// Only files that match, written as in `.gitignore`: `*.rs` anywhere, `src/**` from the top.
    pub(super) glob: Option<String>,
    /// How many levels to go down: 1 unless given, all if there is a `glob`.
    pub(super) depth: Option<u64>,
    /// Whether to list also what git ignores.
    #[serde(default)]
    pub(super) ignored: bool,
}

/// Arguments of `search_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// What to look for in each line: a regular expression, without look-around and back-references.
    pub(super) pattern: String,
    /// A file or a folder, from the top of the workspace; the workspace itself unless given.
    #[serde(default)]
    pub(super) path: String,
    /// Only files that match, written as in `.gitignore`: `*.rs` anywhere, `src/**` from the top.
    pub(super) glob: Option<String>,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    pub(super) ignore_case: bool,
    /// Whether to search also what git ignores.
    #[serde(default)]
    pub(super) ignored: bool,
}

/// Arguments of `write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    /// The file, from the top of the workspace. Folders that are missing are made.
    pub(super) path: String,
    /// All that is in it afterwards.
    pub(super) content: String,
}

/// Arguments of `edit_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// The file, from the top of the workspace.
    pub(super) path: String,
    /// The text to replace, exactly as it stands in the file.
    pub(super) old: String,
    /// What stands there instead.
    pub(super) new: String,
    /// Whether to replace it everywhere. Otherwise it must be there exactly once.
    #[serde(default)]
    pub(super) all: bool,
}

/// Arguments of `exec`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Exec {
    /// A command line for `/bin/sh`.
    pub(super) command: String,
    /// Where to run it, from the top of the workspace; the workspace itself unless given.
    #[serde(default)]
    pub(super) cwd: String,
    /// How many seconds it may take: 120 unless given, 300 at most.
    pub(super) timeout: Option<u64>,
}

/// Arguments of `git_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Status {}

/// Arguments of `git_diff`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Diff {
    /// The commit to compare with. Unless given, what is staged.
    pub(super) from: Option<String>,
    /// The commit that is compared. Unless given, the files as they are.
    pub(super) to: Option<String>,
    /// Whether to compare what is staged, rather than the files as they are.
    #[serde(default)]
    pub(super) staged: bool,
    /// A file or a folder, from the top of the workspace.
    pub(super) path: Option<String>,
}

/// Arguments of `git_log`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    /// Where to begin: a branch, a tag or a commit; what is checked out unless given.
    pub(super) rev: Option<String>,
    /// How many commits: 20 unless given, 200 at most.
    pub(super) count: Option<u64>,
    /// Only commits that touched this file or folder, from the top of the workspace.
    pub(super) path: Option<String>,
}

/// Arguments of `git_show`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Show {
    /// A branch, a tag or a commit.
    pub(super) rev: String,
    /// The file as it was then, rather than what was changed.
    pub(super) path: Option<String>,
}
