//! The doors, asked as a program asks them.

use std::net::SocketAddr;

use ostler_agent::leasing::Limits;
use ostler_gateway::http::keys::Keys;
use ostler_gateway::http::{Offer, OpenError, open};
use ostler_gateway::pool::{Patience, Pool};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::house::{DEADLINE, House, asked, head, messages, offer};
use crate::scripted::Stage;

#[tokio::test]
async fn an_answer_comes_whole_in_every_api() {
    let house = House::open(Limits::default()).await;
    let got = house.post("/v1/messages", "ostler_1", &asked(&[("user", "say one")])).await;
    assert_eq!((got.status, &got.json()["content"]), (200, &json!([{"type": "text", "text": "one"}])));
    assert!(got.head.contains("x-ostler-ignored: max_tokens") && got.head.contains("request-id: req_"));
    // The same conversation in another API finds the same session.
    let on = [("user", "say one"), ("assistant", "one"), ("user", "say two")];
    let chat = json!({"model": "claude/opus", "messages": messages(&on[..1])});
    assert_eq!(house.post("/v1/chat/completions", "ostler_1", &chat).await.status, 200);
    let chat = json!({"model": "claude", "messages": messages(&on)});
    let got = house.post("/v1/chat/completions", "ostler_1", &chat).await;
    assert_eq!(got.json()["choices"][0]["message"]["content"], "two");
    assert_eq!(got.json()["choices"][0]["finish_reason"], "stop");
    let responses = json!({"model": "claude", "input": [{"role": "user", "content": "say one"},
        {"role": "assistant", "content": "one"}, {"role": "user", "content": "say two"},
        {"role": "assistant", "content": "two"}, {"role": "user", "content": "say three"}]});
    let got = house.post("/v1/responses", "ostler_1", &responses).await;
    assert_eq!(got.json()["output"][0]["content"][0]["text"], "three");
    let asked = house.stage.log(|log| log.asked.iter().map(|(pid, _)| *pid).collect::<Vec<_>>());
    assert_eq!(asked, [1, 2, 1, 1], "another model is another session");
    house.close().await;
}

#[tokio::test]
async fn an_answer_comes_in_pieces_in_every_api() {
    let house = House::open(Limits::default()).await;
    let mut body = asked(&[("user", "say one")]);
    body["stream"] = json!(true);
    let got = house.post("/v1/messages", "ostler_1", &body).await;
    assert!(got.head.contains("content-type: text/event-stream"));
    let kinds: Vec<String> =
        got.events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    let want = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(kinds, want);
    let body = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "say one")])});
    let got = house.post("/v1/chat/completions", "ostler_1", &body).await;
    let words: String = got
        .events()
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!((words.as_str(), got.body.ends_with("data: [DONE]\n\n")), ("one", true));
    let body = json!({"model": "claude", "stream": true, "input": "say one"});
    let got = house.post("/v1/responses", "ostler_1", &body).await;
    assert_eq!(got.events().last().unwrap()["response"]["status"], "completed");
    house.close().await;
}

