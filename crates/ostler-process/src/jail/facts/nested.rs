//! Repositories and agents' configuration below a workspace, found by a bounded walk. What the workspace says about itself,
//! such as `.gitignore`, does not shorten it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use ostler_agent::jail::{CONFIGURATION, GitFacts, NestedRepository, Repository};

/// How deep directories are searched; the workspace itself is at depth 0.
pub const DEEPEST: usize = 8;

/// How many directories are searched at most, the higher ones first. More than in most repositories; at some 10 µs each,
/// 20 ms.
pub const MOST_DIRECTORIES: usize = 2_000;

/// How many of their entries are looked at.
pub const MOST_ENTRIES: usize = 50_000;

/// How many of the directories in [`BULKY`] are searched, after all others.
const MOST_BULKY: usize = 64;

/// Directories that package managers and compilers fill. To leave most of them out costs nothing: nobody works with git
/// in there.
const BULKY: [&str; 9] =
    ["node_modules", "target", ".venv", "venv", ".tox", "__pycache__", ".next", ".gradle", ".terraform"];

/// What is below a workspace. `is_complete` does not count what is in [`BULKY`].
pub(super) fn search(workspace: &Path, repository: Option<&Repository>) -> GitFacts {
    let mut walk =
        Walk { facts: GitFacts { is_complete: true, ..GitFacts::default() }, entries_left: MOST_ENTRIES };
    let mut open = VecDeque::from([(workspace.to_owned(), 0)]);
    let mut bulky = VecDeque::new();
    let mut left = MOST_DIRECTORIES;
    while let Some((directory, depth)) = open.pop_front() {
        if left == 0 || walk.entries_left == 0 {
            walk.facts.is_complete = false;
            break;
        }
        left -= 1;
        let children = walk.visit(&directory, depth, repository);
        if depth == DEEPEST {
            walk.facts.is_complete &= children.is_empty();
            continue;
        }
        for child in children {
            let is_bulky = child.file_name().is_some_and(|name| BULKY.iter().any(|bulky| name == *bulky));
            if is_bulky { &mut bulky } else { &mut open }.push_back((child, depth + 1));
        }
    }
    for _ in 0..MOST_BULKY {
        let Some((directory, depth)) = bulky.pop_front() else { break };
        let children = walk.visit(&directory, depth, repository);
        bulky.extend(children.into_iter().map(|child| (child, depth + 1)));
    }
    walk.facts
}

struct Walk {
    facts: GitFacts,
    entries_left: usize,
}

impl Walk {
    /// Looks at a directory. Returns those in it.
    fn visit(&mut self, directory: &Path, depth: usize, repository: Option<&Repository>) -> Vec<PathBuf> {
        let mut children = Vec::new();
        let mut like_a_git_dir = 0;
        let Ok(entries) = directory.read_dir() else { return children };
        for entry in entries.flatten() {
            let Some(left) = self.entries_left.checked_sub(1) else { break };
            self.entries_left = left;
            let (name, kind) = (entry.file_name(), entry.file_type());
            let (is_dir, is_file) = kind.map_or((false, false), |kind| (kind.is_dir(), kind.is_file()));
            like_a_git_dir +=
                usize::from(name == "HEAD" || (is_dir && (name == "objects" || name == "refs")));
            if name == ".git" {
                self.on_dot_git(entry.path(), is_dir, is_file, repository);
            } else if CONFIGURATION.iter().any(|known| name == *known) {
                self.facts.configuration.extend((depth > 0).then(|| entry.path()));
            } else if is_dir {
                children.push(entry.path());
            }
        }
        let is_known = |known: &Repository| known.git_dir == directory;
        if like_a_git_dir == 3 && !repository.is_some_and(is_known) {
            self.facts.nested.push(NestedRepository::Directory(directory.to_owned()));
        }
        // A bare repository holds no others.
        if like_a_git_dir == 3 { Vec::new() } else { children }
    }

    fn on_dot_git(&mut self, path: PathBuf, is_dir: bool, is_file: bool, repository: Option<&Repository>) {
        if repository.is_some_and(|repository| repository.dot_git == path) {
            return;
        }
        if is_dir {
            self.facts.nested.push(NestedRepository::Directory(path));
        } else if is_file {
            self.facts.nested.push(NestedRepository::File(path));
        }
    }
}
