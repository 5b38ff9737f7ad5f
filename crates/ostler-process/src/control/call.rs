//! Asking a live run.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::address::Address;
use super::attached::Attached;
use super::{Answer, Asked, LONGEST_LINE, Op, VERSION, WHERE};
use crate::journal::{Kept, State};
use crate::terminal::painter::Manner;
use crate::terminal::pty::Size;

/// How long a run may take to answer. It answers between two events, so that only a machine that swaps takes longer;
/// whoever wants its terminal may have to wait until Ostler has typed.
const PATIENCE: Duration = Duration::from_secs(30);

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
    Ok(exchange(kept, op).await?.0)
}

/// Sits down at the terminal of a run's agent.
pub async fn attach(kept: &Kept, manner: Manner, window: Size) -> Result<Attached, CallError> {
    let Size { columns, rows } = window;
    let (_, reader, writer) = exchange(kept, Op::Attach { manner, rows, columns }).await?;
    Ok(Attached::new(reader, writer))
}

/// An answer, and the connection that it came from.
type Exchanged = (Answer, BufReader<OwnedReadHalf>, OwnedWriteHalf);

async fn exchange(kept: &Kept, op: Op) -> Result<Exchanged, CallError> {
    let run = || kept.facts.run.clone();
    if kept.state != State::Live {
        return Err(CallError::NotLive { run: run() });
    }
    let answered = tokio::time::timeout(PATIENCE, exchanged(&kept.folder, op)).await;
    let answered = answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let (answer, reader, writer) =
        answered.map_err(|source| CallError::Unreachable { run: run(), source })?;
    match answer {
        Answer { ok: false, error, .. } => {
            Err(CallError::Refused { run: run(), reason: error.unwrap_or_default() })
        }
        answer => Ok((answer, reader, writer)),
    }
}

async fn exchanged(folder: &Path, op: Op) -> io::Result<Exchanged> {
    let path = PathBuf::from(OsStr::from_bytes(&std::fs::read(folder.join(WHERE))?));
    let address = Address::of(&path)?;
    let (reader, mut writer) = UnixStream::connect(&address.path).await?.into_split();
    let mut line = serde_json::to_vec(&Asked { v: VERSION, op })?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    let mut answer = Vec::new();
    let mut reader = BufReader::new(reader);
    (&mut reader).take(LONGEST_LINE as u64).read_until(b'\n', &mut answer).await?;
    Ok((serde_json::from_slice(&answer)?, reader, writer))
}
