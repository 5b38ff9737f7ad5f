//! Files that an agent is started with, for its owner alone.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ostler_agent::agent::PrivateFile;

use crate::file_scope::{FileScope, split};

/// The agent's private files cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("could not prepare {} for the agent", .path.display())]
pub struct PrivateError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl PrivateError {
    /// For this path.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self { path, source }
    }

    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some("set OSTLER_HOME to a folder that you can write to".to_owned())
    }
}

/// Makes a folder, folders and files that only their owner can read. An agent may have written in `root` before: below it,
/// no link is followed.
pub fn write_private(root: &Path, folders: &[PathBuf], files: &[PrivateFile]) -> Result<(), PrivateError> {
    DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(PrivateError::at(root))?;
    let below = FileScope::Below(vec![root.to_owned()]);
    let scope = |path: &Path| if path.starts_with(root) { &below } else { &FileScope::Anywhere };
    for folder in folders {
        scope(folder).create_directory(folder).map_err(PrivateError::at(folder))?;
    }
    for file in files {
        let written = split(&file.path).and_then(|(folder, name)| {
            scope(&file.path).create_directory(folder)?.replace_file(name, file.content.as_bytes())
        });
        written.map_err(PrivateError::at(&file.path))?;
    }
    Ok(())
}

/// Removes what was written for the agent. Its session and what it keeps for itself are elsewhere.
pub(super) fn remove_private(root: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent that worked there before may have put links in the place of its files and directories.
    #[test]
    fn what_is_written_for_an_agent_goes_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("agent")).unwrap();
        std::fs::create_dir_all(at("owner")).unwrap();
        std::fs::write(at("owner/file"), "the owner's").unwrap();
        std::os::unix::fs::symlink(at("owner/file"), at("agent/file")).unwrap();
        std::os::unix::fs::symlink(at("owner"), at("agent/folder")).unwrap();
        let write = |name: &str| {
            let file = PrivateFile { path: at(name), content: "new".to_owned() };
            write_private(&at("agent"), &[], &[file])
        };
        write("agent/file").unwrap();
        assert!(write("agent/folder/file").is_err());
        assert!(write_private(&at("agent"), &[at("agent/folder/deep")], &[]).is_err());
        let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
        assert_eq!((read("agent/file"), read("owner/file")), ("new".to_owned(), "the owner's".to_owned()));
        assert_eq!(std::fs::read_dir(at("owner")).unwrap().count(), 1);
    }
}
