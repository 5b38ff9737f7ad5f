//! Terminals over a WebSocket, asked as a browser asks: bytes of frames.

use std::time::Duration;

use ostler_agent::leasing::Limits;
use ostler_process::terminal::pty::Size;
use ostler_process::terminal::seat::{Seat, Wish};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::clock::Clock;
use crate::house::{DEADLINE, House, head, messages};

const SESSIONS: &str = "/api/v1/sessions";

/// A client of a WebSocket.
pub(crate) struct Socket<T = TcpStream> {
    stream: T,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    Text(String),
    Binary(Vec<u8>),
    Close(u16),
}

fn upgrade(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}"
    )
}

impl Socket {
    /// The status, and the socket if it is one.
    pub(crate) async fn open(house: &House, path: &str, more: &str) -> Result<Self, u16> {
        Self::on(TcpStream::connect(house.address).await.unwrap(), house, path, more).await
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Socket<T> {
    /// The same, on this connection.
    pub(crate) async fn on(mut stream: T, house: &House, path: &str, more: &str) -> Result<Self, u16> {
        let request =
            format!("{}\r\nhost: {}\r\nconnection: upgrade\r\n\r\n", upgrade(path, more), house.address);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = tokio::time::timeout(DEADLINE, stream.read_u8()).await.unwrap().unwrap();
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        if status == 101 { Ok(Self { stream }) } else { Err(status) }
    }

    pub(crate) async fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![0x80 | opcode, 0x80 | u8::try_from(payload.len()).unwrap()];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.stream.write_all(&frame).await.unwrap();
    }

    /// The next that is not a sign of life.
    pub(crate) async fn next(&mut self) -> Frame {
        tokio::time::timeout(DEADLINE, self.read()).await.unwrap()
    }

    async fn read(&mut self) -> Frame {
        loop {
            let (first, second) =
                (self.stream.read_u8().await.unwrap(), self.stream.read_u8().await.unwrap());
            let length = match second {
                126 => usize::from(self.stream.read_u16().await.unwrap()),
                127 => usize::try_from(self.stream.read_u64().await.unwrap()).unwrap(),
                length => usize::from(length),
            };
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload).await.unwrap();
            match first & 0x0f {
                1 => return Frame::Text(String::from_utf8(payload).unwrap()),
                2 => return Frame::Binary(payload),
                8 => return Frame::Close(u16::from_be_bytes([payload[0], payload[1]])),
                9 | 10 => {}
                opcode => panic!("opcode {opcode}"),
            }
        }
    }

    /// Reads what is shown until it has these words.
    pub(crate) async fn until(&mut self, words: &str) -> Vec<Frame> {
        let mut seen = Vec::new();
        loop {
            let frame = self.next().await;
            let is_it =
                matches!(&frame, Frame::Binary(bytes) if String::from_utf8_lossy(bytes).contains(words));
            seen.push(frame);
            if is_it {
                return seen;
            }
        }
    }
}

/// A session whose process has a terminal.
pub(crate) async fn seated(house: &House) -> (String, Seat) {
    seated_for(house, "ostler_owner").await
}

/// The same, of this key.
async fn seated_for(house: &House, key: &str) -> (String, Seat) {
    let got = house.post(SESSIONS, key, &json!({"model": "claude/terminal"})).await;
    let id = got.json()["id"].as_str().unwrap().to_owned();
    let turn = json!({"text": "say one", "wait": true});
    assert_eq!(house.post(&format!("{SESSIONS}/{id}/turns"), key, &turn).await.status, 200);
    let seat = house.stage.terminal.lock().unwrap().as_ref().unwrap().0.clone();
    (id, seat)
}