#[tokio::test]
async fn the_first_word_comes_before_the_last_and_who_leaves_breaks_it_off() {
    let house = House::open(Limits::default()).await;
    let body = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "hang")])});
    let mut stream = house.ask(&head("/v1/chat/completions", "ostler_1"), &body.to_string()).await;
    let first = async {
        let (mut heard, mut buffer) = (String::new(), [0; 1024]);
        while !heard.contains("half") {
            let count = stream.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "{heard}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    };
    tokio::time::timeout(DEADLINE, first).await.unwrap();
    drop(stream);
    let broken = async {
        while house.stage.log(|log| log.interrupted.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, broken).await.unwrap();
    // What was heard goes on in the same session.
    let on = [("user", "hang"), ("assistant", "half"), ("user", "say on")];
    let body = json!({"model": "claude", "messages": messages(&on)});
    let again = async {
        loop {
            // It may take a moment until it waits again.
            let got = house.post("/v1/chat/completions", "ostler_1", &body).await;
            assert_eq!(got.status, 200);
            if house.stage.log(|log| log.asked.last().unwrap().0) == 1 {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, again).await.unwrap();
    house.close().await;
}

#[tokio::test]
async fn keys_keep_conversations_apart() {
    let house = House::open(Limits::default()).await;
    let on = [("user", "say one"), ("assistant", "one"), ("user", "say two")];
    house.post("/v1/messages", "ostler_1", &asked(&on[..1])).await;
    house.post("/v1/messages", "ostler_2", &asked(&on)).await;
    let log = house.stage.log(|log| (log.started.len(), log.asked.clone()));
    assert_eq!(log, (2, vec![(1, "say one".to_owned()), (2, "say two".to_owned())]));
    house.close().await;
}

#[tokio::test]
async fn what_cannot_be_answered_is_told_in_the_apis_own_shape() {
    let house = House::open(Limits::default()).await;
    let good = asked(&[("user", "say one")]);
    let with = |extra: Value| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body.to_string()
    };
    let json_head = "content-type: application/json";
    let path = "POST /v1/messages HTTP/1.1";
    let key = "x-api-key: ostler_1";
    let table: Vec<(String, String, u16, &str)> = vec![
        (format!("{path}\r\n{json_head}"), with(json!({})), 401, "authentication_error"),
        (format!("{path}\r\n{json_head}\r\nx-api-key: no"), with(json!({})), 401, "authentication_error"),
        (
            format!("{path}\r\n{json_head}\r\n{key}\r\nhost: evil.example"),
            with(json!({})),
            403,
            "permission_error",
        ),
        (
            format!("{path}\r\n{json_head}\r\n{key}\r\norigin: http://evil.example"),
            with(json!({})),
            403,
            "permission_error",
        ),
        (
            format!("{path}\r\n{json_head}\r\n{key}\r\nx-ostler-cwd: /"),
            with(json!({})),
            403,
            "permission_error",
        ),
        (format!("{path}\r\n{json_head}\r\n{key}"), with(json!({"model": "gpt"})), 404, "not_found_error"),
        (
            format!("{path}\r\n{json_head}\r\n{key}"),
            with(json!({"messages": []})),
            400,
            "invalid_request_error",
        ),
        (
            format!("{path}\r\n{json_head}\r\n{key}"),
            with(json!({"tools": [{"name": "t"}]})),
            400,
            "invalid_request_error",
        ),
        (format!("{path}\r\n{json_head}\r\n{key}"), "{".to_owned(), 400, "invalid_request_error"),
        (format!("{path}\r\n{json_head}\r\n{key}"), "[".repeat(5_000), 400, "invalid_request_error"),
        (
            format!("{path}\r\ncontent-type: text/plain\r\n{key}"),
            with(json!({})),
            400,
            "invalid_request_error",
        ),
        (
            format!("{path}\r\n{json_head}\r\n{key}"),
            asked(&[("user", "fail")]).to_string(),
            503,
            "overloaded_error",
        ),
        (format!("{path}\r\n{json_head}\r\n{key}"), asked(&[("user", "die")]).to_string(), 502, "api_error"),
        (
            format!("POST /v1/messages/count_tokens HTTP/1.1\r\n{json_head}\r\n{key}"),
            with(json!({})),
            501,
            "api_error",
        ),
    ];
    for (head, body, status, kind) in table {
        let got = house.get(&head, &body).await;
        let told = got.json();
        assert_eq!((got.status, told["error"]["type"].as_str()), (status, Some(kind)), "{head}: {told}");
        assert_eq!(told["type"], "error");
    }
    let streamed = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "die")])});
    let got = house.post("/v1/chat/completions", "ostler_1", &streamed).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (502, &json!("agent_failed")));
    let got = house.get("GET /nothing HTTP/1.1", "").await;
    assert_eq!(got.status, 404);
    // And it lives.
    assert_eq!(house.post("/v1/messages", "ostler_1", &good).await.status, 200);
    house.close().await;
}

#[tokio::test]
async fn too_much_at_once_is_refused_with_a_time_to_come_back() {
    let house = House::open(Limits { live: 1, waiting: 0, ..Limits::default() }).await;
    let body = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "wait")])});
    let busy = house.ask(&head("/v1/chat/completions", "ostler_1"), &body.to_string()).await;
    let asked_once = async {
        while house.stage.log(|log| log.asked.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, asked_once).await.unwrap();
    let got = house.post("/v1/messages", "ostler_1", &asked(&[("user", "say one")])).await;
    // No turn has ended so far: five seconds are a guess.
    let told = got.header("retry-after").and_then(|seconds| seconds.parse().ok());
    assert!(got.status == 429 && matches!(told, Some(4..=5)), "{}", got.head);
    drop(busy);
    house.close().await;
}

