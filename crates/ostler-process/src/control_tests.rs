#![expect(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise; clippy knows only `#[test]` functions"
)]

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;

use ostler_agent::outcome::CancelledBy;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::journal::{Facts, Journal, Kept, find};
use crate::run::{NoTerminal, Request, Unsaid};

pub(super) struct Place {
    folder: TempDir,
    sockets: PathBuf,
    _journal: Journal,
}

impl Place {
    pub(super) fn new(sockets: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let facts: Facts = serde_json::from_value(json!({
            "v": 1, "run": "run-1", "agent": "codex", "engine": "stream", "program": "/p",
            "agent_version": null, "cwd": "/w", "began_at": 0, "prompt": "x", "rehearse": null,
            "permissions": "deny", "limits": {},
        }))
        .unwrap();
        let journal = Journal::create(folder.path(), &facts).unwrap();
        Self { sockets: folder.path().join(sockets), folder, _journal: journal }
    }

    pub(super) fn kept(&self) -> Kept {
        find(self.folder.path(), "run-1").unwrap()
    }

    pub(super) fn door(&self) -> Door {
        let about = About { run: "run-1".to_owned(), agent: "codex".to_owned(), pid: 7, terminal: None };
        Door::open(&self.sockets, about, &self.kept().folder).unwrap()
    }
}

#[tokio::test]
async fn a_run_is_asked_over_its_socket_however_long_its_path() {
    for sockets in ["s", &format!("{}/{}", "long".repeat(30), "longer".repeat(20))] {
        let place = Place::new(sockets);
        let door = place.door();
        let (ask, mut asked) = mpsc::channel(1);
        let talk = async {
            let kept = place.kept();
            let (status, ()) = tokio::join!(call(&kept, Op::Status), async {
                let Some(Request::Terminal { told }) = asked.recv().await else {
                    panic!("nothing was asked")
                };
                told.send(Err(NoTerminal::Pipes)).unwrap();
            });
            let about = status.unwrap().run.unwrap();
            assert_eq!((about.pid, about.terminal), (7, None));
            call(&place.kept(), Op::Stop).await.unwrap();
            assert!(matches!(asked.recv().await, Some(Request::Stop(CancelledBy::Client))));
            let kept = place.kept();
            let (said, ()) = tokio::join!(call(&kept, Op::Say { text: "hé".to_owned() }), async {
                let Some(Request::Say { text, told }) = asked.recv().await else {
                    panic!("nothing was said")
                };
                assert_eq!(text, "hé");
                told.send(Err(Unsaid::Deaf)).unwrap();
            });
            assert!(said.unwrap_err().to_string().contains("does not listen"));
        };
        tokio::select! {
            never = door.serve(ask) => match never {},
            () = talk => {}
        }
        drop(door);
        assert_eq!(std::fs::read_dir(&place.sockets).unwrap().count(), 0);
        assert!(matches!(call(&place.kept(), Op::Stop).await, Err(CallError::Unreachable { .. })));
    }
}

#[tokio::test]
async fn nonsense_is_answered_and_harms_nobody() {
    let place = Place::new("s");
    let door = place.door();
    let (ask, _asked) = mpsc::channel(1);
    let path = place.sockets.join("run-1.sock");
    let shouting = tokio::task::spawn_blocking(move || {
        let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        let mut lines = std::io::BufReader::new(stream.try_clone().unwrap()).lines();
        let table = [
            ("nonsense", "not a request"),
            ("{\"v\":1,\"op\":\"fly\"}", "not a request"),
            ("{\"v\":2,\"op\":\"stop\"}", "speaks version 1"),
            ("{\"v\":1,\"op\":\"status\"}", "\"ok\":true"),
        ];
        for (said, want) in table {
            stream.write_all(format!("{said}\n").as_bytes()).unwrap();
            let answer = lines.next().unwrap().unwrap();
            assert!(answer.contains(want), "{said}: {answer}");
        }
    });
    tokio::select! {
        never = door.serve(ask) => match never {},
        told = shouting => told.unwrap(),
    }
}

#[tokio::test]
async fn sockets_of_runs_that_were_killed_are_swept() {
    let place = Place::new("s");
    std::fs::create_dir(&place.sockets).unwrap();
    let dead = place.sockets.join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let living = std::os::unix::net::UnixListener::bind(place.sockets.join("living.sock")).unwrap();
    let door = place.door();
    assert!(!dead.exists() && place.sockets.join("living.sock").exists());
    drop((door, living));
}
