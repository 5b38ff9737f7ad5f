//! What happens when nothing happens: an agent that says nothing, a question that nobody answers, a client that takes
//! nothing.

use std::time::Duration;

use ostler_agent::leasing::Limits;
use ostler_gateway::http::Waiting;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::clock::Clock;
use crate::house::{DEADLINE, House, asked, head, messages, until};

const SECOND: Duration = Duration::from_secs(1);

/// What was sent by now. Whatever was due before this is sent before its own answer is.
async fn so_far(house: &House, stream: &TcpStream) -> String {
    assert_eq!(house.get("GET /healthz HTTP/1.1", "").await.status, 200);
    let mut buffer = [0; 4096];
    match stream.try_read(&mut buffer) {
        Ok(count) => String::from_utf8_lossy(&buffer[..count]).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => String::new(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_stream_that_is_silent_has_a_sign_of_life_every_fifteen_seconds() {
    let clock = Clock::stopped();
    let house = House::open(Limits::default()).await;
    let mut on_messages = asked(&[("user", "hang")]);
    on_messages["stream"] = json!(true);
    let on_chat = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "hang")])});
    let on_responses = json!({"model": "claude", "stream": true, "input": "hang"});
    let apis = [
        ("/v1/messages", on_messages, "event: ping\ndata: {\"type\":\"ping\"}\n\n"),
        ("/v1/chat/completions", on_chat, ": alive\n\n"),
        ("/v1/responses", on_responses, ": alive\n\n"),
    ];
    for (path, body, sign) in apis {
        let mut stream = house.ask(&head(path, "ostler_1"), &body.to_string()).await;
        until(&mut stream, "half").await;
        so_far(&house, &stream).await;
        for _ in 0..2 {
            clock.pass(14 * SECOND).await;
            assert_eq!(so_far(&house, &stream).await, "", "{path}");
            clock.pass(SECOND).await;
            let heard = until(&mut stream, sign).await;
            assert_eq!(heard.matches(sign).count(), 1, "{path}: {heard}");
        }
    }
    clock.runs();
    house.close().await;
}

