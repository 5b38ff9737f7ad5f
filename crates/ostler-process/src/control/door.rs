//! The socket of a run, for as long as the run lasts.

use std::convert::Infallible;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_agent::outcome::CancelledBy;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::address::Address;
use super::attached::Seated;
use super::{Answer, Asked, LONGEST_LINE, Op, VERSION, WHERE};
use crate::run::{NoTerminal, Request, Said};
use crate::terminal::painter::Manner;
use crate::terminal::pty::Size;
use crate::terminal::seat::{Hold, Seat, Viewer};

/// Who may ask at the same time. Further ones wait until one has gone.
const MOST_CALLERS: usize = 8;

/// How long a caller may say nothing, or not read its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a run may take to tell of its terminal, when that is only part of what was asked.
const ASIDE: Duration = Duration::from_secs(1);

/// Before the next call is taken when one could not be: descriptors that ran out do not come back at once.
const BREATH: Duration = Duration::from_secs(1);

/// Sockets of others that are looked at when one is made.
const MOST_LEFTOVERS: usize = 256;

/// What a run tells about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its id.
    pub run: String,
    /// The agent.
    pub agent: String,
    /// The process of Ostler that runs it.
    pub pid: u32,
    /// The agent's terminal, if it has one now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<AboutTerminal>,
}

/// What is told of an agent's terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutTerminal {
    /// How wide it is.
    pub columns: u16,
    /// How high.
    pub rows: u16,
    /// The title that the agent gave it.
    pub title: String,
    /// How many watch.
    pub viewers: usize,
    /// Whether a person holds it.
    pub held: bool,
}

/// The socket of a run. It is gone when this is dropped.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    path: PathBuf,
    note: PathBuf,
    about: About,
}

impl Door {
    /// Makes the socket of a run below `folder`, and writes down in the run's own folder where it is. The caller holds
    /// the run's lock: a socket that is left there is nobody's.
    pub fn open(folder: &Path, about: About, run_folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        sweep(folder);
        let path = folder.join(format!("{}.sock", about.run));
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let listener = UnixListener::bind(Address::of(&path)?.path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let note = run_folder.join(WHERE);
        fs::write(&note, path.as_os_str().as_encoded_bytes())?;
        Ok(Self { listener, path, note, about })
    }

    /// Hands what is asked to the run, for as long as it lasts.
    pub async fn serve(&self, ask: mpsc::Sender<Request>) -> Infallible {
        let mut callers = JoinSet::new();
        // Those who watch do not keep others from asking. How many they are is bounded by the seat.
        let mut viewers = JoinSet::new();
        loop {
            tokio::select! {
                Some(left) = callers.join_next() => {
                    if let Ok(Some(seated)) = left {
                        viewers.spawn(Seated::sit(seated));
                    }
                }
                Some(_) = viewers.join_next() => {}
                accepted = self.listener.accept(), if callers.len() < MOST_CALLERS => match accepted {
                    Ok((stream, _)) => {
                        callers.spawn(attend(stream, self.about.clone(), ask.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(target: "ostler::control", %error, "could not take a call");
                        tokio::time::sleep(BREATH).await;
                    }
                },
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        for path in [&self.path, &self.note] {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(target: "ostler::control", path = %path.display(), %error, "could not remove");
            }
        }
    }
}

/// Removes sockets that nobody listens on: those of runs that were killed.
fn sweep(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_LEFTOVERS);
    for path in entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "sock"))
    {
        let Ok(address) = Address::of(&path) else { continue };
        let refused = std::os::unix::net::UnixStream::connect(&address.path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if refused {
            // Somebody else may sweep too.
            let _ = fs::remove_file(&path);
        }
    }
}

/// What was asked of a connection, and is to be answered.
enum Reply {
    Answer(Answer),
    /// From then on it is a viewer's.
    Seated(Box<Answering>),
}

/// A seat that was taken, before whoever took it was told.
type Answering = (Viewer, Option<Hold>);

/// One caller, until it has nothing more to ask, or wants to watch from then on.
async fn attend(stream: UnixStream, about: About, ask: mpsc::Sender<Request>) -> Option<Seated> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let line = next_line(&mut reader).await?;
        let is_whole = line.len() <= LONGEST_LINE;
        let reply = if is_whole {
            reply(&line, &about, &ask).await
        } else {
            Reply::Answer(Answer::refused("too long"))
        };
        let told = match &reply {
            Reply::Answer(answer) => tell(&mut writer, answer).await,
            Reply::Seated(_) => tell(&mut writer, &Answer::done()).await,
        };
        if !(is_whole && told) {
            return None;
        }
        if let Reply::Seated(answering) = reply {
            let (viewer, hold) = *answering;
            return Some(Seated { reader, writer, viewer, hold });
        }
    }
}

