//! What goes over the wire to the scripted model, as it is: the bodies of all requests, in the order in which they came.
//! An answer is held where it says so, until somebody lets it go on.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// What an answer says where it is held: this event comes only when the gate lets one pass.
pub(crate) const HOLD: &str = "[hold]";

/// Stands between an agent and the scripted model, and passes on all that it hears. Ends when it is dropped.
pub(crate) struct Tap {
    pub(crate) url: String,
    /// One permit lets one answer go on.
    pub(crate) gate: Arc<Semaphore>,
    heard: Arc<Mutex<Vec<Asked>>>,
    _passing: JoinSet<()>,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Its first line and its headers.
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Tap {
    /// Before the model at this address.
    pub(crate) async fn before(url: &str) -> Self {
        let model = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (heard, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)));
        let (mut passing, noted, held) = (JoinSet::new(), heard.clone(), gate.clone());
        passing.spawn(async move {
            let mut callers = JoinSet::new();
            loop {
                let Ok((caller, _)) = listener.accept().await else { return };
                let (model, noted, held) = (model.clone(), noted.clone(), held.clone());
                callers.spawn(async move {
                    let _ = pass(caller, model, noted, held).await;
                });
            }
        });
        Self { url, gate, heard, _passing: passing }
    }

    /// What was asked of the model with tools on offer: the conversation itself, without what agents ask besides.
    pub(crate) fn conversation(&self) -> Vec<Value> {
        let has_tools = |body: &Value| body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        self.requests().into_iter().map(|asked| asked.body).filter(has_tools).collect()
    }

    /// All that was asked of the model.
    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One caller, request by request. It goes away when either side does.
async fn pass(
    caller: TcpStream,
    model: String,
    heard: Arc<Mutex<Vec<Asked>>>,
    gate: Arc<Semaphore>,
) -> Option<()> {
    let (from_model, mut to_model) = TcpStream::connect(model).await.ok()?.into_split();
    let (from_caller, to_caller) = caller.into_split();
    let mut answers = JoinSet::new();
    answers.spawn(async move {
        let _ = answer(from_model, to_caller, &gate).await;
    });
    let mut from_caller = BufReader::new(from_caller);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let begin = head.len();
            if from_caller.read_line(&mut head).await.ok()? == 0 {
                return None;
            }
            let line = head[begin..].trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        from_caller.read_exact(&mut body).await.ok()?;
        if let Ok(body) = serde_json::from_slice(&body) {
            let asked = Asked { head: head.clone(), body };
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        }
        to_model.write_all(head.as_bytes()).await.ok()?;
        to_model.write_all(&body).await.ok()?;
    }
}

/// Passes on what the model says, line by line: the line that says so waits at the gate.
async fn answer(from_model: OwnedReadHalf, mut to_caller: OwnedWriteHalf, gate: &Semaphore) -> Option<()> {
    let (mut from_model, mut line) = (BufReader::new(from_model), Vec::new());
    while from_model.read_until(b'\n', &mut line).await.ok()? > 0 {
        if line.windows(HOLD.len()).any(|window| window == HOLD.as_bytes()) {
            gate.acquire().await.ok()?.forget();
        }
        to_caller.write_all(&line).await.ok()?;
        line.clear();
    }
    Some(())
}
