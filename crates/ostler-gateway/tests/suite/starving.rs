//! What one client does, others do not notice.

use std::sync::Arc;
use std::time::Duration;

use ostler_agent::leasing::Limits;
use ostler_gateway::conversations::Bounds;
use ostler_gateway::http::{ConnectionLimits, Offer};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::house::{DEADLINE, House, asked, head, messages, offer, until};

const MESSAGES: &str = "/v1/messages";

/// Bodies of tiny values: each took a hundred times its length in memory, and was parsed while everybody waited.
#[tokio::test]
async fn bodies_of_tiny_values_of_one_key_are_refused_while_another_key_is_answered() {
    let house = House::open(Limits::default()).await;
    let body = format!("[{}0]", "{\"\":0},".repeat(400_000));
    let mut flood = JoinSet::new();
    for _ in 0..8 {
        let (question, address) = (head(MESSAGES, "ostler_1"), house.address);
        let body = body.clone();
        flood.spawn(async move { House::get_at(address, &question, &body).await.status });
    }
    for _ in 0..20 {
        let got = house.post(MESSAGES, "ostler_2", &asked(&[("user", "say one")])).await;
        assert_eq!(got.status, 200, "{}", got.body);
    }
    let refused = tokio::time::timeout(DEADLINE, flood.join_all()).await.unwrap();
    assert!(refused.iter().all(|status| matches!(status, 413 | 429 | 503)), "{refused:?}");
    assert!(refused.contains(&413), "{refused:?}");
    house.close().await;
}

/// A connection from another address of this machine.
async fn connect_from(house: &House, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(house.address).await.unwrap()
}

/// More than there may be. The numbers are small: both ends of each are descriptors of one process.
const SILENT: usize = 60;

async fn narrow() -> House {
    let kept = Arc::new(tempfile::tempdir().unwrap());
    let connections = ConnectionLimits { total: 40, of_peer: 32 };
    let offer = Offer { connections, ..offer(kept.path()) };
    House::with(offer, kept, Limits::default(), Duration::ZERO).await
}

#[tokio::test]
async fn silent_connections_of_one_address_keep_nobody_out() {
    let house = narrow().await;
    let mut silent = Vec::new();
    for number in 0..SILENT {
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        if number % 2 == 0 {
            // Half of a head is not a request either.
            stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
        }
        silent.push(stream);
    }
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", house.address);
    for from in [[127, 0, 0, 2], [127, 0, 0, 1]] {
        let mut stream = connect_from(&house, from).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        // Far less than the 30 seconds that a head may take.
        let answered = tokio::time::timeout(Duration::from_secs(10), until(&mut stream, "ok\n")).await;
        assert!(answered.is_ok(), "{from:?}");
    }
    // The oldest of them went.
    let mut byte = [0];
    let ended = tokio::time::timeout(DEADLINE, silent[0].read(&mut byte)).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)));
    house.close().await;
}

#[tokio::test]
async fn a_stream_is_not_closed_for_other_connections() {
    let house = narrow().await;
    let question = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "wait")])});
    let mut busy = house.ask(&head("/v1/chat/completions", "ostler_1"), &question.to_string()).await;
    let asked_once = async {
        while house.stage.log(|log| log.asked.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, asked_once).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(house.address).await.unwrap());
    }
    assert_eq!(house.get("GET /healthz HTTP/1.1", "").await.status, 200);
    house.stage.gate.notify_one();
    until(&mut busy, "[DONE]").await;
    house.close().await;
}

/// What a key stores pushes nobody out: its own idle conversations go, and without one its turn fails in the API's own form.
#[tokio::test]
async fn conversations_of_one_key_leave_those_of_another_alone() {
    let kept = Arc::new(tempfile::tempdir().unwrap());
    let bounds = Bounds { bytes: 100 << 10, ..Bounds::default() };
    let offer = Offer { bounds, ..offer(kept.path()) };
    let house = House::with(offer, kept, Limits::default(), Duration::ZERO).await;
    let named = |name: &str, key: &str| format!("{}\r\nx-ostler-conversation: {name}", head(MESSAGES, key));
    let ask = async |name: &str, key: &str, text: &str| {
        house.get(&named(name, key), &asked(&[("user", text)]).to_string()).await
    };
    assert_eq!(ask("theirs", "ostler_2", "write 20").await.status, 200);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(ask(name, "ostler_1", "write 20").await.status, 200, "{name}");
    }
    assert_eq!(ask("a", "ostler_1", "say on").await.status, 404, "it was evicted");
    assert_eq!(ask("d", "ostler_1", "say on").await.status, 200);
    // More than there is at all, in the middle of a turn, in each API and both ways.
    let got = ask("d", "ostler_1", "write 200").await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (429, &json!("rate_limit_error")), "{}", got.body);
    assert!(got.body.contains("conversations of this key"), "{}", got.body);
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let said = messages(&[("user", "write 200")]);
        let question = json!({"model": "claude", "stream": true, "messages": said, "input": said});
        let got = house.post(path, "ostler_1", &question).await;
        assert!(got.status == 429 && got.body.contains("conversations of this key"), "{}", got.body);
    }
    // The conversation and its session live, and so does the other key's.
    assert_eq!(ask("d", "ostler_1", "say on").await.status, 200);
    assert_eq!(ask("theirs", "ostler_2", "say on").await.status, 200);
    assert_eq!(house.stage.log(|log| log.closed.len() + log.dropped.len()), 0, "no session was closed");
    house.close().await;
}

#[tokio::test]
async fn a_long_conversation_is_answered_as_before() {
    let house = House::open(Limits::default()).await;
    let long = "a long text, and longer: [1, 2] ".repeat(300_000);
    let said = asked(&[("user", &long), ("assistant", "one"), ("user", "say two")]);
    for path in [MESSAGES, "/v1/chat/completions"] {
        let got = house.post(path, "ostler_1", &said).await;
        assert_eq!(got.status, 200, "{}", got.body);
    }
    house.close().await;
}