#[tokio::test]
async fn a_body_that_is_too_long_is_not_read() {
    let house = House::open(Limits::default()).await;
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let head = format!(
        "{}\r\nhost: {}\r\nconnection: close\r\ncontent-length: 50000000\r\n\r\n{{",
        head("/v1/messages", "ostler_1"),
        house.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    drop(stream);
    house.close().await;
}

#[tokio::test]
async fn models_are_listed_for_who_may_come_in() {
    let house = House::open(Limits::default()).await;
    let got = house.get("GET /v1/models HTTP/1.1\r\nauthorization: Bearer ostler_1", "").await;
    assert_eq!((got.status, &got.json()["data"][0]["id"]), (200, &json!("claude")));
    let other = &got.json()["data"][1];
    assert_eq!((&other["id"], &other["ostler"]["means"]), (&json!("fixed-name"), &json!("claude")));
    assert_eq!(house.get("GET /v1/models HTTP/1.1", "").await.status, 401);
    assert_eq!(house.get("GET /healthz HTTP/1.1", "").await.body, "ok\n");
    house.close().await;
}

/// A name may have `/` in it, as it is or as libraries write it; each family is told in its own shape what is not there.
#[tokio::test]
async fn a_model_is_told_by_its_name() {
    let house = House::open(Limits::default()).await;
    let table = [("claude", "claude"), ("claude/opus", "claude/opus"), ("claude%2Fopus", "claude/opus")];
    for (asked, id) in table {
        let got = house.bare("GET", &format!("/v1/models/{asked}"), "ostler_1").await;
        let told = got.json();
        assert_eq!((got.status, &told["id"], &told["type"]), (200, &json!(id), &json!("model")));
        assert_eq!((&told["object"], &told["owned_by"]), (&json!("model"), &json!("ostler")));
    }
    let other = house.bare("GET", "/v1/models/fixed-name", "ostler_1").await.json();
    assert_eq!(other["ostler"]["means"], json!("claude"));
    let absent = "GET /v1/models/gpt HTTP/1.1\r\nx-api-key: ostler_1";
    let got = house.get(absent, "").await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (404, &json!("model_not_found")));
    let got = house.get(&format!("{absent}\r\nanthropic-version: 2023-06-01"), "").await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (404, &json!("not_found_error")));
    assert_eq!(house.get("GET /v1/models/claude HTTP/1.1", "").await.status, 401);
    // What else is not there is no model.
    for path in ["/v1/nothing", "/v1/responses/resp_1"] {
        let got = house.bare("GET", path, "ostler_1").await;
        assert_eq!((got.status, &got.json()["error"]["code"]), (404, &json!("not_found")), "{path}");
    }
    house.close().await;
}

/// For programs whose models have fixed names; a key that is for a model is so under each of its names.
#[tokio::test]
async fn a_model_is_asked_by_another_name() {
    let house = House::open(Limits::default()).await;
    for key in ["ostler_1", "ostler_tight"] {
        let body = json!({"model": "fixed-name", "messages": messages(&[("user", "hello")])}).to_string();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\ncontent-type: application/json\r\nauthorization: Bearer {key}"
        );
        let got = house.get(&head, &body).await;
        assert_eq!((got.status, &got.json()["model"]), (200, &json!("fixed-name")), "{}", got.body);
    }
    house.close().await;
    let (kept, pool) =
        (tempfile::tempdir().unwrap(), Pool::new(Stage::default(), Limits::default(), Patience::default()));
    let aliases = [("o3".to_owned(), "codex".to_owned())].into();
    let wrong = Offer { aliases, ..offer(kept.path()) };
    let refused = open(SocketAddr::from(([127, 0, 0, 1], 0)), pool, wrong).await;
    assert!(matches!(refused, Err(OpenError::Alias(_))));
}

#[tokio::test]
async fn nobody_listens_for_all_without_a_key() {
    let pool = Pool::new(Stage::default(), Limits::default(), Patience::default());
    let kept = tempfile::tempdir().unwrap();
    let keyless = Offer { keys: Keys::new(Vec::new()), ..offer(kept.path()) };
    let refused = open(SocketAddr::from(([0, 0, 0, 0], 0)), pool, keyless).await;
    assert!(matches!(refused, Err(OpenError::Keyless { .. })));
}
