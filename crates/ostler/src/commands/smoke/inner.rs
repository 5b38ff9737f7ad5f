//! The run inside a smoke test: our own binary, as a person would start it.
//!
//! Not a call of the same functions: this way nothing can be special about it. Arguments are parsed, settings read,
//! refusals made and exit codes given as always, and if a run of ours breaks, that is a row of the table and not the end
//! of all. It is contained as an agent is: a Ctrl-C in the terminal reaches it once, through us, and should we be killed,
//! nothing of it is left.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::run_event::RunEvent;
use ostler_agent::smoke::Gathered;
use ostler_process::contain::{Contained, Spawn, StartError, Stdin, StopSignal};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::task::ARTIFACT;
use crate::failure::Failure;
use crate::interrupt::{Interrupted, Signals};

/// When a run that is past all of its own limits is asked to stop, told to stop, and killed. Its ceiling is two minutes
/// of its agent's time, its wait half a minute, and its stop ladder takes seconds.
const OVERDUE: [Duration; 3] = [Duration::from_secs(300), Duration::from_secs(330), Duration::from_secs(360)];

/// How much of the end of its standard error is kept.
const TAIL: usize = 8 * 1024;

/// How long what it says last is waited for, once its events are at their end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How a run is started.
pub(super) struct Inner {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
}

/// What a run came to.
pub(super) struct Came {
    pub(super) gathered: Gathered,
    /// The end of what it said on standard error.
    pub(super) muttered: String,
}

impl Inner {
    /// Runs it to its end. Every event is told to `observe`. A signal stops it, and is answered once it has ended.
    pub(super) async fn run(
        self,
        signals: &mut Signals,
        observe: &mut dyn FnMut(&RunEvent),
    ) -> Result<Came, Failure> {
        let spawn = Spawn {
            program: self.program.clone(),
            args: self.args,
            env: std::env::vars_os().collect(),
            cwd: std::env::current_dir().map_err(Failure::Runtime)?,
            stdin: Stdin::Null,
            run: "smoke",
            tier: None,
            jail: None,
            guard: self.program,
        };
        let unstarted = |error: StartError| Failure::Runtime(std::io::Error::other(error));
        let mut child = Contained::start(spawn).await.map_err(unstarted)?;
        let mut lines = child.stdout.take().map(|stdout| BufReader::new(stdout).split(b'\n'));
        let (mut stderr, mut chunk) = (child.stderr.take(), vec![0; TAIL]);
        let mut came = Came { gathered: Gathered::of(ARTIFACT), muttered: String::new() };
        let (began, mut rung, mut tail) = (Instant::now(), 0, Vec::new());
        let mut interrupted: Option<Interrupted> = None;
        // Its output first: only when that is at its end is it waited for.
        while lines.is_some() {
            let due = OVERDUE.get(rung).map(|after| began + *after);
            tokio::select! {
                biased;
                by = signals.next() => {
                    ask(&child, StopSignal::Interrupt);
                    interrupted.get_or_insert(by);
                }
                () = until(due) => {
                    overdue(&mut child, rung).await;
                    rung += 1;
                }
                line = next(&mut lines) => match line {
                    Some(line) => if let Some(event) = RunEvent::read(&line) {
                        came.gathered.note(&event);
                        observe(&event);
                    },
                    None => lines = None,
                },
                count = read(&mut stderr, &mut chunk) => keep(&mut stderr, &mut tail, &chunk[..count]),
            }
        }
        let rest = async {
            while stderr.is_some() {
                let count = read(&mut stderr, &mut chunk).await;
                keep(&mut stderr, &mut tail, &chunk[..count]);
            }
        };
        // Whoever else still has it open, is not waited for.
        let _ = tokio::time::timeout(LAST_WORDS, rest).await;
        child.leader_exit().await;
        // The run has told what survived it.
        let _ = child.kill_all().await;
        came.muttered = String::from_utf8_lossy(&tail).into_owned();
        interrupted.map_or(Ok(came), |by| Err(by.into()))
    }
}

async fn next<R: tokio::io::AsyncBufRead + Unpin>(
    lines: &mut Option<tokio::io::Split<R>>,
) -> Option<Vec<u8>> {
    match lines {
        Some(lines) => lines.next_segment().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

async fn read(stderr: &mut Option<Receiver>, chunk: &mut [u8]) -> usize {
    match stderr {
        Some(stderr) => stderr.read(chunk).await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

/// The end of it; nothing more is its end.
fn keep(stderr: &mut Option<Receiver>, tail: &mut Vec<u8>, read: &[u8]) {
    if read.is_empty() {
        *stderr = None;
    }
    tail.extend_from_slice(read);
    tail.drain(..tail.len().saturating_sub(TAIL));
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The first asks its agent to stop, the second kills that, the third ends the run itself, and its guardian the rest.
async fn overdue(child: &mut Contained, rung: usize) {
    match rung {
        0 | 1 => ask(child, StopSignal::Terminate),
        _ => {
            let _ = child.kill_all().await;
        }
    }
}

/// Sends it a signal. One that has just ended needs none.
fn ask(child: &Contained, signal: StopSignal) {
    let _ = child.signal(signal);
}
