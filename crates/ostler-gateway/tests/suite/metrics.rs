//! `/metrics`: what is counted, under which names, and that others can read it.

mod exposition;

use std::sync::Arc;
use std::time::Duration;

use ostler_agent::access::{KeyKind, Policy};
use ostler_agent::leasing::{Limits, Terms};
use ostler_gateway::http::keys::{Key, Keys};
use ostler_gateway::pool::{Patience, Pool};
use serde_json::json;

use crate::house::{DEADLINE, House, asked, head, offer, until};
use crate::pool::terms;
use crate::scripted::Stage;
use exposition::Exposition;

async fn metrics(house: &House) -> Exposition {
    let got = house.bare("GET", "/metrics", "ostler_owner").await;
    assert_eq!(
        (got.status, got.header("content-type")),
        (200, Some("text/plain; version=0.0.4; charset=utf-8"))
    );
    Exposition::parse(&got.body).unwrap_or_else(|error| panic!("{error}\n{}", got.body))
}

/// Reads the metrics until this is so.
async fn until_is(house: &House, sample: &str, value: f64) {
    let reached = async { while metrics(house).await.value(sample) != Some(value) {} };
    let reached = tokio::time::timeout(DEADLINE, reached).await;
    assert!(reached.is_ok(), "never: {sample} {value}");
}

fn turns(outcome: &str, start: &str) -> String {
    format!("ostler_turns_total{{agent=\"claude\",key=\"one\",outcome=\"{outcome}\",start=\"{start}\"}}")
}

#[tokio::test]
async fn turns_are_counted_by_start_and_outcome_with_their_tokens_and_cost() {
    let house = House::open(Limits::default()).await;
    let talk: [&[(&str, &str)]; 5] = [
        &[("user", "spend one")],
        &[("user", "spend one"), ("assistant", "one"), ("user", "say two")],
        &[("user", "unknown"), ("assistant", "history"), ("user", "say three")],
        &[("user", "fail")],
        &[("user", "spend four")],
    ];
    for talk in talk {
        house.post("/v1/messages", "ostler_1", &asked(talk)).await;
    }
    let found = metrics(&house).await;
    for (sample, value) in [
        (turns("done", "cold"), 2.0),
        (turns("done", "warm"), 1.0),
        (turns("done", "injected"), 1.0),
        (turns("failed", "cold"), 1.0),
        ("ostler_tokens_total{agent=\"claude\",key=\"one\",kind=\"input\"}".to_owned(), 14.0),
        ("ostler_tokens_total{agent=\"claude\",key=\"one\",kind=\"cached_input\"}".to_owned(), 6.0),
        ("ostler_tokens_total{agent=\"claude\",key=\"one\",kind=\"output\"}".to_owned(), 4.0),
        ("ostler_cost_usd_total{agent=\"claude\",key=\"one\"}".to_owned(), 0.5),
        ("ostler_turn_seconds_count{agent=\"claude\",start=\"cold\"}".to_owned(), 3.0),
        ("ostler_first_token_seconds_count{agent=\"claude\",start=\"cold\"}".to_owned(), 2.0),
        ("ostler_first_token_seconds_count{agent=\"claude\",start=\"warm\"}".to_owned(), 1.0),
        ("ostler_queue_wait_seconds_count{agent=\"claude\"}".to_owned(), 5.0),
        ("ostler_agent_sessions{agent=\"claude\",state=\"idle\"}".to_owned(), 3.0),
        ("ostler_sessions{state=\"idle\"}".to_owned(), 3.0),
    ] {
        assert_eq!(found.value(&sample), Some(value), "{sample}\n{found:#?}");
    }
    house.close().await;
}

#[tokio::test]
async fn a_session_that_was_started_ahead_is_a_start_of_its_own() {
    let (stage, kept) = (Stage::default(), Arc::new(tempfile::tempdir().unwrap()));
    let pool = Pool::new(stage.clone(), Limits::default(), Patience::default());
    let usual = Terms { agent: "claude-headless".to_owned(), kind: KeyKind::Tenant, ..terms("one") };
    pool.warm(&usual, 1);
    let offer = offer(kept.path());
    let house = House::serving(stage, pool, offer, (kept, Duration::ZERO)).await;
    until_is(&house, "ostler_agent_sessions{agent=\"claude\",state=\"spare\"}", 1.0).await;
    assert_eq!(house.post("/v1/messages", "ostler_1", &asked(&[("user", "say one")])).await.status, 200);
    assert_eq!(metrics(&house).await.value(&turns("done", "spare")), Some(1.0));
    house.close().await;
}

