//! Where fake agents are started: private folders, deadlines for everything, and nothing left running.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes on a slow machine; only a failure waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How often a thing that cannot be waited for is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// Lines kept between a process and its test; when full, the process waits.
const LINES: usize = 256;

/// A private place for fake agents that share a script and a memory.
pub(crate) struct Stand {
    folder: TempDir,
}

/// A process that has ended.
pub(crate) struct Ended {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) status: ExitStatus,
}

/// A process that is running; killed when dropped.
pub(crate) struct Live {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Option<JoinHandle<String>>,
}

impl Stand {
    pub(crate) fn new(script: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("work"))?;
        fs::write(folder.path().join("script.toml"), script)?;
        Ok(Self { folder })
    }

    /// A step for all prompts.
    pub(crate) fn doing(items: &str) -> Result<Self> {
        Self::new(&format!("v = 1\n[[step]]\ndo = [{items}]\n"))
    }

    pub(crate) fn work(&self) -> PathBuf {
        // The agents use real paths.
        let work = self.folder.path().join("work");
        work.canonicalize().unwrap_or(work)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The files below a folder of the private home that end so.
    pub(crate) fn files_below(&self, folder: &str, ending: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.home().join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path() {
                    path if path.is_dir() => folders.push(path),
                    path if path.to_string_lossy().ends_with(ending) => found.push(path),
                    _ => {}
                }
            }
        }
        found.sort();
        found
    }

    pub(crate) fn command(&self, dialect: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler-fake-agent"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.home())
            .env("OSTLER_FAKE_DIALECT", dialect)
            .env("OSTLER_FAKE_SCRIPT", self.folder.path().join("script.toml"))
            .env("OSTLER_FAKE_STATE", self.folder.path().join("state"))
            .current_dir(self.work())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, dialect: &str, arguments: &[&str]) -> Result<Live> {
        Live::start(self.command(dialect, arguments))
    }

    /// Runs a process to its end with nothing on stdin.
    pub(crate) fn run(&self, dialect: &str, arguments: &[&str]) -> Result<Ended> {
        let mut live = self.start(dialect, arguments)?;
        live.close_stdin();
        live.finish()
    }
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Every line of stdout as a record.
    pub(crate) fn records(&self) -> Result<Vec<Value>> {
        let lines = self.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
    }
}

impl Live {
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let mut child = command.spawn().context("the fake agent")?;
        let stdout = child.stdout.take().context("stdout")?;
        let mut stderr = child.stderr.take().context("stderr")?;
        let stdin = child.stdin.take();
        let (sender, lines) = sync_channel(LINES);
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let stderr = thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error is still worth showing.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Self { child, stdin, lines, stderr: Some(stderr) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, record: &Value) -> Result<()> {
        self.type_in(format!("{record}\n").as_bytes())
    }

    pub(crate) fn type_in(&mut self, bytes: &[u8]) -> Result<()> {
        let stdin = self.stdin.as_mut().context("stdin is closed")?;
        stdin.write_all(bytes)?;
        Ok(stdin.flush()?)
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line, or `None` at the end of stdout.
    pub(crate) fn line(&mut self) -> Result<Option<Vec<u8>>> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!("no line came"),
        }
    }

    pub(crate) fn record(&mut self) -> Result<Value> {
        let line = self.line()?.context("stdout ended")?;
        Ok(serde_json::from_slice(&line)?)
    }

    /// Records up to and with the first that `is_last` says so of.
    pub(crate) fn records_until(&mut self, is_last: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
        let mut records = Vec::new();
        loop {
            let record = self.record()?;
            let done = is_last(&record);
            records.push(record);
            if done {
                return Ok(records);
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        Ok(kill_process(pid, signal)?)
    }

    pub(crate) fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for the process alone: something else may still hold its pipes.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("the process did not end");
            }
            thread::sleep(LOOK);
        }
    }

    /// Reads everything that is left and waits for the end.
    pub(crate) fn finish(mut self) -> Result<Ended> {
        let mut stdout = Vec::new();
        while let Some(line) = self.line()? {
            stdout.extend(line);
        }
        let status = self.wait()?;
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        Ok(Ended { stdout, stderr, status })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // It has ended already in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Children that were left behind on purpose; ended when dropped.
pub(crate) struct Sleepers(pub(crate) Vec<Pid>);

impl Sleepers {
    /// The process ids that a fake agent wrote down, one a line.
    pub(crate) fn read(path: &std::path::Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let pids: Option<Vec<Pid>> = text.lines().map(|line| Pid::from_raw(line.parse().ok()?)).collect();
        Ok(Self(pids.context("a process id")?))
    }

    /// The fields of a sleeper's stat line that tell its place: parent, group, session.
    pub(crate) fn place(pid: Pid) -> Result<(i32, i32, i32)> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
        let (_, fields) = stat.rsplit_once(')').context("stat")?;
        let field =
            |nth: usize| -> Result<i32> { Ok(fields.split_whitespace().nth(nth).context("stat")?.parse()?) };
        Ok((field(1)?, field(2)?, field(3)?))
    }

    pub(crate) fn are_alive(&self) -> bool {
        self.0.iter().all(|pid| test_kill_process(*pid).is_ok())
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for pid in &self.0 {
            // Sleepers end by themselves too.
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > deadline {
            bail!("waited in vain: {what}");
        }
        thread::sleep(LOOK);
    }
    Ok(())
}
