//! Requests under an `Idempotency-Key`, sent again by programs whose connection broke.

use ostler_agent::leasing::Limits;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::house::{DEADLINE, Got, House, asked, head};
use crate::leaving::{connections, until};

fn once(key: &str, more: &str) -> String {
    format!("{}\r\nidempotency-key: {key}{more}", head("/v1/messages", "ostler_1"))
}

/// Asks again until the first is not under way any more.
async fn again(house: &House, head: &str, body: &str) -> Got {
    let asking = async {
        loop {
            let got = house.get(head, body).await;
            if got.status != 409 {
                return got;
            }
        }
    };
    tokio::time::timeout(DEADLINE, asking).await.unwrap()
}

#[tokio::test]
async fn a_turn_whose_connection_broke_goes_on_and_its_answer_waits() {
    let house = House::open(Limits::default()).await;
    for (number, stream) in [false, true].into_iter().enumerate() {
        let mut body = asked(&[("user", "wait half")]);
        body["stream"] = json!(stream);
        let (head, body) = (once(&format!("key-{stream}"), ""), body.to_string());
        let mut broken = house.ask(&head, &body).await;
        until("it is not asked", || house.stage.log(|log| log.asked.len()) == number + 1).await;
        if stream {
            let (mut heard, mut buffer) = (String::new(), [0; 1024]);
            while !heard.contains("half") {
                let count = tokio::time::timeout(DEADLINE, broken.read(&mut buffer)).await.unwrap().unwrap();
                assert_ne!(count, 0, "{heard}");
                heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        }
        drop(broken);
        until("a connection is left", || connections(&house) == 0).await;
        assert_eq!(house.get(&head, &body).await.status, 409, "it is under way");
        house.stage.gate.notify_one();
        let got = again(&house, &head, &body).await;
        assert_eq!((got.status, got.header("idempotent-replayed")), (200, Some("true")), "{}", got.body);
        assert!(got.body.contains("half"), "{}", got.body);
        if stream {
            assert_eq!(got.events().last().unwrap()["type"], json!("message_stop"));
        }
    }
    let log = house.stage.log(|log| (log.asked.len(), log.interrupted.len()));
    assert_eq!(log, (2, 0), "each was asked once, and none was broken off");
    house.close().await;
}

/// Its turn is broken off with the others, and nobody is waited for.
#[tokio::test]
async fn a_turn_that_nobody_waits_for_does_not_keep_the_server_from_ending() {
    let house = House::open(Limits::default()).await;
    let broken = house.ask(&once("key", ""), &asked(&[("user", "hang")]).to_string()).await;
    until("it is not asked", || house.stage.log(|log| !log.asked.is_empty())).await;
    drop(broken);
    house.close().await;
}

#[tokio::test]
async fn a_stream_that_failed_in_the_middle_is_not_given_again() {
    let house = House::open(Limits::default()).await;
    let mut body = asked(&[("user", "break half")]);
    body["stream"] = json!(true);
    for count in 1..=2 {
        let got = house.get(&once("key", ""), &body.to_string()).await;
        assert_eq!((got.status, got.header("idempotent-replayed")), (200, None), "{}", got.body);
        assert_eq!(got.events().last().unwrap()["type"], json!("error"));
        assert_eq!(house.stage.log(|log| log.asked.len()), count);
    }
    house.close().await;
}

#[tokio::test]
async fn an_answer_that_was_broken_off_is_not_given_again() {
    let house = House::open(Limits::default()).await;
    let body = asked(&[("user", "hang")]).to_string();
    let head = once("key", "\r\nx-ostler-conversation: broken");
    for count in 1..=2 {
        let mut asking = house.ask(&head, &body).await;
        until("it is not asked", || house.stage.log(|log| log.asked.len()) == count).await;
        let listed = house.bare("GET", "/api/v1/sessions", "ostler_owner").await.json();
        let id = listed["sessions"][0]["id"].as_str().unwrap().to_owned();
        let interrupt = crate::house::head(&format!("/api/v1/sessions/{id}/interrupt"), "ostler_owner");
        assert_eq!(house.get(&interrupt, "").await.status, 200);
        let mut heard = String::new();
        tokio::time::timeout(DEADLINE, asking.read_to_string(&mut heard)).await.unwrap().unwrap();
        assert!(!heard.contains("idempotent-replayed"), "{heard}");
    }
    house.close().await;
}

#[tokio::test]
async fn a_key_with_other_headers_of_ours_is_used_for_something_else() {
    let house = House::open(Limits::default()).await;
    let body = asked(&[("user", "say one")]).to_string();
    let got = house.get(&once("key", "\r\nx-ostler-conversation: alpha"), &body).await;
    assert_eq!(got.status, 200, "{}", got.body);
    let got = house.get(&once("key", "\r\nx-ostler-conversation: beta"), &body).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    house.close().await;
}

/// A conversation is busy for a moment: whoever asks again under his key means to be answered then.
#[tokio::test]
async fn a_conflict_is_not_given_again() {
    let house = House::open(Limits::default()).await;
    let named = "\r\nx-ostler-conversation: busy";
    let busy = format!("{}{named}", head("/v1/messages", "ostler_1"));
    let busy = house.ask(&busy, &asked(&[("user", "wait")]).to_string()).await;
    until("it is not asked", || house.stage.log(|log| !log.asked.is_empty())).await;
    let body = asked(&[("user", "say one")]).to_string();
    assert_eq!(house.get(&once("key", named), &body).await.status, 409);
    house.stage.gate.notify_one();
    let got = again(&house, &once("key", named), &body).await;
    assert_eq!((got.status, got.header("idempotent-replayed")), (200, None), "{}", got.body);
    drop(busy);
    house.close().await;
}