/// The next line, or more than a line may have. Nothing if there is none, or if it takes too long.
async fn next_line(reader: &mut BufReader<OwnedReadHalf>) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let mut limited = reader.take(LONGEST_LINE as u64 + 1);
    match tokio::time::timeout(PATIENCE, limited.read_until(b'\n', &mut line)).await {
        Ok(Ok(count)) if count > 0 => Some(line),
        Ok(Ok(_) | Err(_)) | Err(_) => None,
    }
}

/// Whether it could be told.
async fn tell(writer: &mut OwnedWriteHalf, answer: &Answer) -> bool {
    let Ok(mut said) = serde_json::to_vec(answer) else { return false };
    said.push(b'\n');
    matches!(tokio::time::timeout(PATIENCE, writer.write_all(&said)).await, Ok(Ok(())))
}

async fn reply(line: &[u8], about: &About, ask: &mpsc::Sender<Request>) -> Reply {
    let asked: Asked = match serde_json::from_slice(line) {
        Ok(asked) => asked,
        Err(error) => return Reply::Answer(Answer::refused(format!("not a request: {error}"))),
    };
    if asked.v != VERSION {
        let error = format!("this Ostler speaks version {VERSION}, not {}", asked.v);
        return Reply::Answer(Answer::refused(error));
    }
    Reply::Answer(match asked.op {
        Op::Status => {
            // A run that is busy is told of without it.
            let seat = tokio::time::timeout(ASIDE, terminal(ask)).await;
            let terminal = seat.ok().and_then(Result::ok).map(|seat| about_terminal(&seat));
            Answer { run: Some(About { terminal, ..about.clone() }), ..Answer::done() }
        }
        Op::Stop => match ask.send(Request::Stop(CancelledBy::Client)).await {
            Ok(()) => Answer::done(),
            Err(_) => Answer::refused("the run is over"),
        },
        Op::Say { text } => {
            let (told, heard) = oneshot::channel();
            handed(ask, Request::Say { text, told }, heard, |said| Answer {
                queued: said == Said::NextTurn,
                ..Answer::done()
            })
            .await
        }
        Op::Answer { text, question } => {
            let (told, heard) = oneshot::channel();
            handed(ask, Request::Answer { question, text, told }, heard, |()| Answer::done()).await
        }
        Op::Attach { manner, rows, columns } => match seated(ask, manner, Size { columns, rows }).await {
            Ok(answering) => return Reply::Seated(Box::new(answering)),
            Err(refused) => refused,
        },
    })
}

/// The seat at the agent's terminal, if it has one now.
async fn terminal(ask: &mpsc::Sender<Request>) -> Result<Seat, NoTerminal> {
    let (told, heard) = oneshot::channel();
    match ask.send(Request::Terminal { told }).await {
        Ok(()) => heard.await.unwrap_or(Err(NoTerminal::NotNow)),
        Err(_) => Err(NoTerminal::NotNow),
    }
}

fn about_terminal(seat: &Seat) -> AboutTerminal {
    let Size { columns, rows } = seat.size();
    let title = seat.look().title;
    AboutTerminal { columns, rows, title, viewers: seat.viewers(), held: seat.is_held() }
}

/// Takes a seat, and the keys for whoever wants to type.
async fn seated(ask: &mpsc::Sender<Request>, manner: Manner, window: Size) -> Result<Answering, Answer> {
    let seat = terminal(ask).await.map_err(Answer::refused)?;
    let viewer = seat.watch().map_err(Answer::refused)?;
    let hold = match manner {
        Manner::View => None,
        Manner::Hold => Some(seat.hold(window).await.map_err(Answer::refused)?),
    };
    Ok((viewer, hold))
}

/// Hands a request on, and waits for what comes of it.
async fn handed<T, E: ToString>(
    ask: &mpsc::Sender<Request>,
    request: Request,
    heard: oneshot::Receiver<Result<T, E>>,
    done: impl FnOnce(T) -> Answer,
) -> Answer {
    if ask.send(request).await.is_err() {
        return Answer::refused("the run is over");
    }
    match heard.await {
        Ok(Ok(what)) => done(what),
        Ok(Err(error)) => Answer::refused(error),
        Err(_) => Answer::refused("the run is over"),
    }
}
