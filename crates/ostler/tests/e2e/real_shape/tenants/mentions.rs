//! What a prompt mentions is not read by the agent of a tenant.

use std::fs;

use base64::Engine as _;
use serde_json::json;

use super::{Tenancy, assert_lacks};
use crate::player::Player;

/// A picture that a client sends is none that the agent reads by itself.
#[tokio::test]
async fn a_picture_in_a_request_of_a_tenant_reaches_the_model() {
    let Some(tenancy) = Tenancy::start(Player::ClaudeStream, "deny").await else { return };
    let tenancy = tokio::task::spawn_blocking(move || {
        let source = json!({"type": "base64", "media_type": "image/png", "data": PICTURE});
        for number in 0..5 {
            let text = format!("What is in picture {number}?");
            let content = json!([{"type": "image", "source": source}, {"type": "text", "text": text}]);
            let body = json!({"model": "claude", "max_tokens": 64, "messages": [{"role": "user", "content": content}]});
            let (status, body) = tenancy.served.client(&tenancy.keys[0]).post("/v1/messages", "", &body);
            assert_eq!(status, 200, "{body}");
        }
        tenancy
    });
    let tenancy = tenancy.await.unwrap();
    let with_picture = |number: usize| {
        let wanted = format!("What is in picture {number}?");
        let mut bodies = tenancy.tap.conversation().into_iter().map(|body| body.to_string());
        bodies.any(|body| body.contains(&wanted) && body.contains(&PICTURE[..40]))
    };
    assert_eq!((0..5).map(with_picture).collect::<Vec<_>>(), [true; 5]);
    let exit = tokio::task::spawn_blocking(move || tenancy.served.interrupt()).await.unwrap();
    assert_eq!(exit, Some(0));
}

/// A small picture.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SECRET: &str = "the owner's secret 9152";
const INSIDE: &str = "a note in the workspace 6047";

fn mention(tenancy: &Tenancy, engine: &str) {
    let shape = &tenancy.shape;
    let picture = base64::engine::general_purpose::STANDARD.decode(PICTURE).unwrap();
    fs::create_dir(shape.at("outside")).unwrap();
    for (path, content) in [
        (shape.at("outside/secret.txt"), SECRET.as_bytes()),
        (shape.at("outside/picture.png"), &picture),
        (shape.workspace().join("inside.txt"), INSIDE.as_bytes()),
        (shape.workspace().join("inside.png"), &picture),
    ] {
        fs::write(path, content).unwrap();
    }
    shape.own(&shape.at("outside"));
    shape.own(&shape.workspace());
    let outside = shape.at("outside").display().to_string();
    let client = tenancy.served.client(&tenancy.keys[0]);
    let mentions = [
        format!("@{outside}/secret.txt"),
        format!("@{outside}"),
        format!("@{outside}/picture.png"),
        format!("file://{outside}/secret.txt"),
        format!("![it](file://{outside}/picture.png)"),
        "@inside.txt".to_owned(),
        "@inside.png".to_owned(),
    ];
    tenancy.say_everywhere(client, engine, &format!("See {} please", mentions.join(" and ")));
}

/// Prompts do not make the agent of a tenant read files, outside or inside the workspace.
async fn no_mention_is_read(player: Player, engine: &'static str) {
    let Some(tenancy) = Tenancy::start(player, "deny").await else { return };
    let tenancy = tokio::task::spawn_blocking(move || {
        mention(&tenancy, engine);
        tenancy
    });
    let tenancy = tenancy.await.unwrap();
    let requests = tenancy.tap.requests();
    assert!(requests.iter().any(|asked| asked.body.to_string().contains("@inside.txt")), "it was asked");
    for asked in &requests {
        assert_lacks(&asked.body.to_string(), &[SECRET, INSIDE, &PICTURE[..40]], "the model");
    }
    let exit = tokio::task::spawn_blocking(move || tenancy.served.interrupt()).await.unwrap();
    assert_eq!(exit, Some(0));
}

#[tokio::test]
async fn claude_reads_no_mention() {
    no_mention_is_read(Player::ClaudeStream, "stream").await;
}

#[tokio::test]
async fn claude_on_a_terminal_reads_no_mention() {
    no_mention_is_read(Player::ClaudeTerminal, "terminal").await;
}

#[tokio::test]
async fn codex_reads_no_mention() {
    no_mention_is_read(Player::Codex, "stream").await;
}

#[tokio::test]
async fn opencode_reads_no_mention() {
    no_mention_is_read(Player::OpenCode, "stream").await;
}
