//! Ostler's side of a contained agent.
//!
//! All state changes come in as the guardian's reports, read by whoever waits for one of them. If the lifeline closes
//! without a last report, the guardian was killed; then everything is ended from here.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::jail::JailReport;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, pidfd_send_signal};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::Child;

use super::connections::Diagnosis;
use super::ending::{Family, KILL_LIMIT, Reach};
use super::error::StartError;
use super::family;
use super::launch::{self, Ahead, Pipes};
use super::wire::{self, Farewell, MESSAGE_BYTES, Order, Report};
use super::{Exit, Spawn, StopSignal, Survivors, Tier, TreeSample};
use crate::jail::{JailSockets, Namespaces};
use crate::terminal::pty::Pty;

/// How long the guardian may take to end everything and to say so, before it is done from here. More than its own
/// limit, so that this means that the guardian itself was stopped.
const GUARDIAN_LIMIT: Duration = Duration::from_secs(8);

/// How long a guardian that has said its last word may take to end.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);

/// How long a drop may block when the guardian was killed before. Killing takes milliseconds.
const DROP_LIMIT: Duration = Duration::from_secs(1);

/// An agent and everything it starts. Dropping it ends all of them: the guardian sees its lifeline close.
#[derive(Debug)]
pub struct Contained {
    /// What the agent reads, if it is piped. Dropping it is the end of the input.
    pub stdin: Option<Sender>,
    /// What the agent says, unless it is on a terminal.
    pub stdout: Option<Receiver>,
    /// What the agent says on the side, likewise.
    pub stderr: Option<Receiver>,
    /// The terminal that it is on, if it is on one.
    pub terminal: Option<Pty>,
    pid: u32,
    tier: Tier,
    jail: Option<JailReport>,
    namespaces: Option<Namespaces>,
    sockets: Option<JailSockets>,
    diagnosis: Option<Arc<Diagnosis>>,
    leader: OwnedFd,
    lifeline: Lifeline,
    guardian: Child,
    reach: Reach,
    exit: Option<Exit>,
    state: State,
    guard: Guard,
}

/// What became of the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// It is there, or ended when it was told to.
    Held,
    /// Somebody asked it to end, which it did after all others.
    Dismissed,
    /// It was killed, and all that could be found was ended without it.
    Lost,
}

/// What a launch has made.
pub(super) struct Launched {
    pub(super) pipes: Pipes,
    pub(super) pid: u32,
    pub(super) tier: Tier,
    pub(super) jail: Option<JailReport>,
    pub(super) namespaces: Option<Namespaces>,
    /// What its own network has passed out.
    pub(super) sockets: Option<JailSockets>,
    pub(super) leader: OwnedFd,
    pub(super) lifeline: Lifeline,
    pub(super) guardian: Child,
    /// The guardian is its ancestor.
    pub(super) reach: Reach,
}

/// What is known of the processes of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// All have ended by themselves. The guardian still waits for orders.
    Emptied,
    /// All were ended, except so many. The guardian is gone.
    Ended(Survivors),
}

impl Contained {
    /// Starts a guardian, and the agent contained by it in the best tier that works. Dropping the future ends what was
    /// started so far. Needs a tokio runtime with I/O and time.
    pub async fn start(spawn: Spawn<'_>) -> Result<Self, StartError> {
        Box::pin(launch::start(&spawn, None, None)).await
    }

    /// The same, with a guardian that waits already, if it fits.
    pub async fn start_ahead(spawn: Spawn<'_>, ahead: Option<Ahead>) -> Result<Self, StartError> {
        Box::pin(launch::start(&spawn, ahead, None)).await
    }

    /// The same, behind the wall of an earlier process, whose policy is that of `spawn`.
    pub(crate) async fn start_joined(
        spawn: Spawn<'_>,
        ahead: Option<Ahead>,
        joined: &Namespaces,
    ) -> Result<Self, StartError> {
        Box::pin(launch::start(&spawn, ahead, Some(joined))).await
    }

    pub(super) fn new(launched: Launched) -> Self {
        let Launched { pipes, pid, tier, jail, namespaces, sockets, leader, lifeline, guardian, reach } =
            launched;
        let Pipes { stdin, stdout, stderr, terminal } = pipes;
        let (exit, state, guard) = (None, State::Running, Guard::Held);
        Self {
            stdin,
            stdout,
            stderr,
            terminal,
            pid,
            tier,
            jail,
            namespaces,
            sockets,
            diagnosis: None,
            leader,
            lifeline,
            guardian,
            reach,
            exit,
            state,
            guard,
        }
    }

