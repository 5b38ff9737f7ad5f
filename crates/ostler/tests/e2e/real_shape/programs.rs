//! Ostler and an agent, where the user of a test can start them. Tests build and install below directories that are often
//! closed to other users, such as root's home.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Both programs, and the folder that they are linked into.
pub(crate) struct Programs {
    pub(crate) ostler: PathBuf,
    pub(crate) agent: PathBuf,
    _folder: Option<TempDir>,
}

impl Programs {
    /// Where they are.
    pub(crate) fn in_place(ostler: &Path, agent: &Path) -> Self {
        Self { ostler: ostler.to_owned(), agent: agent.to_owned(), _folder: None }
    }

    /// In a folder that every user can read and nobody but its owner can write. They are hard links, because the programs
    /// are hundreds of megabytes; on another file system they are copies.
    pub(crate) fn reachable_by_everyone(ostler: &Path, agent: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("ostler-programs-").tempdir().unwrap();
        open_to_everyone(folder.path());
        let linked = folder.path().join("ostler");
        link(ostler, &linked);
        // An agent finds its helpers, such as Codex its sandbox, beside its program: the whole package is linked.
        let package = agent.ancestors().find(|path| path.join("package.json").is_file()).unwrap();
        let package_link = folder.path().join("package");
        link_tree(package, &package_link);
        let agent = package_link.join(agent.strip_prefix(package).unwrap());
        Self { ostler: linked, agent, _folder: Some(folder) }
    }
}

fn link_tree(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    open_to_everyone(to);
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => link_tree(&entry.path(), &target),
            false => link(&entry.path(), &target),
        }
    }
}

fn link(from: &Path, to: &Path) {
    if std::fs::hard_link(from, to).is_err() {
        // Another process writes it: the kernel refuses to start what is open for writing, and a child that another
        // test starts meanwhile would inherit the open file.
        let copied = Command::new("cp").arg("--").args([from, to]).status().unwrap();
        assert!(copied.success(), "{}", to.display());
    }
}

fn open_to_everyone(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}
