//! The workspace and its repositories: what can be changed there, and what is guarded.

use std::path::{Path, PathBuf};

use super::rule_set::RuleSet;
use super::{Access, ConfigWrites, JailFacts, JailLevel, NestedRepository, Repository};

/// What agents and Ostler load from a directory as configuration.
pub const CONFIGURATION: [&str; 10] = [
    ".claude",
    ".codex",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".mcp.json",
    ".gemini",
    ".cursor",
    ".agents",
    ".ostler",
];

/// What git executes or obeys in a git directory.
const GIT_CONFIGURATION: [&str; 3] = ["hooks", "config", WORKTREE_CONFIGURATION];

/// The same for one worktree.
const WORKTREE_CONFIGURATION: &str = "config.worktree";

/// What leads git from a git directory to another one, with other hooks and another configuration.
const GIT_POINTERS: [&str; 2] = ["commondir", "gitdir"];

/// What a run may change where it works.
pub(super) fn grant(rules: &mut RuleSet<'_>, facts: &JailFacts<'_>, repository: Option<&Repository>) {
    let access = match facts.level {
        JailLevel::Deny => Access::Read,
        JailLevel::Edits => Access::Write,
    };
    if let Some(repository) = repository
        && repository.root != facts.workspace
    {
        rules.push(repository.root.clone(), Access::Read);
    }
    rules.push(facts.workspace.to_owned(), access);
    let Some(repository) = repository else { return };
    let outside = [&repository.common_dir, &repository.git_dir];
    match facts.level {
        JailLevel::Deny => {
            for path in outside {
                if !rules.is_visible(path) {
                    rules.push(path.clone(), Access::Read);
                }
            }
        }
        // Each is a mount of its own, so that it cannot be renamed away and replaced.
        JailLevel::Edits => {
            for path in outside.into_iter().chain(mounts(repository).iter()) {
                if path != facts.workspace {
                    rules.push(path.clone(), Access::Write);
                }
            }
        }
    }
}

/// The directories of a repository through which git finds its submodules and worktrees.
fn mounts(repository: &Repository) -> Vec<PathBuf> {
    let mut mounts = Vec::new();
    for (kind, found) in [("modules", &repository.modules), ("worktrees", &repository.worktrees)] {
        for git_dir in found {
            let above = git_dir.ancestors().take_while(|above| *above != repository.common_dir);
            let is_below = git_dir.starts_with(repository.common_dir.join(kind));
            mounts.extend(above.filter(|_| is_below).map(Path::to_owned));
            mounts.extend((!is_below).then(|| git_dir.clone()));
        }
    }
    mounts.sort();
    mounts.dedup();
    mounts
}

/// Guards what would be executed or obeyed later, where it can be changed. Returns what `--allow-config-writes` opens.
///
/// What only leads git elsewhere stays guarded with it: nobody edits that.
pub(super) fn guard(
    rules: &mut RuleSet<'_>,
    facts: &JailFacts<'_>,
    repository: Option<&Repository>,
) -> Vec<PathBuf> {
    if facts.level == JailLevel::Deny {
        return Vec::new();
    }
    let mut git_dirs: Vec<&PathBuf> = Vec::new();
    let (mut pointers, mut configuration) = (Vec::new(), Vec::new());
    if let Some(repository) = repository {
        git_dirs.extend([&repository.git_dir, &repository.common_dir]);
        git_dirs.extend(&repository.modules);
        configuration.extend(repository.worktrees.iter().map(|git_dir| git_dir.join(WORKTREE_CONFIGURATION)));
        let pointers_of = |git_dir: &PathBuf| GIT_POINTERS.map(|name| git_dir.join(name));
        pointers.extend(repository.worktrees.iter().flat_map(pointers_of));
        configuration.extend(repository.hooks_path.clone());
        if repository.git_dir != repository.dot_git {
            pointers.push(repository.dot_git.clone());
        }
    }
    for nested in &facts.git.nested {
        match nested {
            NestedRepository::Directory(git_dir) => {
                rules.push(git_dir.clone(), Access::Write);
                git_dirs.push(git_dir);
            }
            NestedRepository::File(file) => pointers.push(file.clone()),
        }
    }
    git_dirs.sort();
    git_dirs.dedup();
    let below = |names: &'static [&str]| {
        git_dirs.iter().flat_map(move |git_dir| names.iter().map(|name| git_dir.join(name)))
    };
    configuration.extend(CONFIGURATION.iter().map(|name| facts.workspace.join(name)));
    configuration.extend(facts.git.configuration.iter().cloned());
    configuration.extend(below(&GIT_CONFIGURATION));
    pointers.extend(below(&GIT_POINTERS));
    let configuration = match facts.config_writes {
        ConfigWrites::Guarded => configuration,
        ConfigWrites::Allowed => Vec::new(),
    };
    for path in configuration.iter().chain(&pointers) {
        rules.push(path.clone(), Access::Guarded);
    }
    configuration
}
