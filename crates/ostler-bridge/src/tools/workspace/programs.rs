//! Programs that are run for the agent: contained, for a limited time, with bounded output. When a call is over, nothing
//! that it started is left.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_process::contain::{Exit, Spawn, StartError, Stdin, Tier};
use ostler_process::run::{PlannedJail, start_in};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::output::{Keep, Kept};
use crate::event::ProgramEnd;
use crate::route::Room;

/// Programs that run at once for one run. Further calls are refused in words: an agent waits for its own calls.
const MOST_AT_ONCE: usize = 16;

/// How long the rest of an output may take when all who could write it were ended.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);

const CHUNK_BYTES: usize = 64 * 1024;

/// With what programs are run for a run's agent.
#[derive(Clone)]
pub struct Programs {
    guard: PathBuf,
    env: Vec<(OsString, OsString)>,
    tier: Option<Tier>,
    jail: Option<Arc<PlannedJail>>,
    places: Arc<Semaphore>,
}

/// Variables may hold keys, so they are not shown.
impl fmt::Debug for Programs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Programs({})", self.guard.display())
    }
}

impl Programs {
    /// With our own binary as the guardian, and the whole environment of what is run: nothing is inherited.
    pub fn new(guard: PathBuf, env: Vec<(OsString, OsString)>) -> Self {
        Self { guard, env, tier: None, jail: None, places: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }

    /// Contained in this way or not at all.
    pub fn contained_by(self, tier: Tier) -> Self {
        Self { tier: Some(tier), ..self }
    }

    /// Behind the wall of the run, if it has one.
    pub fn jailed_by(self, jail: Option<Arc<PlannedJail>>) -> Self {
        Self { jail, ..self }
    }

    /// The environment of what is run.
    pub(super) fn env(&self) -> &[(OsString, OsString)] {
        &self.env
    }
}

/// What is to be run.
pub(super) struct Order {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) cwd: PathBuf,
    pub(super) within: Duration,
    pub(super) stdout: Keep,
    pub(super) stderr: Keep,
}

/// What became of it. Nothing of it is left.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) ended: ProgramEnd,
    pub(super) took: Duration,
    pub(super) tier: Tier,
    pub(super) left: usize,
    pub(super) survivors: u32,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
}

/// Why nothing was run.
#[derive(Debug)]
pub(super) enum Unrun {
    /// Too much is running.
    Full,
    /// The call was taken back before.
    Withdrawn,
    /// It does not start.
    Start(StartError),
}

impl Unrun {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Full => format!(
                "{MOST_AT_ONCE} programs are running for you already. Wait for one of them, then call again."
            ),
            Self::Withdrawn => "The call was withdrawn.".to_owned(),
            Self::Start(error) => {
                let cause = std::error::Error::source(error).map(|cause| format!(" ({cause})"));
                let hint = error.hint().map(|hint| format!(" Try: {hint}.")).unwrap_or_default();
                format!("Nothing was run: {error}{}.{hint}", cause.unwrap_or_default())
            }
        }
    }
}

/// Runs a program to its end, or to the end of its time, or until the call is taken back or the run is over.
pub(super) async fn run(
    room: &Room,
    programs: &Programs,
    order: Order,
    cancelled: &CancellationToken,
) -> Result<Finished, Unrun> {
    if cancelled.is_cancelled() || room.closed.is_cancelled() {
        return Err(Unrun::Withdrawn);
    }
    let Ok(_place) = programs.places.try_acquire() else { return Err(Unrun::Full) };
    let Order { program, args, env, cwd, within, stdout, stderr } = order;
    let guard = programs.guard.clone();
    let (run, tier) = (room.terms.run.as_str(), programs.tier);
    let spawn = Spawn { program, args, env, cwd, stdin: Stdin::Null, run, tier, jail: None, guard };
    let withdrawn = async {
        tokio::select! {
            () = cancelled.cancelled() => {}
            () = room.closed.cancelled() => {}
        }
    };
    tokio::pin!(withdrawn);
    let began = Instant::now();
    // Not given up half-way: what has begun is ended below, and told.
    let mut contained = start_in(programs.jail.as_deref(), spawn, None).await.map_err(Unrun::Start)?;
    let (mut stdout, mut stderr) = (Kept::new(stdout), Kept::new(stderr));
    let pipes = (contained.stdout.take(), contained.stderr.take());
    let reading = async { tokio::join!(keep(pipes.0, &mut stdout), keep(pipes.1, &mut stderr)) };
    let (ended, left, survivors) = {
        let over = tokio::time::sleep(within);
        tokio::pin!(reading, over);
        let mut is_drained = false;
        let ended = loop {
            tokio::select! {
                biased;
                () = &mut withdrawn => break ProgramEnd::Withdrawn,
                exit = contained.leader_exit() => break end(exit),
                () = &mut over => break ProgramEnd::TimedOut,
                _ = &mut reading, if !is_drained => is_drained = true,
            }
        };
        let left = match ended {
            ProgramEnd::Code(_) | ProgramEnd::Signal(_) | ProgramEnd::Unknown => contained.sample().processes,
            ProgramEnd::TimedOut | ProgramEnd::Withdrawn => 0,
        };
        let survivors = contained.kill_all().await.0;
        if !is_drained && tokio::time::timeout(DRAIN_WITHIN, reading).await.is_err() {
            tracing::debug!(target: "ostler::mcp", "an output stayed open after the end of its program");
        }
        (ended, left, survivors)
    };
    let (took, tier) = (began.elapsed(), contained.tier());
    Ok(Finished { ended, took, tier, left, survivors, stdout, stderr })
}

fn end(exit: Exit) -> ProgramEnd {
    match exit {
        Exit::Code(code) => ProgramEnd::Code(code),
        Exit::Signal(signal) => ProgramEnd::Signal(signal),
        Exit::Unknown => ProgramEnd::Unknown,
    }
}

async fn keep(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Kept) {
    let Some(mut pipe) = pipe else { return };
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        kept.take(&chunk[..count]);
    }
}