    /// The namespaces that were made for it, for others to join.
    pub(crate) fn take_namespaces(&mut self) -> Option<Namespaces> {
        self.namespaces.take()
    }

    /// The sockets that its network has passed out.
    pub(crate) fn take_sockets(&mut self) -> Option<JailSockets> {
        self.sockets.take()
    }

    /// Has its connections looked for in the network of its jail.
    pub(crate) fn diagnose_by(&mut self, diagnosis: Option<Arc<Diagnosis>>) {
        self.diagnosis = diagnosis;
    }

    /// What reports its connections, if that is not the network of this process.
    pub(super) fn diagnosis(&self) -> Option<&Diagnosis> {
        self.diagnosis.as_deref()
    }

    /// The wall around it, as the kernel keeps it.
    pub fn jail(&self) -> Option<&JailReport> {
        self.jail.as_ref()
    }

    /// The leader's number, for people to read. Never signal it: use [`Self::signal`]. Zero if it ended at once.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The number by which the leader knows itself: in a PID namespace that is another one. None once it has ended.
    pub fn own_pid(&self) -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        numbers.split_whitespace().next_back()?.parse().ok()
    }

    /// What the kernel confirmed.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// What became of the guardian.
    pub fn guard(&self) -> Guard {
        self.guard
    }

    /// Whether the number of survivors is known. Where the kernel keeps no account, only the guardian finds those who
    /// have hidden their descent.
    pub fn is_accounted_for(&self) -> bool {
        match (self.guard, self.tier) {
            (Guard::Held | Guard::Dismissed, _) | (Guard::Lost, Tier::Cgroup | Tier::PidNs) => true,
            (Guard::Lost, Tier::Sweep) => false,
        }
    }

    /// The guardian's number, until it has ended: for tests, and for whoever looks for what is using memory.
    pub fn guardian_pid(&self) -> Option<u32> {
        self.guardian.id()
    }

    /// Signals the leader alone. Does nothing once it has ended. Never blocks.
    pub fn signal(&self, signal: StopSignal) -> io::Result<()> {
        let signal = match signal {
            StopSignal::Interrupt => Signal::INT,
            StopSignal::Terminate => Signal::TERM,
        };
        match pidfd_send_signal(&self.leader, signal) {
            Err(Errno::SRCH) | Ok(()) => Ok(()),
            Err(other) => Err(other.into()),
        }
    }

    /// Waits until the leader has ended, whoever still holds its pipes. What it started may live on. Cancel safe; every
    /// call answers the same. If the guardian was killed, this notices, ends everything, and answers
    /// [`Exit::Unknown`].
    pub async fn leader_exit(&mut self) -> Exit {
        loop {
            match self.exit {
                Some(exit) => return exit,
                None => self.hear().await,
            }
        }
    }

    /// Waits until the leader and everything it started have ended. Kills nothing. Cancel safe.
    pub async fn gone(&mut self) {
        while self.state == State::Running {
            self.hear().await;
        }
    }

    /// Ends everything and answers how many processes could not be ended. When it returns, the guardian is gone too.
    /// Takes milliseconds, and never more than about 20 s. Idempotent. If the future is dropped, call it again or drop
    /// the whole: either way the killing goes on.
    pub async fn kill_all(&mut self) -> Survivors {
        let survivors = self.end_all().await;
        self.see_off().await;
        survivors
    }

    /// The same, but for the guardian, which has only itself to end then: see [`Self::farewell`].
    pub async fn end_all(&mut self) -> Survivors {
        if !matches!(self.state, State::Ended(_)) {
            self.lifeline.order(Order::KillAll);
            let ended = async {
                while !matches!(self.state, State::Ended(_)) {
                    self.hear().await;
                }
            };
            if tokio::time::timeout(GUARDIAN_LIMIT, ended).await.is_err() {
                tracing::warn!(target: "ostler::run", pid = self.guardian.id(), "the guardian does not answer");
                self.rescue().await;
            }
        }
        match self.state {
            State::Ended(survivors) => survivors,
            State::Running | State::Emptied => Survivors(0),
        }
    }

    /// Waits until the guardian is gone, after all others. Dropping it does not keep the guardian.
    pub async fn farewell(mut self) {
        let _ = self.kill_all().await;
    }

    async fn see_off(&mut self) {
        let farewell = tokio::time::timeout(FAREWELL_LIMIT, self.guardian.wait()).await;
        if farewell.is_err() {
            let _ = self.guardian.kill().await;
        }
    }

    /// Whether a signal has stopped the leader: it does nothing until another one continues it.
    pub fn is_stopped(&self) -> bool {
        let leader = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        leader.and_then(family::process).is_some_and(|process| process.is_stopped())
    }

    /// What all processes but the leader have used up so far. Looks at every process of the machine, which takes a few
    /// milliseconds: ask when an agent is quiet, not all the time.
    pub fn sample(&self) -> TreeSample {
        let number = |id: u32| i32::try_from(id).ok().and_then(Pid::from_raw);
        let (Some(guardian), Some(leader)) = (self.guardian.id().and_then(number), number(self.pid)) else {
            return TreeSample::default();
        };
        let mut sample = family::sample(guardian, leader);
        if self.tier == Tier::PidNs {
            // There our child is `unshare`, and the guardian descends from it.
            sample.processes = sample.processes.saturating_sub(1);
        }
        sample
    }

    /// Takes in one report. Cancel safe.
    async fn hear(&mut self) {
        match self.lifeline.next().await {
            Some(Report::LeaderExited { exit }) => self.exit = Some(exit),
            Some(Report::Emptied) => self.state = State::Emptied,
            Some(Report::Gone { survivors, why }) => {
                self.guard = match why {
                    Farewell::Ordered => Guard::Held,
                    Farewell::Signalled => Guard::Dismissed,
                };
                self.state = State::Ended(Survivors(survivors));
                self.exit.get_or_insert(Exit::Unknown);
            }
            // Both come first or never.
            Some(Report::Spawned { .. } | Report::StartFailed { .. }) => {}
            None => self.rescue().await,
        }
    }

    /// Ends everything without the guardian, which is dead or does not move.
    async fn rescue(&mut self) {
        tracing::warn!(target: "ostler::run", pid = self.pid, "the guardian was lost: ending the run from here");
        self.guard = Guard::Lost;
        let _ = pidfd_send_signal(&self.leader, Signal::KILL);
        if let Ok(None) = self.guardian.try_wait() {
            self.end_here().await;
            let _ = self.guardian.kill().await;
        }
        // Waited for, its number may be anybody's. Whoever descended from it is dead, or in the leaf, or marked.
        self.reach.ancestor = None;
        let survivors = self.end_here().await;
        // Nobody else removes the group.
        self.reach.leaf = None;
        self.exit.get_or_insert(Exit::Unknown);
        self.state = State::Ended(Survivors(survivors));
    }

    /// On a thread of its own: a process that is stuck in the kernel must not hold up the others.
    async fn end_here(&self) -> u32 {
        let reach = self.reach.clone();
        let ending = tokio::task::spawn_blocking(move || reach.end(KILL_LIMIT, || Family::Possible));
        ending.await.unwrap_or(u32::MAX)
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let is_ended = matches!(self.state, State::Ended(_));
        let has_guardian = matches!(self.guardian.try_wait(), Ok(None));
        if !is_ended && !has_guardian {
            let _ = pidfd_send_signal(&self.leader, Signal::KILL);
            self.reach.ancestor = None;
            self.reach.end(DROP_LIMIT, || Family::Possible);
        }
    }
}

/// The socket to a guardian. That it is open keeps the run alive.
#[derive(Debug)]
pub(super) struct Lifeline {
    stream: UnixStream,
    unread: Vec<u8>,
}

impl Lifeline {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// The next report; `None` when there will be no more. Cancel safe.
    async fn next(&mut self) -> Option<Report> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return wire::parse(&line).ok();
            }
            let count = self.stream.read_buf(&mut self.unread).await.unwrap_or(0);
            if count == 0 || self.unread.len() > MESSAGE_BYTES {
                return None;
            }
        }
    }

    /// Sends an order. A guardian that cannot take it is lost, which the next report tells.
    fn order(&self, order: Order) {
        // There is always room: orders are few and short.
        if let Ok(line) = wire::line(&order) {
            let _ = self.stream.try_write(&line);
        }
    }
}
