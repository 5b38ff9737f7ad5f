//! Memory of keys: of one key alone, and only if it has the scope.

use serde_json::json;

use super::{OWNERS_WORD, REMEMBERED, Tenancy, WORDS, assert_lacks};
use crate::player::Player;

/// Sessions of a key with the scope `memory` are remembered for that key alone.
fn remember(tenancy: &Tenancy) {
    let shape = &tenancy.shape;
    let folder = shape.workspace().display().to_string();
    let args = ["--scope", "chat", "--scope", "memory", "--folder", &folder];
    let keys = [shape.make_key(&args), shape.make_key(&args)];
    let owner = shape.make_key(&[&args[..], &["--owner"]].concat());
    let model = tenancy.model();
    let header = format!("x-ostler-cwd: {folder}\r\n");
    let say = |key: &str, text: &str| {
        let before = tenancy.tap.conversation().len();
        let body = json!({"model": model, "messages": [{"role": "user", "content": text}]});
        let (status, body) = tenancy.served.client(key).post("/v1/chat/completions", &header, &body);
        assert_eq!(status, 200, "{body}");
        tenancy.tap.conversation()[before].to_string()
    };
    for (key, word) in [(&keys[0], WORDS[0]), (&keys[1], WORDS[1]), (&owner, OWNERS_WORD)] {
        say(key, &format!("The harbour word is {word}."));
    }
    let learns = |key: &str, whose: &str, word: &str| {
        let asked = say(key, &format!("What is the harbour word of {whose}?"));
        assert!(asked.contains("Remembered by Ostler") && asked.contains(word), "{whose}: {asked}");
        let all = [WORDS[0], WORDS[1], OWNERS_WORD];
        let others: Vec<&str> = all.into_iter().filter(|other| *other != word).collect();
        assert_lacks(&asked, &others, whose);
        asked
    };
    for (key, whose, word) in [(&keys[0], "one", WORDS[0]), (&keys[1], "two", WORDS[1])] {
        assert_lacks(&learns(key, whose, word), &[REMEMBERED], whose);
    }
    learns(&owner, "the owner", OWNERS_WORD);
    let asked = say(&tenancy.keys[0], "What is the harbour word?");
    assert!(!asked.contains("Remembered by Ostler"), "a key without the scope: {asked}");
}

async fn memory_is_of_one_key(player: Player) {
    let Some(tenancy) = Tenancy::start(player, "deny").await else { return };
    let exit = tokio::task::spawn_blocking(move || {
        remember(&tenancy);
        tenancy.served.interrupt()
    });
    assert_eq!(exit.await.unwrap(), Some(0));
}

#[tokio::test]
async fn memory_of_claude_is_of_one_key() {
    memory_is_of_one_key(Player::ClaudeStream).await;
}

#[tokio::test]
async fn memory_of_codex_is_of_one_key() {
    memory_is_of_one_key(Player::Codex).await;
}
