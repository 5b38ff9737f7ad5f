//! Runs a short-lived program to its end and keeps what it said, within bounds: in a process group, or contained.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

#[cfg(target_os = "linux")]
use crate::contain::{Contained, Exit, Spawn, StartError};
use crate::group::Group;

/// How much of each output is kept; the rest is read and forgotten. The longest that matters is npm's report of an
/// error, which is a few kilobytes.
const KEPT_BYTES: usize = 256 * 1024;

/// How much is read at once: on the heap, to keep the future small.
const CHUNK_BYTES: usize = 8 * 1024;

/// How long to read on after the end, should a process that left the group hold the pipe. What the program itself
/// wrote is in the pipe already.
const AFTER_END: Duration = Duration::from_millis(250);

/// What a program said and how it ended.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Starts the command in its own process group and waits for its end. Dropping the future kills the group.
pub(crate) async fn capture(command: &mut Command) -> io::Result<Captured> {
    let mut group = Group::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let (stdout, stderr) = group.pipes();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = {
        let reading = async { tokio::join!(keep(stdout, &mut out), keep(stderr, &mut err)) };
        tokio::pin!(reading);
        let mut drained = false;
        let status = loop {
            tokio::select! {
                status = group.ended() => break status?,
                _ = &mut reading, if !drained => drained = true,
            }
        };
        if !drained && tokio::time::timeout(AFTER_END, reading).await.is_err() {
            tracing::debug!("an output stayed open after the end of its program");
        }
        status
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Captured { status, stdout: text(out), stderr: text(err) })
}

/// What a contained program came to.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Guarded {
    /// Nothing, if it was not waited for.
    pub(crate) exit: Option<Exit>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) survivors: u32,
}

/// Starts a program contained, and waits for its end or until it is not to be waited for. All that it started is gone
/// then. Dropping the future ends them too, a moment later.
#[cfg(target_os = "linux")]
pub(crate) async fn capture_guarded(
    spawn: Spawn<'_>,
    stop: impl Future<Output = ()>,
) -> Result<Guarded, StartError> {
    tokio::pin!(stop);
    let mut child = tokio::select! {
        biased;
        () = &mut stop => {
            return Ok(Guarded { exit: None, stdout: String::new(), stderr: String::new(), survivors: 0 });
        }
        started = Contained::start(spawn) => started?,
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (exit, survivors) = {
        let reading = async { tokio::join!(keep(stdout, &mut out), keep(stderr, &mut err)) };
        tokio::pin!(reading);
        let mut drained = false;
        let exit = loop {
            tokio::select! {
                biased;
                exit = child.leader_exit() => break Some(exit),
                () = &mut stop => break None,
                _ = &mut reading, if !drained => drained = true,
            }
        };
        // Nobody holds the pipes after that.
        let survivors = child.kill_all().await;
        if !drained && tokio::time::timeout(AFTER_END, reading).await.is_err() {
            tracing::debug!("an output stayed open after the end of its program");
        }
        (exit, survivors.0)
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Guarded { exit, stdout: text(out), stderr: text(err), survivors })
}

async fn keep(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        let room = KEPT_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..count.min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script).stdin(Stdio::null());
        command
    }

    #[tokio::test]
    async fn both_outputs_and_the_status_are_kept() {
        let captured = capture(&mut shell("echo out; echo err >&2; exit 7")).await.unwrap();
        assert_eq!(captured.status.code(), Some(7));
        assert_eq!((captured.stdout.as_str(), captured.stderr.as_str()), ("out\n", "err\n"));
    }

    #[tokio::test]
    async fn a_flood_is_read_to_its_end_but_not_kept() {
        let captured = capture(&mut shell("head -c 2000000 /dev/zero; exit 4")).await.unwrap();
        assert_eq!((captured.status.code(), captured.stdout.len()), (Some(4), KEPT_BYTES));
    }

    #[tokio::test]
    async fn an_escaped_process_that_holds_the_pipe_does_not_hold_us() {
        let captured = capture(&mut shell("setsid sleep 20 2>/dev/null & echo done")).await.unwrap();
        assert_eq!(captured.stdout, "done\n");
    }
}
