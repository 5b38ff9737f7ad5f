//! What should never be sent, and is: the right status in that API's own shape, and the server lives.

use std::sync::Arc;
use std::time::Duration;

use ostler_agent::leasing::Limits;
use ostler_gateway::http::{Offer, Waiting};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::house::{DEADLINE, Got, House, asked, head, messages, offer};

const MESSAGES: &str = "/v1/messages";
const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const SESSIONS: &str = "/api/v1/sessions";

/// A request that would be answered, in each API.
fn good(path: &str) -> Value {
    match path {
        MESSAGES => asked(&[("user", "say one")]),
        CHAT => json!({"model": "claude", "messages": messages(&[("user", "say one")])}),
        RESPONSES => json!({"model": "claude", "input": "say one"}),
        _ => json!({"model": "claude"}),
    }
}

/// A conversation with a call, and what came of it.
fn result_of(content: Value) -> Value {
    json!([{"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "t", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": content}]}])
}

/// Whether it is a problem of this status in that API's own shape.
fn assert_refused(path: &str, got: &Got, status: u16, what: &str) {
    assert_eq!(got.status, status, "{path}, {what}: {}", got.body);
    let told = got.json();
    let is_shaped = match path {
        MESSAGES => told["type"] == "error" && told["error"]["type"].is_string(),
        CHAT | RESPONSES => told["error"]["message"].is_string() && told["error"]["type"].is_string(),
        _ => told["title"].is_string() && told["status"] == json!(status),
    };
    assert!(is_shaped, "{path}, {what}: {told}");
}

async fn assert_lives(house: &House) {
    for path in [MESSAGES, CHAT, RESPONSES, SESSIONS] {
        let got = house.post(path, "ostler_owner", &good(path)).await;
        assert!(matches!(got.status, 200 | 201), "{path}: {}", got.body);
    }
}

