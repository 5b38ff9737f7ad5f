//! The native API with the real agent: what it asks is answered over HTTP, and its terminal is watched over a WebSocket.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::attach::Run;
use crate::player::Player;
use crate::serve::Served;
use crate::yard::Yard;

/// Only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

fn get(served: &Served, path: &str) -> Value {
    let (status, body) = served.bare("GET", path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn post(served: &Served, path: &str, body: &Value) -> Value {
    let (status, answer) = served.post(path, body);
    assert!(matches!(status, 200..=202), "{path}: {status} {answer}");
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn a_question_of_the_real_agent_is_answered_over_the_api() {
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let served = Served::with(&program, &["--rehearse=tools"], &[]);
    let session = post(&served, "/api/v1/sessions", &json!({"model": "claude", "permissions": "ask"}));
    let path = format!("/api/v1/sessions/{}", session["id"].as_str().unwrap());
    let turn = post(&served, &format!("{path}/turns"), &json!({"text": "Do it."}));
    let turn = format!("{path}/turns/{}", turn["turn"].as_str().unwrap());
    let (deadline, mut asked) = (Instant::now() + PATIENCE, Vec::new());
    // Each look is a request, which is pause enough.
    let ended = loop {
        for question in get(&served, "/api/v1/permissions")["permissions"].as_array().unwrap() {
            assert_eq!(get(&served, &path)["state"], "in_flight");
            asked.push(question["tool"].as_str().unwrap().to_owned());
            let answer = format!("/api/v1/permissions/{}", question["id"].as_str().unwrap());
            post(&served, &answer, &json!({"decision": "allow"}));
        }
        let seen = get(&served, &turn);
        if seen["state"] != "in_flight" {
            break seen;
        }
        assert!(Instant::now() < deadline, "{asked:?}: {}", get(&served, &path));
    };
    assert_eq!((&ended["state"], &ended["error"]), (&json!("done"), &Value::Null));
    let text = ended["text"].as_str().unwrap();
    assert!(text.contains("I wrote rehearsal.txt and read it back."), "what it asked for was done: {text}");
    assert!(asked.contains(&"Write".to_owned()), "{asked:?}");
    let seen = get(&served, &path);
    assert_eq!((&seen["state"], &seen["turns"]), (&json!("idle"), &json!(1)));
    assert!(seen["process"]["pid"].as_u64().unwrap() > 1 && seen["output_tokens"].as_u64().unwrap() > 0);
    assert!(seen["process"]["memory_bytes"].as_u64().unwrap() > 1 << 20, "{seen}");
    assert!(seen["process"]["cpu_seconds"].as_f64().unwrap() > 0.0, "{seen}");
    // What a client allows is done inside the jail, which lets workspaces be changed.
    assert_eq!(seen["process"]["jail"]["kind"], "namespace", "{seen}");
    let said = get(&served, &format!("{path}/transcript"));
    let calls = said["messages"].as_array().unwrap().iter().flat_map(|message| message["content"].as_array());
    let calls = calls.flatten().filter(|block| block["type"] == "tool_use").count();
    assert_eq!(calls, 3, "{said}");
    assert_eq!(served.bare("DELETE", &path).0, 204);
    assert_eq!(served.interrupt(), Some(0));
}

/// The next frame of a WebSocket: its kind and what is in it.
pub(crate) fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let length = match head[1] {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            u64::from(u16::from_be_bytes(length))
        }
        127 => {
            let mut length = [0; 8];
            stream.read_exact(&mut length).unwrap();
            u64::from_be_bytes(length)
        }
        length => u64::from(length),
    };
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).unwrap();
    (head[0] & 0x0f, payload)
}

#[test]
fn the_terminal_of_a_run_is_watched_over_a_web_socket() {
    let Some(yard) = Yard::of(Player::ClaudeTerminal) else { return };
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let (child, _, _lines) = crate::terminal::stalled(&yard);
    let run = Run(child);
    let mut command: Command = yard.ostler(&["serve", "--rehearse", "--listen", "127.0.0.1:0", "--json"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", program.parent().unwrap().display()));
    let served = Served::by(command, tempfile::tempdir().unwrap(), None);
    let runs = get(&served, "/api/v1/runs");
    let (id, state) = (runs["runs"][0]["run"].as_str().unwrap(), &runs["runs"][0]["state"]);
    assert_eq!((state, &runs["runs"][0]["prompt"]), (&json!("live"), &json!("Say something.")));
    let screen = get(&served, &format!("/api/v1/runs/{id}/screen"));
    assert!(screen["text"].as_str().unwrap().contains("Say something."), "{screen}");
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
    let mut socket = served.ask(&format!("GET /api/v1/runs/{id}/terminal HTTP/1.1\r\n{upgrade}"));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    let (kind, told) = frame(&mut socket);
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!((kind, &told["shown"], &told["columns"]), (1, &json!("anew"), &screen["columns"]));
    let mut shown = String::new();
    while !shown.contains("something") {
        let (kind, bytes) = frame(&mut socket);
        assert!(matches!(kind, 2 | 9), "{kind}");
        shown.push_str(&String::from_utf8_lossy(&bytes));
    }
    // Whoever watches types nothing: it is shown the door, and the run goes on.
    socket.write_all(&[0x82, 0x81, 0, 0, 0, 0, b'x']).unwrap();
    loop {
        let (kind, bytes) = frame(&mut socket);
        if kind == 8 {
            assert_eq!(bytes[..2], 1008_u16.to_be_bytes());
            break;
        }
    }
    assert_eq!(get(&served, &format!("/api/v1/runs/{id}"))["state"], "live");
    assert_eq!(served.interrupt(), Some(0));
    drop(run);
}
