//! `ostler keys`: made, listed, revoked.

use serde_json::{Value, json};

use crate::ground::Ground;

fn json(ground: &Ground, args: &[&str]) -> Value {
    let ended = ground.run(args);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{args:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn a_key_is_made_listed_and_revoked() {
    let ground = Ground::new();
    ground.check("keys_none", &["keys"]);
    let made = json(&ground, &["keys", "new", "--name", "ci", "--json"]);
    let secret = made["key"].as_str().unwrap();
    assert!(secret.starts_with("ostler_") && secret.len() > 60);
    assert_eq!(made["scopes"], json!(["chat"]));
    let args = [
        "keys",
        "new",
        "--json",
        "--scope",
        "sessions:read",
        "--scope",
        "chat",
        "--requests-per-minute",
        "60",
        "--turns-at-once",
        "2",
        "--model",
        "claude",
        "--folder",
        ".",
        "--permissions",
        "edits",
    ];
    let other = json(&ground, &args);
    assert_eq!(other["scopes"], json!(["chat", "sessions:read"]));
    assert_eq!(other["folders"], json!([ground.at("project")]));
    let mut want = vec![made.clone(), other];
    for key in &mut want {
        key.as_object_mut().unwrap().remove("key");
    }
    assert_eq!(json(&ground, &["keys", "--json"]), Value::from(want));
    let id = made["id"].as_str().unwrap();
    let listed = ground.run(&["keys", "list"]);
    assert!(listed.stdout.contains(id) && listed.stdout.contains("chat sessions:read"), "{}", listed.stdout);
    assert_eq!(json(&ground, &["keys", "revoke", id, "--json"]), json!({"id": id, "revoked": true}));
    let left = json(&ground, &["keys", "list", "--json"]);
    assert_eq!(left.as_array().unwrap().len(), 1);
}

#[test]
fn a_key_that_cannot_type_at_terminals_is_made_with_a_warning() {
    let ground = Ground::new();
    let new = |args: &[&str]| {
        let ended = ground.run(&[&["keys", "new", "--json", "--scope", "terminal:hold"], args].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    };
    for args in [&[][..], &["--owner"], &["--permissions", "edits"]] {
        let told = new(args);
        assert!(told.contains("warning: this key can watch terminals and not type into them"), "{told}");
        assert!(told.contains("--permissions all"), "{told}");
    }
    assert_eq!((new(&["--permissions", "all"]), new(&["--scope", "admin"])), (String::new(), String::new()));
}

#[test]
fn what_cannot_be_done_with_keys_is_told() {
    let ground = Ground::new();
    ground.check("keys_unknown", &["keys", "revoke", "nobody"]);
    ground.check("keys_bad_scope", &["keys", "new", "--scope", "everything"]);
    ground.check("keys_bad_folder", &["keys", "new", "--folder", "nowhere"]);
    ground.put("ostler/keys.json", "{");
    ground.check("keys_broken", &["keys"]);
}