#[tokio::test]
async fn bodies_that_cannot_be_read() {
    let house = House::open(Limits::default()).await;
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
    for path in [MESSAGES, CHAT, RESPONSES, SESSIONS] {
        let head = head(path, "ostler_owner");
        let bodies = [
            ("nothing", String::new()),
            ("half of it", "{\"model\": \"cl".to_owned()),
            ("a list", "[]".to_owned()),
            ("a text", "\"hello\"".to_owned()),
            ("null", "null".to_owned()),
            ("deep lists", deep("[", "]")),
            ("deep objects", deep("{\"a\":", "}")),
            ("two of them", format!("{0}{0}", good(path))),
            ("a lone surrogate", "{\"model\": \"\\ud800\"}".to_owned()),
        ];
        for (what, body) in bodies {
            assert_refused(path, &house.get(&head, &body).await, 400, what);
        }
        // Bytes that are no text.
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        let bytes = b"{\"model\": \"\xff\xfe\"}";
        let request = format!(
            "{head}\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            house.address,
            bytes.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
        // Another kind.
        for kind in ["text/plain", "multipart/form-data", "application/jsonp; x"] {
            let head = head.replace("application/json", kind);
            let got = house.get(&head, &good(path).to_string()).await;
            if kind != "application/jsonp; x" {
                assert_refused(path, &got, 400, kind);
            }
        }
        let without = head.replace("content-type: application/json\r\n", "");
        assert_refused(path, &house.get(&without, &good(path).to_string()).await, 400, "no kind");
    }
    assert_lives(&house).await;
    house.close().await;
}

#[tokio::test]
async fn conversations_that_cannot_be_gone_on_with() {
    let house = House::open(Limits::default()).await;
    let with = |path: &str, field: &str, value: Value| {
        let mut body = good(path);
        body[field] = value;
        body
    };
    let table = [
        (MESSAGES, "messages", json!([]), 400),
        (MESSAGES, "messages", json!("hello"), 400),
        (MESSAGES, "messages", json!([{"role": "user", "content": ""}]), 400),
        (MESSAGES, "messages", json!([{"role": "nobody", "content": "x"}]), 400),
        (MESSAGES, "messages", messages(&[("user", "a"), ("assistant", "b")]), 400),
        (MESSAGES, "max_tokens", Value::Null, 400),
        (MESSAGES, "model", json!("gpt-4o"), 404),
        (MESSAGES, "model", json!(7), 400),
        (MESSAGES, "stream", json!("yes"), 400),
        (CHAT, "messages", json!([]), 400),
        (CHAT, "messages", messages(&[("user", "a"), ("assistant", "b")]), 400),
        (CHAT, "messages", json!([null]), 400),
        (MESSAGES, "messages", result_of(json!([null])), 400),
        (MESSAGES, "messages", result_of(json!(7)), 400),
        (CHAT, "messages", json!([{"role": "user", "content": [{"type": "text", "text": null}]}]), 400),
        (RESPONSES, "input", json!([{"role": "user", "content": [null]}]), 400),
        (MESSAGES, "n", json!(2), 400),
        (RESPONSES, "top_logprobs", json!(2), 400),
        (CHAT, "n", json!(2), 400),
        (CHAT, "logprobs", json!(true), 400),
        (CHAT, "model", json!("gpt-4o"), 404),
        (RESPONSES, "input", json!([]), 400),
        (RESPONSES, "input", Value::Null, 400),
        (RESPONSES, "input", json!([{"type": "dance"}]), 400),
        (RESPONSES, "input", json!([{"role": "assistant", "content": "b"}]), 400),
        (RESPONSES, "previous_response_id", json!("resp_none"), 400),
        (RESPONSES, "previous_response_id", json!("../../etc/passwd"), 400),
        (RESPONSES, "background", json!(true), 400),
        (RESPONSES, "model", json!("gpt-4o"), 404),
        (SESSIONS, "model", json!("gpt-4o"), 404),
        (SESSIONS, "model", json!(7), 400),
        (SESSIONS, "cwd", json!("../.."), 400),
        (SESSIONS, "cwd", json!(""), 400),
        (SESSIONS, "cwd", json!("/\0"), 403),
        (SESSIONS, "system", json!("x".repeat(200_000)), 400),
        (SESSIONS, "colour", json!("red"), 400),
    ];
    for (path, field, value, status) in table {
        let what = format!("{field}: {}", value.to_string().chars().take(60).collect::<String>());
        let got = house.post(path, "ostler_owner", &with(path, field, value)).await;
        assert_refused(path, &got, status, &what);
        if field == "model" && status == 404 {
            assert!(got.body.contains("claude"), "it tells what there is: {}", got.body);
        }
    }
    for id in ["none", "..%2f..%2fetc", "%00", &"x".repeat(5_000)] {
        assert_eq!(house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_owner").await.status, 404);
        assert_eq!(house.bare("GET", &format!("/api/v1/runs/{id}"), "ostler_owner").await.status, 404);
        assert_eq!(house.bare("GET", &format!("{RESPONSES}/resp_{id}"), "ostler_owner").await.status, 404);
    }
    assert_eq!(house.stage.log(|log| log.started.len()), 0, "nothing was started for any of it");
    assert_lives(&house).await;
    house.close().await;
}

/// Programs send what other servers know, and what is newer than this one.
#[tokio::test]
async fn fields_and_parts_that_nobody_knows_have_no_effect_and_are_named() {
    let house = House::open(Limits::default()).await;
    let unknown = [("chat_id", json!("c")), ("client_metadata", json!({"a": 1})), ("num_ctx", json!(4096))];
    for path in [MESSAGES, CHAT, RESPONSES] {
        let mut body = good(path);
        for (field, value) in &unknown {
            body[field] = value.clone();
        }
        body["pro\r\nvider"] = json!({});
        let field = if path == RESPONSES { "input" } else { "messages" };
        body[field] = json!([{"role": "user", "content": [{"type": "hologram"},
            {"type": if path == RESPONSES { "input_text" } else { "text" }, "text": "say one"}]}]);
        body["tools"] = json!([{"type": "web_search_20250305", "name": "web_search"}]);
        let got = house.post(path, "ostler_1", &body).await;
        assert_eq!(got.status, 200, "{path}: {}", got.body);
        let ignored = got.head.lines().find_map(|line| line.strip_prefix("x-ostler-ignored: ")).unwrap();
        let limit = if path == MESSAGES { "max_tokens, " } else { "" };
        let want = format!(
            "chat_id, client_metadata, {limit}{field}.content.hologram, num_ctx, pro??vider, tools.web_search_20250305"
        );
        let want: Vec<&str> = want.split(", ").collect();
        let mut names: Vec<&str> = ignored.split(", ").collect();
        names.sort_unstable();
        let mut sorted = want.clone();
        sorted.sort_unstable();
        assert_eq!(names, sorted, "{path}");
        // It names a tool that is not there.
        body["tool_choice"] = json!({"type": "web_search_20250305"});
        assert_refused(path, &house.post(path, "ostler_1", &body).await, 400, "tool_choice");
    }
    house.close().await;
}

/// What is behind the APIs has one name for the conversation; this one has another.
#[tokio::test]
async fn a_problem_names_the_field_that_its_api_has() {
    let house = House::open(Limits::default()).await;
    let call = json!({"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"});
    let (user, file) = (json!({"role": "user", "content": "x"}), json!([{"type": "input_file"}]));
    let table = [
        (json!([user, call, user]), "input"),
        (json!([user, user, {"role": "user", "content": file}]), "input[2].content[0].type"),
        (json!([]), "input"),
    ];
    for (input, param) in table {
        let got = house.post(RESPONSES, "ostler_1", &json!({"model": "claude", "input": input})).await;
        assert_eq!((got.status, &got.json()["error"]["param"]), (400, &json!(param)), "{}", got.body);
    }
    let messages = json!([user, {"role": "assistant", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}}]}, user]);
    let got = house.post(CHAT, "ostler_1", &json!({"model": "claude", "messages": messages})).await;
    assert_eq!((got.status, &got.json()["error"]["param"]), (400, &json!("messages")), "{}", got.body);
    house.close().await;
}

