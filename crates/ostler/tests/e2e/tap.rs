//! What goes over the wire to the scripted model, as it is: the bodies of all requests, in the order in which they came.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Stands between an agent and the scripted model, and passes on all that it hears. Ends when it is dropped.
pub(crate) struct Tap {
    pub(crate) url: String,
    heard: Arc<Mutex<Vec<Value>>>,
    _passing: JoinSet<()>,
}

impl Tap {
    /// Before the model at this address.
    pub(crate) async fn before(url: &str) -> Self {
        let model = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (mut passing, noted) = (JoinSet::new(), heard.clone());
        passing.spawn(async move {
            let mut callers = JoinSet::new();
            loop {
                let Ok((caller, _)) = listener.accept().await else { return };
                let (model, noted) = (model.clone(), noted.clone());
                callers.spawn(async move {
                    let _ = pass(caller, model, noted).await;
                });
            }
        });
        Self { url, heard, _passing: passing }
    }

    /// What was asked of the model with tools on offer: the conversation itself, without what agents ask besides.
    pub(crate) fn conversation(&self) -> Vec<Value> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let has_tools = |body: &&Value| body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        heard.iter().filter(has_tools).cloned().collect()
    }
}

/// One caller, request by request. It goes away when either side does.
async fn pass(caller: TcpStream, model: String, heard: Arc<Mutex<Vec<Value>>>) -> Option<()> {
    let (from_model, mut to_model) = TcpStream::connect(model).await.ok()?.into_split();
    let (from_caller, mut to_caller) = caller.into_split();
    let mut answers = JoinSet::new();
    answers.spawn(async move {
        let mut from_model = from_model;
        let _ = tokio::io::copy(&mut from_model, &mut to_caller).await;
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
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(body);
        }
        to_model.write_all(head.as_bytes()).await.ok()?;
        to_model.write_all(&body).await.ok()?;
    }
}
