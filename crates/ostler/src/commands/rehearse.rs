//! `ostler rehearse`: the scripted model by itself, and what to set for each agent.

mod directions;
mod told;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_rehearsal::log::{Entry, Played, RequestLog};
use ostler_rehearsal::script::{self, ScriptError};
use ostler_rehearsal::{ListenError, Rehearsal, Server};
use tokio_util::sync::CancellationToken;

use crate::display;
use crate::failure::Failure;
use crate::interrupt::Signals;
use crate::surroundings::Surroundings;
use crate::teller::Teller;
use directions::Directions;

/// What is played when nobody says.
pub(crate) const DEFAULT_SCRIPT: &str = "hello";

/// Any free port, reached from this machine only.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:0";

/// Arguments of `ostler rehearse`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler rehearse --script tools
  ostler rehearse --script my-script.toml --listen 127.0.0.1:8080
  ostler rehearse --schema > script.schema.json

Built-in scripts: hello, echo, todo, tools, long, flaky, stall, chatty, compact, smoke.
Prints a command for each agent; paste one into another terminal. The agent is
the real one, the model is scripted: no account, no key, no tokens. The agent's
home is a private folder, gone when the rehearsal ends. Ctrl-C ends it.")]
pub(crate) struct Args {
    /// The script to play: a built-in name or a file, TOML or JSON [default: hello].
    #[arg(long, value_name = "SCRIPT")]
    script: Option<String>,

    /// The address to listen on; port 0 means any free one [default: 127.0.0.1:0].
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// What `{{workspace}}` stands for, for clients that do not say where they work.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// Append every request to this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Print JSON, one object a line: first where it listens, then every request.
    #[arg(long)]
    json: bool,

    /// Print the JSON Schema of scripts and end.
    #[arg(long, conflicts_with_all = ["script", "listen", "workspace", "log", "json"])]
    schema: bool,
}

/// Why there is no rehearsal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RehearseError {
    #[error("`{text}` is not an address to listen on")]
    Address { text: String },
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("could not write the private settings of an agent to {}", .path.display())]
    Stage {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not open the log {}", .path.display())]
    Log {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl RehearseError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Address { .. } => Some("write it as 127.0.0.1:8080; port 0 means any free one".to_owned()),
            Self::Script(error) => error.hint(),
            Self::Listen(error) => error.hint(),
            Self::Stage { .. } => Some("set TMPDIR to a folder that you can write to".to_owned()),
            Self::Log { .. } => {
                Some("name a file in a folder that exists and that you can write to".to_owned())
            }
        }
    }

    /// Whether what was asked for cannot be asked for.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Address { .. } | Self::Script(_))
    }
}

/// Serves until Ctrl-C or SIGTERM, which is how a rehearsal ends well.
pub(crate) async fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    if args.schema {
        display::json(&script::schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = here.settings()?;
    let wished = &settings.config.rehearse;
    let name = args.script.as_deref().or(wished.script.as_deref()).unwrap_or(DEFAULT_SCRIPT);
    let listen = args.listen.as_deref().or(wished.listen.as_deref()).unwrap_or(DEFAULT_LISTEN);
    let address = address(listen)?;
    let play = script::load(name).map_err(RehearseError::from)?;
    let record = args.log.map(open_log).transpose()?;
    let (script, about) = (play.name.clone(), play.about.clone());
    let voice = if args.json { Voice::Json } else { Voice::Words };
    let counts = Arc::new(Counts::default());
    let (teller, printing) = Teller::start();
    let workspace = args.workspace.map(|folder| here.cwd.join(folder).display().to_string());
    let log = request_log(voice, teller.clone(), record, Arc::clone(&counts));
    let rehearsal = Rehearsal { workspace, log, ..Rehearsal::of(play) };
    let server = Server::listen(address, rehearsal).await.map_err(RehearseError::from)?;
    if !server.address().ip().is_loopback() {
        display::tell("note: other machines can reach this address; anyone can use the scripted model");
    }
    // Caught before the private homes are made, so that no signal leaves them behind.
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let url = reachable(server.address());
    let directions = Directions::write(&url, &settings, here)?;
    teller.tell(match voice {
        Voice::Json => json_line(&told::listening(&url, &script, &directions)),
        Voice::Words => display::styled(&told::opening(&url, &script, &about, &directions)),
    });
    let stop = CancellationToken::new();
    let mut serving = Box::pin(server.serve(stop.clone()));
    tokio::select! {
        () = serving.as_mut() => {}
        _ = signals.next() => {
            stop.cancel();
            serving.as_mut().await;
        }
    }
    // The server holds the log, and the log a teller.
    drop(serving);
    teller.tell(match voice {
        Voice::Json => json_line(&counts.ended()),
        Voice::Words => display::styled(&counts.closing()),
    });
    drop(teller);
    printing.finish();
    Ok(ExitCode::SUCCESS)
}

/// For whom it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    /// Programs.
    Json,
    /// People.
    Words,
}

/// The address as agents on this machine reach it.
fn reachable(address: SocketAddr) -> String {
    let mut reached = address;
    if address.ip().is_unspecified() {
        reached.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    format!("http://{reached}")
}

fn json_line(value: &serde_json::Value) -> String {
    format!("{value}\n")
}

fn address(text: &str) -> Result<SocketAddr, RehearseError> {
    let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
    numeric.parse().map_err(|_| RehearseError::Address { text: text.to_owned() })
}

pub(super) fn open_log(path: PathBuf) -> Result<File, RehearseError> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    opened.map_err(|source| RehearseError::Log { path, source })
}

fn request_log(voice: Voice, teller: Teller, record: Option<File>, counts: Arc<Counts>) -> RequestLog {
    let record = record.map(Mutex::new);
    RequestLog::new(move |entry| {
        counts.count(entry);
        if let Some(file) = &record {
            keep(entry, file);
        }
        teller.tell(match voice {
            Voice::Json => json_line(&told::request(entry)),
            Voice::Words => display::styled(&told::line(entry)),
        });
    })
}

/// One entry, one write: a rehearsal that is killed loses nothing.
pub(super) fn keep(entry: &Entry, file: &Mutex<File>) {
    let Ok(mut line) = serde_json::to_vec(entry) else { return };
    line.push(b'\n');
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = file.write_all(&line) {
        display::tell(&format!("warning: the request log could not be written: {error}"));
    }
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicUsize,
    unmatched: AtomicUsize,
    refused: AtomicUsize,
}

impl Counts {
    fn count(&self, entry: &Entry) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        match entry.played {
            Played::Unmatched { .. } => self.unmatched.fetch_add(1, Ordering::Relaxed),
            Played::Refused { .. } => self.refused.fetch_add(1, Ordering::Relaxed),
            Played::Step { .. } | Played::Side { .. } | Played::Plain => 0,
        };
    }

    fn figures(&self) -> [usize; 3] {
        [&self.requests, &self.unmatched, &self.refused].map(|count| count.load(Ordering::Relaxed))
    }

    fn ended(&self) -> serde_json::Value {
        let [requests, unmatched, refused] = self.figures();
        serde_json::json!({"v": 1, "kind": "ended", "requests": requests, "unmatched": unmatched, "refused": refused})
    }

    fn closing(&self) -> String {
        let [requests, unmatched, refused] = self.figures();
        let noun = if requests == 1 { "request" } else { "requests" };
        format!("\nThe rehearsal is over: {requests} {noun}, {unmatched} unmatched, {refused} refused.\n")
    }
}
