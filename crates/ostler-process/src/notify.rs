//! Tells somebody how a run ended: a program of the user's choice, with the outcome on its standard input.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;

use crate::capture::capture;

/// How long it may take. Whoever started the run waits for it.
const LIMIT: Duration = Duration::from_secs(30);

/// How much of what it said is repeated.
const EXCERPT_CHARS: usize = 200;

/// Why nobody was told. The outcome stays what it is.
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
    /// It did not end.
    #[error("the notify command did not end within {} s", LIMIT.as_secs())]
    Slow,
    /// It ended with an error.
    #[error("the notify command ended with {status}: {said}")]
    Failed {
        /// How.
        status: ExitStatus,
        /// The beginning of what it said.
        said: String,
    },
}

/// Starts the program that the words name, split as a shell would split them, without one, and waits for its end.
/// `outcome` is a file of JSON, and becomes its standard input.
pub async fn notify(words: &str, outcome: &Path) -> Result<(), NotifyError> {
    let split = shlex::split(words).filter(|split| split.first().is_some_and(|program| !program.is_empty()));
    let Some(split) = split else { return Err(NotifyError::Words { words: words.to_owned() }) };
    let mut command = Command::new(&split[0]);
    command.args(&split[1..]).stdin(Stdio::from(File::open(outcome).map_err(NotifyError::Start)?));
    let ended = tokio::time::timeout(LIMIT, capture(&mut command)).await.map_err(|_| NotifyError::Slow)?;
    let ended = ended.map_err(NotifyError::Start)?;
    if ended.status.success() {
        return Ok(());
    }
    let said = if ended.stderr.trim().is_empty() { ended.stdout } else { ended.stderr };
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(EXCERPT_CHARS).collect();
    Err(NotifyError::Failed { status: ended.status, said })
}
