//! One fact at a time is broken in the real path, and exactly that row changes.

use super::ground::{DECLARES, ENDS, Ground, SUBMITS, WRITES};
use crate::player::Player;

/// What Claude Code makes of a model that plays these parts.
fn played(parts: &[&str]) -> Option<super::ground::Smoked> {
    Some(Ground::of(&[Player::ClaudeStream])?.plays(parts))
}

#[test]
fn a_file_that_does_not_parse() {
    let broken = WRITES.replace("=> [] };", "=> [ };");
    let Some(told) = played(&[&broken, SUBMITS, DECLARES, ENDS]) else { return };
    told.breaks("FAIL", &["file"]);
    told.says("file", "it is there and does not parse: line 1: SyntaxError");
    told.ended("completed", 0);
}

#[test]
fn a_file_that_nobody_wrote() {
    let Some(told) =
        played(&[&WRITES.replace("scratch/todo.js", "scratch/list.js"), SUBMITS, DECLARES, ENDS])
    else {
        return;
    };
    told.breaks("FAIL", &["file"]);
    told.says("file", "it is not there");
}

#[test]
fn a_file_that_should_not_have_been_touched() {
    let strays = r#"
    [[conversation.step]]
    reply = [{ tool_by_role = "write_file", path = "notes.md", content = "mine\n" }]
    "#;
    let Some(told) = played(&[WRITES, strays, SUBMITS, DECLARES, ENDS]) else { return };
    told.breaks("FAIL", &["file"]);
    told.says("file", "workspace/notes.md (new) was touched too");
}

/// The agent takes the id that it is given, and somebody between us gives it another.
#[test]
fn another_session_than_the_one_that_was_minted() {
    let swaps = r#"for word in "$@"; do
  shift
  case "$last" in --session-id) word=00000000-0000-4000-8000-000000000001;; esac
  last=$word
  set -- "$@" "$word"
done
exec "$REAL" "$@""#;
    let Some(ground) = Ground::wrapped(Player::ClaudeStream, swaps) else { return };
    let told = ground.smoke();
    told.breaks("FAIL", &["session"]);
    told.says("session", "00000000-0000-4000-8000-000000000001, and it was told to use ");
    told.ended("completed", 0);
}

/// A version from tomorrow: it writes a record that nobody knows. That is drift, with a sample of it.
#[test]
fn a_record_of_a_new_kind() {
    let Some(ground) = Ground::of(&[Player::ClaudeStream]) else { return };
    ground.smoke().is_green();
    let says = r#"printf '{"type":"from_tomorrow","x":1}\n'
exec "$REAL" "$@""#;
    ground.wrap(Player::ClaudeStream, says).unwrap();
    let told = ground.smoke();
    told.breaks("FAIL", &["events"]);
    told.says("events", "records of a kind that is new: from_tomorrow");
    let drift = told.only()["drift"].as_array().unwrap();
    let new = drift.iter().find(|drift| drift["drift"] == "new_record").unwrap();
    assert_eq!(
        (&new["record"], &new["sample"]),
        (&"from_tomorrow".into(), &r#"{"type":"from_tomorrow","x":1}"#.into())
    );
    assert!(drift.iter().any(|drift| drift["drift"] == "worse" && drift["fact"] == "events"), "{drift:#?}");
    assert_eq!(told.only()["compared_with"], told.only()["version"]);
}

#[test]
fn too_little_and_too_much_output() {
    for (lines, words) in [(1, "2 lines, fewer than 3"), (90, "91 lines, more than 80")] {
        let says = WRITES
            .replace("One line.\\nAnother line.\\nA third line.", &["A line."; 90][..lines].join("\\n"));
        let Some(told) = played(&[&says, SUBMITS, DECLARES, ENDS]) else { return };
        told.breaks("FAIL", &["output"]);
        told.says("output", words);
        assert!(told.only()["quoted"].as_array().unwrap().len() <= 8);
    }
}

/// It asks whether it may, is told that it may not, and goes on: for a task that needs no permission, that is wrong. In a
/// jail it need not ask.
#[test]
fn a_permission_that_was_asked_for() {
    let asks = r#"
    [[conversation.step]]
    reply = [{ tool_by_role = "shell", command = "curl --version" }]
    "#;
    let Some(ground) = Ground::wrapped(Player::ClaudeStream, r#"exec "$REAL" "$@""#) else { return };
    let told = ground.plays(&[WRITES, asks, SUBMITS, DECLARES, ENDS]);
    told.breaks("FAIL", &["no_prompt"]);
    told.says("no_prompt", "it asked: whether it may use Bash");
    told.ended("completed", 0);
}