#[tokio::test]
async fn a_terminal_is_watched_by_many_and_held_by_one() {
    let house = House::open(Limits::default()).await;
    let (id, seat) = seated(&house).await;
    let (_, mut wishes) = house.stage.terminal.lock().unwrap().take().unwrap();
    seat.draw(b"before");
    let path = format!("{SESSIONS}/{id}/terminal");
    // A browser has no header for its key.
    let key = "sec-websocket-protocol: ostler.v1, ostler.key.ostler_owner";
    let mut viewer = Socket::open(&house, &path, key).await.unwrap();
    let first = viewer.next().await;
    let Frame::Text(text) = first else { panic!("{first:?}") };
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told, json!({"shown": "anew", "rows": 4, "columns": 20}));
    viewer.until("before").await;
    let got = house.bare("GET", &format!("{SESSIONS}/{id}/screen"), "ostler_owner").await.json();
    assert_eq!((&got["text"], &got["columns"]), (&json!("before"), &json!(20)));
    let hold = format!("{path}?manner=hold&rows=7&columns=33");
    let mut holder = Socket::open(&house, &hold, "x-api-key: ostler_owner").await.unwrap();
    let wish = tokio::time::timeout(DEADLINE, wishes.next()).await.unwrap();
    assert_eq!(wish, Wish::Taken);
    assert_eq!(wishes.next().await, Wish::Resize(Size { columns: 33, rows: 7 }));
    seat.resized(Size { columns: 33, rows: 7 });
    assert_eq!(Socket::open(&house, &hold, "x-api-key: ostler_owner").await.err(), Some(409), "one holds it");
    let got = house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_owner").await.json();
    assert_eq!(got["process"]["terminal"], json!({"columns": 33, "rows": 7, "viewers": 2, "held": true}));
    // While a person has it no turn is begun.
    let turn = json!({"text": "say two"});
    assert_eq!(house.post(&format!("{SESSIONS}/{id}/turns"), "ostler_owner", &turn).await.status, 409);
    let named = format!("{}\r\nx-ostler-conversation: {id}", head("/v1/messages", "ostler_owner"));
    let question =
        json!({"model": "claude/terminal", "max_tokens": 9, "messages": messages(&[("user", "say two")])});
    let got = house.get(&named, &question.to_string()).await;
    assert_eq!(got.status, 409, "{}", got.body);
    let said = house.bare("GET", &format!("{SESSIONS}/{id}/transcript"), "ostler_owner").await.json();
    assert_eq!(said["messages"].as_array().unwrap().len(), 2, "what is refused was never said: {said}");
    holder.send(2, b"keys\x1a").await;
    assert_eq!(wishes.next().await, Wish::Type(b"keys".to_vec()));
    holder.send(1, b"{\"do\":\"resize\",\"rows\":9,\"columns\":40}").await;
    assert_eq!(wishes.next().await, Wish::Resize(Size { columns: 40, rows: 9 }));
    seat.resized(Size { columns: 40, rows: 9 });
    seat.draw(b"after");
    for socket in [&mut viewer, &mut holder] {
        socket.until("after").await;
    }
    // Nonsense is not listened to any further, nor is one who only watches.
    holder.send(1, b"{\"do\":\"dance\"}").await;
    loop {
        if let Frame::Close(code) = holder.next().await {
            assert_eq!(code, 1008);
            break;
        }
    }
    drop(holder);
    assert_eq!(wishes.next().await, Wish::Resize(Size { columns: 20, rows: 4 }), "it is as it was");
    viewer.send(2, b"x").await;
    loop {
        if let Frame::Close(code) = viewer.next().await {
            assert_eq!(code, 1008);
            break;
        }
    }
    house.close().await;
}

/// Whoever stops to take what is shown is not shown anything any more. Others see all of it meanwhile, and turns go on.
#[tokio::test]
async fn who_stops_to_watch_is_shown_the_door_and_harms_nobody() {
    let clock = Clock::stopped();
    let house = House::open(Limits::default()).await;
    let (id, seat) = seated(&house).await;
    let path = format!("{SESSIONS}/{id}/terminal");
    let key = "x-api-key: ostler_owner";
    let mut viewer = Socket::open(&house, &path, key).await.unwrap();
    let little = TcpSocket::new_v4().unwrap();
    little.set_recv_buffer_size(4096).unwrap();
    let little = little.connect(house.address).await.unwrap();
    let _deaf = Socket::on(little, &house, &path, key).await.unwrap();
    assert_eq!(seat.viewers(), 2);
    // What is between two ends has room for some megabytes. When it is full, half a minute is patience enough.
    let much = vec![b'x'; 64 * 1024];
    let mut rounds = 0;
    while seat.viewers() == 2 {
        rounds += 1;
        assert!(rounds < 2_000, "it is never full");
        seat.draw(&much);
        seat.draw(format!("\r\nround {rounds}.").as_bytes());
        viewer.until(&format!("round {rounds}.")).await;
        clock.pass(Duration::from_secs(1)).await;
    }
    assert!(rounds >= 30, "{rounds}: he had half a minute");
    let turn = json!({"text": "say two", "wait": true});
    let got = house.post(&format!("{SESSIONS}/{id}/turns"), "ostler_owner", &turn).await;
    assert_eq!((got.status, &got.json()["text"]), (200, &json!("two")));
    seat.draw(b"\r\nafter");
    viewer.until("after").await;
    clock.runs();
    house.close().await;
}

