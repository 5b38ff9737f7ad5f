//! Where a file to follow is, or will be.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// How deep below a place files are looked for: Codex has folders for year, month and day.
const MOST_DEPTH: usize = 4;

/// Where files to follow are. They, and the folders they are in, need not be there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Exactly this file.
    File(PathBuf),
    /// Exactly this file, which is written anew each time: whatever is done to it counts as growth.
    Whole(PathBuf),
    /// All files below this folder, four folders deep at most, whose names fit: `*` stands for any characters.
    Below {
        /// The folder.
        folder: PathBuf,
        /// The names, such as `rollout-*-<id>.jsonl`.
        name: String,
    },
}

impl Place {
    /// The folder in which, or below which, the files are.
    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::File(path) | Self::Whole(path) => path.parent().unwrap_or(path),
            Self::Below { folder, .. } => folder,
        }
    }

    /// Whether a file belongs to it.
    pub(super) fn wants(&self, path: &Path) -> bool {
        match self {
            Self::File(wanted) | Self::Whole(wanted) => path == wanted,
            Self::Below { name, .. } => {
                path.parent().is_some_and(|parent| self.depth(parent).is_some())
                    && path.file_name().is_some_and(|found| fits(name.as_bytes(), found.as_bytes()))
            }
        }
    }

    /// Whether a folder below it is looked into.
    pub(super) fn looks_into(&self, path: &Path) -> bool {
        matches!(self, Self::Below { .. }) && self.depth(path).is_some()
    }

    /// Whether the path is that of the folder, or of one above it.
    pub(super) fn is_reached_through(&self, path: &Path) -> bool {
        self.folder().starts_with(path)
    }

    fn depth(&self, folder: &Path) -> Option<usize> {
        let below = folder.strip_prefix(self.folder()).ok()?;
        Some(below.components().count()).filter(|depth| *depth <= MOST_DEPTH)
    }
}

/// Whether a name fits a pattern in which `*` stands for any characters.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let parts: Vec<&[u8]> = pattern.split(|byte| *byte == b'*').collect();
    let [first, between @ .., last] = parts.as_slice() else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(*first) else { return false };
    for part in between {
        // The first place where a part is found leaves the most for those after it.
        let Some(at) = (0..=rest.len()).find(|at| rest[*at..].starts_with(part)) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        let table = [
            ("a.jsonl", "a.jsonl", true),
            ("a.jsonl", "ab.jsonl", false),
            ("rollout-*-id.jsonl", "rollout-2026-01-31T00-00-id.jsonl", true),
            ("rollout-*-id.jsonl", "rollout-2026-01-31T00-00-other.jsonl", false),
            ("rollout-*-id.jsonl", "rollout-id.jsonl", false),
            ("agent-*.jsonl", "agent-.jsonl", true),
            ("agent-*.jsonl", "agent-1.jsonl.tmp", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("", "", true),
        ];
        for (pattern, name, want) in table {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), want, "{pattern} {name}");
        }
    }

    #[test]
    fn a_place_knows_what_is_its_own() {
        let below = Place::Below { folder: "/s".into(), name: "r-*".to_owned() };
        let wanted = ["/s/r-1", "/s/2026/r-1", "/s/a/b/c/d/r-1", "/s/a/b/c/d/e/r-1", "/r-1", "/s/x"];
        assert_eq!(wanted.map(|path| below.wants(Path::new(path))), [true, true, true, false, false, false]);
        let through = ["/", "/s", "/s/2026", "/t"];
        assert_eq!(through.map(|path| below.is_reached_through(Path::new(path))), [true, true, false, false]);
    }
}
