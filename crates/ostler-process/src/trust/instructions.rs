//! Instructions of a repository, for an agent that is kept from reading them by itself. They are text for its model, and
//! nothing in them is executed. Bounded; only regular files inside the repository are read.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ostler_agent::repository_config::InstructionFiles;

use super::repository::Repository;
use crate::file_scope::FileScope;

/// As much as Codex reads of them by itself.
const MOST_BYTES: usize = 32 * 1024;

/// Files of one directory of rules.
const MOST_RULES: usize = 64;

/// The text of all files, from the root of the repository down to the workspace, each with its name.
pub(super) fn read(files: InstructionFiles, repository: &Repository, workspace: &Path) -> Option<String> {
    let mut left = MOST_BYTES;
    let mut parts = Vec::new();
    let mut directories = repository.directories(workspace);
    directories.retain(|directory| directory.starts_with(&repository.root));
    for directory in directories.into_iter().rev() {
        let groups = if directory == workspace { files.workspace } else { files.above };
        for path in groups.iter().flat_map(|group| chosen(directory, group)) {
            let Some(text) = read_inside(&path, &repository.root, left) else { continue };
            left -= text.len();
            let name = repository.shown(&path);
            parts.push(format!("# Instructions of the repository, from {name}\n\n{}", text.trim_end()));
        }
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The files of a group: the first that exists.
fn chosen(directory: &Path, group: &[&str]) -> Vec<PathBuf> {
    let found = group.iter().map(|name| directory.join(name)).find(|path| path.exists());
    match found {
        Some(path) if path.is_dir() => rules(&path),
        Some(path) => vec![path],
        None => Vec::new(),
    }
}

fn rules(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut rules: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .take(MOST_RULES)
        .collect();
    rules.sort();
    rules
}

/// A file's text, cut to a length. A link that leads out of the repository is not followed.
fn read_inside(path: &Path, root: &Path, most: usize) -> Option<String> {
    let real = path.canonicalize().ok().filter(|real| real.starts_with(root))?;
    if most == 0 {
        return None;
    }
    let mut bytes = Vec::new();
    FileScope::Below(vec![root.to_owned()])
        .open(&real)
        .ok()?
        .take(most as u64)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(valid);
            String::from_utf8(bytes).ok()?
        }
    };
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: InstructionFiles =
        InstructionFiles { workspace: &[&["OVER.md", "A.md"]], above: &[&["A.md"], &["rules/"]] };

    #[test]
    fn instructions_are_read_from_the_root_down_and_never_from_outside() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (repository, workspace) = (root.join("r"), root.join("r/sub"));
        for directory in ["r/.git", "r/rules", "r/sub"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for (path, text) in [
            ("A.md", "outside"),
            ("secret", "secret"),
            ("r/A.md", "of the root\n"),
            ("r/rules/1.md", "first rule"),
            ("r/rules/2.txt", "no rule"),
            ("r/sub/A.md", "not chosen"),
            ("r/sub/OVER.md", "of the workspace"),
        ] {
            fs::write(root.join(path), text).unwrap();
        }
        std::os::unix::fs::symlink(root.join("secret"), repository.join("rules/3.md")).unwrap();
        let read = || read(FILES, &Repository::of(&workspace), &workspace).unwrap();
        assert_eq!(
            read(),
            "# Instructions of the repository, from A.md\n\nof the root\n\n\
             # Instructions of the repository, from rules/1.md\n\nfirst rule\n\n\
             # Instructions of the repository, from sub/OVER.md\n\nof the workspace"
        );
        // For a tenant, who sees the workspace alone.
        let alone = super::read(FILES, &Repository::at(&workspace), &workspace).unwrap();
        assert_eq!(alone, "# Instructions of the repository, from OVER.md\n\nof the workspace");
        fs::remove_file(workspace.join("OVER.md")).unwrap();
        fs::remove_file(workspace.join("A.md")).unwrap();
        std::os::unix::fs::symlink(repository.join("A.md"), workspace.join("OVER.md")).unwrap();
        assert_eq!(super::read(FILES, &Repository::at(&workspace), &workspace), None);
        fs::write(repository.join("A.md"), "é".repeat(MOST_BYTES)).unwrap();
        assert!(read().len() < MOST_BYTES + 100);
    }
}
