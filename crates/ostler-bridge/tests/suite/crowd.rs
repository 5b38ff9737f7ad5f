//! Many calls at once, and clients that leave in the middle.

use ostler_bridge::event::{BridgeEvent, Ended};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::ground::{DEADLINE, Ground, PLAN};

const CALLS: usize = 1000;

/// Both ends of every connection are in this process.
pub(crate) fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(8192).min(8192);
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).unwrap();
    }
}

#[tokio::test]
async fn a_thousand_calls_at_once_are_all_answered_and_told() {
    allow_descriptors();
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let guest = guest.clone();
        calls.spawn(async move {
            match number % 4 {
                0 => guest.says("submit_artifact", json!({ "type": "plan", "content": PLAN })).await,
                1 => guest.says("submit_artifact", json!({ "type": "issues", "content": "# No" })).await,
                2 => guest.says("report_progress", json!({ "text": "On." })).await,
                _ => guest.says("read_instructions", json!({})).await,
            }
        });
    }
    let answering = async {
        let mut failed = 0;
        while let Some(said) = calls.join_next().await {
            failed += usize::from(said.unwrap().starts_with("failed"));
        }
        failed
    };
    let listening = async {
        let mut answered = 0;
        while answered < CALLS {
            if let Some(BridgeEvent::Answered { .. }) = events.0.recv().await {
                answered += 1;
            }
        }
    };
    let all = async { tokio::join!(answering, listening) };
    let (failed, ()) = tokio::time::timeout(DEADLINE, all).await.expect("all are answered");
    assert_eq!(failed, CALLS / 4);
    let verified = route.audit().unwrap().unwrap();
    assert_eq!((verified.receipts.len(), verified.seals), (1 + CALLS / 4, 1 + CALLS as u64 / 4));
}

#[tokio::test]
async fn clients_that_leave_in_the_middle_leave_nothing_undone_by_halves() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let address = format!("127.0.0.1:{}", ground.port);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
        { "name": "submit_artifact", "arguments": { "type": "plan", "content": PLAN } } })
    .to_string();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n",
        guest.url.split_once(&address).unwrap().1,
        guest.token,
        body.len()
    );
    let whole = format!("{head}{body}");
    // In the line, in the headers, before the body, in it, and after it without waiting for the answer.
    for length in [3, 60, head.len(), head.len() + 20, whole.len()] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(&whole.as_bytes()[..length]).await.unwrap();
        drop(stream);
    }
    let said = guest.says("submit_artifact", json!({ "type": "plan", "content": PLAN })).await;
    assert!(said.starts_with("ok: Accepted"), "{said}");
    events
        .find(|event| match event {
            BridgeEvent::Answered { ended: Ended::Done, .. } => Some(()),
            _ => None,
        })
        .await;
    assert!(route.audit().unwrap().is_ok());
}
