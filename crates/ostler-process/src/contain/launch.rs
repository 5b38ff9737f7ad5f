//! Starting a guardian with its agent: the pipes, the best tier that works, and the first report.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_agent::jail::JailKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, geteuid};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::contained::{Contained, Launched, Lifeline};
use super::ending::Reach;
use super::error::{Attempt, StartError};
use super::guardian;
use super::leaf::Leaf;
use super::plan::{self, Plan};
use super::wire::{self, Brief, Demand, Entry, Report};
use super::{FORCE_TIER, GUARD, MARK, Spawn, Stdin, Tier};
use crate::jail::{Jail, JailNetwork, JailSockets, Namespaces, receive_sockets};
use crate::terminal::pty::Pty;

/// How long a guardian may take to say that the agent has begun, or why not. It gives up on the shim earlier.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How much of a run's name goes into the mark; a run's id is shorter.
const RUN_CHARS: usize = 48;

/// A guardian that waits for something to guard. To start it, and what becomes the agent, takes some milliseconds, which
/// whoever knows that there will be a start can spend on something else. Dropped, it goes without having done anything.
#[derive(Debug)]
pub struct Ahead {
    guard: PathBuf,
    guardian: Child,
    lifeline: BlockingStream,
}

impl Ahead {
    /// Starts one. That it fails costs only the time that it would have saved: a start will fail again, and say why.
    pub fn begin(guard: &Path) -> Option<Self> {
        let (guardian, lifeline) = guardian(Tier::Cgroup, guard).ok()?;
        Some(Self { guard: guard.to_owned(), guardian, lifeline })
    }

    /// Its process, until it was waited for.
    pub fn pid(&self) -> Option<u32> {
        self.guardian.id()
    }

    /// Whether it is there still: it says nothing until it is told something, and its end closes the lifeline.
    pub(super) fn is_waiting(&self) -> bool {
        let mut polled = [PollFd::new(&self.lifeline, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(0))
    }

    /// Whether it is one that this start would make itself.
    fn fits(&self, tier: Tier, guard: &Path) -> bool {
        tier != Tier::PidNs && self.guard == guard
    }
}

/// Starts the guardian and, through it, the agent.
pub(super) async fn start(
    spawn: &Spawn<'_>,
    mut ahead: Option<Ahead>,
    joined: Option<&Namespaces>,
) -> Result<Contained, StartError> {
    let forced = forced(spawn.tier, std::env::var_os(FORCE_TIER).as_deref())?;
    let mark = mark(spawn.run);
    let plan = encode(spawn, &mark)?;
    let (tiers, demand) = match &forced {
        Some(tier) => (std::slice::from_ref(tier), Demand::Forced),
        None => (Tier::ALL.as_slice(), Demand::Preferred),
    };
    let launch = Launch { spawn, mark, plan, demand, joined };
    let mut refusal = None;
    for tier in tiers {
        let attempted = match prepare(*tier, &launch.mark) {
            Ok(leaf) => launch.attempt(*tier, leaf, &mut ahead).await,
            Err(source) => Err(StartError::Tier { tier: *tier, source }),
        };
        match attempted {
            Err(StartError::Tier { tier, source }) => {
                tracing::debug!(target: "ostler::run", tier = tier.name(), %source, "this tier does not work here");
                refusal = Some(StartError::Tier { tier, source });
            }
            done => return done,
        }
    }
    Err(refusal.unwrap_or(StartError::UnknownTier { name: String::new() }))
}

fn forced(asked: Option<Tier>, variable: Option<&OsStr>) -> Result<Option<Tier>, StartError> {
    let (None, Some(name)) = (asked, variable.filter(|name| !name.is_empty())) else { return Ok(asked) };
    let tier = name.to_str().and_then(Tier::named);
    tier.map(Some).ok_or_else(|| StartError::UnknownTier { name: name.display().to_string() })
}

/// A word that no other start has, on this machine or on one that shares its control groups.
fn mark(run: &str) -> String {
    static STARTS: AtomicU32 = AtomicU32::new(0);
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || *char == '-' || *char == '_';
    let run: String = run.chars().filter(is_plain).take(RUN_CHARS).collect();
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let start = STARTS.fetch_add(1, Ordering::Relaxed);
    format!("{run}.{:x}-{nanos:x}-{start:x}", std::process::id())
}

fn encode(spawn: &Spawn<'_>, mark: &str) -> Result<Vec<u8>, StartError> {
    let mut environment = spawn.env.clone();
    environment.retain(|(name, _)| name != MARK);
    environment.push((MARK.into(), mark.into()));
    let plan = Plan {
        program: spawn.program.clone().into_os_string(),
        folder: spawn.cwd.clone(),
        arguments: spawn.args.clone(),
        environment,
        jail: spawn.jail.clone(),
    };
    plan.encode().ok_or_else(|| StartError::Nul { program: spawn.program.clone() })
}

/// What a tier needs before the guardian starts.
fn prepare(tier: Tier, mark: &str) -> io::Result<Option<Leaf>> {
    match tier {
        Tier::Cgroup => Leaf::create(mark).map(Some),
        // Others would need a user namespace as well, in which the agent could do less than its user can.
        Tier::PidNs if !geteuid().is_root() => Err(io::ErrorKind::PermissionDenied.into()),
        Tier::PidNs | Tier::Sweep => Ok(None),
    }
}

/// One start, in whichever tier.
struct Launch<'a> {
    spawn: &'a Spawn<'a>,
    mark: String,
    plan: Vec<u8>,
    demand: Demand,
    /// Whose wall it gets behind.
    joined: Option<&'a Namespaces>,
}

