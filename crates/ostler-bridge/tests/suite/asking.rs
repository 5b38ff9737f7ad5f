//! Questions to a person: answered, defaulted, withdrawn.

use ostler_bridge::event::{BridgeEvent, Ended, Question, Settled};
use ostler_bridge::route::Answering;
use serde_json::json;
use tokio::task::JoinSet;

use super::ground::{Events, Ground, Guest};

async fn asked(events: &mut Events) -> Question {
    events
        .find(|event| match event {
            BridgeEvent::Asked(question) => Some(question),
            _ => None,
        })
        .await
}

async fn settled(events: &mut Events) -> Settled {
    events
        .find(|event| match event {
            BridgeEvent::Settled { how, .. } => Some(how),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn a_person_answers() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let mut calls = JoinSet::new();
    calls.spawn(async move {
        guest.says("ask_human", json!({ "question": "Red?", "options": ["yes", "no"] })).await
    });
    let question = asked(&mut events).await;
    assert_eq!((question.text.as_str(), question.options.len(), question.within.as_secs()), ("Red?", 2, 600));
    assert_eq!(route.open_questions(), [question.id]);
    assert_eq!(route.answer(question.id + 1, "no"), Answering::NotOpen);
    assert_eq!(route.answer(question.id, "yes"), Answering::Given);
    assert_eq!(route.answer(question.id, "no"), Answering::NotOpen);
    assert_eq!(calls.join_next().await.unwrap().unwrap(), "ok: yes");
    assert_eq!(settled(&mut events).await, Settled::Answered("yes".to_owned()));
}

#[tokio::test]
async fn nobody_answers_and_the_default_does() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let said = guest.says("ask_human", json!({ "question": "Red?", "default": "no", "timeout": 0 })).await;
    assert_eq!(said, "ok: no");
    assert_eq!(settled(&mut events).await, Settled::TimedOut);
    let said = guest.says("ask_human", json!({ "question": "Red?", "timeout": 0 })).await;
    assert!(said.starts_with("ok: Nobody answered within 0 seconds. Decide yourself"), "{said}");
    assert_eq!(settled(&mut events).await, Settled::TimedOut);
    assert_eq!(route.open_questions(), Vec::<u64>::new());
    // A week is not waited.
    let mut calls = JoinSet::new();
    calls.spawn(
        async move { guest.says("ask_human", json!({ "question": "Red?", "timeout": 604_800 })).await },
    );
    assert_eq!(asked(&mut events).await.within.as_secs(), 3600);
}

#[tokio::test]
async fn a_client_that_goes_away_withdraws_its_question() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let mut calls = JoinSet::new();
    calls.spawn(async move { guest.says("ask_human", json!({ "question": "Red?" })).await });
    asked(&mut events).await;
    calls.shutdown().await;
    assert_eq!(settled(&mut events).await, Settled::Withdrawn);
    assert_eq!(route.open_questions(), Vec::<u64>::new());
    let other = Guest::of(&route);
    assert_eq!(other.says("report_progress", json!({ "text": "Still here." })).await, "ok: Noted.");
}

#[tokio::test]
async fn a_client_takes_its_call_back_by_a_message_and_only_its_own() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.run();
    let one = guest.greet("2025-06-18").await.session.expect("a session is given");
    let two = guest.greet("2025-06-18").await.session.expect("a session is given");
    let mine = guest.with("mcp-session-id", &one);
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let cancel = cancel.to_string();
    // For a call that is over, or never was: no news.
    assert_eq!(mine.post(cancel.clone()).await.status, 202);
    let mut calls = JoinSet::new();
    let asking = mine.clone();
    calls.spawn(async move { asking.says("ask_human", json!({ "question": "Red?" })).await });
    asked(&mut events).await;
    assert_eq!(guest.with("mcp-session-id", &two).post(cancel.clone()).await.status, 202);
    assert_eq!(guest.post(cancel.clone()).await.status, 202);
    assert_eq!(guest.says("report_progress", json!({ "text": "Waiting." })).await, "ok: Noted.");
    assert!(calls.try_join_next().is_none());
    assert_eq!(mine.post(cancel).await.status, 202);
    assert_eq!(settled(&mut events).await, Settled::Withdrawn);
    let ended = events.find(|event| match event {
        BridgeEvent::Answered { tool, ended } if tool == "ask_human" => Some(ended),
        _ => None,
    });
    assert_eq!(ended.await, Ended::Cancelled);
    assert_eq!(calls.join_next().await.unwrap().unwrap(), "failed: The question was withdrawn.");
}

#[tokio::test]
async fn questions_that_nobody_answers_do_not_pile_up() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let mut calls = JoinSet::new();
    for _ in 0..32 {
        let guest = guest.clone();
        calls.spawn(async move { guest.says("ask_human", json!({ "question": "Red?" })).await });
    }
    for _ in 0..32 {
        asked(&mut events).await;
    }
    let said = guest.says("ask_human", json!({ "question": "Red?" })).await;
    assert!(said.starts_with("failed: Too many questions are open."), "{said}");
    // The end of the run ends all calls.
    drop(route);
    while let Some(ended) = calls.join_next().await {
        drop(ended);
    }
}
