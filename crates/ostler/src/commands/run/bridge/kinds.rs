//! The kinds of artifacts that a project adds: `.ostler/artifacts/KIND.toml`, in the workspace or above it.

use std::io;
use std::path::{Path, PathBuf};

use ostler_agent::artifact::{Kind, Kinds};
use ostler_agent::document::Mistake;

use crate::config::read_small;

/// Kinds of one project. More are not written by people.
const MOST_KINDS: usize = 256;

/// Why the kinds cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KindsError {
    #[error(transparent)]
    Mistake(#[from] Mistake),
    #[error("could not read {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl KindsError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Mistake(mistake) => mistake.hint(),
            Self::Read { .. } => Some("check that it is a text file that you may read".to_owned()),
        }
    }
}

/// The built-in kinds, and those of the nearest project at or above the workspace.
pub(super) fn of(workspace: &Path) -> Result<Kinds, KindsError> {
    let mut kinds = Kinds::built_in()?;
    let folders = workspace.ancestors().map(|folder| folder.join(".ostler").join("artifacts"));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else { return Ok(kinds) };
    for path in files(&folder).map_err(|source| KindsError::Read { path: folder.clone(), source })? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = read_small(&path).map_err(|source| KindsError::Read { path: path.clone(), source })?;
        // One that was removed just now is not there.
        if let Some(text) = text {
            kinds.add(Kind::parse(&name, &path.display().to_string(), &text)?);
        }
    }
    Ok(kinds)
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: io::Result<Vec<_>> = std::fs::read_dir(folder)?.collect();
    let mut paths: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    if paths.len() > MOST_KINDS {
        return Err(io::Error::other(format!("there are more than {MOST_KINDS} kinds in it")));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projects_kinds_are_found_from_below_and_a_mistake_has_its_place() {
        let project = tempfile::tempdir().unwrap();
        let (folder, below) = (project.path().join(".ostler/artifacts"), project.path().join("a/b"));
        for folder in [&folder, &below] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(folder.join("review.toml"), "headings = [\"## Findings\"]\n").unwrap();
        std::fs::write(folder.join("README.md"), "not a kind").unwrap();
        let kinds = of(&below).unwrap();
        assert!(
            kinds.find("review").is_some() && kinds.find("plan").is_some() && kinds.find("README").is_none()
        );
        std::fs::write(folder.join("review.toml"), "\nheadigns = []\n").unwrap();
        let error = of(&below).unwrap_err();
        assert!(error.to_string().contains("review.toml, line 2"), "{error}");
        assert_eq!(error.hint().as_deref(), Some("did you mean `headings`?"));
    }
}
