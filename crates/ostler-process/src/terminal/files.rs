//! What a terminal program writes for itself: the file that says what it is doing, and the records of its session and of
//! its sub-agents. One watch for all of them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, TranscriptPlace, Whereabouts};
use ostler_agent::framer::Frame;
use ostler_agent::jail::JailPolicy;
use ostler_agent::record::Record;
use ostler_agent::terminal::{Interactive, StateFile};
use serde_json::Value;

use crate::file_scope::FileScope;
use crate::tail::{Lines, Place, Progress, Tail};

/// How often a file is read on in one go, 1 MiB each time. What is left is read when it grows again.
const MOST_READS: usize = 256;

/// A file that says what a program is doing has some hundred bytes.
const LONGEST_STATE: u64 = 1024 * 1024;

/// Where a program finds what it keeps.
#[derive(Debug, Clone)]
pub struct Whence {
    /// The variables that it is started with.
    pub env: Vec<(OsString, OsString)>,
    /// The folder that it is started in: absolute, with links resolved.
    pub workspace: PathBuf,
    /// What a jail has in the place of other files.
    pub policy: Option<JailPolicy>,
    /// Which of its files are read.
    pub files: FileScope,
}

impl Whence {
    fn host_path(&self, path: PathBuf) -> PathBuf {
        self.policy.as_ref().map_or_else(|| path.clone(), |policy| policy.host_path(&path))
    }

    fn ask<T>(&self, session: &str, question: impl FnOnce(&Whereabouts<'_>) -> T) -> T {
        let variable = |name: &str| {
            let found = self.env.iter().rev().find(|(known, _)| known == OsStr::new(name));
            found.and_then(|(_, value)| value.to_str().map(str::to_owned))
        };
        let home = variable("HOME").map(PathBuf::from).or_else(std::env::home_dir).unwrap_or_default();
        let workspace = &self.workspace;
        question(&Whereabouts { home: &home, variable: &variable, workspace, session })
    }
}

/// What is in a record when it is first looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// What this process wrote.
    Nothing,
    /// What was told before.
    All,
}

/// The files of one process.
pub(super) struct Files {
    whence: Whence,
    interactive: &'static dyn Interactive,
    pid: u32,
    /// When the process began, as the kernel counts; a file of another one with the same number is not its.
    began: Option<u64>,
    state: PathBuf,
    tail: Tail,
    /// The session whose records are read.
    session: Option<String>,
    main: Option<PathBuf>,
    readers: BTreeMap<PathBuf, Lines>,
    /// How many lines could not be read.
    garbled: u64,
}

impl Files {
    /// Of the process with this number, as it knows itself and as we know it.
    pub(super) fn new(interactive: &'static dyn Interactive, whence: Whence, own: u32, ours: u32) -> Self {
        let state = whence.ask("", |whereabouts| interactive.state_file(whereabouts, own));
        let state = whence.host_path(state);
        let tail = Tail::new([Place::Whole(state.clone())]);
        Self {
            whence,
            interactive,
            pid: own,
            began: began(ours),
            state,
            tail,
            session: None,
            main: None,
            readers: BTreeMap::new(),
            garbled: 0,
        }
    }

    /// Follows the records of a session, beside those that were followed before.
    pub(super) fn follow(&mut self, agent: &dyn Agent, session: &str, known: Known) {
        if self.session.as_deref() == Some(session) {
            return;
        }
        self.session = Some(session.to_owned());
        let place = self.whence.ask(session, |whereabouts| agent.transcript(whereabouts));
        let Some(TranscriptPlace::File { path, beside }) = place else { return };
        self.tail.follow(Place::File(path.clone()));
        if let Some(folder) = beside {
            self.tail.follow(Place::Below { folder, name: "*.jsonl".to_owned() });
        }
        let offset = match known {
            Known::Nothing => 0,
            Known::All => {
                let found = self.whence.files.open(&path).and_then(|file| file.metadata());
                found.map_or(0, |found| found.len())
            }
        };
        self.readers.insert(path.clone(), Lines::within(self.whence.files.clone(), &path, offset));
        self.main = Some(path);
    }

    /// Waits until some of the files changed. Cancel safe.
    pub(super) async fn changed(&mut self) -> Vec<PathBuf> {
        self.tail.grew().await
    }

    /// Whether it is the file that says what the program is doing.
    pub(super) fn is_state(&self, path: &Path) -> bool {
        path == self.state
    }

    /// What the program says it is doing. None while it does not, or if the file is another process's.
    pub(super) fn state(&self) -> Option<StateFile> {
        let state = self.interactive.state(&self.whence.files.read(&self.state, LONGEST_STATE).ok()?)?;
        let is_other = state.pid.is_some_and(|pid| pid != self.pid)
            || state.began.zip(self.began).is_some_and(|(told, known)| told != known);
        (!is_other).then_some(state)
    }

