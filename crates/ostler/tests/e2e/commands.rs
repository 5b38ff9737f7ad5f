//! A question that begins with `/`: a text like any other, and with `x-ostler-slash: allow` a command of the agent's own.

use serde_json::{Value, json};

use crate::player::Player;
use crate::scene::{Scene, played};
use crate::serve::Served;

/// Says back what it is asked.
const SCRIPT: &str = "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"{{prompt}}!\" }]";

const ALLOWED: &str = "x-ostler-slash: allow\r\n";

/// Asks in a conversation, and returns the answer.
fn asked(served: &Served, more: &str, talk: &mut Vec<Value>, prompt: &str) -> String {
    talk.push(json!({"role": "user", "content": prompt}));
    let question = json!({"model": "claude", "messages": talk});
    let (status, body) = served.post_with("/v1/chat/completions", more, &question);
    assert_eq!(status, 200, "{prompt}: {body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    let answer = answer["choices"][0]["message"]["content"].clone();
    talk.push(json!({"role": "assistant", "content": answer}));
    answer.as_str().unwrap().to_owned()
}

/// What the model was last asked, and by how many requests so far.
fn told(scene: &Scene) -> (usize, String) {
    let requests = scene.tap.conversation();
    let last = requests.last().and_then(|request| request["messages"].as_array()?.last().cloned());
    (requests.len(), last.unwrap_or_default().to_string())
}

fn process(served: &Served) -> Value {
    let (_, listed) = served.bare("GET", "/api/v1/sessions");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["counts"]["idle"], 1, "{listed}");
    listed["sessions"][0]["process"]["pid"].clone()
}

#[tokio::test]
async fn a_slash_is_a_command_only_where_the_request_says_so() {
    played(Player::ClaudeStream, SCRIPT, |scene| {
        let commands = scene.home.path().join(".claude/commands");
        std::fs::create_dir_all(&commands).unwrap();
        std::fs::write(commands.join("fruit.md"), "Name a fruit like $ARGUMENTS\n").unwrap();
        let served = scene.served();
        let mut talk = Vec::new();

        assert_eq!(asked(&served, "", &mut talk, "/fruit plums"), " /fruit plums!");
        assert!(!told(scene).1.contains("Name a fruit like plums"), "{}", told(scene).1);
        let first = process(&served);

        asked(&served, ALLOWED, &mut talk, "/fruit plums");
        let (requests, last) = told(scene);
        assert!(last.contains("Name a fruit like plums"), "{last}");

        // One that the agent does by itself: it answers, and asks no model.
        let answer = asked(&served, ALLOWED, &mut talk, "/cost");
        assert!(answer.contains("cost"), "{answer}");
        assert_eq!(told(scene).0, requests);

        // The conversation goes on in the session in which it was done, and words are words.
        // The agent tells the model of the command too.
        let answer = asked(&served, ALLOWED, &mut talk, "and now?");
        assert!(answer.ends_with("and now?!"), "{answer}");
        assert_eq!(process(&served), first);
        assert_eq!(told(scene).0, requests + 1);

        // What it makes the session forget is forgotten.
        asked(&served, ALLOWED, &mut talk, "/clear");
        let answer = asked(&served, "", &mut talk, "who am I?");
        assert!(answer.ends_with("who am I?!"), "{answer}");
        let request = scene.tap.conversation().pop().unwrap();
        assert!(!request["messages"].to_string().contains("and now?"), "{request}");
        assert_eq!(process(&served), first);
        assert_eq!(served.interrupt(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_turn_of_a_session_may_be_a_command() {
    played(Player::ClaudeStream, SCRIPT, |scene| {
        let served = scene.served();
        let (status, begun) = served.post("/api/v1/sessions", &json!({"model": "claude"}));
        assert_eq!(status, 201, "{begun}");
        let begun: Value = serde_json::from_str(&begun).unwrap();
        let turns = format!("/api/v1/sessions/{}/turns", begun["id"].as_str().unwrap());
        let (status, body) = served.post_with(&turns, ALLOWED, &json!({"text": "/cost", "wait": true}));
        assert_eq!(status, 200, "{body}");
        let turn: Value = serde_json::from_str(&body).unwrap();
        assert!(turn["text"].as_str().unwrap().contains("cost"), "{turn}");
        assert_eq!(told(scene).0, 0, "no model was asked");
        assert_eq!(served.interrupt(), Some(0));
    })
    .await;
}
