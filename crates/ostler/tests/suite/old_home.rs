//! What users have on disk keeps working: `fixtures/home-0.1`, written by version 0.1, opens with every build. And a home
//! that a newer build wrote is refused, and stays as it is.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::ground::Ground;
use crate::home_fixture::copy_home_0_1;

/// A copy of the fixture as `OSTLER_HOME`.
fn ground_with_old_home() -> Ground {
    let ground = Ground::new();
    copy_home_0_1(&ground.at("ostler"));
    ground
}

fn run_json(ground: &Ground, args: &[&str]) -> Value {
    let ended = ground.run(args);
    assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// All files below a folder with their bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn runs_of_0_1_are_listed_shown_and_explained() {
    let ground = ground_with_old_home();
    let runs = run_json(&ground, &["runs", "--json"]);
    let runs = runs.as_array().unwrap();
    let mut states: Vec<(&str, &str)> =
        runs.iter().map(|run| (run["agent"].as_str().unwrap(), run["state"].as_str().unwrap())).collect();
    states.sort_unstable();
    let want = [
        ("claude", "completed"),
        ("claude-headless", "abandoned"),
        ("claude-headless", "completed"),
        ("claude-headless", "stalled"),
        ("claude-headless", "timed_out"),
        ("codex", "abandoned"),
        ("codex", "completed"),
        ("command:cat", "completed"),
        ("opencode", "completed"),
    ];
    assert_eq!(states, want);
    for run in runs {
        let id = run["run"].as_str().unwrap();
        for verb in ["show", "why", "events", "raw"] {
            let ended = ground.run(&["runs", verb, id]);
            assert_eq!(ended.code, Some(0), "runs {verb} {id}: {}", ended.stderr);
            assert!(verb == "raw" || !ended.stdout.is_empty(), "runs {verb} {id} prints nothing");
        }
    }
}

#[test]
fn the_encrypted_store_of_0_1_opens_with_its_log_and_its_spool() {
    let ground = ground_with_old_home();
    for (question, answer) in [
        ("release", "the store of release 0.1 opens with every build"),
        ("retries", "retries grow by half each time"),
        // Only in the write-ahead log: the process that wrote it was killed.
        ("41", "remember the number 41"),
        // Only in a deferral file.
        ("heron", "the heron stands on one leg"),
    ] {
        let ended = ground.run(&["memory", "recall", question]);
        assert_eq!(ended.code, Some(0), "{question}: {}", ended.stderr);
        assert!(ended.stdout.contains(answer), "{question}: {}", ended.stdout);
    }
    assert_eq!(run_json(&ground, &["memory", "status", "--json"])["deferred"], json!(0));
    let rotated = ground.run(&["memory", "key", "rotate"]);
    assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
    assert!(ground.run(&["memory", "recall", "heron"]).stdout.contains("one leg"));
}

#[test]
fn keys_trust_and_configuration_of_0_1_are_read() {
    let ground = ground_with_old_home();
    let keys = run_json(&ground, &["keys", "--json"]);
    let names: Vec<&str> = keys.as_array().unwrap().iter().filter_map(|key| key["name"].as_str()).collect();
    assert_eq!(names, ["owner", "admin"]);
    let shown = ground.run(&["config", "show"]).stdout;
    assert!(shown.contains("2m") && shown.contains("25"), "{shown}");
    // The list is read and kept: what is trusted now is bound to content, in a file of its own.
    ground.put("project/.mcp.json", "{}");
    assert_eq!(ground.run(&["config", "trust", "."]).code, Some(0));
    let listed = run_json(&ground, &["trust", "--list", "--json"]);
    assert_eq!(listed["projects"], json!(["/srv/example/project"]));
    assert_eq!(listed["repositories"][0]["repository"], json!(ground.at("project")));
}

/// The body of an answer to a GET request with the key of the fixture that may see everything.
fn get(url: &str, path: &str) -> Value {
    let key = "ostler_40e60568bd1047a29578fdbb8cc7cd6ee1ff308461e647aaada3c0d943ac5498";
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    serde_json::from_str(body).unwrap()
}

#[test]
fn conversations_of_0_1_are_served() {
    let ground = ground_with_old_home();
    ground.program("claude", "echo '2.1.197 (Claude Code)'");
    let mut command = ground.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let listening: Value = serde_json::from_str(&line).unwrap();
    let url = listening["url"].as_str().unwrap();

    let listed = get(url, "/api/v1/sessions");
    let mut found: Vec<(&str, &str, &str)> = Vec::new();
    for session in listed["sessions"].as_array().unwrap() {
        let field = |name: &str| session[name].as_str().unwrap();
        found.push((field("origin"), field("model"), field("state")));
    }
    found.sort_unstable();
    let want =
        [("chat", "codex", "parked"), ("messages", "claude", "parked"), ("responses", "claude", "parked")];
    assert_eq!(found, want);
    let transcript = get(url, "/api/v1/sessions/a57a44a96cc64768bf151a55ee087b34/transcript").to_string();
    assert!(transcript.contains("and the number 42"), "{transcript}");

    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_newer_home_is_refused_and_not_changed() {
    let ground = ground_with_old_home();
    ground.put("ostler/home.json", r#"{"format":2,"written_by":"0.9.0"}"#);
    let before = contents(&ground.at("ostler"));
    let refused: &[&[&str]] = &[
        &["run", "-a", "command:true", "--permissions", "all", "x"],
        &["runs"],
        &["runs", "prune", "--older-than", "0s"],
        &["keys", "new"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["memory", "recall", "heron"],
        &["memory", "drain"],
        &["config", "trust", "."],
        &["smoke"],
    ];
    for args in refused {
        let ended = ground.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("has format 2, written by Ostler 0.9.0"), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("upgrade Ostler"), "{args:?}: {}", ended.stderr);
    }
    let hook = ground.run(&["memory", "hook", "stop"]);
    assert_eq!((hook.code, hook.stdout.as_str()), (Some(0), ""));
    let doctor = ground.run(&["doctor"]);
    assert!(doctor.stdout.contains("has format 2"), "{}", doctor.stdout);
    assert!(contents(&ground.at("ostler")) == before, "something in the home changed");
}
