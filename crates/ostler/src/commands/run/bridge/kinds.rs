//! The kinds of artifacts that a project adds: `.ostler/artifacts/KIND.toml`, in the workspace or above it.
//!
//! A run keeps them as they were when it began: an agent can write to the workspace, and a run that goes on must not be
//! measured by rules that it has made easier.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
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

/// Where a run keeps the kinds of its project, in its own folder.
const KEPT: &str = "kinds";

/// The kinds that a run has, and what of them is the project's, as it was written.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) kinds: Kinds,
    texts: Vec<(String, String)>,
}

impl Rules {
    /// The built-in kinds, and those of the nearest project at or above the workspace; for a run that goes on, those
    /// that it kept.
    pub(super) fn of(workspace: &Path, run: Option<&Path>) -> Result<Self, KindsError> {
        let kept = run.map(|folder| folder.join(KEPT)).filter(|folder| folder.is_dir());
        let project = || {
            let folders = workspace.ancestors().map(|folder| folder.join(".ostler").join("artifacts"));
            folders.into_iter().find(|folder| folder.is_dir())
        };
        let mut rules = Self { kinds: Kinds::built_in()?, texts: Vec::new() };
        let Some(folder) = kept.or_else(project) else { return Ok(rules) };
        for path in files(&folder).map_err(|source| KindsError::Read { path: folder.clone(), source })? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = read_small(&path).map_err(|source| KindsError::Read { path: path.clone(), source })?;
            // One that was removed just now is not there.
            if let Some(text) = text {
                rules.kinds.add(Kind::parse(&name, &path.display().to_string(), &text)?);
                rules.texts.push((name, text));
            }
        }
        Ok(rules)
    }

    /// Keeps them in the folder of a run, all or none, unless it has some already.
    pub(super) fn keep(&self, run: &Path) -> io::Result<()> {
        let (kept, fresh) = (run.join(KEPT), run.join(format!("{KEPT}.new")));
        if kept.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&fresh)?;
        for (name, text) in &self.texts {
            let path = fresh.join(format!("{name}.toml"));
            let mut file =
                fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
            io::Write::write_all(&mut file, text.as_bytes())?;
        }
        fs::rename(fresh, kept)
    }
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
        let kinds = Rules::of(&below, None).unwrap().kinds;
        assert!(
            kinds.find("review").is_some() && kinds.find("plan").is_some() && kinds.find("README").is_none()
        );
        std::fs::write(folder.join("review.toml"), "\nheadigns = []\n").unwrap();
        let error = Rules::of(&below, None).unwrap_err();
        assert!(error.to_string().contains("review.toml, line 2"), "{error}");
        assert_eq!(error.hint().as_deref(), Some("did you mean `headings`?"));
    }
    #[test]
    fn a_run_that_goes_on_has_the_rules_that_it_began_with() {
        let (project, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = project.path().join(".ostler/artifacts");
        std::fs::create_dir_all(&folder).unwrap();
        let strict = "headings = [\"## Findings\", \"## Verdict\"]\n";
        std::fs::write(folder.join("review.toml"), strict).unwrap();
        let first = Rules::of(project.path(), Some(run.path())).unwrap();
        first.keep(run.path()).unwrap();
        // What the agent does meanwhile: makes one easier, and one of the built-in ones its own.
        for name in ["review", "plan"] {
            std::fs::write(folder.join(format!("{name}.toml")), "headings = []\n").unwrap();
        }
        let again = Rules::of(project.path(), Some(run.path())).unwrap();
        assert_eq!(again.texts, [("review".to_owned(), strict.to_owned())]);
        again.keep(run.path()).unwrap();
        assert_eq!(std::fs::read_to_string(run.path().join("kinds/review.toml")).unwrap(), strict);
        let other = Rules::of(project.path(), None).unwrap();
        assert_eq!(other.texts.len(), 2, "a new run has the new rules");
    }

    #[test]
    fn a_project_without_kinds_cannot_be_given_some_later() {
        let (project, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Rules::of(project.path(), None).unwrap().keep(run.path()).unwrap();
        let folder = project.path().join(".ostler/artifacts");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("plan.toml"), "headings = []\n").unwrap();
        assert_eq!(Rules::of(project.path(), Some(run.path())).unwrap().texts, []);
    }
}
