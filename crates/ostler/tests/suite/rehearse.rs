//! `ostler rehearse`: what it prints, how it ends, and what it refuses.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::ground::Ground;

/// A rehearsal under way, read line by line. Ended with the test, however that ends.
struct Rehearsal {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Rehearsal {
    fn start(ground: &Ground, args: &[&str]) -> Self {
        let temp = ground.at("tmp");
        std::fs::create_dir_all(&temp).unwrap();
        let mut command = ground.command(args);
        let mut child = command.env("TMPDIR", temp).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Ends it as a person would, and returns its exit code and what else it said.
    fn interrupt(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(url: &str, path: &str) -> String {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_tells_programs_where_it_listens_what_to_set_and_what_came() {
    let ground = Ground::new();
    let log = ground.at("requests.ndjson");
    let mut rehearsal = Rehearsal::start(
        &ground,
        &["rehearse", "--script", "tools", "--json", "--log", log.to_str().unwrap()],
    );
    let listening = rehearsal.line();
    assert_eq!((&listening["kind"], &listening["script"]), (&"listening".into(), &"tools".into()));
    let names: Vec<_> = listening["agents"].as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert_eq!(names, ["claude-headless", "codex", "opencode"]);
    let config = PathBuf::from(listening["agents"][2]["env"]["OPENCODE_CONFIG"].as_str().unwrap());
    assert!(config.is_file());

    let url = listening["url"].as_str().unwrap();
    assert!(get(url, "/v1/models").starts_with("HTTP/1.1 200"));
    assert_eq!(rehearsal.line()["request"]["path"], "/v1/models");
    assert!(get(url, "/v1/nothing").starts_with("HTTP/1.1 404"));
    assert_eq!(rehearsal.line()["request"]["played"]["kind"], "refused");

    let (code, rest) = rehearsal.interrupt();
    let ended: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!((code, &ended["requests"], &ended["refused"]), (Some(0), &2.into(), &1.into()));
    assert!(!config.exists(), "the private homes are gone");
    assert_eq!(std::fs::read_dir(ground.at("tmp")).unwrap().count(), 0);
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 2);
}

#[test]
fn nobody_has_to_read_what_it_tells() {
    let ground = Ground::new();
    let mut rehearsal = Rehearsal::start(&ground, &["rehearse", "--script", "hello", "--json"]);
    let url = rehearsal.line()["url"].as_str().unwrap().to_owned();
    // Far more than a pipe holds.
    for _ in 0..2_000 {
        assert!(get(&url, "/v1/models").starts_with("HTTP/1.1 200"));
    }
    kill_process(Pid::from_child(&rehearsal.child), Signal::TERM).unwrap();
    assert_eq!(rehearsal.child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(ground.at("tmp")).unwrap().count(), 0);
}

#[test]
fn it_tells_people_what_to_paste() {
    let ground = Ground::new();
    let mut rehearsal = Rehearsal::start(&ground, &["rehearse", "--script", "hello"]);
    let mut told = String::new();
    while !told.contains("Requests:") {
        assert!(rehearsal.out.read_line(&mut told).unwrap() > 0, "it ended: {told}");
    }
    assert!(told.starts_with(
        "Rehearsing hello: Says hello. Text only.\nThe scripted model listens on http://127.0.0.1:"
    ));
    assert_eq!(told.matches("env -i PATH=").count(), 3);
    assert!(told.contains("(not installed: ostler agents install codex)"), "{told}");
    let (code, rest) = rehearsal.interrupt();
    assert_eq!(code, Some(0));
    assert!(rest.ends_with("The rehearsal is over: 0 requests, 0 unmatched, 0 refused.\n"), "{rest}");
}

#[test]
fn what_cannot_be_rehearsed_is_refused_and_explained() {
    let ground = Ground::new();
    ground.put(
        "project/verb.toml",
        "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ txet = \"a\" }]\n",
    );
    ground.put(
        "project/never.toml",
        "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"a\" }]\n[[conversation.step]]\nreply = [{ text = \"b\" }]\n",
    );
    ground.put("project/broken.toml", "v = 1\n[[conversation\n");
    ground.check("rehearse_unknown_script", &["rehearse", "--script", "tool"]);
    ground.check("rehearse_unknown_verb", &["rehearse", "--script", "verb.toml"]);
    ground.check("rehearse_never_matches", &["rehearse", "--script", "never.toml"]);
    ground.check("rehearse_broken_script", &["rehearse", "--script", "broken.toml"]);
    ground.check("rehearse_bad_address", &["rehearse", "--listen", "nowhere"]);
    ground.check("rehearse_bad_log", &["rehearse", "--log", "no/such/folder/log"]);
    assert_eq!(ground.left(), Vec::<String>::new());
}

#[test]
fn an_occupied_port_is_told_as_such() {
    let ground = Ground::new();
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = occupied.local_addr().unwrap().to_string();
    let ended = ground.run(&["rehearse", "--listen", &address]);
    assert_eq!(ended.code, Some(1));
    let want = format!(
        "error: could not listen on {address}\n  because Address already in use (os error 98)\n  try: another program uses \
         port {}: choose another, or 0 for any free one\n",
        occupied.local_addr().unwrap().port()
    );
    assert_eq!(ended.stderr, want);
}

#[test]
fn the_schema_is_printed() {
    let schema: Value = serde_json::from_str(&Ground::new().run(&["rehearse", "--schema"]).stdout).unwrap();
    assert_eq!(schema["title"], "Ostler rehearsal script");
}
