use proptest::prelude::*;

use super::*;

fn items(messages: &Value) -> &[Value] {
    messages.as_array().map_or(&[], Vec::as_slice)
}

fn formed(messages: &Value) -> String {
    form(&read(items(messages)).unwrap_or_default())
}

#[test]
fn the_same_conversation_in_many_forms() {
    let call =
        json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"a": 1, "b": [{"c": 2, "d": 3}]}});
    let table = [
        (
            "a text is a list with one block",
            json!([{"role": "user", "content": "x"}]),
            json!([{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}]),
        ),
        (
            "an error that is none",
            json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "y"}]}]),
            json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": null,
                "content": [{"type": "text", "text": "y"}]}]}]),
        ),
        (
            "the order of keys",
            json!([{"role": "assistant", "content": [call]}]),
            serde_json::from_str(
                r#"[{"content": [{"input": {"b": [{"d": 3, "c": 2}], "a": 1}, "name": "Bash", "id": "t", "type": "tool_use"}],
                "name": "bob", "role": "assistant"}]"#,
            )
            .unwrap_or_default(),
        ),
        (
            "neighbours of one role",
            json!([{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]),
            json!([{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}]),
        ),
        (
            "composed letters, blanks at the end, nothing",
            json!([{"role": "user", "content": "caf\u{e9} \n"}]),
            json!([{"role": "user", "content": [{"type": "text", "text": "cafe\u{301}"}, {"type": "text", "text": ""}]}]),
        ),
        (
            "words to itself",
            json!([{"role": "assistant", "content": "x"}]),
            json!([{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "x"}]}]),
        ),
    ];
    for (name, left, right) in table {
        assert_eq!(formed(&left), formed(&right), "{name}");
        assert_ne!(formed(&left), formed(&json!([])), "{name}");
    }
}

#[test]
fn other_conversations_differ() {
    let table = [
        json!([{"role": "user", "content": "x"}]),
        json!([{"role": "assistant", "content": "x"}]),
        json!([{"role": "user", "content": "xy"}]),
        json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]),
        json!([{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]),
        json!([{"role": "user", "content": "x\n{\"text\":\"y\",\"type\":\"text\",}"}]),
        json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "y"}]}]),
        json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "y", "is_error": true}]}]),
        json!([{"role": "user", "content": [{"type": "image", "source": {"data": "1"}}]}]),
        json!([{"role": "user", "content": [{"type": "image", "source": {"data": "2"}}]}]),
    ];
    for (at, left) in table.iter().enumerate() {
        for right in &table[at + 1..] {
            assert_ne!(formed(left), formed(right), "{left} and {right}");
        }
    }
}

#[test]
fn what_was_given_is_kept() {
    let given = json!([
        {"role": "user", "content": "tabs\tand blanks  "},
        {"role": "assistant", "content": "x"},
    ]);
    let read = read(items(&given)).unwrap_or_default();
    let written: Vec<Value> = read.iter().map(Message::written).collect();
    assert_eq!(written[0], given[0]);
    assert_eq!(written[1], json!({"role": "assistant", "content": [{"type": "text", "text": "x"}]}));
}

#[test]
fn what_cannot_be_read_is_named() {
    let role = json!([{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]);
    assert_eq!(read(items(&role)), Err(Unreadable::Role { at: 1, role: "system".to_owned() }));
    assert_eq!(read(&[json!({"role": "user"})]), Err(Unreadable::Content { at: 0 }));
}

fn messages() -> impl Strategy<Value = Vec<Value>> {
    let block = prop_oneof![
        "[a-c \u{e9}]{0,4}".prop_map(|text| json!({"type": "text", "text": text})),
        "[a-c]{1,2}".prop_map(|id| json!({"type": "tool_use", "id": id, "name": "T", "input": {"k": 1}})),
        ("[a-c]{1,2}", "[a-c]{0,3}")
            .prop_map(|(id, text)| json!({"type": "tool_result", "tool_use_id": id, "content": text})),
    ];
    let message = (any::<bool>(), proptest::collection::vec(block, 0..4)).prop_map(
        |(user, blocks)| json!({"role": if user { "user" } else { "assistant" }, "content": blocks}),
    );
    proptest::collection::vec(message, 0..8)
}

proptest! {
    /// What was read, written and read again is the same conversation, and so is what was written twice.
    #[test]
    fn an_echo_is_the_same_conversation(messages in messages()) {
        let once = read(&messages).unwrap_or_default();
        let echoed: Vec<Value> = once.iter().map(Message::written).collect();
        let twice = read(&echoed).unwrap_or_default();
        prop_assert_eq!(form(&once), form(&twice));
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_conversation_that_went_on_is_another(messages in messages()) {
        let before = read(&messages).unwrap_or_default();
        let mut after = before.clone();
        after.push(Message { role: Role::User, blocks: vec![Block::Text("more".to_owned())] });
        prop_assert_ne!(form(&before), form(&after));
    }
}
