//! Those who stay: how many of them, and for how long their key lets them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_agent::access::Policy;
use ostler_agent::leasing::Limits;
use ostler_gateway::http::Offer;
use ostler_gateway::http::keys::{Keeper, Key, Keys, KeysUnreadable};
use ostler_process::terminal::seat::Wish;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::clock::Clock;
use crate::house::{DEADLINE, House, offer, until};
use crate::terminals::{Frame, Socket, seated};

const SESSIONS: &str = "/api/v1/sessions";

/// As many of one key may stay.
const MOST_OF_KEY: usize = 64;

/// Keys that are revoked while the house is open.
#[derive(Clone, Default)]
struct Ring(Arc<Mutex<Option<Vec<Key>>>>, Arc<AtomicBool>);

impl Keeper for Ring {
    fn changed(&self) -> Result<Option<Vec<Key>>, KeysUnreadable> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(KeysUnreadable),
            false => Ok(self.0.lock().unwrap().take()),
        }
    }
}

impl Ring {
    /// A house for the owner and a friend, who may do as much.
    async fn house(&self) -> House {
        let kept = Arc::new(tempfile::tempdir().unwrap());
        let keys = vec![owner(), Key::of("friend", "ostler_friend", Policy::owner())];
        let offer = Offer { keys: Keys::kept_by(keys, self.clone()), ..offer(kept.path()) };
        House::with(offer, kept, Limits::default(), Duration::ZERO).await
    }

    /// The friend is none any more.
    fn revoke(&self) {
        *self.0.lock().unwrap() = Some(vec![owner()]);
    }
}

#[tokio::test]
async fn no_key_is_accepted_while_the_keys_cannot_be_read() {
    let ring = Ring::default();
    let house = ring.house().await;
    let statuses = async || {
        let mut statuses = Vec::new();
        for key in ["ostler_owner", "ostler_friend", "ostler_none"] {
            statuses.push(house.bare("GET", SESSIONS, key).await.status);
        }
        statuses
    };
    assert_eq!(statuses().await, [200, 200, 401]);
    ring.1.store(true, Ordering::Relaxed);
    ring.revoke();
    assert_eq!(statuses().await, [503, 503, 503]);
    let got = house.bare("GET", SESSIONS, "ostler_owner").await;
    assert!(got.header("retry-after").is_some() && got.body.contains("keys"), "{}", got.body);
    ring.1.store(false, Ordering::Relaxed);
    assert_eq!(statuses().await, [200, 401, 401]);
    house.close().await;
}

fn owner() -> Key {
    Key::of("owner", "ostler_owner", Policy::owner())
}

async fn begin(house: &House, key: &str) -> String {
    let got = house.post(SESSIONS, key, &json!({"model": "claude"})).await;
    format!("{SESSIONS}/{}", got.json()["id"].as_str().unwrap())
}

async fn follow(house: &House, session: &str, key: &str) -> TcpStream {
    house.ask(&format!("GET {session}/events HTTP/1.1\r\nx-api-key: {key}"), "").await
}

#[tokio::test]
async fn a_key_that_was_revoked_types_nothing_more() {
    let ring = Ring::default();
    let house = ring.house().await;
    let (id, _) = seated(&house).await;
    let (_, mut wishes) = house.stage.terminal.lock().unwrap().take().unwrap();
    let hold = format!("{SESSIONS}/{id}/terminal?manner=hold&rows=4&columns=20");
    let mut holder = Socket::open(&house, &hold, "x-api-key: ostler_friend").await.unwrap();
    holder.send(2, b"before").await;
    while wishes.next().await != Wish::Type(b"before".to_vec()) {}
    ring.revoke();
    holder.send(2, b"after").await;
    loop {
        if let Frame::Close(code) = holder.next().await {
            assert_eq!(code, 1008);
            break;
        }
    }
    // Whoever comes next has it, and is the first to type since.
    let hold = async {
        loop {
            if let Ok(holder) = Socket::open(&house, &hold, "x-api-key: ostler_owner").await {
                return holder;
            }
        }
    };
    let mut holder = tokio::time::timeout(DEADLINE, hold).await.unwrap();
    holder.send(2, b"mine").await;
    let typed = loop {
        if let Wish::Type(bytes) = tokio::time::timeout(DEADLINE, wishes.next()).await.unwrap() {
            break bytes;
        }
    };
    assert_eq!(typed, b"mine");
    drop(holder);
    house.close().await;
}

#[tokio::test]
async fn a_key_that_was_revoked_follows_nothing_more() {
    let clock = Clock::stopped();
    let ring = Ring::default();
    let house = ring.house().await;
    let session = begin(&house, "ostler_friend").await;
    let mut stream = follow(&house, &session, "ostler_friend").await;
    let mut others = follow(&house, &session, "ostler_owner").await;
    for stream in [&mut stream, &mut others] {
        until(stream, "event: opened").await;
    }
    ring.revoke();
    clock.pass(Duration::from_secs(15)).await;
    until(&mut stream, "event: closed\ndata: {\"reason\":\"this key does not open this any more\"}").await;
    until(&mut others, ": alive").await;
    let mut rest = String::new();
    tokio::time::timeout(DEADLINE, stream.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert!(!rest.contains("event:"), "{rest}");
    clock.runs();
    house.close().await;
}

#[tokio::test]
async fn one_key_does_not_take_all_connections() {
    let house = House::open(Limits::default()).await;
    let (session, own) = (begin(&house, "ostler_writer").await, begin(&house, "ostler_owner").await);
    let mut there = Vec::new();
    for _ in 0..MOST_OF_KEY {
        let mut stream = follow(&house, &session, "ostler_writer").await;
        until(&mut stream, "event: opened").await;
        there.push(stream);
    }
    let got = house.bare("GET", &format!("{session}/events"), "ostler_writer").await;
    assert_eq!((got.status, got.header("retry-after").is_some()), (429, true), "{}", got.body);
    // Nor does whoever is refused keep a place.
    let mut refused = TcpStream::connect(house.address).await.unwrap();
    let head = format!(
        "GET {session}/events HTTP/1.1\r\nhost: {}\r\nx-api-key: ostler_writer\r\n\r\n",
        house.address
    );
    refused.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, refused.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("connection: close"), "{answer}");
    // It may ask, and others may follow.
    assert_eq!(house.bare("GET", &session, "ostler_writer").await.status, 200);
    until(&mut follow(&house, &own, "ostler_owner").await, "event: opened").await;
    there.pop();
    let freed = async {
        loop {
            let mut stream = follow(&house, &session, "ostler_writer").await;
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.unwrap();
            if &status == b"HTTP/1.1 200" {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, freed).await.unwrap();
    drop(there);
    house.close().await;
}
