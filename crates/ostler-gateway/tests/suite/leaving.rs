//! Visitors who go away at any moment, read slowly, or never come to the point: nothing is left of them, and nobody else
//! notices.

use std::sync::Arc;

use ostler_agent::leasing::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::house::{DEADLINE, House, asked, head, messages};

/// How many leave, and how many of them are there at once.
const LEAVE: u64 = 1_000;
const AT_ONCE: usize = 32;

/// Numbers that look like chance, and are the same every time.
struct Dice(u64);

impl Dice {
    /// A number from 0, less than this.
    fn below(&mut self, end: u64) -> u64 {
        // Knuth's MMIX constants; the upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// One who leaves: what he asks, how much of it he sends, how much of the answer he takes, and how he goes.
async fn leave(house: Arc<House>, number: u64) {
    let mut dice = Dice(number);
    for _ in 0..4 {
        // Seeds that are neighbours begin alike.
        dice.below(2);
    }
    // One that ends by itself, two that end when they are told to, and two that fail.
    let prompt = ["say one", "hang", "wait", "fail", "die"][usize::try_from(dice.below(5)).unwrap()];
    let talk = [("user", prompt)];
    let (path, mut body) = match dice.below(3) {
        0 => ("/v1/messages", asked(&talk)),
        1 => ("/v1/chat/completions", json!({"model": "claude", "messages": messages(&talk)})),
        _ => ("/v1/responses", json!({"model": "claude", "input": messages(&talk)})),
    };
    let is_streamed = dice.below(4) > 0;
    body["stream"] = json!(is_streamed);
    let body = body.to_string();
    let request = format!(
        "{}\r\nhost: {}\r\ncontent-length: {}\r\n\r\n{body}",
        head(path, "ostler_1"),
        house.address,
        body.len()
    );
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let sent = if dice.below(8) == 0 { dice.below(request.len() as u64) } else { request.len() as u64 };
    stream.write_all(&request.as_bytes()[..usize::try_from(sent).unwrap()]).await.unwrap();
    match dice.below(4) {
        // He hears the beginning, if there is one.
        0 if sent == request.len() as u64 && matches!(prompt, "say one" | "hang") && is_streamed => {
            let mut heard = vec![0; usize::try_from(1 + dice.below(300)).unwrap()];
            tokio::time::timeout(DEADLINE, stream.read_exact(&mut heard)).await.unwrap().unwrap();
        }
        // He says that he will say nothing more.
        1 => stream.shutdown().await.unwrap(),
        // He waits a moment, which may be long enough for all.
        _ => {
            for _ in 0..dice.below(60) {
                tokio::task::yield_now().await;
            }
        }
    }
    if dice.below(2) == 0 {
        // Not even a farewell: the connection is reset.
        stream.set_zero_linger().unwrap();
    }
}

/// Connections that the server still has: not its own listening socket.
#[cfg(target_os = "linux")]
pub(crate) fn connections(house: &House) -> usize {
    let port = format!(":{:04X}", house.address.port());
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let fields = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Without an inode nobody has it open any more: the system itself waits a while.
    fields.filter(|field| field[1].ends_with(&port) && field[3] != "0A" && field[9] != "0").count()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn connections(_: &House) -> usize {
    0
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, waiting).await.is_ok(), "{what}");
}

#[tokio::test]
async fn a_thousand_who_leave_at_any_moment_leave_nothing() {
    let limits =
        Limits { live: 8, live_of_tenant: 8, waiting: 64, waiting_of_tenant: 64, ..Limits::default() };
    let house = Arc::new(House::open(limits).await);
    let mut there = JoinSet::new();
    for number in 0..LEAVE {
        if there.len() == AT_ONCE {
            there.join_next().await.unwrap().unwrap();
        }
        there.spawn(leave(house.clone(), number));
    }
    while let Some(gone) = there.join_next().await {
        gone.unwrap();
    }
    until("connections are left", || connections(&house) == 0).await;
    // All seats can be taken at once, so none is lost.
    let wait = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "wait")])});
    let before = house.stage.log(|log| log.asked.len());
    let mut all = Vec::new();
    for _ in 0..8 {
        all.push(house.ask(&head("/v1/chat/completions", "ostler_1"), &wait.to_string()).await);
    }
    until("a seat is lost", || house.stage.log(|log| log.asked.len()) >= before + 8).await;
    drop(all);
    let got = house.post("/v1/messages", "ostler_1", &asked(&[("user", "say still there")])).await;
    assert_eq!(got.json()["content"][0]["text"], "still there");
    let broken_off = house.stage.log(|log| log.interrupted.len());
    assert!(broken_off > 100, "most were in the middle of something: {broken_off}");
    Arc::into_inner(house).unwrap().close().await;
}

#[tokio::test]
async fn who_reads_slowly_holds_nobody_up_and_gets_it_all() {
    let house = House::open(Limits { live: 2, ..Limits::default() }).await;
    // More than the system keeps for one who does not read.
    let long = "word ".repeat(2_000_000);
    let body = json!({"model": "claude", "stream": true,
        "messages": messages(&[("user", &format!("say {long}"))])});
    let mut slow = house.ask(&head("/v1/chat/completions", "ostler_1"), &body.to_string()).await;
    let mut heard = vec![0; 12];
    tokio::time::timeout(DEADLINE, slow.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(heard, b"HTTP/1.1 200");
    for number in 0..20 {
        let got = house.post("/v1/messages", "ostler_1", &asked(&[("user", &format!("say {number}"))])).await;
        assert_eq!(got.json()["content"][0]["text"], json!(number.to_string()));
    }
    let mut rest = String::new();
    tokio::time::timeout(DEADLINE, slow.read_to_string(&mut rest)).await.unwrap().unwrap();
    let data = rest.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let words = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(words.map(str::len).sum::<usize>(), long.len());
    assert!(rest.contains("data: [DONE]"));
    house.close().await;
}

#[tokio::test]
async fn who_never_comes_to_the_point_holds_nobody_up() {
    let house = House::open(Limits { live: 1, waiting: 0, ..Limits::default() }).await;
    let address = house.address;
    let mut idle = Vec::new();
    for begun in ["", "POST /v1/mess", "POST /v1/messages HTTP/1.1\r\nhost: x\r\n"] {
        for _ in 0..50 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun.as_bytes()).await.unwrap();
            idle.push(stream);
        }
    }
    for _ in 0..50 {
        // A head that promises more than comes: no session is taken for it.
        let begun = format!(
            "{}\r\nhost: {address}\r\ncontent-length: 900\r\n\r\n{{",
            head("/v1/messages", "ostler_1")
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    let got = house.post("/v1/messages", "ostler_1", &asked(&[("user", "say one")])).await;
    assert_eq!((got.status, house.stage.log(|log| log.asked.len())), (200, 1));
    drop(idle);
    until("connections are left", || connections(&house) == 0).await;
    house.close().await;
}
