//! A gateway with scripted sessions, asked as a program asks it: bytes over a connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::access::{Policy, Scope};
use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::leasing::Limits;
use ostler_gateway::conversations::Bounds;
use ostler_gateway::http::keys::{Key, Keys};
use ostler_gateway::http::models::{Manner, Served};
use ostler_gateway::http::{BodyLimits, ConnectionLimits, Offer, Waiting, open};
use ostler_gateway::pool::{Patience, Pool};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::scripted::Stage;

/// Nothing here takes longer than a few looks; a loaded machine needs many times that.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct House {
    pub(crate) stage: Stage,
    pub(crate) address: SocketAddr,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    serving: JoinSet<()>,
    /// Where conversations and runs are. Another house may go on with it.
    pub(crate) kept: Arc<TempDir>,
}

pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// What is sent as events, as JSON.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

pub(crate) fn offer(kept: &std::path::Path) -> Offer {
    let tight = Policy {
        requests_per_minute: Some(3),
        turns_at_once: Some(1),
        models: vec!["claude".to_owned()],
        permissions: Permissions::Edits,
        ..Policy::chat()
    };
    let writer =
        Policy { scopes: vec![Scope::Chat, Scope::SessionsRead, Scope::SessionsWrite], ..Policy::chat() };
    let viewer = Policy { scopes: vec![Scope::TerminalView], ..Policy::chat() };
    let holder = Policy {
        scopes: vec![Scope::SessionsRead, Scope::SessionsWrite, Scope::TerminalHold],
        ..Policy::chat()
    };
    let looker = Policy { scopes: vec![Scope::SessionsRead], ..Policy::chat() };
    let keys = Keys::new(vec![
        Key::of("one", "ostler_1", Policy::chat()),
        Key::of("two", "ostler_2", Policy::chat()),
        Key::of("tight", "ostler_tight", tight),
        Key::of("looker", "ostler_looker", looker),
        Key::of("owner", "ostler_owner", Policy::owner()),
        Key::of("asker", "ostler_asker", Policy { open_questions: Some(1), ..writer.clone() }),
        Key::of("writer", "ostler_writer", writer),
        Key::of("viewer", "ostler_viewer", viewer),
        Key::of("holder", "ostler_holder", holder.clone()),
        Key::of("all", "ostler_all", Policy { permissions: Permissions::All, ..holder }),
    ]);
    let (conversations, runs) = (kept.join("conversations"), kept.join("runs"));
    Offer {
        keys,
        aliases: BTreeMap::from([("fixed-name".to_owned(), "claude".to_owned())]),
        agents: vec![Served { agent: "claude-headless", manner: Manner::Live }],
        engine: Engine::Stream,
        folders: Vec::new(),
        conversations,
        runs,
        waiting: Waiting::default(),
        bodies: BodyLimits::default(),
        connections: ConnectionLimits::default(),
        bounds: Bounds::default(),
        tls: None,
    }
}

impl House {
    pub(crate) async fn open(limits: Limits) -> Self {
        Self::draining(limits, Duration::ZERO).await
    }

    /// One that lets turns end for so long when it is closed.
    pub(crate) async fn draining(limits: Limits, drain: Duration) -> Self {
        Self::at(Arc::new(tempfile::tempdir().unwrap()), limits, drain).await
    }

    /// One that finds there what another left.
    pub(crate) async fn at(kept: Arc<TempDir>, limits: Limits, drain: Duration) -> Self {
        Self::with(offer(kept.path()), kept, limits, drain).await
    }

    /// One that offers this.
    pub(crate) async fn with(offer: Offer, kept: Arc<TempDir>, limits: Limits, drain: Duration) -> Self {
        let stage = Stage::default();
        let patience = Patience { settle: DEADLINE, ..Patience::default() };
        let pool = Pool::new(stage.clone(), limits, patience);
        Self::serving(stage, pool, offer, (kept, drain)).await
    }

    /// One in front of this pool.
    pub(crate) async fn serving(
        stage: Stage,
        pool: Pool<Stage>,
        offer: Offer,
        (kept, drain): (Arc<TempDir>, Duration),
    ) -> Self {
        let listening = open(SocketAddr::from(([127, 0, 0, 1], 0)), pool, offer).await.unwrap();
        let address = listening.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            listening.serve(stopped, drain).await;
        });
        Self { stage, address, stop: Some(stop), serving, kept }
    }

    /// A connection on which this was asked.
    pub(crate) async fn ask(&self, head: &str, body: &str) -> TcpStream {
        Self::ask_at(self.address, head, body).await
    }

    async fn ask_at(address: SocketAddr, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request(address, head, body).as_bytes()).await.unwrap();
        stream
    }

    pub(crate) async fn get(&self, head: &str, body: &str) -> Got {
        Self::get_at(self.address, head, body).await
    }

    /// The same, for tasks that outlive a borrow of the house.
    pub(crate) async fn get_at(address: SocketAddr, head: &str, body: &str) -> Got {
        let mut stream = Self::ask_at(address, head, body).await;
        Got::read(&mut stream).await
    }

    /// A request without a body.
    pub(crate) async fn bare(&self, method: &str, path: &str, key: &str) -> Got {
        self.get(&format!("{method} {path} HTTP/1.1\r\nx-api-key: {key}"), "").await
    }

    pub(crate) async fn post(&self, path: &str, key: &str, body: &Value) -> Got {
        self.get(&head(path, key), &body.to_string()).await
    }

    pub(crate) async fn close(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(DEADLINE, self.serving.join_next()).await.unwrap().unwrap().unwrap();
        let log = self.stage.log(|log| (log.started.len(), log.closed.len() + log.dropped.len()));
        assert_eq!(log.0, log.1, "all are gone");
    }
}

impl Got {
    /// All that comes until the connection ends.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Self {
        let mut answer = String::new();
        tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        Got { status, head: head.to_ascii_lowercase(), body }
    }

    /// What a header of the answer says.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// A request after which the connection ends.
pub(crate) fn request(address: SocketAddr, head: &str, body: &str) -> String {
    let length = body.len();
    let host = if head.contains("host:") { String::new() } else { format!("host: {address}\r\n") };
    format!("{head}\r\n{host}connection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

pub(crate) fn head(path: &str, key: &str) -> String {
    format!("POST {path} HTTP/1.1\r\ncontent-type: application/json\r\nx-api-key: {key}")
}

fn unchunked(body: &str) -> String {
    let (mut out, mut rest) = (String::new(), body);
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        out.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    out
}

pub(crate) fn messages(talk: &[(&str, &str)]) -> Value {
    talk.iter().map(|(role, text)| json!({"role": role, "content": text})).collect()
}

pub(crate) fn asked(talk: &[(&str, &str)]) -> Value {
    json!({"model": "claude", "max_tokens": 9, "messages": messages(talk)})
}

/// Reads until something was said.
pub(crate) async fn until(stream: &mut TcpStream, words: &str) -> String {
    let read = async {
        let (mut heard, mut buffer) = (String::new(), [0; 4096]);
        while !heard.contains(words) {
            let count = stream.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "it ended before `{words}`: {heard}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        heard
    };
    tokio::time::timeout(DEADLINE, read).await.unwrap_or_else(|_| panic!("never: `{words}`"))
}
