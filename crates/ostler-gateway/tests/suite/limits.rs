//! What a key opens and how much of it, and what holds for whatever is asked.

use ostler_agent::leasing::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::house::{DEADLINE, House, asked, head, messages};

#[tokio::test]
async fn a_key_opens_what_its_policy_says() {
    let house = House::open(Limits::default()).await;
    let body = asked(&[("user", "say one")]);
    // Not for this: in the API's own shape.
    let got = house.post("/v1/messages", "ostler_looker", &body).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (403, &json!("permission_error")));
    // Not this model.
    let mut other = body.clone();
    other["model"] = json!("claude/opus");
    let got = house.post("/v1/messages", "ostler_tight", &other).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (403, &json!("permission_error")));
    // As much as it may, or less; never more.
    let may =
        |key: &str, level: &str| format!("{}\r\nx-ostler-permissions: {level}", head("/v1/messages", key));
    let mut statuses = Vec::new();
    for (key, level) in [
        ("ostler_tight", "deny"),
        ("ostler_1", "edits"),
        ("ostler_1", "everything"),
        ("ostler_tight", "edits"),
    ] {
        statuses.push(house.get(&may(key, level), &body.to_string()).await.status);
    }
    assert_eq!(statuses, [200, 403, 400, 200]);
    // It asked three times in this minute.
    let got = house.post("/v1/messages", "ostler_tight", &body).await;
    assert_eq!((got.status, got.head.contains("retry-after: ")), (429, true));
    assert_eq!(house.post("/v1/messages", "ostler_1", &body).await.status, 200, "others are not in its way");
    house.close().await;
}

#[tokio::test]
async fn a_slash_is_a_command_where_the_header_allows_it() {
    let house = House::open(Limits::default()).await;
    let body = asked(&[("user", "/say one")]).to_string();
    let question = |more: &str| format!("{}{more}", head("/v1/messages", "ostler_1"));
    let mut got = Vec::new();
    for more in [
        "",
        "\r\nx-ostler-slash: allow",
        "\r\nx-ostler-slash: yes",
        "\r\nx-ostler-slash: allow\r\nx-ostler-engine: terminal",
    ] {
        let answer = house.get(&question(more), &body).await;
        got.push((answer.status, answer.body.contains("x-ostler-slash")));
    }
    assert_eq!(got, [(200, false), (200, false), (400, true), (400, true)]);
    let heard: Vec<String> = house.stage.log(|log| log.asked.iter().map(|(_, text)| text.clone()).collect());
    assert_eq!(heard, ["/say one", "as a command: /say one"]);
    house.close().await;
}

#[tokio::test]
async fn a_key_has_so_many_turns_under_way_and_no_more() {
    let house = House::open(Limits::default()).await;
    let body = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "hang")])});
    let busy = house.ask(&head("/v1/chat/completions", "ostler_tight"), &body.to_string()).await;
    let asked_once = async {
        while house.stage.log(|log| log.asked.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, asked_once).await.unwrap();
    let got = house.post("/v1/messages", "ostler_tight", &asked(&[("user", "say one")])).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (429, &json!("rate_limit_error")));
    drop(busy);
    let over = async {
        while house.stage.log(|log| log.interrupted.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, over).await.unwrap();
    // Its turn is over when its connection is: the third request of this minute is one more turn.
    let got = house.post("/v1/messages", "ostler_tight", &asked(&[("user", "say one")])).await;
    assert_eq!(got.status, 200);
    house.close().await;
}

#[tokio::test]
async fn who_comes_while_it_ends_is_told_to_come_back() {
    let mut house = House::draining(Limits::default(), DEADLINE).await;
    assert_eq!(house.get("GET /readyz HTTP/1.1", "").await.status, 200);
    let body = json!({"model": "claude", "messages": messages(&[("user", "wait")])});
    let mut busy = house.ask(&head("/v1/chat/completions", "ostler_1"), &body.to_string()).await;
    let asked_once = async {
        while house.stage.log(|log| log.asked.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, asked_once).await.unwrap();
    drop(house.stop.take());
    let closing = async { while house.get("GET /readyz HTTP/1.1", "").await.status != 503 {} };
    tokio::time::timeout(DEADLINE, closing).await.unwrap();
    assert_eq!(house.get("GET /healthz HTTP/1.1", "").await.status, 200);
    let got = house.post("/v1/messages", "ostler_1", &asked(&[("user", "say one")])).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (503, &json!("overloaded_error")));
    assert!(got.head.contains("retry-after: "));
    // What is under way comes to its end.
    house.stage.gate.notify_one();
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, busy.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("waited"), "{answer}");
    house.close().await;
}

#[tokio::test]
async fn whatever_is_asked_is_meant_for_us_bounded_and_counted() {
    let house = House::open(Limits::default()).await;
    for path in ["/", "/healthz", "/v1/models", "/metrics", "/nothing"] {
        let got = house.get(&format!("GET {path} HTTP/1.1\r\norigin: http://evil.example"), "").await;
        assert_eq!(got.status, 403, "{path}");
        assert!(!got.head.contains("access-control-allow-origin"), "{path}");
    }
    let got = house.get("DELETE /v1/messages HTTP/1.1", "").await;
    assert_eq!((got.status, &got.json()["type"]), (405, &json!("error")));
    // What is not read any more may be answered by an end of the connection alone.
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let long = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\nx-long: {}", house.address, "x".repeat(1 << 20));
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"));
    // The documented limit is the one that holds, and what is just above it is told so.
    for (length, status) in [(60_000, 200), (65_000, 200), (66_000, 431), (100_000, 431)] {
        let got = house.get(&format!("GET /healthz HTTP/1.1\r\nx-long: {}", "x".repeat(length)), "").await;
        assert_eq!(got.status, status, "a head of {length} bytes");
    }
    let many: String = (0..97).map(|number| format!("\r\nx-{number}: y")).collect();
    assert_eq!(house.get(&format!("GET /healthz HTTP/1.1{many}"), "").await.status, 200);
    let many: String = (0..200).map(|number| format!("\r\nx-{number}: y")).collect();
    assert_eq!(house.get(&format!("GET /healthz HTTP/1.1{many}"), "").await.status, 431);
    let got = house.get("GET /healthz HTTP/1.1", "").await;
    assert!(got.head.contains("x-request-id: req_") && got.head.contains("x-content-type-options: nosniff"));
    assert_eq!(house.post("/v1/messages", "ostler_1", &asked(&[("user", "say one")])).await.status, 200);
    assert_eq!(house.get("GET /metrics HTTP/1.1\r\nx-api-key: ostler_1", "").await.status, 403);
    let got = house.get("GET /metrics HTTP/1.1\r\nx-api-key: ostler_owner", "").await;
    for line in [
        "ostler_sessions{state=\"idle\"} 1\n",
        "ostler_http_request_seconds_count{method=\"POST\",route=\"/v1/messages\",status=\"200\"} 1\n",
        "ostler_http_request_seconds_count{method=\"GET\",route=\"/metrics\",status=\"403\"} 2\n",
    ] {
        assert!(got.body.contains(line), "{line}{}", got.body);
    }
    assert!(!got.body.contains("/nothing"), "a path that is not ours is anybody's text");
    house.close().await;
}