#[tokio::test]
async fn a_session_that_is_followed_has_one_too() {
    let clock = Clock::stopped();
    let house = House::open(Limits::default()).await;
    let begun = house.post("/api/v1/sessions", "ostler_writer", &json!({"model": "claude"})).await;
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    let follow = format!("GET /api/v1/sessions/{id}/events HTTP/1.1\r\nx-api-key: ostler_writer");
    let mut stream = house.ask(&follow, "").await;
    until(&mut stream, "event: opened").await;
    so_far(&house, &stream).await;
    clock.pass(14 * SECOND).await;
    assert_eq!(so_far(&house, &stream).await, "");
    clock.pass(SECOND).await;
    until(&mut stream, ": alive\n\n").await;
    clock.runs();
    house.close().await;
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_denied_after_ten_minutes() {
    let clock = Clock::stopped();
    let house = House::open(Limits::default()).await;
    let begin = json!({"model": "claude", "permissions": "ask"});
    let begun = house.post("/api/v1/sessions", "ostler_writer", &begin).await;
    let path = format!("/api/v1/sessions/{}", begun.json()["id"].as_str().unwrap());
    let follow = format!("GET {path}/events HTTP/1.1\r\nx-api-key: ostler_writer");
    let mut stream = house.ask(&follow, "").await;
    let turn = json!({"text": "may I"});
    assert_eq!(house.post(&format!("{path}/turns"), "ostler_writer", &turn).await.status, 202);
    until(&mut stream, "event: permission_asked").await;
    clock.pass(599 * SECOND).await;
    let waiting = house.bare("GET", "/api/v1/permissions", "ostler_writer").await.json();
    let question = waiting["permissions"][0]["id"].as_str().unwrap().to_owned();
    clock.pass(SECOND).await;
    let heard = until(&mut stream, "event: turn_ended").await;
    assert!(heard.contains("\"outcome\":\"expired\""), "{heard}");
    assert!(heard.contains("denied: nobody answered in time"), "{heard}");
    let late = json!({"decision": "deny"});
    let late = house.post(&format!("/api/v1/permissions/{question}"), "ostler_writer", &late).await;
    assert_eq!(late.status, 404, "{}", late.body);
    clock.runs();
    house.close().await;
}

/// A connection of which nothing is read, by a client that has little room for what comes.
async fn deaf(house: &House, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(house.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// All that came, until it ended in one way or the other.
async fn rest(mut stream: TcpStream) -> String {
    let (mut heard, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let all = async {
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            heard.extend_from_slice(&buffer[..count]);
        }
    };
    tokio::time::timeout(DEADLINE, all).await.unwrap();
    String::from_utf8_lossy(&heard).into_owned()
}

/// Until what waits for a client has waited for too long. What is ready is sent meanwhile, as far as there is room.
async fn too_long(house: &House, clock: &Clock) {
    let mut left = 2 * Waiting::default().taking;
    while !left.is_zero() {
        assert_eq!(house.get("GET /healthz HTTP/1.1", "").await.status, 200);
        clock.pass(SECOND).await;
        left -= SECOND;
    }
}

/// Nobody has asked for his key: all the more he must not keep his place.
#[tokio::test]
async fn who_asks_and_asks_and_takes_no_answer_is_not_served_any_further() {
    let clock = Clock::stopped();
    let house = House::open(Limits::default()).await;
    let many = 1_000;
    let request = format!("GET /openapi.json HTTP/1.1\r\nhost: {}\r\n\r\n", house.address);
    let stream = deaf(&house, &request.repeat(many)).await;
    too_long(&house, &clock).await;
    clock.runs();
    let answered = rest(stream).await.matches("HTTP/1.1 200 OK").count();
    assert!((1..many).contains(&answered), "{answered}");
    house.close().await;
}

#[tokio::test]
async fn who_takes_nothing_of_his_answer_loses_it_and_his_session_is_free() {
    let clock = Clock::stopped();
    let house = House::open(Limits { live: 1, ..Limits::default() }).await;
    let body = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "flood")])});
    let body = body.to_string();
    let (head, address, length) = (head("/v1/chat/completions", "ostler_1"), house.address, body.len());
    let request = format!("{head}\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n{body}");
    let stream = deaf(&house, &request).await;
    too_long(&house, &clock).await;
    clock.runs();
    assert_eq!(house.stage.log(|log| log.interrupted.clone()), [1]);
    // There is one seat.
    let got = house.post("/v1/messages", "ostler_2", &asked(&[("user", "say on")])).await;
    assert_eq!(got.status, 200, "{}", got.body);
    assert!(!rest(stream).await.contains("[DONE]"));
    house.close().await;
}

/// Whoever has no key is told so once a connection.
#[tokio::test]
async fn who_is_not_let_in_has_no_second_try_on_his_connection() {
    let house = House::open(Limits::default()).await;
    for more in ["x-api-key: ostler_nobody", "x-api-key: ostler_1\r\norigin: http://evil.example"] {
        let request = format!("GET /v1/models HTTP/1.1\r\nhost: {}\r\n{more}\r\n\r\n", house.address);
        let heard = rest(deaf(&house, &request.repeat(3)).await).await.to_ascii_lowercase();
        assert_eq!(heard.matches("http/1.1 40").count(), 1, "{heard}");
        assert!(heard.contains("connection: close"), "{heard}");
    }
    // Who is let in may go on.
    let request = format!("GET /v1/models HTTP/1.1\r\nhost: {}\r\nx-api-key: ostler_1\r\n", house.address);
    let last = format!("{request}connection: close\r\n\r\n");
    let heard = rest(deaf(&house, &format!("{request}\r\n{request}\r\n{last}")).await).await;
    assert_eq!(heard.matches("HTTP/1.1 200 OK").count(), 3, "{heard}");
    house.close().await;
}