#[tokio::test]
async fn visitors_who_are_not_let_in() {
    let house = House::open(Limits::default()).await;
    for path in [MESSAGES, CHAT, RESPONSES, SESSIONS] {
        let plain = head(path, "ostler_owner");
        let table = [
            ("a wrong key", head(path, "ostler_nobody"), 401),
            ("no key", plain.replace("\r\nx-api-key: ostler_owner", ""), 401),
            ("another name", format!("{plain}\r\nhost: evil.example"), 403),
            ("two names", format!("{plain}\r\nhost: {}\r\nhost: evil.example", house.address), 400),
            ("one name twice", format!("{plain}\r\nhost: {0}\r\nhost: {0}", house.address), 400),
            ("another server", plain.replace("POST ", "POST http://evil.example"), 403),
            ("a page of another place", format!("{plain}\r\norigin: http://evil.example"), 403),
            ("a page of nowhere", format!("{plain}\r\norigin: null"), 403),
        ];
        for (what, head, status) in table {
            assert_refused(path, &house.get(&head, &good(path).to_string()).await, status, what);
        }
        // What is too large is refused before it is sent.
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        let long = format!("{plain}\r\nhost: {}\r\ncontent-length: 50000000\r\n\r\n{{", house.address);
        stream.write_all(long.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 413", "{path}");
    }
    assert_eq!(house.stage.log(|log| log.started.len()), 0);
    assert_lives(&house).await;
    house.close().await;
}

/// It used to be looked for where the server happened to be started.
#[tokio::test]
async fn a_folder_is_named_by_its_absolute_path() {
    let house = House::open(Limits::default()).await;
    for path in [MESSAGES, CHAT, RESPONSES] {
        for (folder, status) in [("work", 400), ("../work", 400), ("~", 400), ("/nowhere", 403)] {
            let head = format!("{}\r\nx-ostler-cwd: {folder}", head(path, "ostler_owner"));
            assert_refused(path, &house.get(&head, &good(path).to_string()).await, status, folder);
        }
    }
    assert_eq!(house.stage.log(|log| log.started.len()), 0);
    house.close().await;
}

#[tokio::test]
async fn who_sends_slowly_is_not_waited_for() {
    let kept = Arc::new(tempfile::tempdir().unwrap());
    let short =
        Waiting { head: Duration::from_millis(200), body: Duration::from_millis(200), ..Waiting::default() };
    let offer = Offer { waiting: short, ..offer(kept.path()) };
    let house = House::with(offer, kept, Limits::default(), Duration::ZERO).await;
    // Half a head, and none.
    for begun in ["GET /healthz HTTP/1.1\r\nhos", ""] {
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "`{begun}`");
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "`{begun}`");
    }
    // Half a head, after one that was answered.
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let twice = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\nGET /heal", house.address);
    stream.write_all(twice.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    // Half a body.
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let slow =
        format!("{}\r\nhost: {}\r\ncontent-length: 100\r\n\r\n{{", head(MESSAGES, "ostler_1"), house.address);
    stream.write_all(slow.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert_eq!(house.stage.log(|log| log.started.len()), 0);
    house.close().await;
}

#[tokio::test]
async fn a_client_that_never_reads_holds_up_nobody_else() {
    let house = House::open(Limits::default()).await;
    let body = json!({"model": "claude", "stream": true, "messages": messages(&[("user", "flood")])});
    let deaf = house.ask(&head(CHAT, "ostler_1"), &body.to_string()).await;
    let asked_once = async {
        while house.stage.log(|log| log.asked.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, asked_once).await.unwrap();
    assert_lives(&house).await;
    // When it goes, its turn is broken off: 16 MB that nobody read are nowhere.
    drop(deaf);
    let broken = async {
        while house.stage.log(|log| log.interrupted.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, broken).await.unwrap();
    house.close().await;
}

#[tokio::test]
async fn a_follower_that_never_reads_holds_up_nobody_else() {
    let house = House::open(Limits::default()).await;
    let got = house.post(SESSIONS, "ostler_owner", &good(SESSIONS)).await;
    let id = got.json()["id"].as_str().unwrap().to_owned();
    let follow = format!("GET {SESSIONS}/{id}/events HTTP/1.1\r\nx-api-key: ostler_owner");
    let _deaf = house.ask(&follow, "").await;
    for word in ["one", "two", "three"] {
        let turn = json!({"text": format!("say {}", word.repeat(20_000)), "wait": true});
        let got = house.post(&format!("{SESSIONS}/{id}/turns"), "ostler_owner", &turn).await;
        assert_eq!((got.status, &got.json()["state"]), (200, &json!("done")));
    }
    house.close().await;
}
