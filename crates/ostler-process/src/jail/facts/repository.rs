//! The repository that a workspace is in.
//!
//! A `.git` file or link can name any directory of the user. One outside the repository is believed only if it names the
//! repository in return: as a linked worktree of a repository, or as a submodule of the repository around it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use ostler_agent::jail::Repository;

use crate::file_scope::FileScope;

/// How far up a repository is looked for.
const HIGHEST: usize = 64;

/// How many repositories around a submodule are looked at, each in the next.
const MOST_AROUND: usize = 8;

/// The longest `.git` file: a path and a word.
const LONGEST_POINTER: u64 = 8 * 1024;

/// The longest configuration that is read.
const LONGEST_CONFIG: u64 = 256 * 1024;

/// How many submodules and worktrees of a repository are looked at, each.
const MOST_MODULES: usize = 256;

/// How deep git directories of submodules are looked for below `modules`: their names may have slashes.
const DEEPEST_MODULE: usize = 8;

/// The repository of a workspace, and whether all its submodules and worktrees were found.
pub(super) fn find(workspace: &Path) -> (Option<Repository>, bool) {
    let Some(mut repository) = find_at(workspace, MOST_AROUND) else { return (None, true) };
    let is_whole = add_modules(&mut repository) & add_worktrees(&mut repository);
    repository.hooks_path = hooks_path(&repository);
    (Some(repository), is_whole)
}

/// The repository around a directory, without its modules.
fn find_at(directory: &Path, around_left: usize) -> Option<Repository> {
    for root in directory.ancestors().take(HIGHEST) {
        let dot_git = root.join(".git");
        let found = match dot_git.symlink_metadata() {
            Ok(metadata) if root != directory && !is_ours(root, &metadata) => return None,
            Ok(metadata) => at_dot_git(root, &dot_git, &metadata, around_left),
            Err(_) if is_git_dir(root) && root == directory => Found::Repository(whole(root, root)),
            Err(_) => Found::Nothing,
        };
        match found {
            Found::Repository(repository) => return Some(repository),
            // Git looks no further either.
            Found::Rejected => return None,
            Found::Nothing => {}
        }
    }
    None
}

enum Found {
    Repository(Repository),
    /// There is something that is not believed.
    Rejected,
    Nothing,
}

fn at_dot_git(root: &Path, dot_git: &Path, metadata: &Metadata, around_left: usize) -> Found {
    if metadata.is_dir() {
        return if is_git_dir(dot_git) { Found::Repository(whole(root, dot_git)) } else { Found::Nothing };
    }
    let named = if metadata.is_symlink() {
        dot_git.canonicalize().ok()
    } else {
        read(dot_git, LONGEST_POINTER).and_then(|text| {
            let path = text.strip_prefix("gitdir:")?.trim();
            root.join(path).canonicalize().ok()
        })
    };
    let Some(git_dir) = named.filter(|named| named.is_dir()) else { return Found::Rejected };
    let common_dir = if git_dir.starts_with(root) && is_git_dir(&git_dir) {
        Some(git_dir.clone())
    } else if metadata.is_symlink() {
        None
    } else {
        worktree_of(&git_dir, dot_git)
            .or_else(|| is_submodule(&git_dir, root, around_left).then(|| git_dir.clone()))
    };
    match common_dir {
        Some(common_dir) => {
            // A link cannot be guarded, only what it leads to.
            let dot_git = if metadata.is_symlink() { &git_dir } else { dot_git };
            Found::Repository(Repository { git_dir: git_dir.clone(), common_dir, ..whole(root, dot_git) })
        }
        None => Found::Rejected,
    }
}

/// A repository whose git directory is `dot_git`.
fn whole(root: &Path, dot_git: &Path) -> Repository {
    Repository {
        root: root.to_owned(),
        dot_git: dot_git.to_owned(),
        git_dir: dot_git.to_owned(),
        common_dir: dot_git.to_owned(),
        modules: Vec::new(),
        worktrees: Vec::new(),
        hooks_path: None,
    }
}

/// Whether a directory above the workspace belongs to the user, as git requires. In shared directories anyone can make a
/// `.git`. Root works in directories of others as a matter of course.
fn is_ours(root: &Path, dot_git: &Metadata) -> bool {
    let user = rustix::process::geteuid();
    let owner = root.symlink_metadata().map(|metadata| metadata.uid());
    user.is_root() || (owner.is_ok_and(|owner| owner == user.as_raw()) && dot_git.uid() == user.as_raw())
}

/// Whether a directory is one that git would take for a git directory.
pub(super) fn is_git_dir(path: &Path) -> bool {
    let is_dir = |name: &str| path.join(name).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    path.join("HEAD").symlink_metadata().is_ok() && is_dir("objects") && is_dir("refs")
}

