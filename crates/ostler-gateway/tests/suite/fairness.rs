//! More clients than sessions: each gets its turn, and none keeps what others wait for.

use std::sync::Arc;
use std::time::Duration;

use ostler_agent::leasing::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::house::{House, asked, head, messages};

const SECOND: Duration = Duration::from_secs(1);

/// Tries after which a client gives up.
const TRIES: u32 = 40;

/// Sends a request until it is answered, and waits as long as `Retry-After` says. Returns the number of tries.
async fn persist(house: Arc<House>) -> u32 {
    let body = asked(&[("user", "take 10")]).to_string();
    for tries in 1..=TRIES {
        let mut stream = house.ask(&head("/v1/messages", "ostler_1"), &body).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        if answer.starts_with("HTTP/1.1 200 ") {
            return tries;
        }
        assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
        let told = answer.lines().find_map(|line| line.strip_prefix("retry-after: "));
        tokio::time::sleep(SECOND * told.unwrap().parse().unwrap()).await;
    }
    panic!("it gives up after {TRIES} tries");
}

#[tokio::test]
async fn a_hundred_conversations_on_four_sessions_are_all_answered() {
    let clock = Clock::stopped();
    let house = Arc::new(House::open(Limits { live: 4, ..Limits::default() }).await);
    let mut clients = JoinSet::new();
    for _ in 0..100 {
        clients.spawn(persist(house.clone()));
    }
    let (mut most, mut seconds) = (0, 0);
    while !clients.is_empty() {
        // What is due happens before the clock goes on.
        for _ in 0..8 {
            assert_eq!(house.get("GET /healthz HTTP/1.1", "").await.status, 200);
        }
        clock.pass(SECOND).await;
        seconds += 1;
        while let Some(tries) = clients.try_join_next() {
            most = most.max(tries.unwrap());
        }
    }
    clock.runs();
    // A hundred turns of ten seconds on four sessions take 250 seconds.
    assert!(most <= TRIES / 2 && seconds < 500, "{most} tries, {seconds} s");
    Arc::into_inner(house).unwrap().close().await;
}

#[tokio::test]
async fn clients_that_do_not_read_do_not_keep_all_sessions() {
    let clock = Clock::stopped();
    let house = Arc::new(House::open(Limits { live: 4, ..Limits::default() }).await);
    let body = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "flood")])});
    let body = body.to_string();
    let (head_of, address, length) = (head("/v1/chat/completions", "ostler_1"), house.address, body.len());
    let request = format!("{head_of}\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n{body}");
    let mut deaf = Vec::new();
    for _ in 0..4 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        deaf.push(stream);
    }
    while house.stage.log(|log| log.asked.len()) < 4 {
        assert_eq!(house.get("GET /healthz HTTP/1.1", "").await.status, 200);
    }
    let mut others = JoinSet::new();
    let waiting = house.clone();
    others.spawn(async move {
        let question = asked(&[("user", "say on")]).to_string();
        let mut stream = waiting.ask(&head("/v1/messages", "ostler_2"), &question).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    });
    let mut seconds = 0;
    let answer = loop {
        for _ in 0..8 {
            assert_eq!(house.get("GET /healthz HTTP/1.1", "").await.status, 200);
        }
        if let Some(answer) = others.try_join_next() {
            break answer.unwrap();
        }
        clock.pass(SECOND).await;
        seconds += 1;
    };
    clock.runs();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(seconds <= 20, "{seconds} s");
    drop(deaf);
    Arc::into_inner(house).unwrap().close().await;
}

#[tokio::test]
async fn a_key_sees_the_models_that_it_may_ask() {
    let house = House::open(Limits::default()).await;
    let ids = async |key: &str| {
        let listed = house.bare("GET", "/v1/models", key).await.json();
        let ids = listed["data"].as_array().unwrap().iter().map(|model| model["id"].clone());
        json!(ids.collect::<Vec<_>>())
    };
    assert_eq!(ids("ostler_1").await, json!(["claude", "fixed-name"]));
    // It may ask `claude`, which the other name means too.
    assert_eq!(ids("ostler_tight").await, json!(["claude", "fixed-name"]));
    let shown = house.bare("GET", "/v1/models/claude/opus", "ostler_tight").await;
    assert_eq!((shown.status, shown.body.contains("MODEL")), (404, false), "{}", shown.body);
    assert_eq!(house.bare("GET", "/v1/models/claude/opus", "ostler_1").await.status, 200);
    house.close().await;
}

#[tokio::test]
async fn sessions_are_listed_by_pages_and_filters() {
    let house = House::open(Limits::default()).await;
    let mut begun = Vec::new();
    for model in ["claude", "claude", "fixed-name", "claude", "fixed-name"] {
        let got = house.post("/api/v1/sessions", "ostler_writer", &json!({"model": model})).await;
        begun.push(got.json()["id"].as_str().unwrap().to_owned());
    }
    let chat = house.post("/v1/messages", "ostler_writer", &asked(&[("user", "say one")])).await;
    begun.push(chat.header("x-ostler-conversation").unwrap().to_owned());
    let page = async |query: &str| {
        let got = house.bare("GET", &format!("/api/v1/sessions{query}"), "ostler_writer").await;
        assert_eq!(got.status, 200, "{query}: {}", got.body);
        let listed = got.json();
        let ids: Vec<String> = listed["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|session| session["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!((&listed["counts"]["parked"], &listed["counts"]["idle"]), (&json!(5), &json!(1)));
        (ids, listed["next"].as_str().map(str::to_owned))
    };
    let (all, next) = page("").await;
    assert_eq!((all.len(), next), (6, None));
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let (ids, next) = page(&format!("?limit=4{after}")).await;
        assert!((1..=4).contains(&ids.len()), "{ids:?}");
        paged.extend(ids);
        match next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(paged, all);
    let count = async |query: &str| page(query).await.0.len();
    assert_eq!(count("?state=parked").await, 5);
    assert_eq!(page("?state=idle").await.0, begun[5..]);
    assert_eq!(count("?model=fixed-name").await, 2);
    assert_eq!(count("?origin=messages").await, 1);
    assert_eq!(count("?state=parked&model=claude&limit=1000").await, 3);
    assert_eq!((count("?key=writer").await, count("?key=one").await), (6, 0));
    for query in ["?limit=0", "?limit=1001", "?limit=x", "?state=busy", "?after=x"] {
        let got = house.bare("GET", &format!("/api/v1/sessions{query}"), "ostler_writer").await;
        assert_eq!(got.status, 400, "{query}");
    }
    house.close().await;
}