#[tokio::test]
async fn nobody_sits_down_while_a_turn_is_under_way() {
    let house = House::open(Limits::default()).await;
    let (id, seat) = seated(&house).await;
    let (session, key) = (format!("{SESSIONS}/{id}"), "x-api-key: ostler_owner");
    let got = house.post(&format!("{session}/turns"), "ostler_owner", &json!({"text": "wait"})).await;
    assert_eq!(got.status, 202);
    let (path, hold) = (format!("{session}/terminal"), format!("{session}/terminal?manner=hold"));
    assert_eq!(Socket::open(&house, &hold, key).await.err(), Some(409));
    let mut viewer = Socket::open(&house, &path, key).await.unwrap();
    viewer.next().await;
    assert!(!seat.is_held());
    house.stage.gate.notify_one();
    let over = async { while house.bare("GET", &session, "ostler_owner").await.json()["state"] != "idle" {} };
    tokio::time::timeout(DEADLINE, over).await.unwrap();
    let _holder = Socket::open(&house, &hold, key).await.unwrap();
    assert!(seat.is_held());
    house.close().await;
}

#[tokio::test]
async fn who_watches_is_told_when_it_is_over() {
    let house = House::open(Limits::default()).await;
    let (id, _) = seated(&house).await;
    let path = format!("{SESSIONS}/{id}/terminal");
    let mut viewer = Socket::open(&house, &path, "x-api-key: ostler_owner").await.unwrap();
    viewer.next().await;
    drop(house.stage.terminal.lock().unwrap().take());
    loop {
        if let Frame::Close(code) = viewer.next().await {
            assert_eq!(code, 1000);
            break;
        }
    }
    house.close().await;
}

#[tokio::test]
async fn who_watches_is_told_when_the_server_ends() {
    let mut house = House::open(Limits::default()).await;
    let (id, _seat) = seated(&house).await;
    let path = format!("{SESSIONS}/{id}/terminal");
    let mut viewer = Socket::open(&house, &path, "x-api-key: ostler_owner").await.unwrap();
    viewer.next().await;
    drop(house.stop.take());
    loop {
        if let Frame::Close(code) = viewer.next().await {
            assert_eq!(code, 1001);
            break;
        }
    }
    house.close().await;
}

#[tokio::test]
async fn a_terminal_is_not_for_everybody() {
    let house = House::open(Limits::default()).await;
    let (id, _seat) = seated(&house).await;
    let path = format!("{SESSIONS}/{id}/terminal");
    let hold = format!("{path}?manner=hold");
    let table = [
        (path.as_str(), "x-api-key: ostler_owner\r\norigin: http://evil.example", 403),
        (&path, "x-api-key: ostler_1", 403),
        (&path, "x-api-key: ostler_nobody", 401),
        (&path, "x-other: y", 401),
        (&hold, "x-api-key: ostler_viewer", 403),
        // Another's session is nobody's business.
        (&path, "x-api-key: ostler_viewer", 404),
        ("/api/v1/runs/none/terminal", "x-api-key: ostler_owner", 404),
        ("/api/v1/runs/none/terminal", "x-api-key: ostler_viewer", 403),
        ("/api/v1/sessions/none/terminal?manner=dance", "x-api-key: ostler_owner", 400),
        ("/api/v1/sessions/none/terminal?rows=many", "x-api-key: ostler_owner", 400),
    ];
    for (path, more, status) in table {
        assert_eq!(Socket::open(&house, path, more).await.err(), Some(status), "{path} {more}");
    }
    // Without an upgrade it is a bad request.
    assert_eq!(house.bare("GET", &path, "ostler_owner").await.status, 400);
    house.close().await;
}

/// A person at a terminal answers what the agent asks, so that `deny` would not hold.
#[tokio::test]
async fn only_a_key_that_may_allow_everything_types_at_a_terminal() {
    for (key, held) in [("ostler_holder", Some(403)), ("ostler_all", None)] {
        let house = House::open(Limits::default()).await;
        let (id, _seat) = seated_for(&house, key).await;
        let (path, head) = (format!("{SESSIONS}/{id}/terminal"), format!("x-api-key: {key}"));
        assert_eq!(Socket::open(&house, &path, &head).await.err(), None, "{key}");
        let hold = format!("{path}?manner=hold");
        assert_eq!(Socket::open(&house, &hold, &head).await.err(), held, "{key}");
        house.close().await;
    }
}
