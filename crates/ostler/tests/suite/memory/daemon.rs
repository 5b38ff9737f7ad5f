//! The optional daemon: used when it answers, not missed otherwise, one at a time.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{capture, deferred, line, stored, transcript};
use crate::ground::{Ground, ended};

fn start(ground: &Ground) -> Child {
    let mut command = ground.command(&["memory", "daemon", "--idle", "60s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while ground.run(&["memory", "daemon", "status"]).code != Some(0) {
        assert!(Instant::now() < until, "it does not answer");
    }
    child
}

#[test]
fn a_daemon_takes_in_at_once_and_is_not_missed_afterwards() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    let daemon = start(&ground);
    assert_eq!(
        capture(&ground, &path),
        json!({"status": "captured", "inserted": 2, "skipped": 0, "errors": 0})
    );
    assert!(deferred(&ground).is_empty());
    let second = ground.run(&["memory", "daemon"]);
    assert_eq!(second.code, Some(2), "{}", second.stderr);
    assert!(second.stderr.contains("runs for this place already"), "{}", second.stderr);
    assert_eq!(ground.run(&["memory", "daemon", "stop"]).code, Some(0));
    assert_eq!(ended(daemon).status.code(), Some(0));
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str(&line(2, "user", "And now?"));
    std::fs::write(&path, text).unwrap();
    assert_eq!(capture(&ground, &path)["status"], "deferred");
    assert_eq!(stored(&ground).len(), 3);
}

/// A hook got no answer and wrote down what it had; the next one gets one.
#[test]
fn what_waits_goes_before_what_a_daemon_is_told_later() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    capture(&ground, &path);
    let waiting = deferred(&ground).remove(0);
    let elsewhere = ground.at("elsewhere.jsonl");
    std::fs::rename(&waiting, &elsewhere).unwrap();
    let daemon = start(&ground);
    std::fs::rename(&elsewhere, &waiting).unwrap();
    let text = std::fs::read_to_string(&path).unwrap() + &line(2, "user", "And now?");
    std::fs::write(&path, text).unwrap();
    capture(&ground, &path);
    assert_eq!(ground.run(&["memory", "daemon", "stop"]).code, Some(0));
    assert_eq!(ended(daemon).status.code(), Some(0));
    assert_eq!(stored(&ground), ["Turn number 0 here", "Turn number 1 here", "And now?"]);
}

/// One that listens and never answers costs a quarter of a second.
#[test]
fn a_daemon_that_hangs_is_done_without() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    std::fs::create_dir_all(ground.at("ostler/memory")).unwrap();
    let _listener = UnixListener::bind(ground.at("ostler/memory/daemon.sock")).unwrap();
    let told = capture(&ground, &path);
    assert_eq!((&told["status"], &told["events"]), (&json!("deferred"), &json!(2)));
}

/// As systemd does it: a socket as descriptor 3, which is there before anybody listens.
#[test]
fn a_socket_that_is_handed_over_is_used() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    std::fs::create_dir_all(ground.at("ostler/memory")).unwrap();
    let listener = UnixListener::bind(ground.at("ostler/memory/daemon.sock")).unwrap();
    let program = env!("CARGO_BIN_EXE_ostler");
    // The shell moves the socket to its place and becomes the daemon.
    let script =
        format!("exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec '{program}' memory daemon --idle 1h");
    let mut shell = ground.command(&[]);
    let variables: Vec<_> =
        shell.get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())).collect();
    shell = std::process::Command::new("/bin/sh");
    let child = shell
        .args(["-c", &script])
        .env_clear()
        .envs(variables)
        .stdin(OwnedFd::from(listener))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while ground.run(&["memory", "daemon", "status"]).code != Some(0) {
        assert!(Instant::now() < until, "it does not answer");
    }
    assert_eq!(capture(&ground, &path)["status"], "captured");
    // Only one at a time, however it was started.
    assert_eq!(ground.run(&["memory", "daemon"]).code, Some(2));
    assert_eq!(ground.run(&["memory", "daemon", "stop"]).code, Some(0));
    let output = ended(child);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stored(&ground).len(), 2);
}

#[test]
fn a_daemon_that_nobody_calls_ends() {
    let ground = Ground::new();
    let ended = ground.run(&["memory", "daemon", "--idle", "50ms"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""));
}

/// What it wrote down while the daemon was away goes in when it comes.
#[test]
fn a_daemon_begins_with_what_waits() {
    let ground = Ground::new();
    capture(&ground, &transcript(&ground, 2));
    assert_eq!(deferred(&ground).len(), 1);
    assert_eq!(ground.run(&["memory", "daemon", "--idle", "50ms"]).code, Some(0));
    assert!(deferred(&ground).is_empty());
    assert_eq!(stored(&ground).len(), 2);
}

#[test]
fn a_daemon_lets_go_when_the_key_is_changed() {
    let ground = Ground::new();
    let path = transcript(&ground, 2);
    let daemon = start(&ground);
    capture(&ground, &path);
    let ended_well = ground.run(&["memory", "key", "rotate"]);
    assert_eq!(ended_well.code, Some(0), "{}", ended_well.stderr);
    assert_eq!(ended(daemon).status.code(), Some(0));
    assert_eq!(stored(&ground).len(), 2);
}

#[test]
fn the_units_for_systemd_name_the_socket_and_this_program() {
    let ground = Ground::new();
    let ended = ground.run(&["memory", "daemon", "install"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let unit =
        |name: &str| std::fs::read_to_string(ground.at("home/.config/systemd/user").join(name)).unwrap();
    let socket = unit("ostler-memory.socket");
    let listens = format!("ListenStream={}\n", ground.at("ostler/memory/daemon.sock").display());
    assert!(socket.contains(&listens) && socket.contains("SocketMode=0600\n"), "{socket}");
    let service = unit("ostler-memory.service");
    let starts = format!("ExecStart=\"{}\" memory daemon start\n", env!("CARGO_BIN_EXE_ostler"));
    assert!(service.contains(&starts), "{service}");
    assert!(service.contains(&format!("OSTLER_HOME={}", ground.at("ostler").display())), "{service}");
}
