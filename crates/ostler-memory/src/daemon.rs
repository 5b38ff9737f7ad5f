//! An optional accelerator: takes a hook's word and has it in the store at once. One at a time for each place; nobody
//! misses it. A hook waits a quarter of a second for it at most, and then does without.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ostler_agent::remembering::Origin;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};

use crate::capture::Wanted;
use crate::drain;
use crate::filling::Slices;
use crate::ingest::{self, From};
use crate::place::Place;
use crate::private::PrivateFolder;
use crate::store::{PATIENT, Store, StoreError};

/// How long a hook waits for an answer.
pub const HOOK_WAITS: Duration = Duration::from_millis(250);

/// Longest message, either way.
const LONGEST: u64 = 64 * 1024;

/// How long one who connected may take to say something: others wait meanwhile.
const SPEAKS_WITHIN: Duration = Duration::from_millis(500);

/// What a daemon is told. One line of JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    v: u32,
    path: PathBuf,
    source: Option<String>,
    session: Option<String>,
    cwd: Option<String>,
    /// Hooks of earlier versions do not send it.
    #[serde(default)]
    current_dir: Option<String>,
    stop: bool,
}

/// What it answers. One line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// 1.
    pub v: u32,
    /// New messages.
    pub inserted: u64,
    /// Known ones.
    pub skipped: u64,
    /// Lines that could not be read.
    pub errors: u64,
    /// Its process.
    pub pid: u32,
}

/// Why a daemon does not run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// One runs.
    #[error("a daemon runs for this place already")]
    Running,
    /// Its socket or its lock.
    #[error("could not listen at `{}`", .path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DaemonError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Running => {
                Some("`ostler memory daemon status` tells which; `daemon stop` ends it".to_owned())
            }
            Self::Listen { .. } => {
                Some("check that the folder can be written to and its path is short".to_owned())
            }
            Self::Store(error) => error.hint(),
        }
    }
}

/// Hands a transcript to the daemon, if one answers in time.
pub fn call(place: &Place, wanted: &Wanted, wait: Duration) -> Option<Answer> {
    let order = Order {
        v: 1,
        path: wanted.path.clone(),
        source: wanted.origin.map(|origin| origin.name().to_owned()),
        session: wanted.session.clone(),
        cwd: wanted.cwd.clone(),
        current_dir: wanted.current_dir.clone(),
        stop: false,
    };
    exchange(&place.socket(), &order, wait).ok()
}

/// Asks who is there.
pub fn status(place: &Place) -> Option<Answer> {
    call(place, &Wanted::default(), HOOK_WAITS)
}

/// Asks the daemon to end. Says whether one answered.
pub fn stop(place: &Place) -> bool {
    let (path, source, session, cwd, current_dir) = (PathBuf::new(), None, None, None, None);
    let order = Order { v: 1, path, source, session, cwd, current_dir, stop: true };
    exchange(&place.socket(), &order, Duration::from_secs(5)).is_ok()
}

fn exchange(path: &Path, order: &Order, wait: Duration) -> io::Result<Answer> {
    let until = Instant::now() + wait;
    // Connecting to one whose queue is full would wait for ever.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let mut stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(wait))?;
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))?;
    let mut answer = String::new();
    BufReader::new(&stream).take(LONGEST).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// The one place of a daemon: held until it is dropped.
pub struct Seat {
    listener: UnixListener,
    _lock: File,
}

/// Takes the seat of this place's daemon, with a socket of its own or the one that was handed over.
pub fn sit(place: &Place, given: Option<UnixListener>) -> Result<Seat, DaemonError> {
    let path = place.socket();
    let failed = |source| DaemonError::Listen { path: path.clone(), source };
    PrivateFolder::create(place.root()).map_err(failed)?;
    let lock =
        OpenOptions::new().create(true).append(true).mode(0o600).open(place.daemon_lock()).map_err(failed)?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(DaemonError::Running);
    }
    let listener = match given {
        Some(listener) => listener,
        None => {
            // Whoever left it there does not run: we have the lock.
            let _ = std::fs::remove_file(&path);
            UnixListener::bind(&path).map_err(failed)?
        }
    };
    Ok(Seat { listener, _lock: lock })
}

/// Serves until nobody has called for so long, or it is told to stop. What could not be stored stays in the spool.
pub fn serve(place: &Place, seat: &Seat, idle: Duration) -> Result<(), DaemonError> {
    let failed = |source| DaemonError::Listen { path: place.socket(), source };
    let mut store = Store::open(place, PATIENT)?;
    drain::drain(place, &mut store, None)?;
    seat.listener.set_nonblocking(true).map_err(failed)?;
    let mut vectors = Slices::default();
    vectors.look(place, &store);
    loop {
        // Who calls goes before vectors, which are made one message at a time.
        let wait = if vectors.has_work() { Duration::ZERO } else { idle };
        let wait = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let mut ready = [PollFd::new(&seat.listener, PollFlags::IN)];
        match poll(&mut ready, Some(&wait)) {
            Ok(0) if vectors.has_work() => {
                vectors.step(place, &mut store);
                continue;
            }
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(failed(error.into())),
        }
        let Ok((stream, _)) = seat.listener.accept() else { continue };
        if answer(place, &mut store, &stream).unwrap_or(Next::GoOn) == Next::Stop {
            return Ok(());
        }
        vectors.look(place, &store);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

fn answer(place: &Place, store: &mut Store, stream: &UnixStream) -> io::Result<Next> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SPEAKS_WITHIN))?;
    stream.set_write_timeout(Some(SPEAKS_WITHIN))?;
    let mut line = String::new();
    BufReader::new(stream).take(LONGEST).read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let mut told = Answer { v: 1, inserted: 0, skipped: 0, errors: 0, pid: std::process::id() };
    if !order.path.as_os_str().is_empty() {
        let wanted = Wanted {
            path: order.path,
            origin: order.source.as_deref().and_then(Origin::named),
            session: order.session,
            cwd: order.cwd,
            current_dir: order.current_dir,
        };
        // A hook that got no answer wrote down what was said before. Without an answer this one does so too, and nothing is
        // lost.
        drain::drain_files(place, store).map_err(io::Error::other)?;
        let found = ingest::ingest(place, store, &wanted, From::Cursor).map_err(io::Error::other)?;
        told.inserted = found.rows.inserted;
        told.skipped = found.rows.known;
        told.errors = found.errors;
    }
    let mut line = serde_json::to_vec(&told)?;
    line.push(b'\n');
    (&*stream).write_all(&line)?;
    Ok(if order.stop { Next::Stop } else { Next::GoOn })
}