/// The git directory that a worktree shares with others, if `git_dir` is one of its `worktrees` and names this `.git` file.
fn worktree_of(git_dir: &Path, dot_git: &Path) -> Option<PathBuf> {
    let back = read(&git_dir.join("gitdir"), LONGEST_POINTER)?;
    let back = git_dir.join(back.trim()).canonicalize().ok()?;
    let worktrees = git_dir.parent()?;
    let common = worktrees.parent()?;
    let named = read(&git_dir.join("commondir"), LONGEST_POINTER)?;
    let named = git_dir.join(named.trim()).canonicalize().ok()?;
    let is_worktree = back == dot_git && worktrees.ends_with("worktrees") && named == common;
    (is_worktree && is_git_dir(common)).then(|| common.to_owned())
}

/// Whether a git directory is that of a submodule at `root`: among the modules of the repository around it, and with
/// `core.worktree` that leads back.
fn is_submodule(git_dir: &Path, root: &Path, around_left: usize) -> bool {
    let Some(around_left) = around_left.checked_sub(1) else { return false };
    let Some(around) = root.parent().and_then(|parent| find_at(parent, around_left)) else { return false };
    let modules = [around.git_dir.join("modules"), around.common_dir.join("modules")];
    let is_among = modules.iter().any(|modules| git_dir.starts_with(modules) && git_dir != modules);
    let back = setting(git_dir, "worktree").and_then(|path| git_dir.join(path).canonicalize().ok());
    is_among && is_git_dir(git_dir) && back.is_some_and(|back| back == root)
}

/// Adds the git directories of submodules. Returns whether all were found.
fn add_modules(repository: &mut Repository) -> bool {
    let mut tops = vec![repository.common_dir.join("modules"), repository.git_dir.join("modules")];
    tops.dedup();
    let mut open: Vec<(PathBuf, usize)> = tops.into_iter().map(|top| (top, 0)).collect();
    let mut looked = 0;
    while let Some((directory, depth)) = open.pop() {
        let Ok(entries) = directory.read_dir() else { continue };
        for entry in entries.flatten() {
            looked += 1;
            if looked > MOST_MODULES || depth > DEEPEST_MODULE {
                return false;
            }
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if is_git_dir(&path) {
                open.push((path.join("modules"), depth + 1));
                repository.modules.push(path);
            } else {
                open.push((path, depth + 1));
            }
        }
    }
    repository.modules.sort();
    true
}

/// Adds the git directories of linked worktrees. Returns whether all were found.
fn add_worktrees(repository: &mut Repository) -> bool {
    let Ok(entries) = repository.common_dir.join("worktrees").read_dir() else { return true };
    let mut found: Vec<PathBuf> =
        entries.flatten().take(MOST_MODULES + 1).map(|entry| entry.path()).collect();
    let is_whole = found.len() <= MOST_MODULES;
    found.truncate(MOST_MODULES);
    found.sort();
    repository.worktrees = found;
    is_whole
}

/// `core.hooksPath`, if that is in the repository and not what is guarded anyway. Husky keeps what a person edits one
/// directory above what git executes.
fn hooks_path(repository: &Repository) -> Option<PathBuf> {
    let named = setting(&repository.common_dir, "hookspath")?;
    let path = repository.root.join(&named);
    let is_plain = Path::new(&named).components().all(|part| !matches!(part, Component::ParentDir));
    let path = path.canonicalize().ok().or_else(|| is_plain.then_some(path))?;
    let path = if path.ends_with(".husky/_") { path.parent()?.to_owned() } else { path };
    let is_inside = path.starts_with(&repository.root) && path != repository.root;
    (is_inside && !repository.git_dir.starts_with(&path)).then_some(path)
}

/// The value of a setting in the section `core` of a git directory's configuration.
fn setting(git_dir: &Path, key: &str) -> Option<String> {
    let config = read(&git_dir.join("config"), LONGEST_CONFIG)?;
    let (mut is_core, mut value) = (false, None);
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            is_core = line.to_ascii_lowercase().starts_with("[core]");
        } else if let Some((name, text)) = line.split_once('=')
            && is_core
            && name.trim().eq_ignore_ascii_case(key)
        {
            value = Some(text.trim().trim_matches('"').to_owned());
        }
    }
    value
}

/// The text of a regular file that is not too long.
fn read(path: &Path, longest: u64) -> Option<String> {
    let metadata = path.symlink_metadata().ok().filter(|metadata| metadata.is_file());
    metadata.filter(|metadata| metadata.len() <= longest)?;
    String::from_utf8(FileScope::Anywhere.read(path, longest).ok()?).ok()
}
