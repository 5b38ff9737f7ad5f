//! Claude Code's own folder: where a transcript lies, and the file that states what a running session does.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::clock;
use crate::sessions::write_whole;

/// Slugs longer than this are cut and get a hash.
const SLUG_UNITS: usize = 200;

/// The folder, if this process may write one.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    folder: Option<PathBuf>,
}

impl Home {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// Where a session's transcript is.
    pub(crate) fn transcript(&self, cwd: &Path, session: &str) -> Option<PathBuf> {
        let project = self.folder.as_ref()?.join("projects").join(slug(&cwd.to_string_lossy()));
        Some(project.join(format!("{session}.jsonl")))
    }

    /// Where this process states what it does.
    pub(crate) fn state_file(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join("sessions").join(format!("{}.json", std::process::id())))
    }
}

/// How a session is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entrypoint {
    /// By a person at a terminal.
    Cli,
    /// By a program.
    Sdk,
}

impl Entrypoint {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Sdk => "sdk-cli",
        }
    }
}

/// What a terminal session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Idle,
    Busy,
    /// A dialog is open.
    Waiting,
}

/// `sessions/<pid>.json`: written whole at every change, removed at the end, left behind by SIGKILL.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: Option<PathBuf>,
    base: Value,
}

impl StateFile {
    pub(crate) fn new(home: &Home, session: &str, cwd: &Path, version: &str, entrypoint: Entrypoint) -> Self {
        let base = json!({
            "pid": std::process::id(),
            "sessionId": session,
            "cwd": cwd,
            "startedAt": clock::epoch_ms(),
            "procStart": process_start().unwrap_or_default(),
            "version": version,
            "kind": "interactive",
            "entrypoint": entrypoint.name(),
        });
        Self { path: home.state_file(), base }
    }

    /// States what the session does; headless ones state nothing but that they are there.
    pub(crate) fn write(&self, status: Option<Status>) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut state = self.base.clone();
        if let Some(status) = status {
            state["status"] = match status {
                Status::Idle => "idle",
                Status::Busy => "busy",
                Status::Waiting => "waiting",
            }
            .into();
            if status == Status::Waiting {
                state["waitingFor"] = "permission prompt".into();
            }
            state["updatedAt"] = clock::epoch_ms().into();
            state["statusUpdatedAt"] = clock::epoch_ms().into();
        }
        write_whole(path, &serde_json::to_vec(&state)?)
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // It may never have been written.
            let _ = fs::remove_file(path);
        }
    }
}

/// When the process started, in clock ticks since boot: the 22nd field of its stat line.
fn process_start() -> Option<String> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets and may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19).map(str::to_owned)
}

/// The folder name for a path.
fn slug(path: &str) -> String {
    let units: Vec<u16> = path.encode_utf16().collect();
    let plain = |unit: &u16| match u8::try_from(*unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    let slug: String = units.iter().map(plain).collect();
    if units.len() <= SLUG_UNITS {
        return slug;
    }
    let hash = units.iter().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(*unit)));
    format!("{}-{}", &slug[..SLUG_UNITS], base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs() {
        let table = [("/place/dev/a.b_c d", "-place-dev-a-b-c-d"), ("/é", "--"), ("/🦀", "---")];
        for (path, want) in table {
            assert_eq!(slug(path), want, "{path}");
        }
        let long = format!("/{}", "a".repeat(300));
        assert!(slug(&long).starts_with(&format!("-{}-", "a".repeat(199))), "{}", slug(&long));
        assert_eq!(base36(0), "0");
        assert_eq!(base36(36 * 36 + 35), "10z");
    }

    #[test]
    fn a_state_file_goes_with_its_process() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let home = Home::new(Some(folder.path().to_owned()));
        let path = home.state_file().unwrap();
        let state = StateFile::new(&home, "s", Path::new("/w"), "1", Entrypoint::Cli);
        state.write(Some(Status::Waiting))?;
        let written: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        assert_eq!(
            (&written["status"], &written["waitingFor"]),
            (&json!("waiting"), &json!("permission prompt"))
        );
        drop(state);
        assert!(!path.exists());
        Ok(())
    }
}
