//! `ostler __guard`: starts the shim, contains it, tells Ostler what becomes of it, and ends everything when it is told
//! to or when Ostler is gone.
//!
//! One thread, no configuration, no output. It has no parent-death signal: that one is tied to a thread of the parent,
//! of which Ostler has many, and would kill the guardian before it has cleaned up. The lifeline does better: the kernel
//! closes Ostler's end when Ostler ends in any way, and nobody else has a copy of it.

use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::jail::JailReport;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{
    Pid, PidfdFlags, WaitOptions, WaitStatus, getpid, pidfd_open, set_child_subreaper, setsid, wait,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ending::{Family, KILL_LIMIT, Reach};
use super::leaf::Leaf;
use super::wire::{
    self, Brief, Demand, Entry, Farewell, Order, Refusal, Report, ShimBrief, ShimReport, Step,
};
use super::{Exit, SHIM, Tier};
use crate::jail::{Namespaces, Networks, write_id_maps};

/// How long the shim may take to become the agent: two execs, of which the second may be from a slow disk.
const SHIM_LIMIT: Duration = Duration::from_secs(20);

/// What it is called among processes: whoever ends all that are called `ostler` does not end the guardian before it has
/// cleaned up.
pub(super) const NAME: &str = "agent-guardian";

/// `ostler` started so by hand, without a lifeline.
const NOT_FOR_PEOPLE: u8 = 2;

/// Lives as long as the run.
pub(super) fn guard() -> ExitCode {
    close_inherited();
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.raw_os_error() == Some(Errno::NOTSOCK.raw_os_error()) => {
            let _ = writeln!(io::stderr(), "error: this command is for Ostler's own use");
            ExitCode::from(NOT_FOR_PEOPLE)
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// Closes what whoever started Ostler left open: a lock, a secret, one end of a pipe is no concern of an agent. Our own
/// files are closed for other programs by themselves.
fn close_inherited() {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // One of them was that of the list, which is closed already.
        let _ = nix::unistd::close(number);
    }
}

fn serve() -> io::Result<()> {
    let lifeline = BlockingStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    // Fails unless it is a socket, before anything is started.
    lifeline.take_error()?;
    // Without `/proc` it is called as its program is.
    let _ = fs::write("/proc/self/comm", NAME);
    // Fails only for the leader of a group, who then has what it is for.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        // Before the shim: what we listen for it does not ignore, though we may have been started that way (`&`, `nohup`),
        // and an agent that ignores an interrupt could not be asked to stop.
        let ears = Ears::open()?;
        let waiting = Waiting::start()?;
        // It may be a while until somebody knows what is to be guarded. Nobody left: the shim goes as we do.
        let Some((brief, descriptors)) = wire::receive::<Brief>(&lifeline)? else { return Ok(()) };
        match Guardian::start(&lifeline, waiting, brief, descriptors) {
            Ok(mut guardian) => guardian.watch(lifeline, ears).await,
            Err(refusal) => wire::send(&lifeline, &Report::StartFailed(refusal), &[]),
        }
    })
}

