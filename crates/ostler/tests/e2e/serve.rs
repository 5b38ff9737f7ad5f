//! `ostler serve --rehearse` with the real agent: what a program gets over HTTP, and that nothing is left at the end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::player::Player;

/// A start, a turn and an end take a few seconds; a loaded machine needs many times that.
const DEADLINE: Duration = Duration::from_secs(120);

/// A server, ended with the test however that ends.
pub(crate) struct Served {
    home: TempDir,
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) address: String,
    key: String,
}

impl Served {
    fn start(program: &Path) -> Self {
        Self::with(program, &["--rehearse"], &[])
    }

    /// With these arguments and variables besides the usual ones.
    pub(crate) fn with(program: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let home = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
        Self::at(home, None, program, args, env)
    }

    /// On this home, whose key is known if the server does not make the first one.
    pub(crate) fn at(
        home: TempDir,
        key: Option<String>,
        program: &Path,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(args)
            .env_clear()
            .envs(env.iter().copied())
            .env("PATH", format!("{}:/usr/bin:/bin", program.parent().unwrap().display()))
            .env("HOME", home.path())
            .env("OSTLER_HOME", home.path().join("ostler"))
            .current_dir(home.path());
        Self::by(command, home, key)
    }

    /// Started by this command.
    pub(crate) fn by(mut command: Command, home: TempDir, key: Option<String>) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut served = Self { home, child, out, address: String::new(), key: String::new() };
        let mut line = String::new();
        served.out.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        served.address = told["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
        // It is told once, by the server that made it.
        served.key = told["key"].as_str().map(str::to_owned).or(key).unwrap();
        served
    }

    /// The key of its first client.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The same server for a client with another key.
    pub(crate) fn client<'a>(&'a self, key: &'a str) -> Client<'a> {
        Client { served: self, key }
    }

    /// Its own folder, and whatever the agent keeps in its home.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Ends it so, and starts another one with the same home and the same key.
    pub(crate) fn again(
        mut self,
        signal: Signal,
        program: &Path,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap();
        let (nowhere, key) = (tempfile::tempdir().unwrap(), self.key.clone());
        let home = std::mem::replace(&mut self.home, nowhere);
        Self::at(home, Some(key), program, args, env)
    }

