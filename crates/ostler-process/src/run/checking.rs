//! Checks: commands that the host runs itself once an agent says that it is done. Each is contained as the agent was and
//! behind the same wall, because it executes what the agent wrote; bounded in time; and its output is kept.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use ostler_agent::check::{CheckEvent, Checked};
use ostler_agent::outcome::{CancelledBy, Limit};
use ostler_agent::run_event::RunEventKind;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::jailing::start_in;
use super::{Run, account};
use crate::contain::{Exit, Spawn, Stdin};
use crate::journal::JournalError;

/// What is kept of an output, which may be endless. The end of it is always known.
const MOST_OUTPUT: u64 = 64 * 1024 * 1024;

/// What an agent is told of it: enough for a few errors, little of its context.
const TAIL_BYTES: usize = 4 * 1024;

const CHUNK: usize = 16 * 1024;

/// How long the rest of an output may take once nobody is left who could write more.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// What came of the checks.
pub(super) enum Tried {
    /// All of them were run.
    All(Vec<Checked>),
    /// Somebody asked to stop.
    Stopped(CancelledBy),
    /// The time of the whole run is over.
    TooLate(Limit),
}

/// How one ended.
enum End {
    Exited(Exit),
    TimedOut,
    Stopped(CancelledBy),
}

impl Run<'_> {
    /// Runs all checks, one after the other, also when one fails: whoever mends wants to know all.
    pub(super) async fn check(&mut self, attempt: u32, id: &str) -> Result<Tried, JournalError> {
        let mut all = Vec::new();
        for (index, command) in self.plan.checks.commands.iter().enumerate() {
            if let Some(by) = self.requests.stop {
                return Ok(Tried::Stopped(by));
            }
            let limits = self.plan.policy.limits;
            // Time in checks is time of the run, whichever attempt they are for.
            let used = self.dog.why(self.desk.now()).agent_time.saturating_add(self.checking);
            let left = limits.ceiling.saturating_sub(used);
            if left.is_zero() {
                return Ok(Tried::TooLate(Limit::Ceiling { time: limits.ceiling }));
            }
            self.desk.tell(RunEventKind::Check(CheckEvent::Running { command: command.clone() }))?;
            let name = format!("checks/{attempt}-{}.log", index + 1);
            let mut output = Output::create(self.desk.folder(), name)?;
            let began = Instant::now();
            let within = limits.open_call.min(left);
            let (end, survivors) = self.try_one(command, id, within, &mut output).await?;
            self.count_survivors(Some(survivors));
            self.checking = self.checking.saturating_add(began.elapsed());
            let (exit_code, trouble) = match end {
                Ok(End::Stopped(by)) => return Ok(Tried::Stopped(by)),
                // It is not the check that took too long.
                Ok(End::TimedOut) if left <= limits.open_call => {
                    return Ok(Tried::TooLate(Limit::Ceiling { time: limits.ceiling }));
                }
                Ok(End::Exited(Exit::Code(code))) => (Some(code), None),
                Ok(End::Exited(Exit::Signal(signal))) => {
                    (None, Some(format!("was ended by signal {signal}")))
                }
                Ok(End::Exited(Exit::Unknown)) => (None, None),
                Ok(End::TimedOut) => {
                    (None, Some(format!("was not done within {}", account::seconds(within))))
                }
                Err(reason) => (None, Some(format!("could not be started: {reason}"))),
            };
            let checked = Checked {
                command: command.clone(),
                passed: exit_code == Some(0),
                exit_code,
                trouble,
                ms: account::milliseconds(began.elapsed()),
                tail: output.tail(),
                output: Some(output.name),
            };
            self.desk.tell(RunEventKind::Check(CheckEvent::Ended(checked.clone())))?;
            all.push(checked);
        }
        Ok(Tried::All(all))
    }

    /// Runs one to its end, and ends all that it started. That it cannot be started is its own failure.
    async fn try_one(
        &mut self,
        command: &str,
        id: &str,
        within: Duration,
        output: &mut Output,
    ) -> Result<(Result<End, String>, u32), JournalError> {
        let spawn = Spawn {
            program: "/bin/sh".into(),
            args: vec![OsString::from("-c"), OsString::from(command)],
            env: self.plan.checks.env.clone(),
            cwd: self.plan.workspace.clone(),
            stdin: Stdin::Null,
            run: id,
            tier: None,
            jail: None,
            guard: self.plan.guard.clone(),
        };
        let mut child = match start_in(self.plan.jail.as_deref(), spawn, None).await {
            Ok(child) => child,
            Err(error) => return Ok((Err(account::with_causes(&error)), 0)),
        };
        let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
        let (mut out, mut err) = (vec![0; CHUNK], vec![0; CHUNK]);
        let until = Instant::now() + within;
        let end = loop {
            tokio::select! {
                biased;
                () = self.requests.stop() => {
                    break End::Stopped(self.requests.stop.unwrap_or(CancelledBy::Client));
                }
                // Before its output, which may be endless.
                () = tokio::time::sleep_until(until) => break End::TimedOut,
                exit = child.leader_exit() => break End::Exited(exit),
                count = read(&mut stdout, &mut out) => output.take(&out[..count])?,
                count = read(&mut stderr, &mut err) => output.take(&err[..count])?,
            }
        };
        let survivors = child.kill_all().await.0;
        let until = Instant::now() + DRAIN_LIMIT;
        for pipe in [&mut stdout, &mut stderr] {
            while pipe.is_some() {
                let rest = tokio::time::timeout_at(until, read(pipe, &mut out)).await;
                match rest {
                    Ok(count) => output.take(&out[..count])?,
                    Err(_) => break,
                }
            }
        }
        Ok((Ok(end), survivors))
    }
}

