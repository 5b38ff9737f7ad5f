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
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::address::Address;
use super::{Answer, Asked, LONGEST_LINE, Op, VERSION, WHERE};
use crate::run::{Request, Said};

/// Who may ask at the same time. Further ones wait until one has gone.
const MOST_CALLERS: usize = 8;

/// How long a caller may say nothing, or not read its answer.
const PATIENCE: Duration = Duration::from_secs(10);

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
        loop {
            tokio::select! {
                Some(_) = callers.join_next() => {}
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

/// One caller, until it has nothing more to ask.
async fn attend(mut stream: UnixStream, about: About, ask: mpsc::Sender<Request>) {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut reader).take(LONGEST_LINE as u64 + 1);
        match tokio::time::timeout(PATIENCE, limited.read_until(b'\n', &mut line)).await {
            Ok(Ok(count)) if count > 0 => {}
            Ok(Ok(_) | Err(_)) | Err(_) => return,
        }
        let is_whole = line.len() <= LONGEST_LINE;
        let answer = if is_whole { answer(&line, &about, &ask).await } else { Answer::refused("too long") };
        let Ok(mut said) = serde_json::to_vec(&answer) else { return };
        said.push(b'\n');
        let told = tokio::time::timeout(PATIENCE, writer.write_all(&said)).await;
        if !(is_whole && matches!(told, Ok(Ok(())))) {
            return;
        }
    }
}

async fn answer(line: &[u8], about: &About, ask: &mpsc::Sender<Request>) -> Answer {
    let asked: Asked = match serde_json::from_slice(line) {
        Ok(asked) => asked,
        Err(error) => return Answer::refused(format!("not a request: {error}")),
    };
    if asked.v != VERSION {
        return Answer::refused(format!("this Ostler speaks version {VERSION}, not {}", asked.v));
    }
    match asked.op {
        Op::Status => Answer { run: Some(about.clone()), ..Answer::done() },
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
    }
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
