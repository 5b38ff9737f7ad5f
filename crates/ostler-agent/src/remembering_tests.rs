use serde_json::json;

use super::*;

fn brief(
    origin: Origin,
    record: &Value,
) -> Vec<(Option<String>, &'static str, &'static str, &'static str, String)> {
    origin
        .remembered(record)
        .into_iter()
        .map(|told| (told.id, told.speaker.name(), told.kind.name(), told.mark.name(), told.text))
        .collect()
}

fn one(
    id: &str,
    who: &'static str,
    kind: &'static str,
    mark: &'static str,
    text: &str,
) -> (Option<String>, &'static str, &'static str, &'static str, String) {
    (Some(id.to_owned()), who, kind, mark, text.to_owned())
}

#[test]
fn a_transcript_of_claude_code_is_told_apart() {
    let user = |more: Value, content: Value| {
        let mut record =
            json!({"type": "user", "uuid": "u", "message": {"role": "user", "content": content}});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record
    };
    let assistant =
        |content: Value| json!({"type": "assistant", "uuid": "a", "message": {"content": content}});
    let table = [
        (user(json!({}), json!("Hello\n")), vec![one("u", "user", "said", "", "Hello\n")]),
        (user(json!({"isMeta": true}), json!("Caveat")), vec![one("u", "user", "said", "meta", "Caveat")]),
        (
            user(json!({"isSidechain": true}), json!("Look")),
            vec![one("u", "user", "said", "sidechain", "Look")],
        ),
        (
            user(json!({"isCompactSummary": true}), json!("Sum")),
            vec![one("u", "user", "said", "summary", "Sum")],
        ),
        (
            user(json!({}), json!("<command-name>/x</command-name>")),
            vec![one("u", "user", "said", "command", "<command-name>/x</command-name>")],
        ),
        (
            user(
                json!({}),
                json!([{"type": "text", "text": "<system-reminder>r</system-reminder>"}, {"type": "text", "text": "Do"}]),
            ),
            vec![
                one("u", "user", "said", "", "Do"),
                one("u/reminder", "user", "said", "reminder", "<system-reminder>r</system-reminder>"),
            ],
        ),
        (
            user(
                json!({}),
                json!([{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "Exit code 3\nno"}]),
            ),
            vec![one("u/t", "assistant", "tool", "", "exit 3: Exit code 3")],
        ),
        (
            json!({"type": "assistant", "uuid": "a", "message": {"content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "cargo test\n-q"}}]}}),
            vec![one("a/t", "assistant", "tool", "", "Bash: cargo test -q")],
        ),
        (assistant(json!("Hi\n")), vec![one("a", "assistant", "said", "", "Hi\n")]),
        (assistant(json!(["Hi", {"text": "there"}])), vec![one("a", "assistant", "said", "", "Hi\nthere")]),
        (assistant(json!({"type": "text", "text": "Hi"})), vec![one("a", "assistant", "said", "", "Hi")]),
        (
            assistant(
                json!([{"type": "thinking", "thinking": "so", "text": "so"}, {"type": "text", "text": 7}]),
            ),
            vec![],
        ),
        (user(json!({}), json!(["Do", "it"])), vec![one("u", "user", "said", "", "Do\nit")]),
        (
            json!({"type": "assistant", "uuid": "a", "message": "Hi"}),
            vec![one("a", "assistant", "said", "", "Hi")],
        ),
        (json!({"type": "user", "uuid": "u", "content": "Do"}), vec![one("u", "user", "said", "", "Do")]),
        (
            json!({"uuid": "a", "message": {"role": "assistant", "content": "Hi"}}),
            vec![one("a", "assistant", "said", "", "Hi")],
        ),
        (json!({"uuid": "u", "role": "user", "content": "Do"}), vec![one("u", "user", "said", "", "Do")]),
        (json!({"uuid": "s", "role": "system", "content": "Be brief"}), vec![]),
        (
            json!({"type": "attachment", "uuid": "q", "attachment": {"type": "queued_command", "prompt": [{"type": "text", "text": "And"}]}}),
            vec![one("q", "user", "said", "", "And")],
        ),
        (json!({"type": "mode", "uuid": "m"}), vec![]),
        (json!({"type": "assistant", "message": 7}), vec![]),
    ];
    for (record, want) in table {
        assert_eq!(brief(Origin::Claude, &record), want, "{record}");
    }
}

#[test]
fn a_rollout_of_codex_is_told_apart() {
    let item = |item: Value| json!({"ordinal": 4, "type": "event_msg", "payload": {"type": "item_completed", "item": item}});
    let table = [
        (
            item(json!({"type": "UserMessage", "id": "i", "content": [{"type": "text", "text": "Do"}]})),
            vec![one("i", "user", "said", "", "Do")],
        ),
        (
            item(json!({"type": "AgentMessage", "content": [{"type": "Text", "text": "Done"}]})),
            vec![one("ordinal-4", "assistant", "said", "", "Done")],
        ),
        (
            json!({"type": "response_item", "payload": {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin Patch\n*** Add File: /a/b.txt\n+w\n*** End Patch"}}),
            vec![one("c", "assistant", "tool", "", "apply_patch: /a/b.txt")],
        ),
        (
            json!({"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c", "output": "Exit code: 2\nOutput:\nno such file\n"}}),
            vec![one("c/end", "assistant", "tool", "", "exit 2: no such file")],
        ),
        (
            item(json!({"type": "UserMessage", "id": "i", "content": "Do"})),
            vec![one("i", "user", "said", "", "Do")],
        ),
        (
            item(json!({"type": "AgentMessage", "id": "i", "content": ["Done", {"text": "all"}]})),
            vec![one("i", "assistant", "said", "", "Done\nall")],
        ),
        (
            item(json!({"type": "AgentMessage", "id": "i", "text": "Done"})),
            vec![one("i", "assistant", "said", "", "Done")],
        ),
        (
            json!({"ordinal": 4, "type": "event_msg", "payload": {"type": "user_message", "message": [{"type": "text", "text": "Do"}]}}),
            vec![one("ordinal-4", "user", "said", "", "Do")],
        ),
        (item(json!({"type": "SystemMessage", "id": "i", "content": "Be brief"})), vec![]),
        (json!({"type": "response_item", "payload": {"type": "message", "role": "user"}}), vec![]),
    ];
    for (record, want) in table {
        assert_eq!(brief(Origin::Codex, &record), want, "{record}");
    }
}

#[test]
fn a_part_of_opencode_is_told_apart() {
    let part = |role: &str, part: Value| json!({"sessionID": "s", "role": role, "part": part});
    let table = [
        (
            part("user", json!({"id": "p", "type": "text", "text": "Do"})),
            vec![one("p", "user", "said", "", "Do")],
        ),
        (
            part(
                "assistant",
                json!({"id": "p", "type": "tool", "tool": "bash", "state": {"input": {"command": "x"}, "metadata": {"exit": 1}}}),
            ),
            vec![one("p", "assistant", "tool", "", "bash: x (exit 1)")],
        ),
        (
            part("system", json!({"id": "p", "type": "text", "text": "Be brief"})),
            vec![one("p", "assistant", "said", "meta", "Be brief")],
        ),
        (part("user", json!({"id": "p", "type": "step-start"})), vec![]),
    ];
    for (record, want) in table {
        assert_eq!(brief(Origin::OpenCode, &record), want, "{record}");
    }
}

#[test]
fn whose_record_it_is_is_told_by_its_shape() {
    let table = [
        (json!({"type": "user", "uuid": "u"}), Some(Origin::Claude)),
        (json!({"type": "mode", "sessionId": "s"}), Some(Origin::Claude)),
        (json!({"type": "event_msg", "payload": {}}), Some(Origin::Codex)),
        (json!({"sessionID": "s", "part": {}}), Some(Origin::OpenCode)),
        (json!({}), None),
    ];
    for (record, want) in table {
        assert_eq!(Origin::of_record(&record), want, "{record}");
    }
}

#[test]
fn the_directory_of_a_session_is_found_wherever_the_agent_writes_it() {
    let cwd = |cwd: &str| Some(cwd.to_owned());
    let table = [
        (Origin::Claude, json!({"type": "user", "cwd": "/a"}), cwd("/a")),
        (Origin::Claude, json!({"type": "user", "cwd": ""}), None),
        (Origin::Codex, json!({"type": "session_meta", "payload": {"id": "x", "cwd": "/a"}}), cwd("/a")),
        (Origin::Codex, json!({"type": "session_meta", "payload": {"id": "x"}}), None),
        (Origin::Codex, json!({"type": "turn_context", "payload": {"cwd": "/a"}}), cwd("/a")),
        (Origin::Codex, json!({"type": "response_item", "payload": {"cwd": "/a"}}), None),
    ];
    for (origin, record, want) in table {
        assert_eq!(origin.belonging(&record).cwd, want, "{record}");
    }
}
