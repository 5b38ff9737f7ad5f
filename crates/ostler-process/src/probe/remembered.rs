//! Versions that programs told before: asking takes an agent up to two seconds, and before every run that is felt.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Programs that are remembered at most; then it begins anew.
const MOST: usize = 64;

/// A file with what programs answered, as long as they are the same files. Losing it loses nothing.
#[derive(Debug)]
pub struct Remembered {
    file: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    /// Which file it was.
    seen: Seen,
    version: String,
}

/// What tells a file from the one that takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    device: u64,
    inode: u64,
    size: u64,
    /// Of the last change of its content, and of its state: an install that keeps times changes the latter.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Remembered {
    /// What is in that file, which need not exist.
    pub fn at(file: &Path) -> Self {
        Self { file: file.to_owned() }
    }

    /// What that program answered, if it is still the same file.
    pub fn version_of(&self, program: &Path) -> Option<String> {
        let seen = Seen::of(program)?;
        let answer = self.read().remove(program)?;
        (answer.seen == seen).then_some(answer.version)
    }

    /// Remembers an answer. If it cannot be kept the program is asked again next time.
    pub fn keep(&self, program: &Path, version: &str) {
        let Some(seen) = Seen::of(program) else { return };
        let mut answers = self.read();
        if answers.len() >= MOST {
            answers.clear();
        }
        answers.insert(program.to_owned(), Answer { seen, version: version.to_owned() });
        if let Err(error) = self.write(&answers) {
            tracing::debug!(file = %self.file.display(), %error, "a version is not remembered");
        }
    }

    fn read(&self) -> BTreeMap<PathBuf, Answer> {
        let text = fs::read(&self.file).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Whole or not at all. Of two who write at once the last one counts.
    fn write(&self, answers: &BTreeMap<PathBuf, Answer>) -> io::Result<()> {
        let made = self.file.with_extension(format!("{}.new", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&made)?;
        file.write_all(&serde_json::to_vec_pretty(answers)?)?;
        fs::rename(&made, &self.file)
    }
}

impl Seen {
    fn of(program: &Path) -> Option<Self> {
        let about = fs::metadata(program).ok()?;
        Some(Self {
            device: about.dev(),
            inode: about.ino(),
            size: about.size(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_the_same_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let (memory, program) = (Remembered::at(&folder.path().join("v.json")), folder.path().join("agent"));
        fs::write(&program, "one").unwrap();
        assert_eq!(memory.version_of(&program), None);
        memory.keep(&program, "1.0.0");
        assert_eq!(memory.version_of(&program), Some("1.0.0".to_owned()));
        fs::write(folder.path().join("new"), "two").unwrap();
        fs::rename(folder.path().join("new"), &program).unwrap();
        assert_eq!(memory.version_of(&program), None, "another file of the same size");
        fs::remove_file(&program).unwrap();
        assert_eq!(memory.version_of(&program), None);
    }

    #[test]
    fn what_cannot_be_read_or_kept_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let (file, program) = (folder.path().join("v.json"), folder.path().join("agent"));
        fs::write(&program, "").unwrap();
        fs::write(&file, "{broken").unwrap();
        Remembered::at(&file).keep(&program, "1.0.0");
        assert_eq!(Remembered::at(&file).version_of(&program), Some("1.0.0".to_owned()));
        let nowhere = Remembered::at(&folder.path().join("none/v.json"));
        nowhere.keep(&program, "1.0.0");
        assert_eq!(nowhere.version_of(&program), None);
    }
}