#[tokio::test]
async fn a_turn_that_waits_is_in_the_queue_until_it_has_a_session() {
    let limits = Limits { live: 1, waiting: 1, ..Limits::default() };
    let house = House::open(limits).await;
    let depth = "ostler_queue_depth{agent=\"claude\"}";
    assert_eq!(metrics(&house).await.value(depth), Some(0.0));
    let ask = |text: &str| asked(&[("user", text)]).to_string();
    let mut first = house.ask(&head("/v1/messages", "ostler_1"), &ask("wait")).await;
    until_is(&house, "ostler_sessions{state=\"busy\"}", 1.0).await;
    let mut second = house.ask(&head("/v1/messages", "ostler_1"), &ask("say two")).await;
    until_is(&house, depth, 1.0).await;
    // The queue is full: the third is refused, and counted by its reason.
    assert_eq!(house.post("/v1/messages", "ostler_1", &asked(&[("user", "say three")])).await.status, 429);
    let full = "ostler_refusals_total{key=\"one\",reason=\"queue_full\"}";
    let found = metrics(&house).await;
    assert_eq!((found.value(full), found.value(&turns("refused", "none"))), (Some(1.0), Some(1.0)));
    house.stage.gate.notify_one();
    until(&mut first, "waited").await;
    until(&mut second, "two").await;
    let found = metrics(&house).await;
    let wait = |part: &str| found.value(&format!("ostler_queue_wait_seconds_{part}{{agent=\"claude\"}}"));
    assert_eq!((found.value(depth), wait("count")), (Some(0.0), Some(2.0)));
    assert!(wait("sum").unwrap() > 0.0, "{:?}", wait("sum"));
    // A client that leaves while it waits leaves the queue.
    let busy = house.ask(&head("/v1/messages", "ostler_1"), &ask("hang")).await;
    until_is(&house, "ostler_sessions{state=\"busy\"}", 1.0).await;
    let gone = house.ask(&head("/v1/messages", "ostler_2"), &ask("say five")).await;
    until_is(&house, depth, 1.0).await;
    drop(gone);
    until_is(&house, depth, 0.0).await;
    drop(busy);
    house.close().await;
}

#[tokio::test]
async fn refusals_are_counted_by_key_and_reason() {
    let house = House::open(Limits::default()).await;
    let body = asked(&[("user", "say one")]);
    house.post("/v1/messages", "ostler_wrong", &body).await;
    house.get("GET /v1/models HTTP/1.1", "").await;
    house.get("GET /healthz HTTP/1.1\r\norigin: http://evil.example", "").await;
    house.post("/v1/messages", "ostler_looker", &body).await;
    house.bare("GET", "/api/v1/sessions", "ostler_1").await;
    house.bare("GET", "/api/v1/sessions/none", "ostler_looker").await;
    house.post("/v1/messages", "ostler_1", &json!({"model": "claude"})).await;
    for _ in 0..4 {
        house.post("/v1/messages", "ostler_tight", &body).await;
    }
    // The failure of an agent is no refusal.
    assert_eq!(house.post("/v1/messages", "ostler_1", &asked(&[("user", "fail")])).await.status, 503);
    let found = metrics(&house).await;
    let refusals = |key: &str, reason: &str| {
        found.value(&format!("ostler_refusals_total{{key=\"{key}\",reason=\"{reason}\"}}"))
    };
    for (key, reason, count) in [
        ("none", "invalid_api_key", 2.0),
        ("none", "permission_denied", 1.0),
        ("looker", "permission_denied", 1.0),
        ("looker", "not_found", 1.0),
        ("one", "permission_denied", 1.0),
        ("one", "invalid_request", 1.0),
        ("tight", "rate_limit", 1.0),
    ] {
        assert_eq!(refusals(key, reason), Some(count), "{key} {reason}\n{found:#?}");
    }
    assert_eq!(refusals("one", "overloaded"), None);
    house.close().await;
}

#[tokio::test]
async fn questions_are_open_until_they_are_answered() {
    let house = House::open(Limits::default()).await;
    let open = "ostler_open_questions{agent=\"claude\"}";
    assert_eq!(metrics(&house).await.value(open), Some(0.0));
    let ask = format!("{}\r\nx-ostler-permissions: ask", head("/v1/messages", "ostler_writer"));
    let mut stream = house.ask(&ask, &asked(&[("user", "may I")]).to_string()).await;
    until_is(&house, open, 1.0).await;
    let listed = house.bare("GET", "/api/v1/permissions", "ostler_writer").await.json();
    let path = format!("/api/v1/permissions/{}", listed["permissions"][0]["id"].as_str().unwrap());
    assert_eq!(house.post(&path, "ostler_owner", &json!({"decision": "allow"})).await.status, 200);
    assert_eq!(metrics(&house).await.value(open), Some(0.0));
    until(&mut stream, "did ls").await;
    house.close().await;
}

/// Dashboards depend on them: a change here is a change for users.
#[tokio::test]
async fn names_types_and_help_stay_as_they_are() {
    let house = House::open(Limits::default()).await;
    house.post("/v1/messages", "ostler_1", &asked(&[("user", "spend one")])).await;
    house.post("/v1/messages", "ostler_wrong", &asked(&[("user", "say one")])).await;
    insta::assert_snapshot!(metrics(&house).await.described());
    house.close().await;
}

/// Whatever a key is called, the text can be read; and what opens is in no label.
#[tokio::test]
async fn a_key_with_an_odd_name_breaks_no_line() {
    let kept = Arc::new(tempfile::tempdir().unwrap());
    let odd = "o\"d\\d\n{key}=é";
    let keys = Keys::new(vec![
        Key::of(odd, "ostler_odd", Policy::chat()),
        Key::of("owner", "ostler_owner", Policy::owner()),
    ]);
    let offer = ostler_gateway::http::Offer { keys, ..offer(kept.path()) };
    let house = House::with(offer, kept, Limits::default(), Duration::ZERO).await;
    house.post("/v1/messages", "ostler_odd", &asked(&[("user", "say one")])).await;
    house.post("/v1/messages", "ostler_odd", &json!({})).await;
    let got = house.bare("GET", "/metrics", "ostler_owner").await;
    assert!(!got.body.contains("ostler_odd") && !got.body.contains("ostler_owner"), "{}", got.body);
    let found = Exposition::parse(&got.body).unwrap();
    assert!(found.has_label("key", odd), "{found:#?}");
    house.close().await;
}