/// The next bytes. At its end a pipe is let go; without one it waits for ever. Cancel safe.
async fn read(pipe: &mut Option<Receiver>, buffer: &mut [u8]) -> usize {
    let Some(open) = pipe else { return std::future::pending().await };
    let count = open.read(buffer).await.unwrap_or(0);
    if count == 0 {
        *pipe = None;
    }
    count
}

/// What a check prints: a file, and its end.
struct Output {
    name: String,
    file: File,
    path: std::path::PathBuf,
    written: u64,
    end: Vec<u8>,
}

impl Output {
    fn create(folder: &Path, name: String) -> Result<Self, JournalError> {
        let path = folder.join(&name);
        let failed = |source| JournalError::Create { path: path.clone(), source };
        let parent = path.parent().unwrap_or(folder);
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        Ok(Self { name, file, path, written: 0, end: Vec::new() })
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        let room = usize::try_from(MOST_OUTPUT.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(room)];
        let failed = |source| JournalError::Write { path: self.path.clone(), source };
        self.file.write_all(kept).map_err(failed)?;
        self.written += kept.len() as u64;
        self.end.extend_from_slice(bytes);
        let surplus = self.end.len().saturating_sub(2 * TAIL_BYTES);
        if surplus > 0 {
            self.end.drain(..surplus);
        }
        Ok(())
    }

    /// The last lines, whole if that is possible.
    fn tail(&self) -> String {
        let from = self.end.len().saturating_sub(TAIL_BYTES);
        let cut = &self.end[from..];
        let whole = match cut.iter().position(|byte| *byte == b'\n') {
            Some(at) if from > 0 && at + 1 < cut.len() => &cut[at + 1..],
            _ => cut,
        };
        String::from_utf8_lossy(whole).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_the_last_whole_lines_are_told_and_all_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::create(folder.path(), "checks/1-1.log".to_owned()).unwrap();
        for number in 0..10_000 {
            output.take(format!("line {number}\n").as_bytes()).unwrap();
        }
        let tail = output.tail();
        assert!(tail.len() <= TAIL_BYTES && tail.starts_with("line ") && tail.ends_with("line 9999\n"));
        let kept = std::fs::read_to_string(folder.path().join("checks/1-1.log")).unwrap();
        assert_eq!(kept.lines().count(), 10_000);
    }

    #[test]
    fn an_output_without_lines_is_cut_where_it_must_be() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::create(folder.path(), "one".to_owned()).unwrap();
        assert_eq!(output.tail(), "");
        output.take("x".repeat(3 * TAIL_BYTES).as_bytes()).unwrap();
        assert_eq!(output.tail(), "x".repeat(TAIL_BYTES));
    }
}
