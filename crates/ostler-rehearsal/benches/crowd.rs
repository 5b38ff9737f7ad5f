//! A crowd in front of the real `ostler rehearse`: many conversations at once, then many bad requests.
//!
//! Prints figures, gates nothing. The server's own time is the processor time of its process, read from /proc; the
//! baseline is a bare TCP program in this process that writes the same bytes, one delta a write.
//! Usage: `crowd OSTLER_BINARY`. Everything stays on loopback and is bounded in count.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on may say so")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const CONVERSATIONS: usize = 200;
const DELTAS: usize = 500;
const BAD_REQUESTS: usize = 10_000;
/// Of the bad requests, this many have a body of 100 MB; the others are small.
const HUGE: usize = 10;
const HUGE_BYTES: usize = 100 * 1000 * 1000;
const AT_ONCE: usize = 64;
/// Ticks a second in /proc/PID/stat: fixed by Linux's interface.
const TICKS: f64 = 100.0;

fn main() {
    let Some(binary) = std::env::args().find(|arg| arg.ends_with("ostler")) else {
        println!("usage: crowd PATH_OF_OSTLER (bench/rehearsal/run gives it)");
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut server = Server::start(&binary);
        conversations(&server).await;
        bad_requests(&server).await;
        println!("memory of the server after all: {} MB", server.status("VmRSS") / 1024);
        println!("memory of the server at its peak: {} MB", server.status("VmHWM") / 1024);
        kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
        server.child.wait().unwrap();
    });
}

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(binary: &str) -> Self {
        let mut script = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        let reply = format!("{{ text = \"delta \", chunk = 6, gap = \"10ms\", repeat = {DELTAS} }}");
        writeln!(script, "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{reply}]").unwrap();
        let mut child = Command::new(binary)
            .args(["rehearse", "--listen", "127.0.0.1:0", "--json", "--script"])
            .arg(script.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let told: serde_json::Value = serde_json::from_str(&first).unwrap();
        let address = told["url"].as_str().unwrap().trim_start_matches("http://").parse().unwrap();
        Self { child, address }
    }

    /// Processor time so far, user and system.
    fn spent(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        Duration::from_secs_f64(ticks / TICKS)
    }

    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

async fn conversations(server: &Server) {
    let before = server.spent();
    let began = Instant::now();
    let bytes = crowd(server.address).await;
    let (own, wall) = (server.spent() - before, began.elapsed());
    let deltas = CONVERSATIONS * DELTAS;
    let each = own.as_secs_f64() * 1e6 / deltas as f64;
    println!(
        "{CONVERSATIONS} conversations at once, {DELTAS} deltas each with 10 ms between them: {deltas} deltas"
    );
    println!(
        "  all heard in {:.2} s (the script alone takes {:.2} s)",
        wall.as_secs_f64(),
        DELTAS as f64 / 100.0
    );
    println!("  the server's own time: {each:.1} µs a delta");
    let bare = baseline(bytes / deltas).await.as_secs_f64() * 1e6 / deltas as f64;
    println!(
        "  a bare program that writes the same bytes: {bare:.1} µs a delta, so a ratio of {:.1}",
        each / bare
    );
}

/// Every conversation to its end; returns the bytes heard.
async fn crowd(address: SocketAddr) -> usize {
    let mut crowd = JoinSet::new();
    for number in 0..CONVERSATIONS {
        crowd.spawn(async move {
            let body = format!(
                r#"{{"model":"m","stream":true,"messages":[{{"role":"user","content":"number {number}"}}]}}"#
            );
            let answer = exchange(address, &post("application/json", body.len(), body.as_bytes())).await;
            assert!(answer.ends_with(b"0\r\n\r\n"), "a whole answer");
            answer.len()
        });
    }
    crowd.join_all().await.into_iter().sum()
}

/// The same traffic from a program without HTTP or JSON, on a thread of its own. Returns its processor time.
async fn baseline(delta: usize) -> Duration {
    let (told, address) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            let mut writers = JoinSet::new();
            for _ in 0..CONVERSATIONS {
                let (mut stream, _) = listener.accept().await.unwrap();
                writers.spawn(async move {
                    let mut request = [0; 4096];
                    let _ = stream.read(&mut request).await.unwrap();
                    let bytes = vec![b'x'; delta];
                    for _ in 0..DELTAS {
                        stream.write_all(&bytes).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    stream.write_all(b"0\r\n\r\n").await.unwrap();
                });
            }
            writers.join_all().await;
            let spent = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
        })
    });
    crowd(address.await.unwrap()).await;
    thread.join().unwrap()
}

async fn bad_requests(server: &Server) {
    let began = Instant::now();
    let (refused, forgotten) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut under_way = JoinSet::new();
    for number in 0..BAD_REQUESTS {
        if under_way.len() >= AT_ONCE {
            under_way.join_next().await.unwrap().unwrap();
        }
        let (refused, forgotten, address) = (Arc::clone(&refused), Arc::clone(&forgotten), server.address);
        under_way.spawn(async move {
            match bad(number) {
                Bad::Request(bytes) => {
                    let answer = exchange(address, &bytes).await;
                    let start = String::from_utf8_lossy(&answer[..answer.len().min(10)]).into_owned();
                    assert!(start.starts_with("HTTP/1.1 4"), "request {number} got {start:?}");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                Bad::HalfClosed => {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    stream.write_all(&post("application/json", 100, b"{")).await.unwrap();
                    stream.shutdown().await.unwrap();
                    forgotten.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    under_way.join_all().await;
    let (refused, forgotten) = (refused.load(Ordering::Relaxed), forgotten.load(Ordering::Relaxed));
    println!("{BAD_REQUESTS} bad requests, {AT_ONCE} at once, in {:.2} s", began.elapsed().as_secs_f64());
    println!(
        "  answered with a 4xx: {refused} (of those {HUGE} with a body of 100 MB); half-closed: {forgotten}"
    );
    let fine = exchange(server.address, b"GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    assert!(fine.starts_with(b"HTTP/1.1 200"), "the server goes on");
    println!("  after that the server answers as before");
}

enum Bad {
    Request(Vec<u8>),
    HalfClosed,
}

fn bad(number: usize) -> Bad {
    if number.is_multiple_of(BAD_REQUESTS / HUGE) {
        return Bad::Request(post("application/json", HUGE_BYTES, &vec![b'x'; HUGE_BYTES]));
    }
    Bad::Request(match number % 8 {
        0 => post("application/json", 1, b"{"),
        1 => post("application/json", 4, b"[{}]"),
        2 => post("application/json", 4, &[0xff, 0xfe, 0x00, 0x01]),
        3 => post("text/plain", 2, b"{}"),
        4 => b"POST /v1/messages HTTP/1.1\r\ncontent-length: many\r\n\r\n".to_vec(),
        5 => b"GET / HTTP/1.1\r\nno colon here\r\n\r\n".to_vec(),
        6 => b"\x16\x03\x01\x02\x00\x01\r\n\r\n".to_vec(),
        _ => return Bad::HalfClosed,
    })
}

fn post(kind: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

async fn exchange(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    answer
}