    /// The records that are new in a file.
    pub(super) fn records(&mut self, path: &Path) -> Vec<Value> {
        let files = &self.whence.files;
        let new = || Lines::within(files.clone(), path, 0);
        let lines = self.readers.entry(path.to_owned()).or_insert_with(new);
        let (mut records, mut garbled) = (Vec::new(), 0);
        for _ in 0..MOST_READS {
            let read = lines.read(|frame| match frame {
                Frame::Line(line) => match Record::read(line) {
                    Record::Json(value) => records.push(value),
                    Record::Noise(_) | Record::Garbled(_) => garbled += 1,
                    Record::Blank => {}
                },
                Frame::TooLong(_) => garbled += 1,
            });
            match read {
                // What a file that was written anew repeats has the ids of what was told.
                Ok(Progress::More | Progress::StartedOver) => {}
                Ok(Progress::CaughtUp) => break,
                Err(error) => {
                    tracing::debug!(target: "ostler::pty", %error, "a record cannot be read");
                    break;
                }
            }
        }
        if garbled > 0 {
            self.garbled += garbled;
            tracing::warn!(target: "ostler::pty", path = %path.display(), count = self.garbled, "lines that are no records are passed over");
        }
        records
    }

    /// All that is new in all files that are read, the session's own first.
    pub(super) fn all_records(&mut self) -> Vec<Value> {
        let paths: Vec<PathBuf> = self.readers.keys().cloned().collect();
        let (main, others): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|path| Some(path) == self.main.as_ref());
        main.into_iter().chain(others).flat_map(|path| self.records(&path)).collect()
    }
}

/// When a process began, in ticks since the machine did: the 22nd word, counted behind the name, which may hold spaces.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use ostler_agent::agents::ClaudeTerminal;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_state_of_another_process_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let env = vec![("CLAUDE_CONFIG_DIR".into(), folder.path().into())];
        let whence =
            Whence { env, workspace: folder.path().to_owned(), policy: None, files: FileScope::Anywhere };
        let own = std::process::id();
        let files = Files::new(ClaudeTerminal.interactive().unwrap(), whence, own, own);
        assert_eq!(files.state(), None, "there is none yet");
        fs::create_dir(folder.path().join("sessions")).unwrap();
        let path = folder.path().join(format!("sessions/{own}.json"));
        let state =
            |pid: u32, began: u64| format!(r#"{{"pid":{pid},"procStart":"{began}","status":"idle"}}"#);
        let began = began(own).unwrap();
        let table = [
            (state(own, began), true),
            (state(own + 1, began), false),
            (state(own, began + 1), false),
            ("{".to_owned(), false),
        ];
        for (content, is_believed) in table {
            fs::write(&path, &content).unwrap();
            assert_eq!(files.state().is_some(), is_believed, "{content}");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_no_record_is_counted_and_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let whence = Whence {
            env: Vec::new(),
            workspace: folder.path().to_owned(),
            policy: None,
            files: FileScope::Anywhere,
        };
        let mut files = Files::new(ClaudeTerminal.interactive().unwrap(), whence, 1, 1);
        let path = folder.path().join("x.jsonl");
        fs::write(&path, "{\"a\":1}\n{\"b\":\nwords\n\n{\"c\":3}\n{\"half\":").unwrap();
        let records = files.records(&path);
        assert_eq!((records, files.garbled), (vec![json!({"a": 1}), json!({"c": 3})], 2));
    }

    /// An agent may replace its record by a link to somebody else's, to have it read as its own words.
    #[tokio::test]
    async fn a_record_that_became_a_link_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let (state, record) = (home.join("sessions/1.json"), home.join("own.jsonl"));
        fs::create_dir_all(home.join("sessions")).unwrap();
        fs::write(folder.path().join("other.jsonl"), "{\"secret\":1}\n").unwrap();
        fs::write(folder.path().join("other.json"), r#"{"pid":1,"status":"idle"}"#).unwrap();
        std::os::unix::fs::symlink(folder.path().join("other.jsonl"), &record).unwrap();
        std::os::unix::fs::symlink(folder.path().join("other.json"), &state).unwrap();
        let files = |files: FileScope| {
            let env = vec![("CLAUDE_CONFIG_DIR".into(), home.clone().into())];
            let whence = Whence { env, workspace: home.clone(), policy: None, files };
            let mut files = Files::new(ClaudeTerminal.interactive().unwrap(), whence, 1, 0);
            (files.records(&record).len(), files.state().is_some())
        };
        assert_eq!(files(FileScope::Anywhere), (1, true));
        assert_eq!(files(FileScope::Below(vec![home.clone()])), (0, false));
    }

    #[test]
    fn the_beginning_of_a_process_is_read_behind_its_name() {
        let own = began(std::process::id()).unwrap();
        assert!(own > 0);
        assert_eq!(began(0), None);
    }
}