impl Launch<'_> {
    /// The network that the process makes, if it makes one.
    fn own_network(&self) -> Option<&JailNetwork> {
        let jail = self.spawn.jail.as_ref().filter(|_| self.joined.is_none())?;
        match jail {
            Jail { kind: JailKind::Namespace, network, .. } => network.as_ref(),
            Jail { kind: JailKind::Landlock, .. } => None,
        }
    }

    async fn attempt(
        &self,
        tier: Tier,
        leaf: Option<Leaf>,
        ahead: &mut Option<Ahead>,
    ) -> Result<Contained, StartError> {
        let spawn = self.spawn;
        let jail = spawn.jail.as_ref().map(|jail| jail.kind);
        let what = Attempt { program: &spawn.program, folder: &spawn.cwd, guard: &spawn.guard, tier, jail };
        let fault = |source| StartError::Guard { guard: spawn.guard.clone(), source };
        let (pipes, streams) = Pipes::open(spawn.stdin).map_err(fault)?;
        let (guardian, ours) = match ahead.take_if(|ahead| ahead.fits(tier, &spawn.guard)) {
            Some(Ahead { guardian, lifeline, .. }) => (guardian, lifeline),
            None => guardian(tier, &spawn.guard).map_err(|unstarted| match unstarted {
                Unstarted::Tier(source) => StartError::Tier { tier, source },
                Unstarted::Guard(source) => fault(source),
            })?,
        };
        let ancestor = guardian.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let mut ahead = JoinSet::new();
        if let Some((knock, pid)) = leaf.as_ref().and_then(Leaf::knock).zip(ancestor) {
            ahead.spawn_blocking(move || knock(pid));
        }
        let path = leaf.as_ref().map(|leaf| leaf.path().display().to_string());
        let outlet = self.own_network().map(|_| BlockingStream::pair()).transpose().map_err(fault)?;
        let entry = match (self.joined, &outlet) {
            (Some(_), _) => Entry::Earlier,
            (None, Some(_)) => Entry::NewNetwork,
            (None, None) => Entry::New,
        };
        let (mark, demand) = (self.mark.clone(), self.demand);
        let brief = Brief { v: wire::VERSION, mark, tier, demand, leaf: path, entry };
        let mut more: Vec<_> = leaf.iter().map(Leaf::as_fd).collect();
        more.extend(self.joined.iter().flat_map(|joined| joined.as_fds()));
        more.extend(outlet.iter().map(|(_, theirs)| theirs.as_fd()));
        let sent = send(&ours, &brief, &self.plan, &streams, &more);
        match sent {
            // `unshare` may not make the namespace here, and has exited already.
            Err(source) if tier == Tier::PidNs && source.kind() == io::ErrorKind::BrokenPipe => {
                reaped(guardian).await;
                return Err(StartError::Tier { tier, source });
            }
            sent => sent.map_err(fault)?,
        }
        // Ours would keep the pipes open after the agent has closed its own.
        drop(streams);
        let outlet = outlet.map(|(ours, _)| ours);
        ours.set_nonblocking(true).map_err(fault)?;
        let stream = UnixStream::from_std(ours).map_err(fault)?;
        let first = tokio::time::timeout(START_LIMIT, first_report(&stream)).await;
        match first.map_err(|_| fault(io::ErrorKind::TimedOut.into()))?.map_err(fault)? {
            Some((Report::Spawned { tier, jail }, mut descriptors)) if !descriptors.is_empty() => {
                let leader = descriptors.remove(0);
                let namespaces = Namespaces::from_fds(descriptors);
                let sockets = outlet.as_ref().zip(self.own_network());
                let sockets = sockets.map(|(outlet, network)| take_sockets(outlet, network)).transpose();
                let sockets = sockets.map_err(fault)?;
                let pid = pid_of(&leader).map_err(fault)?;
                tracing::debug!(target: "ostler::run", run = spawn.run, pid, tier = tier.name(), "started");
                let leaf = leaf.filter(|_| tier == Tier::Cgroup).map(Arc::new);
                let reach = Reach { leaf, ancestor, mark: self.mark.clone() };
                let lifeline = Lifeline::new(stream);
                let made = Launched {
                    pipes,
                    pid,
                    tier,
                    jail,
                    namespaces,
                    sockets,
                    leader,
                    lifeline,
                    guardian,
                    reach,
                };
                Ok(Contained::new(made))
            }
            Some((Report::StartFailed(refusal), _)) => {
                reaped(guardian).await;
                Err(StartError::refused(refusal, what))
            }
            None if tier == Tier::PidNs => {
                reaped(guardian).await;
                Err(StartError::Tier { tier, source: io::ErrorKind::PermissionDenied.into() })
            }
            None | Some(_) => Err(fault(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// What a jail's network has passed out: it came before the process became the agent.
fn take_sockets(outlet: &BlockingStream, network: &JailNetwork) -> io::Result<JailSockets> {
    outlet.set_nonblocking(true)?;
    receive_sockets(outlet, network)
}

/// A guardian that has said its last word ends at once; nobody is started again before it has.
async fn reaped(mut guardian: Child) {
    if tokio::time::timeout(START_LIMIT, guardian.wait()).await.is_err() {
        tracing::warn!("a guardian does not end");
    }
}

/// Why there is no guardian.
enum Unstarted {
    /// It cannot be had in this tier.
    Tier(io::Error),
    /// It cannot be started.
    Guard(io::Error),
}

/// A guardian that waits to be told what to guard, and our end of its lifeline.
fn guardian(tier: Tier, guard: &Path) -> Result<(Child, BlockingStream), Unstarted> {
    let (ours, theirs) = BlockingStream::pair().map_err(Unstarted::Guard)?;
    let mut command = command(tier, guard).map_err(Unstarted::Tier)?;
    let child = command.stdin(OwnedFd::from(theirs)).spawn().map_err(Unstarted::Guard)?;
    Ok((child, ours))
}

fn command(tier: Tier, guard: &Path) -> io::Result<Command> {
    let mut command = match tier {
        Tier::Cgroup | Tier::Sweep => {
            let mut command = Command::new(guard);
            command.arg0(guardian::NAME);
            command
        }
        Tier::PidNs => {
            // The program, because the call can take memory safety with it and so is `unsafe` in every library.
            let unshare = which::which("unshare").map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
            let mut command = Command::new(unshare);
            command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(guard);
            command
        }
    };
    // It needs none of our variables, and must not carry the mark of a run that we are part of.
    command.arg(GUARD).env_clear().current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

fn send(
    lifeline: &BlockingStream,
    brief: &Brief,
    plan: &[u8],
    streams: &[OwnedFd; 3],
    more: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let plan = plan::write(plan)?;
    let [stdin, stdout, stderr] = streams;
    let mut descriptors = vec![plan.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    descriptors.extend(more);
    wire::send(lifeline, brief, &descriptors)
}

async fn first_report(stream: &UnixStream) -> io::Result<Option<(Report, Vec<OwnedFd>)>> {
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || wire::receive(stream)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Closed with our message unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            done => return done,
        }
    }
}

/// The leader's number as we see it: in another namespace the guardian sees another one.
fn pid_of(pidfd: &OwnedFd) -> io::Result<u32> {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let number = about.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::trim);
    // A leader that has ended already has none any more.
    Ok(number.and_then(|number| number.parse().ok()).unwrap_or(0))
}

/// What the pipe for an agent's output holds: the most that Linux gives to anybody. OpenCode 1.18.33 exits with 0 while
/// an answer that does not fit is still on its way, and the rest of it is lost, the end of the turn included.
const LARGE_PIPE: usize = 1024 * 1024;

/// Our ends of the agent's streams.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: Option<Sender>,
    pub(super) stdout: Option<Receiver>,
    pub(super) stderr: Option<Receiver>,
    pub(super) terminal: Option<Pty>,
}

impl Pipes {
    /// Ours, and the agent's three.
    fn open(stdin: Stdin) -> io::Result<(Self, [OwnedFd; 3])> {
        let (ours, reads) = match stdin {
            Stdin::Null => (None, File::open("/dev/null")?.into()),
            Stdin::Piped => {
                let (reader, writer) = io::pipe()?;
                (Some(Sender::from_owned_fd(writer.into())?), reader.into())
            }
            Stdin::Terminal(size) => {
                let (terminal, theirs) = Pty::open(size)?;
                let streams = [theirs.try_clone()?, theirs.try_clone()?, theirs];
                return Ok((
                    Self { stdin: None, stdout: None, stderr: None, terminal: Some(terminal) },
                    streams,
                ));
            }
        };
        let (stdout, says) = io::pipe()?;
        // As it comes, a pipe holds 64 KiB. One that may not be made larger is as good as any.
        let _ = rustix::pipe::fcntl_setpipe_size(&says, LARGE_PIPE);
        let (stderr, grumbles) = io::pipe()?;
        let pipes = Self {
            stdin: ours,
            stdout: Some(Receiver::from_owned_fd(stdout.into())?),
            stderr: Some(Receiver::from_owned_fd(stderr.into())?),
            terminal: None,
        };
        Ok((pipes, [reads, says.into(), grumbles.into()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_forced_by_the_caller_then_by_the_variable() {
        let named = |name| Some(OsStr::new(name));
        for (asked, variable, want) in [
            (None, None, None),
            (None, named(""), None),
            (None, named("sweep"), Some(Tier::Sweep)),
            (Some(Tier::Cgroup), named("sweep"), Some(Tier::Cgroup)),
        ] {
            assert_eq!(forced(asked, variable).unwrap(), want);
        }
        assert!(matches!(forced(None, named("jail")), Err(StartError::UnknownTier { .. })));
    }

    #[test]
    fn no_two_starts_have_the_same_mark_and_none_is_a_path() {
        let (one, two) = (mark("../a b/01J"), mark("../a b/01J"));
        assert_ne!(one, two);
        assert!(one.starts_with("ab01J."), "{one}");
        assert!(!one.contains('/') && mark(&"x".repeat(500)).len() < 120);
    }
}
