//! Reports how a run ended to a program of the user's choice, with the outcome on its standard input.
//!
//! It cannot hold the exit of `ostler run`: after [`WAIT`] it is left running, in a process group of its own. That nothing
//! survives a run is a promise about agents; this program is the user's, and what it has begun to send it may finish.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::journal::Facts;
use crate::working_directory::set_pwd_of;

/// How long its end is waited for, so that a failure can be reported.
const WAIT: Duration = Duration::from_secs(3);

/// How much of what it printed is repeated.
const EXCERPT_CHARS: usize = 200;

/// How much of it is read.
const OUTPUT_BYTES: u64 = 8 * 1024;

/// Why the notify command failed, or why its result is unknown. The outcome of the run does not change.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// The words cannot be read.
    #[error("the notify command `{words}` names no program, or has a quote that is never closed")]
    Words {
        /// As configured.
        words: String,
    },
    /// The outcome cannot be read, or the program does not start.
    #[error("the notify command does not start")]
    Start(#[source] io::Error),
    /// It did not end in time, and is left running.
    #[error("the notify command still runs after {} s and is left running{}", WAIT.as_secs(), as_process(*.pid))]
    LeftRunning {
        /// Its process.
        pid: Option<u32>,
    },
    /// It ended with an error.
    #[error("the notify command ended with {status}: {said}")]
    Failed {
        /// How.
        status: ExitStatus,
        /// The beginning of what it printed.
        said: String,
    },
}

fn as_process(pid: Option<u32>) -> String {
    pid.map(|pid| format!(", as process {pid}")).unwrap_or_default()
}

/// Starts the program that the words name, split as a shell would split them, without one. Its standard input is the
/// outcome of the run in that folder, as JSON, with `prompt` and `cwd` added.
///
/// Waits for its end, but only briefly. Dropping the future does not end it.
pub async fn notify(words: &str, folder: &Path) -> Result<(), NotifyError> {
    let split = shlex::split(words).filter(|split| split.first().is_some_and(|program| !program.is_empty()));
    let Some(split) = split else { return Err(NotifyError::Words { words: words.to_owned() }) };
    let input = message(folder).map_err(NotifyError::Start)?;
    // Files, not pipes: it may write when we are gone, and must not be killed for it.
    let mut output = tempfile::tempfile().map_err(NotifyError::Start)?;
    let copy = || output.try_clone().map(Stdio::from).map_err(NotifyError::Start);
    let mut command = Command::new(&split[0]);
    command.args(&split[1..]).stdin(Stdio::from(input)).stdout(copy()?).stderr(copy()?).process_group(0);
    set_pwd_of(&mut command);
    let mut child = command.spawn().map_err(NotifyError::Start)?;
    let status = match tokio::time::timeout(WAIT, child.wait()).await {
        Ok(ended) => ended.map_err(NotifyError::Start)?,
        Err(_) => return Err(NotifyError::LeftRunning { pid: child.id() }),
    };
    if status.success() {
        return Ok(());
    }
    Err(NotifyError::Failed { status, said: excerpt(&mut output) })
}

/// The outcome, with what the run was asked and where, in a file without a name. Where that cannot be written, the
/// outcome alone: better than nothing on a disk that is full.
fn message(folder: &Path) -> io::Result<File> {
    let path = folder.join("outcome.json");
    extended(folder, &path).or_else(|_| File::open(&path))
}

fn extended(folder: &Path, outcome: &Path) -> io::Result<File> {
    let mut message: Value = serde_json::from_slice(&std::fs::read(outcome)?)?;
    let facts: Facts = serde_json::from_slice(&std::fs::read(folder.join("run.json"))?)?;
    if let Value::Object(fields) = &mut message {
        fields.insert("prompt".to_owned(), json!(facts.prompt));
        fields.insert("cwd".to_owned(), json!(facts.cwd.to_string_lossy()));
    }
    let mut file = tempfile::tempfile()?;
    serde_json::to_writer(&mut file, &message)?;
    file.write_all(b"\n")?;
    file.rewind()?;
    Ok(file)
}

/// The beginning of what it printed, on one line.
fn excerpt(output: &mut File) -> String {
    let mut bytes = Vec::new();
    // Without it only the exit status can be reported.
    let _ = output.rewind().and_then(|()| output.take(OUTPUT_BYTES).read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(EXCERPT_CHARS).collect()
}
