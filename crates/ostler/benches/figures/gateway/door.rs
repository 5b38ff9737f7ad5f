//! `ostler serve`, and a program that asks it: one connection, one request after the other, and when what came.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A running server.
pub(crate) struct Door {
    child: Child,
    pub(crate) address: String,
    pub(crate) key: String,
}

impl Door {
    pub(crate) fn open(mut command: Command, args: &[&str]) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        let address = text("url").trim_start_matches("http://").to_owned();
        Self { child, address, key: text("key") }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::of(&self.address, &self.key)
    }

    /// Open files of the server, and its children that ended and were not waited for.
    pub(crate) fn files_and_zombies(&self) -> (usize, usize) {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count);
        let is_zombie = |pid: &u32| {
            let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
            status.is_ok_and(|status| status.contains("\nState:\tZ"))
        };
        (files, crate::process::children(self.pid()).iter().filter(|pid| is_zombie(pid)).count())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let _ = self.child.wait();
    }
}

/// A connection that is kept.
pub(crate) struct Visitor {
    address: String,
    key: String,
    stream: BufReader<TcpStream>,
}

/// When an answer began, when it was over, and what was said.
pub(crate) struct Heard {
    pub(crate) first: Duration,
    pub(crate) whole: Duration,
    pub(crate) text: String,
}

impl Visitor {
    pub(crate) fn of(address: &str, key: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { address: address.to_owned(), key: key.to_owned(), stream: BufReader::new(stream) }
    }

    fn send(&mut self, line: &str, body: &str) {
        let (address, key, length) = (&self.address, &self.key, body.len());
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
    }

    /// The head of an answer: its status, and how long its body is, unless that comes in pieces.
    fn head(&mut self) -> (u16, Option<usize>) {
        let (mut status, mut length, mut line) = (0, None, String::new());
        loop {
            line.clear();
            assert_ne!(self.stream.read_line(&mut line).unwrap(), 0, "the server hung up");
            let lower = line.trim_end().to_ascii_lowercase();
            if lower.is_empty() {
                return (status, length);
            }
            if status == 0 {
                status = lower.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap();
            }
            length = length.or(lower.strip_prefix("content-length: ").map(|text| text.parse().unwrap()));
        }
    }

    pub(crate) fn get(&mut self, path: &str) -> (u16, String) {
        self.send(&format!("GET {path}"), "");
        let (status, length) = self.head();
        let mut body = vec![0; length.unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        (status, String::from_utf8(body).unwrap())
    }

    /// Goes on with a conversation, streamed.
    pub(crate) fn ask(&mut self, talk: &[Value]) -> Heard {
        let body = json!({"model": "claude", "stream": true, "messages": talk}).to_string();
        let began = Instant::now();
        self.send("POST /v1/chat/completions", &body);
        let (status, length) = self.head();
        assert_eq!((status, length), (200, None));
        let (mut first, mut text, mut line) = (None, String::new(), String::new());
        // The lines of the pieces' own lengths are none of the events'.
        loop {
            line.clear();
            assert_ne!(self.stream.read_line(&mut line).unwrap(), 0, "the server hung up");
            let Some(data) = line.strip_prefix("data: ") else { continue };
            if data.starts_with("[DONE]") {
                break;
            }
            let event: Value = serde_json::from_str(data).unwrap();
            if let Some(words) =
                event["choices"][0]["delta"]["content"].as_str().filter(|words| !words.is_empty())
            {
                first.get_or_insert_with(|| began.elapsed());
                text.push_str(words);
            }
        }
        let whole = began.elapsed();
        while line != "0\r\n" {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
        }
        self.stream.read_line(&mut line).unwrap();
        Heard { first: first.unwrap_or(whole), whole, text }
    }

    /// Asks, and goes away after that long. What was heard until then.
    pub(crate) fn leave(mut self, talk: &[Value], after: Duration) -> String {
        let body = json!({"model": "claude", "stream": true, "messages": talk}).to_string();
        self.send("POST /v1/chat/completions", &body);
        std::thread::sleep(after);
        let stream = self.stream.into_inner();
        stream.set_nonblocking(true).unwrap();
        let mut heard = vec![0; 1 << 16];
        let count = (&stream).read(&mut heard).unwrap_or(0);
        let heard = String::from_utf8_lossy(&heard[..count]).into_owned();
        let events =
            heard.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        events
            .filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
            .collect()
    }
}

/// A conversation that goes on.
pub(crate) fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}
