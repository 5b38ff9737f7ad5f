//! Which repository a directory belongs to. No git is started: the repository may be hostile.
//!
//! Trust follows a repository to its linked worktrees, by the path of the git directory that they share. A directory cannot
//! claim another's: the shared git directory must itself name the worktree.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::file_scope::FileScope;

/// What git writes into these files is a path.
const LONGEST_LINE_BYTES: u64 = 8 * 1024;

/// A repository, or a directory that is in none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Its root; a directory in no repository is its own.
    pub root: PathBuf,
    /// What it is called in the store: the git directory that all of its worktrees share.
    git: Option<PathBuf>,
}

impl Repository {
    /// The one that a directory is in. The directory is absolute, with links resolved.
    pub fn of(directory: &Path) -> Self {
        let is_root = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
        match directory.ancestors().find(is_root) {
            Some(root) => Self { root: root.to_owned(), git: Some(identity(root)) },
            None => Self { root: directory.to_owned(), git: None },
        }
    }

    /// A directory as if it were in none.
    pub(super) fn at(directory: &Path) -> Self {
        Self { root: directory.to_owned(), git: None }
    }

    /// The directory and those above it, up to the root. In no repository there is no end to them: some agents search
    /// up to the root of the file system.
    pub fn directories<'a>(&self, directory: &'a Path) -> Vec<&'a Path> {
        let above = directory.ancestors();
        match &self.git {
            Some(_) => above.take_while(|folder| folder.starts_with(&self.root)).collect(),
            None => above.collect(),
        }
    }

    /// What is given as trusted or not to an agent that looks directories up by itself: the same, and the main worktree.
    pub(super) fn trusted_directories(&self, directory: &Path) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = match &self.git {
            Some(_) => self.directories(directory).into_iter().map(Path::to_owned).collect(),
            None => vec![directory.to_owned()],
        };
        let main = self.git.as_ref().filter(|git| git.ends_with(".git")).and_then(|git| git.parent());
        directories
            .extend(main.filter(|main| !directories.iter().any(|known| known == main)).map(Path::to_owned));
        directories
    }

    /// What it is called in the store.
    pub fn name(&self) -> PathBuf {
        self.git.clone().unwrap_or_else(|| self.root.clone())
    }

    /// What one of its directories is called in the store.
    pub(super) fn place(&self, directory: &Path) -> (PathBuf, String) {
        match &self.git {
            Some(git) => {
                let relative = directory.strip_prefix(&self.root).unwrap_or(Path::new(""));
                (git.clone(), relative.to_string_lossy().into_owned())
            }
            None => (directory.to_owned(), String::new()),
        }
    }

    /// A path as it is shown: relative to the root, without letters that a terminal would obey.
    pub fn shown(&self, path: &Path) -> String {
        let relative = path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy();
        let escape = |letter: char| match letter.is_control() {
            true => letter.escape_default().to_string(),
            false => letter.to_string(),
        };
        relative.chars().map(escape).collect()
    }
}

/// The git directory of a root, or the root itself where that of another repository is only claimed.
fn identity(root: &Path) -> PathBuf {
    let git = root.join(".git");
    match git.symlink_metadata() {
        Ok(about) if about.is_dir() => git,
        Ok(about) if about.is_file() => shared_by(root, &git).unwrap_or_else(|| root.to_owned()),
        Ok(_) | Err(_) => root.to_owned(),
    }
}

/// The git directory of which a root is a linked worktree: its `worktrees` holds the worktree's own, which names the root.
fn shared_by(root: &Path, git: &Path) -> Option<PathBuf> {
    let own = line(git)?.strip_prefix("gitdir:")?.trim().to_owned();
    let own = root.join(own).canonicalize().ok()?;
    let back = own.join(line(&own.join("gitdir"))?).canonicalize().ok()?;
    let shared = own.join(line(&own.join("commondir"))?).canonicalize().ok()?;
    (back == git && own.parent() == Some(shared.join("worktrees").as_path())).then_some(shared)
}

/// The one line of a small file.
fn line(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = FileScope::Anywhere.open(path).ok()?;
    file.take(LONGEST_LINE_BYTES).read_to_string(&mut text).ok()?;
    Some(text.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn linked(main: &Path, worktree: &Path) {
        let own = main.join(".git/worktrees/w");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(worktree).unwrap();
        fs::write(worktree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        fs::write(own.join("gitdir"), format!("{}\n", worktree.join(".git").display())).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
    }

    #[test]
    fn a_linked_worktree_is_of_its_main_repository_and_nothing_else_can_claim_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let (main, worktree) = (at("main"), at("worktree"));
        linked(&main, &worktree);
        assert_eq!(Repository::of(&main).git, Some(main.join(".git")));
        assert_eq!(Repository::of(&worktree).git, Some(main.join(".git")));
        let directories = Repository::of(&worktree).trusted_directories(&worktree);
        assert_eq!(directories, [worktree.clone(), main.clone()]);

        // A copy of the worktree: the main repository names the original.
        fs::create_dir(at("copy")).unwrap();
        fs::copy(worktree.join(".git"), at("copy/.git")).unwrap();
        assert_eq!(Repository::of(&at("copy")).git, Some(at("copy")));
        // A git directory of its own that claims to share another's.
        linked(&at("hostile"), &at("claims"));
        fs::write(at("hostile/.git/worktrees/w/commondir"), main.join(".git").display().to_string()).unwrap();
        assert_eq!(Repository::of(&at("claims")).git, Some(at("claims")));
        // A link to another's git directory.
        fs::create_dir(at("link")).unwrap();
        std::os::unix::fs::symlink(main.join(".git"), at("link/.git")).unwrap();
        assert_eq!(Repository::of(&at("link")).git, Some(at("link")));
        // A submodule has a git directory elsewhere.
        fs::create_dir_all(at("main/.git/modules/s")).unwrap();
        fs::create_dir(at("main/s")).unwrap();
        fs::write(at("main/s/.git"), "gitdir: ../.git/modules/s\n").unwrap();
        assert_eq!(Repository::of(&at("main/s")).git, Some(at("main/s")));
    }

    #[test]
    fn directories_end_at_the_root_of_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let deep = root.join("r/a/b");
        fs::create_dir_all(&deep).unwrap();
        let loose = Repository::of(&deep);
        assert_eq!(loose.root, deep);
        assert!(loose.directories(&deep).contains(&Path::new("/")));
        assert_eq!(loose.trusted_directories(&deep), std::slice::from_ref(&deep));
        assert_eq!(loose.place(&root), (root.clone(), String::new()));
        fs::create_dir(root.join("r/.git")).unwrap();
        let repository = Repository::of(&deep);
        assert_eq!(repository.directories(&deep), [&deep, &root.join("r/a"), &root.join("r")]);
        assert_eq!(repository.place(&root.join("r/a")), (root.join("r/.git"), "a".to_owned()));
        assert_eq!(repository.shown(&deep.join(".mcp.json")), "a/b/.mcp.json");
        assert_eq!(repository.shown(&deep.join("\u{1b}[2Jx")), "a/b/\\u{1b}[2Jx");
    }
}
