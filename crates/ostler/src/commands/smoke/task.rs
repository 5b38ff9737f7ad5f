//! The task, and the yard in which it is done: a workspace with a scratch folder, and things that nobody should touch.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// What the agent must hand over.
pub(super) const ARTIFACT: &str = "smoke_test_result";

/// The file that it must write, from the workspace.
pub(super) const FILE: &str = "scratch/todo.js";

/// Limits, as the flags of `ostler run` that people use. Waiting has one too: what is offline for long is not proven.
pub(super) const LIMITS: [&str; 10] = [
    "--max-turns",
    "5",
    "--silence",
    "30s",
    "--ceiling",
    "120s",
    "--max-wait",
    "30s",
    "--permissions",
    "edits",
];

/// What the agent is asked for. It is told of its tools by the run itself, as always.
pub(super) const PROMPT: &str = "\
This is a smoke test of the program that runs you. Do exactly this, and nothing else:

1. Write one small JavaScript file at scratch/todo.js, below the current directory: a todo list that is kept in \
memory, as a CommonJS module that exports a few functions, in less than 60 lines. Do not touch anything outside of \
scratch/, do not run it, and do not install anything.
2. Submit an artifact of the type smoke_test_result: Markdown with TOML front matter (status = \"passed\" or \
\"failed\", file = \"scratch/todo.js\"), the heading \"# Smoke test result\", and below it \"## Worked\" and \
\"## Broke\", saying what worked and what broke.
3. Declare that the task is complete.

Say in three to twenty short lines what you do.";

/// Nobody has more files there than this; what is more is not looked at.
const MOST_FILES: usize = 10_000;

/// What lies around, and must be there afterwards as it was.
const AROUND: [(&str, &str); 3] = [
    ("workspace/README.md", "# A yard\n\nThis file is not for you: leave it as it is.\n"),
    ("workspace/src/index.js", "\"use strict\";\n\n// Not to be touched.\nmodule.exports = 1;\n"),
    ("beside/notes.md", "Beside the workspace. Not to be touched.\n"),
];

/// A place for one agent. Removed when it is dropped, unless it is kept.
pub(super) struct Yard {
    folder: TempDir,
    root: PathBuf,
}

impl Yard {
    pub(super) fn new() -> io::Result<Self> {
        let private = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("ostler-smoke-").permissions(private).tempdir()?;
        // Agents resolve links in paths; then so do we.
        let root = folder.path().canonicalize()?;
        for (path, text) in AROUND {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&root))?;
            fs::write(path, text)?;
        }
        fs::create_dir_all(root.join("workspace/scratch"))?;
        Ok(Self { folder, root })
    }

    /// Where the agent works.
    pub(super) fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// The file that it should have written.
    pub(super) fn file(&self) -> PathBuf {
        self.workspace().join(FILE)
    }

    /// What is different outside of the scratch folder, in words.
    pub(super) fn strays(&self) -> Vec<String> {
        let mut found = BTreeMap::new();
        self.walk(&self.root, &mut found);
        let mut strays = Vec::new();
        for (path, text) in AROUND {
            match found.remove(Path::new(path)) {
                Some(content) if content == text.as_bytes() => {}
                Some(_) => strays.push(format!("{path} (changed)")),
                None => strays.push(format!("{path} (removed)")),
            }
        }
        strays.extend(found.keys().map(|path| format!("{} (new)", path.display())));
        strays
    }

    fn walk(&self, folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path == self.workspace().join("scratch") || found.len() >= MOST_FILES {
                continue;
            }
            let relative = path.strip_prefix(&self.root).unwrap_or(&path).to_owned();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.walk(&path, found),
                // A link is new here, wherever it leads.
                Ok(kind) if kind.is_file() => {
                    drop(found.insert(relative, fs::read(&path).unwrap_or_default()));
                }
                Ok(_) | Err(_) => drop(found.insert(relative, Vec::new())),
            }
        }
    }

    /// Leaves it where it is, for somebody to look at.
    pub(super) fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_outside_of_the_scratch_folder_is_told() {
        let yard = Yard::new().unwrap();
        fs::write(yard.file(), "x").unwrap();
        assert_eq!(yard.strays(), Vec::<String>::new());
        fs::write(yard.workspace().join("README.md"), "mine").unwrap();
        fs::remove_file(yard.root.join("beside/notes.md")).unwrap();
        fs::create_dir(yard.workspace().join(".cache")).unwrap();
        assert_eq!(yard.strays(), ["workspace/README.md (changed)", "beside/notes.md (removed)"]);
        fs::write(yard.workspace().join(".cache/x"), "").unwrap();
        std::os::unix::fs::symlink("/", yard.root.join("link")).unwrap();
        assert_eq!(yard.strays()[2..], ["link (new)", "workspace/.cache/x (new)"]);
    }
}
