//! The scripted model as a client meets it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_agent::document::Format;
use ostler_rehearsal::log::{Entry, Played, RequestLog};
use ostler_rehearsal::script::{load, parse};
use ostler_rehearsal::{Rehearsal, Server};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Nothing here takes seconds; what does is broken.
const DEADLINE: Duration = Duration::from_secs(30);

struct Running {
    address: SocketAddr,
    entries: Arc<Mutex<Vec<Entry>>>,
    stop: CancellationToken,
    serving: JoinSet<()>,
    client: Client,
}

impl Running {
    async fn play(script: &str) -> Self {
        Self::start(parse("play", &format!("v = 1\n{script}"), Format::Toml).unwrap()).await
    }

    async fn start(play: ostler_rehearsal::script::Play) -> Self {
        let entries = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&entries);
        let mut rehearsal = Rehearsal::of(play);
        rehearsal.log = RequestLog::new(move |entry| kept.lock().unwrap().push(entry.clone()));
        let server = Server::listen(SocketAddr::from(([127, 0, 0, 1], 0)), rehearsal).await.unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let mut serving = JoinSet::new();
        serving.spawn(server.serve(stop.clone()));
        // Without one no client is made, not even for plain HTTP.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().timeout(DEADLINE).build().unwrap();
        Self { address, entries, stop, serving, client }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn post(&self, path: &str, body: &Value) -> Response {
        self.client.post(self.url(path)).json(body).send().await.unwrap()
    }

    async fn says(&self, prompt: &str) -> Response {
        self.post("/v1/messages", &message(prompt, Some(true))).await
    }

    fn played(&self) -> Vec<Played> {
        self.entries.lock().unwrap().iter().map(|entry| entry.played.clone()).collect()
    }

    /// Still serving, then ends when told.
    async fn ends_well(mut self) {
        let models = self.client.get(self.url("/v1/models")).send().await.unwrap();
        assert_eq!(models.status(), StatusCode::OK);
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.serving.join_next()).await.unwrap().unwrap().unwrap();
    }
}

fn message(prompt: &str, stream: Option<bool>) -> Value {
    json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": prompt}]})
}

const HELLO: &str =
    "[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"Hello there\", chunk = 4 }]";

#[tokio::test]
async fn every_wire_format_answers_streamed_and_in_one_piece() {
    let running = Running::play(HELLO).await;
    let chat = message("hi", None);
    let responses = json!({"model": "m", "input": "hi"});
    let table = [
        ("/v1/messages", &chat, "/content/0/text"),
        ("/v1/chat/completions", &chat, "/choices/0/message/content"),
        ("/v1/responses", &responses, "/output/0/content/0/text"),
    ];
    for (path, body, place) in table {
        let whole: Value = running.post(path, body).await.json().await.unwrap();
        assert_eq!(whole.pointer(place), Some(&json!("Hello there")), "{path}");
        let mut body = body.clone();
        body["stream"] = json!(true);
        let streamed = running.post(path, &body).await;
        assert_eq!(streamed.headers()["content-type"], "text/event-stream; charset=utf-8");
        let streamed = streamed.text().await.unwrap();
        assert!(streamed.contains("\"Hell\"") && streamed.contains("\"o th\""), "{streamed}");
    }
    running.ends_well().await;
}

#[tokio::test]
async fn what_needs_no_script_is_answered() {
    let running = Running::play(HELLO).await;
    let head = running.client.head(running.url("/")).send().await.unwrap();
    assert_eq!(head.status(), StatusCode::OK);
    let about = running.client.get(running.url("/")).send().await.unwrap().text().await.unwrap();
    assert_eq!(about, "Ostler rehearsal: a scripted model that plays `play`.\n");
    let count: Value =
        running.post("/v1/messages/count_tokens", &message("hi", None)).await.json().await.unwrap();
    assert!(count["input_tokens"].as_u64().unwrap() > 0, "{count}");
    running.ends_well().await;
}

