//! What one client does, others do not notice.

use ostler_agent::leasing::Limits;
use tokio::task::JoinSet;

use crate::house::{DEADLINE, House, asked, head};

const MESSAGES: &str = "/v1/messages";

/// Bodies of tiny values: each took a hundred times its length in memory, and was parsed while everybody waited.
#[tokio::test]
async fn bodies_of_tiny_values_of_one_key_are_refused_while_another_key_is_answered() {
    let house = House::open(Limits::default()).await;
    let body = format!("[{}0]", "{\"\":0},".repeat(400_000));
    let mut flood = JoinSet::new();
    for _ in 0..8 {
        let (question, address) = (head(MESSAGES, "ostler_1"), house.address);
        let body = body.clone();
        flood.spawn(async move { House::get_at(address, &question, &body).await.status });
    }
    for _ in 0..20 {
        let got = house.post(MESSAGES, "ostler_2", &asked(&[("user", "say one")])).await;
        assert_eq!(got.status, 200, "{}", got.body);
    }
    let refused = tokio::time::timeout(DEADLINE, flood.join_all()).await.unwrap();
    assert!(refused.iter().all(|status| matches!(status, 413 | 429 | 503)), "{refused:?}");
    assert!(refused.contains(&413), "{refused:?}");
    house.close().await;
}

#[tokio::test]
async fn a_long_conversation_is_answered_as_before() {
    let house = House::open(Limits::default()).await;
    let long = "a long text, and longer: [1, 2] ".repeat(300_000);
    let said = asked(&[("user", &long), ("assistant", "one"), ("user", "say two")]);
    for path in [MESSAGES, "/v1/chat/completions"] {
        let got = house.post(path, "ostler_1", &said).await;
        assert_eq!(got.status, 200, "{}", got.body);
    }
    house.close().await;
}
