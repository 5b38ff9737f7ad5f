//! The round trip of a tool call at the bridge: one after the other, a thousand at once, and over a hundred runs.
//!
//! Prints figures, gates nothing. Client and server share this process and its one thread. The baseline is a bare server
//! in the same place that reads a request and writes an answer of the same length, with neither JSON nor a decision.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on may say so")]

use std::path::Path;
use std::time::{Duration, Instant};

use ostler_agent::artifact::Kinds;
use ostler_bridge::capability::usual;
use ostler_bridge::door::{Door, Doorkeeper};
use ostler_bridge::route::{Route, Terms};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const CALLS: usize = 5_000;
const AT_ONCE: usize = 1_000;
const RUNS: usize = 100;
const PLAN: &str = "# Plan\n\n## Goal\nLess.\n\n## Steps\n1. One.\n\n## Checks\n- It is quiet.\n";

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let mut tasks = JoinSet::new();
    let door = Door::open().await.unwrap();
    let keeper = door.keeper();
    tasks.spawn(door.serve(CancellationToken::new()));
    let routes: Vec<Route> =
        (0..RUNS).map(|number| admitted(&keeper, folder.path(), number, &mut tasks)).collect();
    let client = Client::of(&routes[0]);

    let progress = call("report_progress", json!({ "text": "On." }));
    let submit = call("submit_artifact", json!({ "type": "plan", "content": PLAN }));
    let bare = Client { url: bare_server(&mut tasks, client.post(&progress).await).await, ..client.clone() };
    for _ in 0..2 {
        told("bare server", one_by_one(&bare, &progress).await);
        told("report_progress", one_by_one(&client, &progress).await);
        told("submit_artifact, with a receipt", one_by_one(&client, &submit).await);
    }
    let began = Instant::now();
    let times = at_once(vec![client; AT_ONCE], &progress).await;
    println!("{AT_ONCE} calls at once: all answered in {:.0} ms", milliseconds(began.elapsed()));
    told("  each", times);
    let clients: Vec<Client> = routes.iter().map(Client::of).collect();
    let began = Instant::now();
    let times = at_once(clients, &progress).await;
    println!("{RUNS} runs, a call each at once: {:.0} ms", milliseconds(began.elapsed()));
    told("  each", times);
}

fn admitted(keeper: &Doorkeeper, folder: &Path, number: usize, tasks: &mut JoinSet<()>) -> Route {
    let folder = folder.join(number.to_string());
    std::fs::create_dir(&folder).unwrap();
    let terms = Terms {
        run: format!("run-{number}"),
        attempt: 1,
        workspace: folder.clone(),
        folder,
        capabilities: usual(),
        kinds: Kinds::built_in().unwrap(),
        required: Vec::new(),
        prompt: String::new(),
        head: None,
        upstreams: Vec::new(),
        programs: None,
        memory: None,
    };
    let (route, mut events) = keeper.admit(terms).unwrap();
    tasks.spawn(async move { while events.recv().await.is_some() {} });
    route
}

fn call(tool: &str, arguments: Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Client {
    fn of(route: &Route) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { http, url: route.url().to_owned(), token: route.token().reveal().to_owned() }
    }

    /// The length of the answer.
    async fn post(&self, body: &str) -> usize {
        let request = self.http.post(&self.url).bearer_auth(&self.token).body(body.to_owned());
        let request = request
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18");
        let answer = request.send().await.unwrap().error_for_status().unwrap();
        answer.text().await.unwrap().len()
    }
}

async fn one_by_one(client: &Client, body: &str) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..CALLS {
        let began = Instant::now();
        client.post(body).await;
        times.push(began.elapsed());
    }
    times
}

async fn at_once(clients: Vec<Client>, body: &str) -> Vec<Duration> {
    let mut calls = JoinSet::new();
    for client in clients {
        let body = body.to_owned();
        calls.spawn(async move {
            let began = Instant::now();
            client.post(&body).await;
            began.elapsed()
        });
    }
    calls.join_all().await
}

/// Reads up to a body of a known kind, and writes an answer of `length` bytes.
async fn bare_server(tasks: &mut JoinSet<()>, length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{}", "x".repeat(length));
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            heard.extend_from_slice(&buffer[..count]);
            if heard.ends_with(b"}}") {
                heard.clear();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    format!("http://{address}/")
}

fn told(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| milliseconds(times[(times.len() * share / 100).min(times.len() - 1)]);
    println!("{name}: p50 {:.2} ms, p99 {:.2} ms, {} calls", at(50), at(99), times.len());
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