/// The signals that matter.
struct Ears {
    children: Signal,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Ears {
    fn open() -> io::Result<Self> {
        Ok(Self {
            children: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// What a guardian can be woken by.
enum Input {
    ChildrenChanged,
    Ordered(Order),
    /// Ostler is gone.
    Deserted,
    /// Somebody wants us to end, or the system goes down.
    Signalled,
}

/// A shim that waits to be told what to become: started before that is known.
struct Waiting {
    shim: Pid,
    status: BlockingStream,
}

impl Waiting {
    fn start() -> io::Result<Self> {
        let (status, theirs) = BlockingStream::pair()?;
        let child = Command::new("/proc/self/exe")
            .arg(SHIM)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn()?;
        let shim = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        Ok(Self { shim, status })
    }
}

struct Guardian {
    reach: Reach,
    leader: Pid,
    exit: Option<Exit>,
}

impl Guardian {
    /// Starts the agent. On failure nothing is left.
    fn start(
        lifeline: &BlockingStream,
        waiting: Waiting,
        brief: Brief,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self, Refusal> {
        let fault = |error: io::Error| refused(Step::Guard, &error);
        if brief.v != wire::VERSION {
            return Err(refused(Step::Guard, &Errno::PROTO.into()));
        }
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or_else(|| refused(Step::Guard, &Errno::BADF.into()));
        let [plan, stdin, stdout, stderr] = [next()?, next()?, next()?, next()?];
        let leaf = match brief.leaf {
            Some(path) => Some(Arc::new(Leaf::adopt(path.into(), next()?))),
            None => None,
        };
        let entrance: Vec<OwnedFd> = descriptors.collect();
        let reach = Reach { leaf, ancestor: Some(getpid()), mark: brief.mark };
        if brief.tier == Tier::PidNs && !is_first_of_its_namespace() {
            return Err(refused(Step::Contain, &Errno::PERM.into()));
        }
        let Waiting { shim: leader, mut status } = waiting;
        let mut guardian = Self { reach, leader, exit: None };
        let mut streams = vec![plan.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        streams.extend(entrance.iter().map(OwnedFd::as_fd));
        let shim_brief = ShimBrief { guardian: getpid().as_raw_pid(), entry: brief.entry };
        let handed = wire::send(&status, &shim_brief, &streams);
        // Ours would keep the pipes open after the agent has closed its own.
        drop((plan, stdin, stdout, stderr, entrance));
        let started = handed.map_err(fault).and_then(|()| {
            let tier = guardian.admit(brief.tier, brief.demand)?;
            let held = pidfd_open(leader, PidfdFlags::empty()).map_err(|errno| fault(errno.into()))?;
            let networks = match brief.entry {
                Entry::NewNetwork => Networks::Own,
                Entry::New | Entry::Earlier => Networks::Shared,
            };
            let (jail, made) = release(&mut status, (leader, networks), lifeline)?;
            let mut descriptors = vec![held.as_fd()];
            descriptors.extend(made.iter().flat_map(Namespaces::as_fds));
            wire::send(lifeline, &Report::Spawned { tier, jail }, &descriptors).map_err(fault)
        });
        match started {
            Ok(()) => Ok(guardian),
            Err(refusal) => {
                guardian.end();
                Err(refusal)
            }
        }
    }

    /// Puts the waiting shim where it belongs, and answers which tier that is.
    fn admit(&mut self, tier: Tier, demand: Demand) -> Result<Tier, Refusal> {
        let Some(leaf) = &self.reach.leaf else { return Ok(tier) };
        match (leaf.admit(self.leader), demand) {
            (Ok(()), _) => Ok(Tier::Cgroup),
            (Err(error), Demand::Forced) => Err(refused(Step::Contain, &error)),
            (Err(_), Demand::Preferred) => {
                self.reach.leaf = None;
                Ok(Tier::Sweep)
            }
        }
    }

    async fn watch(&mut self, lifeline: BlockingStream, mut ears: Ears) -> io::Result<()> {
        lifeline.set_nonblocking(true)?;
        let (orders, mut reports) = UnixStream::from_std(lifeline)?.into_split();
        let mut orders = BufReader::new(orders).lines();
        // After the agent has begun: it does not wait for this.
        if let Some(leaf) = &self.reach.leaf {
            leaf.remove_stale();
        }
        // It may have ended before we listened.
        let mut input = Input::ChildrenChanged;
        let mut is_emptied = false;
        loop {
            match input {
                Input::ChildrenChanged => {
                    let known = self.exit;
                    let family = self.reap();
                    if let (None, Some(exit)) = (known, self.exit) {
                        tell(&mut reports, &Report::LeaderExited { exit }).await;
                    }
                    if family == Family::None && !is_emptied {
                        is_emptied = true;
                        tell(&mut reports, &Report::Emptied).await;
                    }
                }
                Input::Ordered(Order::KillAll) => {
                    let known = self.exit;
                    let survivors = self.end();
                    if let (None, Some(exit)) = (known, self.exit) {
                        tell(&mut reports, &Report::LeaderExited { exit }).await;
                    }
                    // The group is removed when we are gone: nobody waits for that.
                    tell(&mut reports, &Report::Gone { survivors, why: Farewell::Ordered }).await;
                    return Ok(());
                }
                Input::Signalled => {
                    let survivors = self.end();
                    tell(&mut reports, &Report::Gone { survivors, why: Farewell::Signalled }).await;
                    return Ok(());
                }
                Input::Deserted => {
                    self.end();
                    return Ok(());
                }
            }
            input = next(&mut orders, &mut ears).await;
        }
    }

    /// Waits for every child that has ended, so that none stays a zombie.
    fn reap(&mut self) -> Family {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.leader => self.exit = Some(exit(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Family::Possible,
                Err(_) => return Family::None,
            }
        }
    }

    /// Ends everything, and answers how many are left.
    fn end(&mut self) -> u32 {
        let reach = self.reach.clone();
        reach.end(KILL_LIMIT, || self.reap())
    }
}

async fn next(orders: &mut Lines<BufReader<OwnedReadHalf>>, ears: &mut Ears) -> Input {
    tokio::select! {
        biased;
        line = orders.next_line() => understood(line),
        _ = ears.terminate.recv() => Input::Signalled,
        _ = ears.interrupt.recv() => Input::Signalled,
        _ = ears.hangup.recv() => Input::Signalled,
        _ = ears.children.recv() => Input::ChildrenChanged,
    }
}

/// An order that cannot be read comes from nobody whom we could serve.
fn understood(line: io::Result<Option<String>>) -> Input {
    let order = line.ok().flatten().and_then(|line| wire::parse(line.as_bytes()).ok());
    order.map_or(Input::Deserted, Input::Ordered)
}

/// A report that cannot be sent means that Ostler is gone, which the lifeline tells us next.
async fn tell(reports: &mut OwnedWriteHalf, report: &Report) {
    if let Ok(line) = wire::line(report) {
        let _ = reports.write_all(&line).await;
    }
}

/// Lets the contained shim continue, and waits until it has become the agent. Returns the wall that stands around it, and
/// the namespaces that were made for it.
fn release(
    status: &mut BlockingStream,
    (shim, networks): (Pid, Networks),
    lifeline: &BlockingStream,
) -> Result<(Option<JailReport>, Option<Namespaces>), Refusal> {
    let fault = |error: io::Error| refused(Step::Guard, &error);
    // Nothing is to be started for an owner who has gone meanwhile.
    let mut order = [0; 1];
    let peeked = rustix::net::recv(lifeline, &mut order, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    if peeked.is_ok_and(|(_, count)| count == 0) {
        return Err(refused(Step::Guard, &Errno::PIPE.into()));
    }
    status.write_all(b"\n").map_err(fault)?;
    status.set_read_timeout(Some(SHIM_LIMIT)).map_err(fault)?;
    let (mut reports, mut jail, mut made) = (io::BufReader::new(&*status), None, None);
    let mut line = Vec::new();
    while reports.read_until(b'\n', &mut line).map_err(fault)? > 0 {
        match wire::parse(&line).map_err(fault)? {
            ShimReport::NeedsIdMaps => {
                write_id_maps(shim).map_err(|error| refused(Step::Jail, &error))?;
                made = Some(Namespaces::of(shim, networks).map_err(|error| refused(Step::Jail, &error))?);
                (&*status).write_all(b"\n").map_err(fault)?;
            }
            ShimReport::Jailed(report) => jail = Some(report),
            ShimReport::Refused(refusal) => return Err(refusal),
        }
        line.clear();
    }
    Ok((jail, made))
}

fn is_first_of_its_namespace() -> bool {
    let is_first = getpid().as_raw_pid() == 1;
    // With the old `/proc` we would look at, and kill, other people's processes.
    is_first && fs::read_link("/proc/self").is_ok_and(|own| own.as_os_str() == "1")
}

fn exit(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

fn refused(step: Step, error: &io::Error) -> Refusal {
    Refusal { step, errno: error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()), detail: None }
}
