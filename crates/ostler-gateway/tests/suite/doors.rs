//! The doors, asked as a program asks them: bytes over a connection.

use std::net::SocketAddr;
use std::time::Duration;

use ostler_agent::agent::Permissions;
use ostler_agent::leasing::Limits;
use ostler_gateway::http::keys::{Key, Keys};
use ostler_gateway::http::{Offer, OpenError, open};
use ostler_gateway::pool::{Patience, Pool};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::scripted::Stage;

/// Nothing here takes longer than a few looks; a loaded machine needs many times that.
const DEADLINE: Duration = Duration::from_secs(60);

struct House {
    stage: Stage,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinSet<()>,
}

struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// What is sent as events, as JSON.
    fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

fn offer() -> Offer {
    let keys = Keys::new(vec![Key::of("one", "ostler_1"), Key::of("two", "ostler_2")]);
    Offer { keys, agent: "claude-headless", permissions: Permissions::Deny, folders: Vec::new() }
}

impl House {
    async fn open(limits: Limits) -> Self {
        let stage = Stage::default();
        let patience = Patience { settle: Duration::from_millis(50), ..Patience::default() };
        let pool = Pool::new(stage.clone(), limits, patience);
        let listening = open(SocketAddr::from(([127, 0, 0, 1], 0)), pool, offer()).await.unwrap();
        let address = listening.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            listening.serve(stopped, Duration::ZERO).await.unwrap();
        });
        Self { stage, address, stop: Some(stop), serving }
    }

    /// A connection on which this was asked.
    async fn ask(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let host = if head.contains("host:") { String::new() } else { format!("host: {}\r\n", self.address) };
        let request = format!("{head}\r\n{host}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn get(&self, head: &str, body: &str) -> Got {
        let mut stream = self.ask(head, body).await;
        let mut answer = String::new();
        tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        Got { status, head: head.to_ascii_lowercase(), body }
    }

    async fn post(&self, path: &str, key: &str, body: &Value) -> Got {
        self.get(&head(path, key), &body.to_string()).await
    }

    async fn close(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(DEADLINE, self.serving.join_next()).await.unwrap().unwrap().unwrap();
        let log = self.stage.log(|log| (log.started.len(), log.closed.len() + log.dropped.len()));
        assert_eq!(log.0, log.1, "all are gone");
    }
}

fn head(path: &str, key: &str) -> String {
    format!("POST {path} HTTP/1.1\r\ncontent-type: application/json\r\nx-api-key: {key}")
}

fn unchunked(body: &str) -> String {
    let (mut out, mut rest) = (String::new(), body);
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        out.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    out
}

fn messages(talk: &[(&str, &str)]) -> Value {
    talk.iter().map(|(role, text)| json!({"role": role, "content": text})).collect()
}

fn asked(talk: &[(&str, &str)]) -> Value {
    json!({"model": "claude", "max_tokens": 9, "messages": messages(talk)})
}

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
    assert_eq!((got.status, got.head.contains("retry-after: 1")), (429, true));
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
    assert_eq!(house.get("GET /v1/models HTTP/1.1", "").await.status, 401);
    assert_eq!(house.get("GET /healthz HTTP/1.1", "").await.body, "ok\n");
    house.close().await;
}

#[tokio::test]
async fn nobody_listens_for_all_without_a_key() {
    let pool = Pool::new(Stage::default(), Limits::default(), Patience::default());
    let keyless = Offer { keys: Keys::default(), ..offer() };
    let refused = open(SocketAddr::from(([0, 0, 0, 0], 0)), pool, keyless).await;
    assert!(matches!(refused, Err(OpenError::Keyless { .. })));
}
