//! Asking a live run.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::address::Address;
use super::{Answer, Asked, LONGEST_LINE, Op, VERSION, WHERE};
use crate::journal::{Kept, State};

/// How long a run may take to answer. It answers between two events, so that only a machine that swaps takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a run could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It has ended, or nobody runs it.
    #[error("run {run} is not under way")]
    NotLive {
        /// Its id.
        run: String,
    },
    /// It lives, but cannot be reached.
    #[error("run {run} does not answer")]
    Unreachable {
        /// Its id.
        run: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It does not want to.
    #[error("run {run} refused: {reason}")]
    Refused {
        /// Its id.
        run: String,
        /// Why.
        reason: String,
    },
}

impl CallError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotLive { run } => Some(format!("`ostler run --resume {run}` goes on with it")),
            Self::Unreachable { .. } => Some("`ostler runs why` tells what it is doing".to_owned()),
            Self::Refused { .. } => None,
        }
    }
}

/// Asks a run one thing.
pub async fn call(kept: &Kept, op: Op) -> Result<Answer, CallError> {
    let run = || kept.facts.run.clone();
    if kept.state != State::Live {
        return Err(CallError::NotLive { run: run() });
    }
    let answered = tokio::time::timeout(PATIENCE, exchange(&kept.folder, op)).await;
    let answered = answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let answer = answered.map_err(|source| CallError::Unreachable { run: run(), source })?;
    match answer {
        Answer { ok: false, error, .. } => {
            Err(CallError::Refused { run: run(), reason: error.unwrap_or_default() })
        }
        answer => Ok(answer),
    }
}

async fn exchange(folder: &Path, op: Op) -> io::Result<Answer> {
    let path = PathBuf::from(OsStr::from_bytes(&std::fs::read(folder.join(WHERE))?));
    let address = Address::of(&path)?;
    let mut stream = UnixStream::connect(&address.path).await?;
    let mut line = serde_json::to_vec(&Asked { v: VERSION, op })?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(LONGEST_LINE as u64)).read_until(b'\n', &mut answer).await?;
    Ok(serde_json::from_slice(&answer)?)
}
