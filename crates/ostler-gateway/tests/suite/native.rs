//! The native API: sessions, turns, events, questions, runs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::leasing::Limits;
use ostler_agent::run_event::RunEventKind;
use ostler_gateway::http::Offer;
use ostler_process::journal::{Facts, Given, Journal};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::clock::Clock;
use crate::house::{DEADLINE, House, asked, head, offer, until};

const SESSIONS: &str = "/api/v1/sessions";

async fn begin(house: &House, key: &str, body: &Value) -> String {
    let got = house.post(SESSIONS, key, body).await;
    assert_eq!(got.status, 201, "{}", got.body);
    let id = got.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(got.header("location"), Some(format!("{SESSIONS}/{id}").as_str()));
    id
}

fn following(id: &str, key: &str, after: &str) -> String {
    format!("GET {SESSIONS}/{id}/events HTTP/1.1\r\nx-api-key: {key}{after}")
}

#[tokio::test]
async fn a_session_is_begun_asked_looked_at_and_ended() {
    let house = House::open(Limits::default()).await;
    let id = begin(&house, "ostler_writer", &json!({"model": "claude", "system": "be brief"})).await;
    let got = house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_writer").await.json();
    assert_eq!((&got["state"], &got["turns"], &got["process"]), (&json!("parked"), &json!(0), &Value::Null));
    for (number, word) in ["one", "two"].into_iter().enumerate() {
        let turn = json!({"text": format!("say {word}"), "wait": true});
        let got = house.post(&format!("{SESSIONS}/{id}/turns"), "ostler_writer", &turn).await;
        assert_eq!(
            (got.status, &got.json()["state"], &got.json()["text"]),
            (200, &json!("done"), &json!(word))
        );
        let turn = got.json()["turn"].as_str().unwrap().to_owned();
        let shown = house.bare("GET", &format!("{SESSIONS}/{id}/turns/{turn}"), "ostler_writer").await.json();
        assert_eq!(shown["text"], json!(word));
        let got = house.bare("GET", SESSIONS, "ostler_writer").await.json();
        let session = &got["sessions"][0];
        assert_eq!((&session["state"], &session["turns"]), (&json!("idle"), &json!(number + 1)));
        assert_eq!(
            (&session["process"]["pid"], &session["process"]["turns"]),
            (&json!(1), &json!(number + 1))
        );
        assert_eq!(got["counts"], json!({"in_flight": 0, "idle": 1, "parked": 0, "spare": 0}));
    }
    let asked = house.stage.log(|log| log.asked.clone());
    assert_eq!(asked, [(1, "say one".to_owned()), (1, "say two".to_owned())], "only what is new is asked");
    let got = house.bare("GET", &format!("{SESSIONS}/{id}/transcript"), "ostler_writer").await.json();
    let said = |role: &str, text: &str| match role {
        "user" => json!({"role": role, "content": text}),
        _ => json!({"role": role, "content": [{"type": "text", "text": text}]}),
    };
    let want = json!([
        said("user", "say one"),
        said("assistant", "one"),
        said("user", "say two"),
        said("assistant", "two")
    ]);
    assert_eq!((&got["messages"], &got["system"]), (&want, &json!("be brief")));
    assert_eq!(house.bare("DELETE", &format!("{SESSIONS}/{id}"), "ostler_writer").await.status, 204);
    assert_eq!(house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_writer").await.status, 404);
    assert_eq!(house.stage.log(|log| log.closed.clone()), [1], "its process is gone with it");
    house.close().await;
}

#[tokio::test]
async fn what_other_apis_began_is_seen_too_and_only_by_its_key_and_the_owner() {
    let house = House::open(Limits::default()).await;
    let got = house.post("/v1/messages", "ostler_writer", &asked(&[("user", "say one")])).await;
    let id = got.header("x-ostler-conversation").unwrap().to_owned();
    let got = house.bare("GET", SESSIONS, "ostler_writer").await.json();
    assert_eq!((&got["sessions"][0]["id"], &got["sessions"][0]["origin"]), (&json!(id), &json!("messages")));
    assert_eq!(house.bare("GET", SESSIONS, "ostler_looker").await.json()["sessions"], json!([]));
    assert_eq!(house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_looker").await.status, 404);
    assert_eq!(house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_owner").await.status, 200);
    // It goes on in the same process, whichever API asks.
    let turn = json!({"text": "say two", "wait": true});
    assert_eq!(house.post(&format!("{SESSIONS}/{id}/turns"), "ostler_owner", &turn).await.status, 200);
    assert_eq!(house.stage.log(|log| log.started.len()), 1);
    house.close().await;
}

#[tokio::test]
async fn a_key_does_here_what_its_scopes_say() {
    let house = House::open(Limits::default()).await;
    let id = begin(&house, "ostler_writer", &json!({"model": "claude"})).await;
    let table = [
        ("GET", SESSIONS.to_owned(), "ostler_1", 403),
        ("GET", SESSIONS.to_owned(), "ostler_looker", 200),
        ("GET", SESSIONS.to_owned(), "ostler_nobody", 401),
        ("DELETE", format!("{SESSIONS}/{id}"), "ostler_looker", 403),
        ("GET", format!("{SESSIONS}/{id}/screen"), "ostler_writer", 403),
        ("GET", format!("{SESSIONS}/{id}/screen"), "ostler_owner", 404),
        ("GET", "/api/v1/permissions".to_owned(), "ostler_1", 403),
        ("GET", "/api/v1/runs/none".to_owned(), "ostler_owner", 404),
        ("GET", "/api/v1/nothing".to_owned(), "ostler_owner", 404),
        ("PUT", SESSIONS.to_owned(), "ostler_owner", 405),
    ];
    for (method, path, key, status) in table {
        let got = house.bare(method, &path, key).await;
        assert_eq!(got.status, status, "{method} {path} {key}: {}", got.body);
        if status >= 400 {
            assert_eq!(got.header("content-type"), Some("application/problem+json"), "{path}");
            assert!(got.json()["title"].is_string() && got.json()["detail"].is_string(), "{path}");
        }
    }
    let wrong = [
        (json!({"model": "gpt"}), 404, "model"),
        (json!({"model": "claude", "cwd": "/"}), 403, "cwd"),
        (json!({"model": "claude", "permissions": "all"}), 403, "permissions"),
        (json!({"model": "claude", "permissions": "some"}), 400, "permissions"),
        (json!({"model": "claude", "colour": "red"}), 400, ""),
        (json!({}), 400, ""),
        (json!([]), 400, ""),
    ];
    for (body, status, field) in wrong {
        let got = house.post(SESSIONS, "ostler_writer", &body).await;
        assert_eq!((got.status, got.json()["field"].as_str().unwrap_or("")), (status, field), "{body}");
    }
    for body in [
        json!({}),
        json!({"text": ""}),
        json!({"text": "a", "content": []}),
        json!({"content": [1]}),
        json!({"content": [null]}),
        json!({"content": [{"type": "text"}]}),
        json!({"content": [{"type": "hologram"}]}),
    ] {
        let got = house.post(&format!("{SESSIONS}/{id}/turns"), "ostler_writer", &body).await;
        assert_eq!(got.status, 400, "{body}: {}", got.body);
    }
    house.close().await;
}

#[tokio::test]
async fn events_are_told_as_they_come_and_again_to_who_was_away() {
    let house = House::open(Limits::default()).await;
    let id = begin(&house, "ostler_writer", &json!({"model": "claude"})).await;
    let mut stream = house.ask(&following(&id, "ostler_writer", ""), "").await;
    until(&mut stream, "event: opened").await;
    let got =
        house.post(&format!("{SESSIONS}/{id}/turns"), "ostler_writer", &json!({"text": "say one"})).await;
    assert_eq!((got.status, &got.json()["after"]), (202, &json!(1)));
    let heard = until(&mut stream, "event: turn_ended").await;
    assert!(
        heard.contains("event: piece\ndata: {\"text\":\"one\"") && heard.contains("event: agent"),
        "{heard}"
    );
    drop(stream);
    // What was seen is not told again; who was away says what he has.
    for after in ["\r\nlast-event-id: 2", "\r\nx-nothing: 1"] {
        let mut stream = house.ask(&following(&id, "ostler_writer", after), "").await;
        let heard = until(&mut stream, "event: turn_ended").await;
        let numbers: Vec<&str> = heard.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        let want: &[&str] = if after.contains("last") { &["3", "4"] } else { &["1", "2", "3", "4"] };
        assert_eq!(numbers, want, "{heard}");
    }
    let got = house.get(&following(&id, "ostler_writer", "\r\nlast-event-id: x"), "").await;
    assert_eq!(got.status, 400);
    house.close().await;
}

#[tokio::test]
async fn a_turn_is_broken_off_and_what_was_said_counts() {
    let house = House::open(Limits::default()).await;
    let id = begin(&house, "ostler_writer", &json!({"model": "claude"})).await;
    let turns = format!("{SESSIONS}/{id}/turns");
    let mut stream = house.ask(&following(&id, "ostler_writer", ""), "").await;
    assert_eq!(house.post(&turns, "ostler_writer", &json!({"text": "hang"})).await.status, 202);
    until(&mut stream, "event: piece").await;
    let got = house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_writer").await.json();
    assert_eq!(got["state"], json!("in_flight"));
    // One turn at a time, and what is at work is not removed.
    let got = house.post(&turns, "ostler_writer", &json!({"text": "say two"})).await;
    assert_eq!((got.status, &got.json()["title"]), (409, &json!("conflict")));
    assert_eq!(house.bare("DELETE", &format!("{SESSIONS}/{id}"), "ostler_writer").await.status, 409);
    let got = house.get(&head(&format!("{SESSIONS}/{id}/interrupt"), "ostler_writer"), "").await;
    assert_eq!(got.status, 200, "{}", got.body);
    assert!(got.json()["turn"].is_string());
    let heard = until(&mut stream, "event: turn_ended").await;
    assert!(heard.contains("\"ending\":\"interrupted\""), "{heard}");
    let got = house.bare("GET", &format!("{SESSIONS}/{id}/transcript"), "ostler_writer").await.json();
    assert_eq!(got["messages"][1]["content"][0]["text"], json!("half"));
    let got = house.post(&turns, "ostler_writer", &json!({"text": "say two", "wait": true})).await;
    assert_eq!((got.status, &got.json()["text"]), (200, &json!("two")));
    assert_eq!(house.stage.log(|log| log.started.len()), 1, "the session was kept");
    let got = house.get(&head(&format!("{SESSIONS}/{id}/interrupt"), "ostler_writer"), "").await;
    assert_eq!((got.status, &got.json()["turn"]), (200, &Value::Null));
    house.close().await;
}

#[tokio::test]
async fn a_turn_that_fails_tells_why_and_does_not_count() {
    let house = House::open(Limits::default()).await;
    let id = begin(&house, "ostler_writer", &json!({"model": "claude"})).await;
    let turns = format!("{SESSIONS}/{id}/turns");
    let got = house.post(&turns, "ostler_writer", &json!({"text": "die", "wait": true})).await;
    assert_eq!((got.status, &got.json()["title"]), (502, &json!("agent_failed")));
    let got = house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_writer").await.json();
    assert!(got["last_error"].as_str().unwrap().contains("as the script says"), "{got}");
    assert_eq!((&got["state"], &got["turns"]), (&json!("parked"), &json!(1)));
    let got = house.post(&turns, "ostler_writer", &json!({"text": "say one", "wait": true})).await;
    assert_eq!(got.json()["text"], json!("one"));
    assert_eq!(house.stage.log(|log| log.started.clone()), [Vec::<Value>::new(), Vec::new()]);
    let got = house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_writer").await.json();
    assert_eq!(got["last_error"], Value::Null);
    house.close().await;
}

#[tokio::test]
async fn what_an_agent_asks_is_answered_by_who_may() {
    let house = House::open(Limits::default()).await;
    let id = begin(&house, "ostler_writer", &json!({"model": "claude", "permissions": "ask"})).await;
    let turns = format!("{SESSIONS}/{id}/turns");
    let mut stream = house.ask(&following(&id, "ostler_writer", ""), "").await;
    for (key, verdict, said) in [
        ("ostler_owner", json!({"decision": "allow"}), "did ls"),
        ("ostler_owner", json!({"decision": "allow", "input": {"command": "pwd"}}), "did pwd"),
        ("ostler_writer", json!({"decision": "deny", "message": "no"}), "denied: no"),
        ("ostler_writer", json!({"decision": "answer", "message": "blue"}), "denied: the user answers: blue"),
    ] {
        assert_eq!(house.post(&turns, "ostler_writer", &json!({"text": "may I"})).await.status, 202);
        until(&mut stream, "event: permission_asked").await;
        let got = house.bare("GET", "/api/v1/permissions", "ostler_writer").await.json();
        let question = got["permissions"][0].clone();
        assert_eq!((&question["tool"], &question["input"]), (&json!("Bash"), &json!({"command": "ls"})));
        assert_eq!(
            house.bare("GET", "/api/v1/permissions", "ostler_looker").await.json()["permissions"],
            json!([])
        );
        let path = format!("/api/v1/permissions/{}", question["id"].as_str().unwrap());
        // Its own key may not allow more than itself.
        let allow = json!({"decision": "allow"});
        assert_eq!(house.post(&path, "ostler_writer", &allow).await.status, 403);
        assert_eq!(house.post(&path, "ostler_looker", &allow).await.status, 403);
        assert_eq!(house.post(&path, "ostler_owner", &json!({"decision": "perhaps"})).await.status, 400);
        assert_eq!(house.post(&path, key, &verdict).await.status, 200);
        let heard = until(&mut stream, "event: turn_ended").await;
        assert!(heard.contains("event: permission_settled") && heard.contains(said), "{heard}");
        assert_eq!(house.post(&path, key, &verdict).await.status, 404, "it is answered once");
    }
    // Without it policy answers, as ever.
    let id = begin(&house, "ostler_writer", &json!({"model": "claude"})).await;
    let turn = json!({"text": "may I", "wait": true});
    let got = house.post(&format!("{SESSIONS}/{id}/turns"), "ostler_writer", &turn).await;
    assert_eq!(got.json()["text"], json!("denied by policy"));
    house.close().await;
}

#[tokio::test]
async fn questions_of_one_key_are_bounded_and_others_may_ask() {
    let house = House::open(Limits::default()).await;
    let ask = async |key: &str| {
        let id = begin(&house, key, &json!({"model": "claude", "permissions": "ask"})).await;
        let mut follower = house.ask(&following(&id, key, ""), "").await;
        let turn = json!({"text": "may I"});
        assert_eq!(house.post(&format!("{SESSIONS}/{id}/turns"), key, &turn).await.status, 202);
        until(&mut follower, "event: permission_asked").await;
    };
    ask("ostler_asker").await;
    let id = begin(&house, "ostler_asker", &json!({"model": "claude", "permissions": "ask"})).await;
    let turn = json!({"text": "may I", "wait": true});
    let got = house.post(&format!("{SESSIONS}/{id}/turns"), "ostler_asker", &turn).await.json();
    let denied = "denied: too many questions of this key wait for an answer; go on without it";
    assert_eq!(got["text"], json!(denied));
    ask("ostler_writer").await;
    let open = house.bare("GET", "/api/v1/permissions", "ostler_owner").await.json();
    assert_eq!(open["permissions"].as_array().unwrap().len(), 2);
    house.close().await;
}

#[tokio::test]
async fn a_question_goes_with_its_turn() {
    let house = House::open(Limits::default()).await;
    let ask = format!("{}\r\nx-ostler-permissions: ask", head("/v1/messages", "ostler_writer"));
    let stream = house.ask(&ask, &asked(&[("user", "may I")]).to_string()).await;
    let waits = |count: usize| {
        let house = &house;
        async move {
            loop {
                let got = house.bare("GET", "/api/v1/permissions", "ostler_writer").await.json();
                if got["permissions"].as_array().unwrap().len() == count {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(DEADLINE, waits(1)).await.unwrap();
    drop(stream);
    tokio::time::timeout(DEADLINE, waits(0)).await.unwrap();
    house.close().await;
}

/// The clock stands still: what waits for ten minutes would wait for ever.
#[tokio::test]
async fn a_question_that_is_taken_back_does_not_keep_the_server_from_ending() {
    let clock = Clock::stopped();
    let house = House::open(Limits::default()).await;
    let id = begin(&house, "ostler_writer", &json!({"model": "claude", "permissions": "ask"})).await;
    let mut stream = house.ask(&following(&id, "ostler_writer", ""), "").await;
    let turns = format!("{SESSIONS}/{id}/turns");
    assert_eq!(house.post(&turns, "ostler_writer", &json!({"text": "may I"})).await.status, 202);
    until(&mut stream, "event: permission_asked").await;
    let interrupt = head(&format!("{SESSIONS}/{id}/interrupt"), "ostler_writer");
    assert_eq!(house.get(&interrupt, "").await.status, 200);
    let heard = until(&mut stream, "event: turn_ended").await;
    assert_eq!(heard.matches("\"outcome\":\"withdrawn\"").count(), 1, "{heard}");
    // Until here it would take ten minutes, which never pass.
    house.close().await;
    drop(clock);
}

#[tokio::test]
async fn a_question_whose_asker_leaves_is_settled_for_those_who_follow() {
    let house = House::open(Limits::default()).await;
    let ask = format!(
        "{}\r\nx-ostler-permissions: ask\r\nx-ostler-conversation: followed",
        head("/v1/messages", "ostler_writer")
    );
    house.get(&ask, &asked(&[("user", "say one")]).to_string()).await;
    let listed = house.bare("GET", SESSIONS, "ostler_writer").await.json();
    let id = listed["sessions"][0]["id"].as_str().unwrap();
    let mut follower = house.ask(&following(id, "ostler_writer", ""), "").await;
    until(&mut follower, "event: turn_ended").await;
    let asker = house.ask(&ask, &asked(&[("user", "may I")]).to_string()).await;
    until(&mut follower, "event: permission_asked").await;
    drop(asker);
    let heard = until(&mut follower, "event: turn_ended").await;
    assert!(heard.contains("event: permission_settled") && heard.contains("\"withdrawn\""), "{heard}");
    house.close().await;
}

#[tokio::test]
async fn sessions_are_there_after_a_restart() {
    let house = House::open(Limits::default()).await;
    let id = begin(&house, "ostler_writer", &json!({"model": "claude"})).await;
    let turns = format!("{SESSIONS}/{id}/turns");
    house.post(&turns, "ostler_writer", &json!({"text": "say one", "wait": true})).await;
    let kept = Arc::clone(&house.kept);
    house.close().await;
    let house = House::at(kept, Limits::default(), Duration::ZERO).await;
    let got = house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_writer").await.json();
    assert_eq!((&got["state"], &got["turns"], &got["last_event"]), (&json!("parked"), &json!(1), &json!(4)));
    let got = house.post(&turns, "ostler_writer", &json!({"text": "say two", "wait": true})).await;
    assert_eq!(got.json()["text"], json!("two"));
    let told = house.stage.log(|log| log.started[0].clone());
    assert_eq!(told.len(), 2, "the new process is told what was said: {told:?}");
    let mut stream = house.ask(&following(&id, "ostler_writer", "\r\nlast-event-id: 4"), "").await;
    let heard = until(&mut stream, "event: turn_ended").await;
    assert!(heard.contains("id: 5\n") && !heard.contains("id: 4\n"), "numbers go on: {heard}");
    house.close().await;
}

#[tokio::test]
async fn runs_are_read_from_their_journals_by_the_owner_of_the_machine_alone() {
    let house = House::open(Limits::default()).await;
    let facts = Facts {
        v: 1,
        run: "0198a000-0000-7000-8000-000000000001".to_owned(),
        agent: "claude-headless".to_owned(),
        engine: "stream".to_owned(),
        program: "/bin/true".into(),
        agent_version: None,
        cwd: "/".into(),
        began_at: 7,
        prompt: "do it".to_owned(),
        rehearse: None,
        permissions: "edits".to_owned(),
        limits: json!({}),
        given: Given::default(),
    };
    let mut journal = Journal::create(&house.kept.path().join("runs"), &facts).unwrap();
    let spawned = |attempt| {
        let (containment, command) = ("cgroup".to_owned(), "true".to_owned());
        RunEventKind::Spawned { pid: 1, attempt, containment, command }
    };
    journal.event(1, spawned(1)).unwrap();
    let got = house.bare("GET", "/api/v1/runs", "ostler_owner").await.json();
    assert_eq!((&got["runs"][0]["state"], &got["runs"][0]["prompt"]), (&json!("live"), &json!("do it")));
    let follow = format!("GET /api/v1/runs/{}/events HTTP/1.1\r\nx-api-key: ostler_owner", facts.run);
    let mut stream = house.ask(&follow, "").await;
    until(&mut stream, "id: 1\nevent: spawned").await;
    journal.event(2, spawned(2)).unwrap();
    until(&mut stream, "id: 2\nevent: spawned").await;
    journal.close(&json!({"outcome": "completed"})).unwrap();
    let mut rest = String::new();
    tokio::time::timeout(DEADLINE, stream.read_to_string(&mut rest)).await.unwrap().unwrap();
    let got = house.get(&format!("{follow}\r\nlast-event-id: 1"), "").await;
    assert!(got.body.starts_with("id: 2\n"), "{}", got.body);
    let got = house.bare("GET", "/api/v1/runs/0198a000", "ostler_owner").await.json();
    assert_eq!((&got["state"], &got["outcome"]["outcome"]), (&json!("completed"), &json!("completed")));
    assert_eq!(house.bare("GET", "/api/v1/runs?limit=0", "ostler_owner").await.status, 400);
    assert_eq!(house.bare("GET", "/api/v1/runs/0198a000/screen", "ostler_owner").await.status, 404);
    // Nobody else sees what the owner of the machine asked.
    for key in ["ostler_looker", "ostler_writer", "ostler_viewer", "ostler_1"] {
        for path in
            ["", "/0198a000", "/0198a000/events", "/0198a000/screen", "/0198a000/terminal?manner=hold"]
        {
            let got = house.bare("GET", &format!("/api/v1/runs{path}"), key).await;
            assert_eq!((got.status, got.body.contains("do it")), (403, false), "{key} {path}: {}", got.body);
        }
    }
    house.close().await;
}

/// A conversation is kept as JSON, which has no text for such a name: it was kept under another one, that of no folder.
#[tokio::test]
async fn a_link_to_a_folder_that_is_not_utf_8_is_refused() {
    let kept = Arc::new(tempfile::tempdir().unwrap());
    let root = kept.path().canonicalize().unwrap();
    let odd = root.join(OsStr::from_bytes(b"odd \xff"));
    std::fs::create_dir(&odd).unwrap();
    std::os::unix::fs::symlink(&odd, root.join("link")).unwrap();
    let offer = Offer { folders: vec![root.clone()], ..offer(kept.path()) };
    let house = House::with(offer, kept, Limits::default(), Duration::ZERO).await;
    for (cwd, status) in [(root.join("link"), 400), (root.clone(), 201)] {
        let got = house.post(SESSIONS, "ostler_writer", &json!({"model": "claude", "cwd": cwd})).await;
        assert_eq!(got.status, status, "{}", got.body);
        assert!(status == 201 || got.json()["field"] == "cwd", "{}", got.body);
    }
    house.close().await;
}

/// A client that disconnects and continues at once got a new session, which was told everything, while the old one stayed
/// idle.
#[tokio::test]
async fn after_a_disconnect_the_conversation_continues_in_the_session_that_is_still_stopping() {
    let house = House::open(Limits::default()).await;
    let got = house.post("/v1/messages", "ostler_writer", &asked(&[("user", "say one")])).await;
    let id = got.header("x-ostler-conversation").unwrap().to_owned();
    let mut body = asked(&[("user", "say one"), ("assistant", "one"), ("user", "linger")]);
    body["stream"] = json!(true);
    let mut stream = house.ask(&head("/v1/messages", "ostler_writer"), &body.to_string()).await;
    until(&mut stream, "half").await;
    drop(stream);
    let session = format!("{SESSIONS}/{id}");
    let waits = async |state: &str| {
        let looking =
            async { while house.bare("GET", &session, "ostler_writer").await.json()["state"] != state {} };
        tokio::time::timeout(DEADLINE, looking).await.unwrap_or_else(|_| panic!("never {state}"));
    };
    waits("idle").await;
    let turn = json!({"text": "say two", "wait": true});
    let turns = format!("{session}/turns");
    let (got, ()) = tokio::join!(house.post(&turns, "ostler_writer", &turn), async {
        waits("in_flight").await;
        house.stage.gate.notify_one();
    });
    assert_eq!((got.status, &got.json()["text"]), (200, &json!("two")), "{}", got.body);
    let want = [(1, "say one"), (1, "linger"), (1, "say two")].map(|(pid, text)| (pid, text.to_owned()));
    assert_eq!(house.stage.log(|log| log.asked.clone()), want);
    house.close().await;
}

/// A session's folder was looked at when the session was made, and never again.
#[tokio::test]
async fn the_folder_of_a_session_is_authorized_at_every_turn() {
    let (kept, folders) = (Arc::new(tempfile::tempdir().unwrap()), tempfile::tempdir().unwrap());
    let root = folders.path().canonicalize().unwrap();
    let (allowed, work, secret) = (root.join("allowed"), root.join("allowed/work"), root.join("secret"));
    for folder in [&allowed, &work, &secret] {
        std::fs::create_dir(folder).unwrap();
    }
    let offer = |folders: &[&PathBuf]| Offer {
        folders: folders.iter().map(|folder| (*folder).clone()).collect(),
        ..offer(kept.path())
    };
    let house = House::with(offer(&[&allowed]), kept.clone(), Limits::default(), Duration::ZERO).await;
    let id = begin(&house, "ostler_writer", &json!({"model": "claude", "cwd": work})).await;
    let turns = format!("{SESSIONS}/{id}/turns");
    let turn = json!({"text": "say one", "wait": true});
    assert_eq!(house.post(&turns, "ostler_writer", &turn).await.status, 200);
    std::fs::remove_dir(&work).unwrap();
    assert_eq!(house.post(&turns, "ostler_writer", &turn).await.status, 403, "it is gone");
    std::os::unix::fs::symlink(&secret, &work).unwrap();
    let got = house.post(&turns, "ostler_writer", &turn).await;
    assert_eq!((got.status, &got.json()["field"]), (403, &json!("cwd")), "it is a link: {}", got.body);
    std::fs::remove_file(&work).unwrap();
    std::fs::create_dir(&work).unwrap();
    assert_eq!(house.post(&turns, "ostler_writer", &turn).await.status, 200);
    assert_eq!(house.stage.log(|log| log.asked.len()), 2, "nothing reached the agent in between");
    house.close().await;
    // A server that allows other folders does not go on with it.
    let house = House::with(offer(&[]), kept.clone(), Limits::default(), Duration::ZERO).await;
    assert_eq!(house.post(&turns, "ostler_writer", &turn).await.status, 403);
    house.close().await;
}
