//! Requests that get no session leave nothing behind, and conversations that are gone are errors, never empty ones.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ostler_agent::leasing::Limits;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::house::{DEADLINE, Got, House, asked, head, until};

const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const SESSIONS: &str = "/api/v1/sessions";

/// More than are kept.
const FLOOD: usize = 1_100;

/// One session, and no client waits for it.
fn single() -> Limits {
    Limits { live: 1, waiting: 0, waiting_of_tenant: 0, ..Limits::default() }
}

/// All files of conversations, with their bytes.
fn on_disk(house: &House) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let folder = house.kept.path().join("conversations");
    for tenant in std::fs::read_dir(folder).unwrap() {
        for file in std::fs::read_dir(tenant.unwrap().path()).unwrap() {
            let file = file.unwrap();
            found.push((file.file_name().into_string().unwrap(), file.metadata().unwrap().len()));
        }
    }
    found.sort();
    found
}

fn named(path: &str, key: &str, name: &str) -> String {
    format!("{}\r\nx-ostler-conversation: {name}", head(path, key))
}

fn conversation(got: &Got) -> Option<String> {
    got.header("x-ostler-conversation").map(str::to_owned)
}

/// Takes the only session, and keeps it until the gate opens.
async fn take_session(house: &House) -> TcpStream {
    let before = house.stage.log(|log| log.asked.len());
    let busy = house.ask(&head(MESSAGES, "ostler_2"), &asked(&[("user", "wait")]).to_string()).await;
    let taken = async {
        while house.stage.log(|log| log.asked.len()) == before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, taken).await.unwrap();
    busy
}

async fn sessions(house: &House) -> usize {
    let listed = house.bare("GET", SESSIONS, "ostler_writer").await.json();
    listed["sessions"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_flood_of_refusals_leaves_nothing_and_erases_no_conversation() {
    let house = House::open(single()).await;
    let first = house
        .get(&named(MESSAGES, "ostler_writer", "mine"), &asked(&[("user", "say one")]).to_string())
        .await;
    let id = conversation(&first).unwrap();
    let native = house.post(SESSIONS, "ostler_writer", &json!({"model": "claude"})).await.json();
    let turns = format!("{SESSIONS}/{}/turns", native["id"].as_str().unwrap());
    let busy = take_session(&house).await;
    let (before, listed) = (on_disk(&house), sessions(&house).await);
    let question = asked(&[("user", "say two")]);
    let response = json!({"model": "claude", "input": "say two"});
    for number in 0..FLOOD {
        let got = match number % 5 {
            0 => house.post(MESSAGES, "ostler_writer", &question).await,
            1 => house.post(CHAT, "ostler_writer", &question).await,
            2 => house.post(RESPONSES, "ostler_writer", &response).await,
            3 => house.post(&turns, "ostler_writer", &json!({"text": "say two"})).await,
            _ => house.get(&named(MESSAGES, "ostler_writer", "mine"), &question.to_string()).await,
        };
        assert_eq!((got.status, got.header("retry-after").is_some()), (429, true), "{}", got.body);
        // What is there is named; what was begun for the request alone is not there any more.
        let is_named = (number % 5 == 4).then(|| id.clone());
        assert_eq!(conversation(&got), is_named, "{number}");
    }
    assert_eq!((on_disk(&house), sessions(&house).await), (before, listed));
    house.stage.gate.notify_one();
    drop(busy);
    // It goes on with all that was said.
    let free = async {
        loop {
            let got = house.get(&named(MESSAGES, "ostler_writer", "mine"), &question.to_string()).await;
            if got.status != 429 {
                return got;
            }
        }
    };
    let got = tokio::time::timeout(DEADLINE, free).await.unwrap();
    assert_eq!((got.status, conversation(&got)), (200, Some(id.clone())), "{}", got.body);
    let told = house.stage.log(|log| log.started.last().unwrap().clone());
    assert_eq!(told.first(), Some(&json!({"role": "user", "content": "say one"})));
    let shown = house.bare("GET", &format!("{SESSIONS}/{id}"), "ostler_writer").await.json();
    assert_eq!((&shown["turns"], &shown["last_error"]), (&json!(2), &Value::Null));
    house.close().await;
}

#[tokio::test]
async fn what_fails_before_an_agent_leaves_nothing() {
    let house = House::open(Limits::default()).await;
    let question = asked(&[("user", "say one")]);
    let with = |field: &str, value: Value| {
        let mut body = question.clone();
        body[field] = value;
        body
    };
    let outcome = json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "none", "content": "x"}]}]);
    let table = [
        (400, house.post(MESSAGES, "ostler_writer", &json!({"model": "claude"})).await),
        (400, house.post(MESSAGES, "ostler_writer", &with("messages", outcome)).await),
        (400, house.post(CHAT, "ostler_writer", &with("messages", json!([]))).await),
        (
            400,
            house
                .post(
                    RESPONSES,
                    "ostler_writer",
                    &json!({"model": "claude", "input": "x", "previous_response_id": "resp_1"}),
                )
                .await,
        ),
        (400, house.get(&named(MESSAGES, "ostler_writer", &"x".repeat(200)), &question.to_string()).await),
        (401, house.post(MESSAGES, "ostler_none", &question).await),
        (403, house.post(MESSAGES, "ostler_looker", &question).await),
        (404, house.post(MESSAGES, "ostler_writer", &with("model", json!("none"))).await),
        (502, house.post(MESSAGES, "ostler_writer", &with("model", json!("claude/unstartable"))).await),
        (
            502,
            house
                .get(
                    &named(CHAT, "ostler_writer", "mine"),
                    &with("model", json!("claude/unstartable")).to_string(),
                )
                .await,
        ),
        (
            502,
            house
                .post(
                    RESPONSES,
                    "ostler_writer",
                    &json!({"model": "claude/unstartable", "input": "x", "store": false, "stream": true}),
                )
                .await,
        ),
    ];
    for (want, got) in &table {
        assert_eq!((got.status, conversation(got)), (*want, None), "{}", got.body);
    }
    // What is too large is refused before it is sent.
    let mut large = TcpStream::connect(house.address).await.unwrap();
    let head = head(MESSAGES, "ostler_writer");
    let request = format!("{head}\r\nhost: {}\r\ncontent-length: 50000000\r\n\r\n{{", house.address);
    large.write_all(request.as_bytes()).await.unwrap();
    until(&mut large, "HTTP/1.1 413").await;
    assert_eq!((on_disk(&house), sessions(&house).await), (Vec::new(), 0));
    // A second turn of a conversation while its first is under way.
    let ask = named(MESSAGES, "ostler_writer", "mine");
    let busy = house.ask(&ask, &asked(&[("user", "wait")]).to_string()).await;
    let under_way = async {
        while on_disk(&house).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, under_way).await.unwrap();
    let before = on_disk(&house);
    let got = house.get(&ask, &question.to_string()).await;
    assert_eq!((got.status, conversation(&got).is_some()), (409, true), "the conversation is known");
    assert_eq!(on_disk(&house), before);
    house.stage.gate.notify_one();
    drop(busy);
    house.close().await;
}

