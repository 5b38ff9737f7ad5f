//! Conversations that version 0.1 left behind continue with the real agent, although the agent's own sessions are gone.

use serde_json::{Value, json};

use crate::home_fixture::copy_home_0_1;
use crate::player::Player;
use crate::scene::played;

/// The key `owner` of the fixture, to which its conversations belong.
const OWNER: &str = "ostler_d4be5d2d96c34fa3b5bececf4b1b840a4a207df9f4fe4f69ad36fb9feb1ded1f";

const ECHO: &str = r#"
v = 1
[[conversation]]
name = "echo"
[[conversation.step]]
reply = [{ text = "{{prompt}}!" }]
"#;

#[tokio::test]
async fn a_conversation_of_0_1_continues_with_its_history() {
    played(Player::ClaudeStream, ECHO, |scene| {
        let home = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
        copy_home_0_1(&home.path().join("ostler"));
        let served = scene.served_at(home, OWNER);
        let talk = json!([
            {"role": "user", "content": "remember the number 41"},
            {"role": "assistant", "content": "remember the number 41"},
            {"role": "user", "content": "and the number 42"},
            {"role": "assistant", "content": "and the number 42"},
            {"role": "user", "content": "which numbers"},
        ]);
        let request = json!({"model": "claude", "max_tokens": 99, "messages": talk});
        let (status, body) = served.post("/v1/messages", &request);
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["content"][0]["text"], "which numbers!");
        let sent = scene.tap.conversation().pop().unwrap()["messages"].to_string();
        assert!(sent.contains("remember the number 41") && sent.contains("and the number 42"), "{sent}");
        assert_eq!(served.interrupt(), Some(0));
    })
    .await;
}

/// The Responses API names its conversation, and sends no history: all of it comes from the home.
#[tokio::test]
async fn a_response_of_0_1_can_be_referenced() {
    played(Player::ClaudeStream, ECHO, |scene| {
        let home = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
        copy_home_0_1(&home.path().join("ostler"));
        let served = scene.served_at(home, OWNER);
        let before = "resp_aac58d2a1543491a95665a4a755387f818acf95b";
        let request = json!({"model": "claude", "input": "go on", "previous_response_id": before});
        let (status, body) = served.post("/v1/responses", &request);
        assert_eq!(status, 200, "{body}");
        let sent = scene.tap.conversation().pop().unwrap()["messages"].to_string();
        assert!(sent.contains("a third conversation") && sent.contains("go on"), "{sent}");
        assert_eq!(served.interrupt(), Some(0));
    })
    .await;
}