    /// A connection on which this was asked.
    pub(crate) fn ask(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (address, key) = (&self.address, &self.key);
        let request = format!("{head}\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// The status and the body, of a request that has none.
    pub(crate) fn bare(&self, method: &str, path: &str) -> (u16, String) {
        let mut answer = String::new();
        self.ask(&format!("{method} {path} HTTP/1.0")).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The status and the body.
    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, String) {
        self.post_with(path, "", body)
    }

    /// The same, with more lines in its head.
    pub(crate) fn post_with(&self, path: &str, more: &str, body: &Value) -> (u16, String) {
        let mut answer = String::new();
        self.post_open(path, more, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// A connection on which this was posted.
    pub(crate) fn post_open(&self, path: &str, more: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (body, address, key) = (body.to_string(), &self.address, &self.key);
        let length = body.len();
        // Without a length of its own the answer ends with the connection.
        let request = format!(
            "POST {path} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\n{more}content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// The value of the only sample of a metric with these labels.
    pub(crate) fn metric(&self, name: &str, labels: &str) -> f64 {
        let (status, text) = self.bare("GET", "/metrics");
        assert_eq!(status, 200, "{text}");
        let is_it = |line: &&str| line.starts_with(&format!("{name}{{")) && line.contains(labels);
        let found: Vec<&str> = text.lines().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{name} {labels}: {found:?}\n{text}");
        found[0].rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Ends it as a person would, and returns its exit code.
    pub(crate) fn interrupt(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap().code()
    }
}

/// A client with a key of its own.
#[derive(Clone, Copy)]
pub(crate) struct Client<'a> {
    served: &'a Served,
    key: &'a str,
}

impl Client<'_> {
    /// The status and the body, of a request that has none.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.send(&format!("GET {path} HTTP/1.0"), "", "")
    }

    /// The status and the body of the answer.
    pub(crate) fn post(&self, path: &str, more: &str, body: &Value) -> (u16, String) {
        self.send(&format!("POST {path} HTTP/1.0"), more, &body.to_string())
    }

    fn send(&self, line: &str, more: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.served.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (address, key, length) = (&self.served.address, self.key, body.len());
        let request = format!(
            "{line}\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             {more}content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_program_talks_to_the_real_agent() {
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let served = Served::start(&program);
    let mut talk = vec![json!({"role": "user", "content": "/one two"})];
    let (status, body) =
        served.post("/v1/messages", &json!({"model": "claude", "max_tokens": 99, "messages": talk}));
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    // What begins like a command of the agent's own is a text like any other.
    assert_eq!(answer["content"], json!([{"type": "text", "text": " /one two"}]));
    assert_eq!(answer["stop_reason"], "end_turn");
    assert!(answer["usage"]["output_tokens"].as_u64().unwrap() > 0, "{answer}");
    talk.push(json!({"role": "assistant", "content": answer["content"]}));
    talk.push(json!({"role": "user", "content": "three four five six"}));
    let streamed = json!({"model": "claude", "stream": true, "messages": talk,
        "stream_options": {"include_usage": true}});
    // Another API, the same conversation: assistants' texts are blocks in both.
    let (status, body) = served.post("/v1/chat/completions", &streamed);
    assert_eq!(status, 200, "{body}");
    let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let deltas: Vec<&str> =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(deltas.concat(), "three four five six");
    assert!(deltas.len() > 2, "it comes in pieces: {deltas:?}");
    assert!(body.ends_with("data: [DONE]\n\n"));
    for start in ["cold", "warm"] {
        let labels = format!("outcome=\"done\",start=\"{start}\"");
        assert_eq!(served.metric("ostler_turns_total", &labels), 1.0, "{start}");
        let labels = format!("start=\"{start}\"");
        assert_eq!(served.metric("ostler_first_token_seconds_count", &labels), 1.0, "{start}");
    }
    assert!(served.metric("ostler_tokens_total", "kind=\"output\"") > 0.0);
    assert!(served.metric("ostler_cost_usd_total", "agent=\"claude\"") > 0.0);
    assert_eq!(served.interrupt(), Some(0));
}

/// What an agent or its model does not take for its length is no failure of the agent: tried again it would be no better.
#[test]
fn a_prompt_that_is_too_long_is_told_as_such() {
    let (Some(claude), Some(codex)) = (Player::ClaudeStream.binary(), Player::Codex.binary()) else { return };
    // Codex has a limit of its own.
    let served = Served::start(&codex);
    let input = "x".repeat(1_048_577);
    let (status, body) = served.post("/v1/responses", &json!({"model": "codex", "input": input}));
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &told["error"]["code"]), (413, &json!("request_too_large")), "{body}");
    assert_eq!(served.interrupt(), Some(0));
    // Claude Code has the one of its model, and one for what is pasted into its terminal.
    let script = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let refusing = r#"
v = 1
[[conversation]]
name = "refusing"
[[conversation.step]]
reply = [{ http = 400, message = "prompt is too long: 1100000 tokens > 1000000 maximum" }]
"#;
    std::fs::write(script.path(), refusing).unwrap();
    let served = Served::with(&claude, &[&format!("--rehearse={}", script.path().display())], &[]);
    let asked = |text: &str| json!({"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": text}]});
    let answers = [
        served.post("/v1/messages", &asked("hello")),
        served.post_with("/v1/messages", "x-ostler-engine: terminal\r\n", &asked(&input)),
    ];
    for (status, body) in answers {
        let told: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &told["error"]["type"]), (413, &json!("request_too_large")), "{body}");
    }
    assert_eq!(served.interrupt(), Some(0));
}