/// Neither a turn that waits for a session nor one that is cancelled before it has one.
#[tokio::test]
async fn who_leaves_before_there_is_a_session_leaves_nothing() {
    let house = House::open(Limits { live: 1, ..Limits::default() }).await;
    let busy = take_session(&house).await;
    let before = on_disk(&house);
    let question = asked(&[("user", "say one")]).to_string();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(house.ask(&head(MESSAGES, "ostler_writer"), &question).await);
    }
    let counted = |want: usize| {
        let house = &house;
        async move { while sessions(house).await != want {} }
    };
    tokio::time::timeout(DEADLINE, counted(3)).await.unwrap();
    assert_eq!(on_disk(&house), before, "they are listed, and not on disk");
    drop(waiting);
    tokio::time::timeout(DEADLINE, counted(0)).await.unwrap();
    assert_eq!(on_disk(&house), before);
    house.stage.gate.notify_one();
    drop(busy);
    house.close().await;
}

#[tokio::test]
async fn a_conversation_that_is_gone_is_an_error_in_every_api() {
    let mut house = House::open(Limits::default()).await;
    let (question, more) = (asked(&[("user", "say one")]), asked(&[("user", "say two")]));
    let by_name = house.get(&named(MESSAGES, "ostler_writer", "mine"), &question.to_string()).await;
    let by_id = house.post(CHAT, "ostler_writer", &question).await;
    let response =
        house.post(RESPONSES, "ostler_writer", &json!({"model": "claude", "input": "say one"})).await;
    let unkept = json!({"model": "claude", "input": "say one", "store": false});
    let unkept = house.post(RESPONSES, "ostler_writer", &unkept).await;
    let ids: Vec<String> =
        [&by_name, &by_id, &response].into_iter().map(|got| conversation(got).unwrap()).collect();
    for id in &ids {
        assert_eq!(house.bare("DELETE", &format!("{SESSIONS}/{id}"), "ostler_writer").await.status, 204);
    }
    let answer = response.json()["id"].clone();
    let part = response.json()["output"][0]["id"].clone();
    for restarts in 0..2 {
        let mut names: Vec<&str> = ids.iter().map(String::as_str).collect();
        let unkept = conversation(&unkept).unwrap();
        names.extend(["mine", &unkept]);
        for name in names {
            for path in [MESSAGES, CHAT] {
                let got = house.get(&named(path, "ostler_writer", name), &more.to_string()).await;
                assert_eq!(got.status, 404, "{path} {name}, {restarts} restarts: {}", got.body);
            }
            let body = json!({"model": "claude", "input": "say two"}).to_string();
            let got = house.get(&named(RESPONSES, "ostler_writer", name), &body).await;
            assert_eq!((got.status, &got.json()["error"]["param"]), (404, &json!("x-ostler-conversation")));
        }
        for id in &ids {
            let turns = format!("{SESSIONS}/{id}/turns");
            assert_eq!(house.post(&turns, "ostler_writer", &json!({"text": "say two"})).await.status, 404);
        }
        let follow = json!({"model": "claude", "input": "say two", "previous_response_id": answer});
        assert_eq!(house.post(RESPONSES, "ostler_writer", &follow).await.status, 400);
        let refer = json!([{"type": "item_reference", "id": part}, {"role": "user", "content": "say two"}]);
        let refer = json!({"model": "claude", "input": refer});
        assert_eq!(house.post(RESPONSES, "ostler_writer", &refer).await.status, 400);
        // Another key has names of its own, and a name that never was is a new conversation.
        for (key, name) in [("ostler_2", "mine"), ("ostler_writer", &format!("new-{restarts}"))] {
            assert_eq!(house.get(&named(MESSAGES, key, name), &more.to_string()).await.status, 200);
        }
        let kept = Arc::clone(&house.kept);
        house.close().await;
        house = House::at(kept, Limits::default(), Duration::ZERO).await;
    }
    // Whoever sends all of it begins it again, and goes on with it.
    let all = asked(&[("user", "say one"), ("assistant", "one"), ("user", "say two")]);
    let again = house.get(&named(MESSAGES, "ostler_writer", "mine"), &all.to_string()).await;
    assert_eq!((again.status, conversation(&again).as_ref()), (200, Some(&ids[0])), "{}", again.body);
    let on = house.get(&named(MESSAGES, "ostler_writer", "mine"), &more.to_string()).await;
    assert_eq!((on.status, conversation(&on).as_ref()), (200, Some(&ids[0])));
    assert_eq!(house.stage.log(|log| log.started.len()), 1, "in the same session");
    house.close().await;
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// What is on disk in the middle of a turn is what a server finds that starts after `kill -9`.
#[tokio::test]
async fn a_turn_that_the_servers_death_interrupts_has_its_words_and_an_error() {
    let house = House::open(Limits::default()).await;
    let body = json!({"model": "claude", "input": "hang", "stream": true}).to_string();
    let mut stream = house.ask(&head(RESPONSES, "ostler_writer"), &body).await;
    let heard = until(&mut stream, "half").await;
    let from = heard.find("resp_").unwrap();
    let answer = heard[from..].split('"').next().unwrap().to_owned();
    let id = answer["resp_".len()..][..32].to_owned();
    let left = Arc::new(tempfile::tempdir().unwrap());
    copy(house.kept.path(), left.path());
    drop(stream);
    house.close().await;

    let house = House::at(left, Limits::default(), Duration::ZERO).await;
    let session = format!("{SESSIONS}/{id}");
    let shown = house.bare("GET", &session, "ostler_writer").await.json();
    let error = "the server ended during this turn: the answer is incomplete";
    assert_eq!((&shown["last_error"], &shown["turns"]), (&json!(error), &json!(1)));
    let half = json!({"role": "assistant", "content": [{"type": "text", "text": "half"}]});
    let question = json!({"role": "user", "content": "hang"});
    let transcript = house.bare("GET", &format!("{session}/transcript"), "ostler_writer").await.json();
    assert_eq!(transcript["messages"], json!([question, half]));
    let turn = format!("{session}/turns/{}", &answer["resp_".len()..]);
    let turn = house.bare("GET", &turn, "ostler_writer").await.json();
    assert_eq!(
        (&turn["state"], &turn["text"], &turn["error"]),
        (&json!("interrupted"), &json!("half"), &json!(error))
    );
    let told = house.bare("GET", &format!("{RESPONSES}/{answer}"), "ostler_writer").await.json();
    assert_eq!((&told["status"], &told["error"]["message"]), (&json!("failed"), &json!(error)));
    assert_eq!(told["output"][0]["content"][0]["text"], json!("half"));
    // It goes on with those words: by the answer, by its id, and as it is sent back.
    let follow = json!({"model": "claude", "input": "say two", "previous_response_id": answer});
    let got = house.post(RESPONSES, "ostler_writer", &follow).await;
    assert_eq!((got.status, conversation(&got)), (200, Some(id)), "{}", got.body);
    assert_eq!(house.stage.log(|log| log.started[0].clone()), [question, half]);
    let shown = house.bare("GET", &session, "ostler_writer").await.json();
    assert_eq!(shown["last_error"], Value::Null);
    house.close().await;
}
