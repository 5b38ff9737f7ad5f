//! A person takes the terminal of a served session over a WebSocket, asks something there, and gives it back: with the
//! real program, in both versions. Meanwhile nobody else is let in, and afterwards the conversation goes on.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use ostler_process::terminal::pty::Size;
use ostler_process::terminal::screen::Screen;
use serde_json::{Value, json};

use crate::native::frame;
use crate::player::Player;
use crate::serve::Served;

/// Only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Says back what it is asked.
const SCRIPT: &str = "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"{{prompt}}!\" }]";

/// Stands on the screen while it works.
const AT_WORK: &str = "esc to interrupt";

/// Somebody at the terminal, and what he sees.
struct Person {
    socket: TcpStream,
    screen: Screen,
}

impl Person {
    /// The status, and the person if he may sit down.
    fn sit(served: &Served, session: &str) -> Result<Self, u16> {
        let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
        let path = format!("{session}/terminal?manner=hold&rows=40&columns=120");
        let mut socket = served.ask(&format!("GET {path} HTTP/1.1\r\n{upgrade}"));
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let status = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap().parse().unwrap();
        let screen = Screen::new(Size { columns: 120, rows: 40 });
        if status == 101 { Ok(Self { socket, screen }) } else { Err(status) }
    }

    /// Watches until it shows what is wished.
    fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(&self.screen.look().dump()) {
            assert!(Instant::now() < deadline, "waited for {what}:\n{}", self.screen.look().dump());
            match frame(&mut self.socket) {
                (1, told) => {
                    let told: Value = serde_json::from_slice(&told).unwrap();
                    let side = |name: &str| u16::try_from(told[name].as_u64().unwrap()).unwrap();
                    self.screen = Screen::new(Size { columns: side("columns"), rows: side("rows") });
                }
                (2, bytes) => self.screen.feed(&bytes),
                (9, _) => {}
                (kind, told) => panic!("{kind}: {}", String::from_utf8_lossy(&told)),
            }
        }
    }

    /// Presses keys.
    fn press(&mut self, keys: &str) {
        let mut frame = vec![0x82, 0x80 | u8::try_from(keys.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(keys.as_bytes());
        self.socket.write_all(&frame).unwrap();
    }
}

fn is_taken_over(player: Player) {
    let Some(program) = player.binary() else { return };
    let home = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
    let (script, log) = (home.path().join("script.toml"), home.path().join("log"));
    std::fs::write(&script, SCRIPT).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--json"])
        .arg(format!("--rehearse={}", script.display()))
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", program.parent().unwrap().display()))
        .env("HOME", home.path())
        .env("OSTLER_HOME", home.path().join("ostler"))
        .env("OSTLER_LOG", "debug")
        .current_dir(home.path())
        .stderr(File::create(&log).unwrap());
    let served = Served::by(command, home, None);
    let (status, begun) = served.post("/api/v1/sessions", &json!({"model": "claude", "engine": "terminal"}));
    assert_eq!(status, 201, "{begun}");
    let begun: Value = serde_json::from_str(&begun).unwrap();
    let id = begun["id"].as_str().unwrap();
    let session = format!("/api/v1/sessions/{id}");
    let ask = |text: &str| served.post(&format!("{session}/turns"), &json!({"text": text, "wait": true}));
    let said = |(status, body): (u16, String)| -> String {
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()["text"].as_str().unwrap().to_owned()
    };
    let shown = || -> Value { serde_json::from_str(&served.bare("GET", &session).1).unwrap() };

    // What the program would take for something else is refused, in every API, before there is a program.
    for prompt in ["!touch x", "/clear", "a\u{1b}b"] {
        let (status, body) = ask(prompt);
        assert_eq!(status, 400, "{prompt}: {body}");
        let messages = json!([{"role": "user", "content": prompt}]);
        let question = json!({"model": "claude", "max_tokens": 9, "messages": messages, "input": prompt});
        for (path, fields) in [
            ("/v1/messages", ["model", "max_tokens", "messages"].as_slice()),
            ("/v1/chat/completions", &["model", "messages"]),
            ("/v1/responses", &["model", "input"]),
        ] {
            let question: Value = fields.iter().map(|field| (*field, question[*field].clone())).collect();
            let (status, body) = served.post_with(path, "x-ostler-engine: terminal\r\n", &question);
            assert_eq!(status, 400, "{path} {prompt}: {body}");
            let told: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(told["error"]["type"], "invalid_request_error", "{path}: {told}");
        }
    }
    assert_eq!(shown()["process"], Value::Null);
    assert_eq!(said(ask("one two")), "one two!");
    let first = shown()["process"]["pid"].clone();

    // It is his, and nobody else's.
    let mut person = Person::sit(&served, &session).unwrap();
    person.until("the box", |rows| rows.contains("one two!") && rows.contains('❯'));
    assert_eq!(Person::sit(&served, &session).err(), Some(409));
    assert_eq!(shown()["process"]["terminal"]["held"], true);
    assert_eq!(ask("not now").0, 409);
    let messages = json!([{"role": "user", "content": "nor now"}]);
    let question = json!({"model": "claude", "max_tokens": 9, "messages": messages});
    let named = format!("x-ostler-engine: terminal\r\nx-ostler-conversation: {id}\r\n");
    let (status, body) = served.post_with("/v1/messages", &named, &question);
    assert_eq!(status, 409, "{body}");

    // What he types is asked, and he sees the answer.
    person.press("Mine first.");
    person.until("what was typed", |rows| rows.contains("Mine first."));
    person.press("\r");
    person.until("the answer", |rows| rows.contains("Mine first.!") && !rows.contains(AT_WORK));
    drop(person);

    // He gives it back, and the conversation goes on where it was left: what he asked was his own. The keys come back a
    // moment after he is gone, and each look is a request, which is pause enough.
    let deadline = Instant::now() + PATIENCE;
    let after = loop {
        match ask("three four") {
            (409, body) => assert!(Instant::now() < deadline, "{body}"),
            answered => break said(answered),
        }
    };
    assert_eq!(after, "three four!");
    assert_ne!(shown()["process"]["pid"], first, "it knew what was not said here");
    let transcript = served.bare("GET", &format!("{session}/transcript")).1;
    let transcript: Value = serde_json::from_str(&transcript).unwrap();
    let texts: Vec<String> = transcript["messages"].as_array().unwrap().iter().map(text).collect();
    assert_eq!(texts, ["one two", "one two!", "three four", "three four!"]);

    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("answered") && log.contains("status=409"), "{log}");
    for words in ["one two", "three four", "Mine first", "touch x"] {
        assert!(!log.contains(words), "`{words}` is in the log: {log}");
    }
    assert_eq!(served.interrupt(), Some(0));
}

fn text(message: &Value) -> String {
    let content = &message["content"];
    content.as_str().or_else(|| content[0]["text"].as_str()).unwrap().to_owned()
}

#[test]
fn a_terminal_is_taken_over_and_given_back_pinned() {
    is_taken_over(Player::ClaudeTerminal);
}

#[test]
fn a_terminal_is_taken_over_and_given_back_newer() {
    is_taken_over(Player::ClaudeTerminalNewer);
}