#[tokio::test]
async fn a_request_that_no_step_matches_is_a_clear_error_and_final() {
    let script =
        "[[conversation]]\n[[conversation.step]]\nexpect = { contains = \"x\" }\nreply = [{ text = \"a\" }]";
    let running = Running::play(script).await;
    let refused = running.says("sing a song").await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert_eq!(refused.headers()["x-should-retry"], "false");
    let body: Value = refused.json().await.unwrap();
    let message = body["error"]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "rehearsal: script `play`: no conversation expects this prompt. Expected: a prompt with `x` (conversation 1). \
         Came: prompt `sing a song`, 0 rounds since"
    );
    assert!(matches!(running.played()[..], [Played::Unmatched { .. }]), "{:?}", running.played());
    running.ends_well().await;
}

#[tokio::test]
async fn the_flaky_script_fails_as_it_says_and_then_answers() {
    let running = Running::start(load("flaky").unwrap()).await;
    let first = running.says("hi").await;
    assert_eq!((first.status().as_u16(), first.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(running.says("hi").await.status().as_u16(), 500);
    let mut cut = running.says("hi").await;
    assert_eq!(cut.status(), StatusCode::OK);
    let mut heard = String::new();
    let broken = loop {
        match cut.chunk().await {
            Ok(Some(bytes)) => heard.push_str(&String::from_utf8_lossy(&bytes)),
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(broken && heard.contains("All is ") && !heard.contains("message_stop"), "{broken} {heard}");
    let fine = running.says("hi").await.text().await.unwrap();
    assert!(fine.contains("well after all") && fine.contains("message_stop"), "{fine}");
    running.ends_well().await;
}

#[tokio::test]
async fn a_stalled_answer_does_not_hold_up_the_end() {
    let running = Running::start(load("stall").unwrap()).await;
    let mut stalled = running.says("hi").await;
    let mut heard = String::new();
    while !heard.contains("about to say") {
        heard.push_str(&String::from_utf8_lossy(&stalled.chunk().await.unwrap().unwrap()));
    }
    running.ends_well().await;
    let after = stalled.chunk().await;
    assert!(after.is_err(), "the connection ends with the server: {after:?}");
}

#[tokio::test]
async fn a_connection_can_be_cut_before_the_first_byte() {
    let running =
        Running::play("[[conversation]]\n[[conversation.step]]\nreply = [{ cut = \"before_headers\" }]")
            .await;
    let sent = running.client.post(running.url("/v1/messages")).json(&message("hi", None)).send().await;
    assert!(sent.is_err());
    assert_eq!(running.entries.lock().unwrap()[0].status, 0);
    running.ends_well().await;
}

#[tokio::test]
async fn an_error_has_the_body_and_headers_that_the_script_gives() {
    let running = Running::play(
        r#"
[[conversation]]
[[conversation.step]]
reply = [{ http = 429, body = { error = { type = "usage_limit_reached", resets_at = 5 } }, headers = { x-limit = "all" } }]
"#,
    )
    .await;
    let answer = running.says("hi").await;
    assert_eq!(answer.headers()["x-limit"], "all");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body, json!({"error": {"type": "usage_limit_reached", "resets_at": 5}}));
    running.ends_well().await;
}

#[tokio::test]
async fn the_log_tells_method_path_model_tools_and_last_message() {
    let running = Running::play(HELLO).await;
    let mut body = message("hi\nthere", Some(true));
    body["tools"] = json!([{"name": "Bash"}]);
    running.post("/v1/messages", &body).await.text().await.unwrap();
    let entry = running.entries.lock().unwrap()[0].clone();
    let told = json!({
        "v": 1, "seq": 1, "ms": entry.ms, "method": "POST", "path": "/v1/messages", "wire": "anthropic", "model": "m",
        "session": null, "offered": ["Bash"], "prompts": 1, "last_message": "hi there", "status": 200,
        "played": {"kind": "step", "conversation": "conversation 1", "step": 1, "round": 0},
    });
    assert_eq!(serde_json::to_value(&entry).unwrap(), told);
    running.ends_well().await;
}

async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that has made up its mind may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn bad_requests_get_a_4xx_and_the_server_goes_on() {
    let running = Running::play(HELLO).await;
    let post = |path: &str, kind: &str, body: &str| {
        let length = body.len();
        let fixed = format!("content-length: {length}\r\nconnection: close\r\n\r\n{body}");
        format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\n{fixed}")
    };
    let table = [
        (post("/v1/messages", "application/json", "{"), "HTTP/1.1 400"),
        (post("/v1/messages", "application/json", "[]"), "HTTP/1.1 400"),
        (post("/v1/messages", "application/json", "\u{0}\u{1}"), "HTTP/1.1 400"),
        (post("/v1/responses", "application/json", r#"{"model":"m"}"#), "HTTP/1.1 400"),
        (post("/v1/chat/completions", "application/json", r#"{"model":1,"messages":[]}"#), "HTTP/1.1 400"),
        (post("/v1/messages", "text/plain", "{}"), "HTTP/1.1 415"),
        (post("/v1/nothing", "application/json", "{}"), "HTTP/1.1 404"),
        ("GET /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(), "HTTP/1.1 405"),
        ("NONSENSE\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        ("GET / HTTP/1.1\r\nbad header\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        ("POST /v1/messages HTTP/1.1\r\ncontent-length: many\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        (format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)), "HTTP/1.1 431"),
    ];
    for (request, want) in &table {
        let answer = raw(running.address, request.as_bytes()).await;
        assert!(answer.starts_with(want), "{want}: {answer:.80} for {request:.80}");
    }
    running.ends_well().await;
}

#[tokio::test]
async fn a_body_that_is_too_long_is_heard_out_and_refused() {
    let running = Running::play(HELLO).await;
    let long = vec![b'x'; 33 * 1024 * 1024];
    let request = running.client.post(running.url("/v1/messages")).header("content-type", "application/json");
    let refused = request.body(long).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    running.ends_well().await;
}

#[tokio::test]
async fn a_long_body_of_the_wrong_kind_is_heard_out_too() {
    let running = Running::play(HELLO).await;
    let long = vec![b'x'; 20 * 1024 * 1024];
    for (path, status) in [("/v1/messages", 415), ("/v1/nothing", 404)] {
        let request = running.client.post(running.url(path)).header("content-type", "text/plain");
        assert_eq!(request.body(long.clone()).send().await.unwrap().status().as_u16(), status);
    }
    let head = "POST /v1/messages HTTP/1.1\r\ncontent-type: application/json\r\n";
    let announced = format!("{head}content-length: 300000000000\r\nconnection: close\r\n\r\n");
    assert!(raw(running.address, announced.as_bytes()).await.starts_with("HTTP/1.1 413"));
    running.ends_well().await;
}

#[tokio::test]
async fn a_request_is_logged_even_if_its_client_leaves_before_the_answer() {
    let script = "[[conversation]]\n[[conversation.step]]\nreply = [{ stall = \"before_headers\" }]";
    let running = Running::play(script).await;
    let left = running.client.post(running.url("/v1/messages")).timeout(Duration::from_secs(2));
    assert!(left.json(&message("hi", None)).send().await.is_err());
    let logged = async {
        while running.entries.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, logged).await.unwrap();
    assert!(matches!(running.played()[..], [Played::Step { .. }]), "{:?}", running.played());
    running.ends_well().await;
}

#[tokio::test]
async fn half_closed_and_broken_connections_are_forgotten() {
    let running = Running::play(HELLO).await;
    for _ in 0..50 {
        let mut half = TcpStream::connect(running.address).await.unwrap();
        half.write_all(
            b"POST /v1/messages HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
        )
        .await
        .unwrap();
        half.shutdown().await.unwrap();
        let mut gone = TcpStream::connect(running.address).await.unwrap();
        gone.write_all(b"POST /v1/mess").await.unwrap();
        drop(gone);
    }
    running.ends_well().await;
}

#[tokio::test]
async fn an_occupied_port_is_explained() {
    let running = Running::play(HELLO).await;
    let play = parse("play", &format!("v = 1\n{HELLO}"), Format::Toml).unwrap();
    let error = Server::listen(running.address, Rehearsal::of(play)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("could not listen on {}", running.address));
    assert!(error.hint().unwrap().contains("another program uses port"));
    running.ends_well().await;
}
