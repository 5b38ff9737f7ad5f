//! What a request may say of a conversation, and what becomes of it: read, left out and named, or refused with its place.

use ostler_agent::canonical::form;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Format, Kind, Request};

const FORMATS: [Format; 3] = [Format::Messages, Format::Chat, Format::Responses];

/// A request with this conversation.
fn body(format: Format, conversation: Value) -> Value {
    match format {
        Format::Messages => json!({"model": "claude", "max_tokens": 9, "messages": conversation}),
        Format::Chat => json!({"model": "claude", "messages": conversation}),
        Format::Responses => json!({"model": "claude", "input": conversation}),
    }
}

fn read(format: Format, conversation: Value) -> Result<Request, String> {
    let problem = |problem: super::Problem| {
        assert_eq!(problem.kind, Kind::Invalid, "{problem:?}");
        let told = format.problem(&problem);
        // The path is reported in the API's own shape.
        let place = match format {
            Format::Messages => told["error"]["message"].as_str().unwrap_or_default().split(": ").next(),
            Format::Chat | Format::Responses => told["error"]["param"].as_str(),
        };
        place.unwrap_or_default().to_owned()
    };
    format.read(&body(format, conversation)).map_err(problem)
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

/// Agents as clients send fields that are newer than any list of them.
#[test]
fn unknown_fields_have_no_effect_and_are_named() {
    for format in FORMATS {
        let mut asked = body(format, json!([user(json!("x"))]));
        for field in ["client_metadata", "chat_id", "num_ctx", "provider", "temperature"] {
            asked[field] = json!({"any": "thing"});
        }
        asked["unset"] = Value::Null;
        let mut ignored = format.read(&asked).unwrap().ignored;
        ignored.retain(|name| name != "max_tokens");
        assert_eq!(
            ignored,
            ["chat_id", "client_metadata", "num_ctx", "provider", "temperature"],
            "{format:?}"
        );
    }
}

#[test]
fn what_would_make_another_answer_is_refused() {
    let table = [
        ("n", json!(2), "n"),
        ("n", json!("2"), "n"),
        ("best_of", json!(3), "best_of"),
        ("logprobs", json!(true), "logprobs"),
        ("logprobs", json!(5), "logprobs"),
        ("top_logprobs", json!(5), "top_logprobs"),
        ("modalities", json!(["text", "audio"]), "modalities[1]"),
        ("include", json!(["x", "message.output_text.logprobs"]), "include[1]"),
        ("tool_choice", json!({"type": "web_search"}), "tool_choice"),
    ];
    for format in FORMATS {
        for (field, value, place) in &table {
            let mut asked = body(format, json!([user(json!("x"))]));
            asked[field] = value.clone();
            let problem = format.read(&asked).expect_err(field);
            assert_eq!((problem.kind, problem.field.as_deref()), (Kind::Invalid, Some(*place)), "{format:?}");
        }
        let mut asked = body(format, json!([user(json!("x"))]));
        for (field, value) in [("n", json!(1)), ("logprobs", json!(false)), ("top_logprobs", json!(0))] {
            asked[field] = value;
        }
        assert!(format.read(&asked).is_ok(), "{format:?}: what asks for nothing else is no mistake");
    }
}

/// It used to be 400 in one API, and another system prompt in the others: another session.
#[test]
fn a_system_message_in_mid_conversation_stays_where_it_stands() {
    let first = [json!({"role": "system", "content": "be short"}), user(json!("one"))];
    let answer = json!({"role": "assistant", "content": "1"});
    let second = [answer, json!({"role": "system", "content": "it is late"}), user(json!("two"))];
    let third = [json!({"role": "assistant", "content": "2"}), user(json!("three"))];
    for format in FORMATS {
        let said = |parts: &[&[Value]]| read(format, parts.concat().into()).unwrap();
        let (one, two) = (said(&[&first]), said(&[&first, &second]));
        let three = said(&[&first, &second, &third]);
        for request in [&one, &two, &three] {
            assert_eq!(request.told_to_the_model().as_deref(), Some("be short"), "{format:?}");
        }
        let late = "<system-reminder>\nit is late\n</system-reminder>";
        assert_eq!(two.history.last().text(), format!("{late}\n\ntwo"));
        // What is sent back later is what was asked.
        let asked = two.history.last().clone();
        assert_eq!(three.history.prior()[2], asked, "{format:?}");
    }
}

/// What Claude Code accounts for itself with differs from request to request.
#[test]
fn an_attribution_in_the_system_prompt_is_no_part_of_it() {
    let told = |hash: &str| {
        let mut asked = body(Format::Messages, json!([user(json!("x"))]));
        let header =
            format!("x-anthropic-billing-header: cc_version=2.1.197.{hash}; cc_entrypoint=cli; cch={hash};");
        asked["system"] =
            json!([{"type": "text", "text": header}, {"type": "text", "text": "You are an agent."}]);
        let request = Format::Messages.read(&asked).unwrap();
        (request.system, request.ignored)
    };
    let ignored = ["max_tokens".to_owned(), "system.x-anthropic-billing-header".to_owned()].to_vec();
    assert_eq!(told("abc"), (Some("You are an agent.".to_owned()), ignored));
    assert_eq!(told("abc"), told("def"));
}

#[test]
fn malformed_history_is_refused_with_its_place() {
    let call = json!({"type": "tool_use", "id": "a", "name": "t", "input": {}});
    let result = |content: Value| {
        json!([user(json!("q")), {"role": "assistant", "content": [call]},
            user(json!([{"type": "tool_result", "tool_use_id": "a", "content": content}]))])
    };
    let with = |field: &str, value: Value| {
        let mut call = call.clone();
        call[field] = value;
        json!([user(json!("q")), {"role": "assistant", "content": [call]}, user(json!("x"))])
    };
    let said = |content: Value| json!([user(content)]);
    let called = |call: Value| json!([user(json!("q")), {"role": "assistant", "tool_calls": [call]}, user(json!("x"))]);
    use Format::{Chat, Messages, Responses};
    let table = [
        (Messages, json!([null]), "messages[0].role"),
        (Messages, json!(["x"]), "messages[0].role"),
        (Messages, said(json!(null)), "messages[0].content"),
        (Messages, said(json!(7)), "messages[0].content"),
        (Messages, said(json!([null])), "messages[0].content[0].type"),
        (Messages, said(json!(["x"])), "messages[0].content[0].type"),
        (Messages, said(json!([{"type": 7}])), "messages[0].content[0].type"),
        (Messages, said(json!([{"type": "text"}])), "messages[0].content[0].text"),
        (Messages, said(json!([{"type": "text", "text": ["x"]}])), "messages[0].content[0].text"),
        (Messages, said(json!([call])), "messages[0].content[0].type"),
        (Messages, said(json!([{"type": "image"}])), "messages[0].content[0].source.type"),
        (
            Messages,
            said(json!([{"type": "image", "source": {"type": "file", "file_id": "f"}}])),
            "messages[0].content[0].source.type",
        ),
        (
            Messages,
            said(
                json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%"}}]),
            ),
            "messages[0].content[0].source",
        ),
        (
            Messages,
            said(json!([{"type": "document", "source": {"type": "text"}}])),
            "messages[0].content[0].source.data",
        ),
        // Used to reach the agent, and to come back as a failure of its own.
        (Messages, result(json!([null])), "messages[2].content[0].content[0].type"),
        (Messages, result(json!(7)), "messages[2].content[0].content"),
        (Messages, result(json!([{"type": "text"}])), "messages[2].content[0].content[0].text"),
        (Messages, with("id", json!(null)), "messages[1].content[0].id"),
        (Messages, with("name", json!("")), "messages[1].content[0].name"),
        (Messages, with("input", json!("{}")), "messages[1].content[0].input"),
        (
            Messages,
            json!([{"role": "system", "content": [{"type": "image"}]}]),
            "messages[0].content[0].source.type",
        ),
        (Chat, json!([null]), "messages[0].role"),
        (Chat, said(json!([null])), "messages[0].content[0].type"),
        (Chat, said(json!([{"type": "text", "text": null}])), "messages[0].content[0].text"),
        (
            Chat,
            said(json!([{"type": "image_url", "image_url": null}])),
            "messages[0].content[0].image_url.url",
        ),
        (
            Chat,
            said(json!([{"type": "image_url", "image_url": {"url": "file:///x"}}])),
            "messages[0].content[0].image_url.url",
        ),
        // Only the first of the three APIs used to refuse a picture in a message of the assistant.
        (
            Messages,
            json!([{"role": "assistant", "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}]),
            "messages[0].content[0].type",
        ),
        (
            Chat,
            json!([{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}]),
            "messages[0].content[0].type",
        ),
        (
            Responses,
            json!([{"role": "assistant", "content": [{"type": "input_image", "image_url": "https://x"}]}]),
            "input[0].content[0].type",
        ),
        (Chat, called(json!(null)), "messages[1].tool_calls[0].id"),
        (Chat, called(json!({"id": "a"})), "messages[1].tool_calls[0].function.name"),
        (
            Chat,
            called(json!({"id": "a", "function": {"name": "t", "arguments": {}}})),
            "messages[1].tool_calls[0].function.arguments",
        ),
        (Chat, json!([{"role": "assistant", "tool_calls": "x"}]), "messages[0].tool_calls"),
        (Chat, json!([{"role": "tool", "content": "x"}]), "messages[0].tool_call_id"),
        (Responses, json!([null]), "input[0].role"),
        (Responses, json!([{"type": 7}]), "input[0].type"),
        (Responses, said(json!([null])), "input[0].content[0].type"),
        (Responses, said(json!([{"type": "input_text"}])), "input[0].content[0].text"),
        (
            Responses,
            json!([user(json!("q")), user(json!("r")), user(json!([{"type": "input_file"}]))]),
            "input[2].content[0].type",
        ),
        (Responses, json!([{"type": "function_call", "call_id": "a", "arguments": "{}"}]), "input[0].name"),
        (Responses, json!([{"type": "custom_tool_call", "call_id": "a", "name": "t"}]), "input[0].input"),
        (Responses, json!([{"type": "function_call_output", "call_id": "a"}]), "input[0].output"),
        (
            Responses,
            json!([{"type": "function_call_output", "call_id": "a", "output": [null]}]),
            "input[0].output[0].type",
        ),
        (Responses, json!([{"type": "additional_tools"}]), "input[0].tools"),
        (
            Responses,
            json!([{"type": "additional_tools", "tools": [{"type": "custom"}]}, user(json!("x"))]),
            "input[0].tools[0].name",
        ),
        // What is wrong with the whole of it has the name that this API has for it.
        (Responses, json!([{"role": "assistant", "content": "x"}]), "input"),
        (Responses, json!([]), "input"),
    ];
    for (format, conversation, place) in table {
        let shown = conversation.to_string();
        assert_eq!(read(format, conversation).unwrap_err(), place, "{format:?} {shown}");
    }
}

#[test]
fn unknown_parts_of_a_conversation_are_left_out_and_named() {
    use Format::{Chat, Messages, Responses};
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": [
        {"type": "hologram"}, {"type": "text", "text": "r"}]});
    let table = [
        (
            Messages,
            json!([user(json!("q")),
                {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s"},
                    {"type": "tool_use", "id": "a", "name": "t", "input": {}}]},
                user(json!([result, {"type": "hologram", "data": 7}, {"type": "text", "text": "x"}]))]),
            "messages.content.hologram messages.content.server_tool_use messages.content.tool_result.hologram",
        ),
        (
            Chat,
            json!([user(json!("q")),
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}},
                    {"id": "b", "type": "hologram"}]},
                {"role": "tool", "tool_call_id": "a", "content": "r"},
                user(json!([{"type": "hologram"}, {"type": "text", "text": "x"}]))]),
            "messages.content.hologram messages.tool_calls.hologram",
        ),
        (
            Responses,
            json!([user(json!("q")), {"type": "web_search_call", "id": "w"},
                {"type": "function_call", "call_id": "a", "name": "t", "arguments": ""},
                {"type": "function_call_output", "call_id": "a", "output": "r"},
                user(json!([{"type": "hologram"}, {"type": "input_text", "text": "x"}]))]),
            "input.content.hologram input.web_search_call",
        ),
    ];
    let mut forms = Vec::new();
    for (format, conversation, names) in table {
        let request = read(format, conversation).unwrap();
        let ignored: Vec<String> =
            request.ignored.iter().filter(|name| *name != "max_tokens").cloned().collect();
        assert_eq!(ignored.join(" "), names);
        assert_eq!(request.history.asked().text(), "x", "{format:?}");
        forms.push(form(&request.history.sound()));
    }
    assert!(forms.iter().all(|form| *form == forms[0]), "{forms:#?}");
}

/// Claude Code searches for tools, and receives which ones the model may call then.
#[test]
fn a_reference_to_a_tool_is_told_in_words() {
    let found = json!([{"type": "tool_reference", "tool_name": "WebFetch"}]);
    let conversation = json!([user(json!("q")),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "ToolSearch", "input": {}}]},
        user(json!([{"type": "tool_result", "tool_use_id": "a", "content": found}]))]);
    let request = read(Format::Messages, conversation).unwrap();
    let result = &request.history.last().written()["content"][0];
    assert_eq!(result["content"], "The tool `WebFetch` can be called from now on.");
    assert_eq!(request.ignored, ["max_tokens"]);
}

/// A custom tool takes one text, in every API.
#[test]
fn calls_of_custom_tools_are_the_same_in_every_api() {
    let text = "*** Begin Patch";
    let chat = json!([user(json!("q")), {"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "custom", "custom": {"name": "apply_patch", "input": text}}]},
        {"role": "tool", "tool_call_id": "a", "content": "Done"}]);
    let responses = json!([user(json!("q")),
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": text},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "Done"}]);
    let (chat, responses) = (read(Format::Chat, chat).unwrap(), read(Format::Responses, responses).unwrap());
    assert_eq!(chat.history, responses.history);
    let call = &responses.history.prior()[1].written()["content"][0];
    assert_eq!(call["input"], json!({"input": text}));
}

/// Words that readers know, and anything else.
fn leaf() -> impl Strategy<Value = Value> {
    let words = [
        "text",
        "tool_use",
        "tool_result",
        "image",
        "document",
        "thinking",
        "user",
        "assistant",
        "system",
        "tool",
        "function",
        "custom",
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "input_text",
        "output_text",
        "image_url",
        "input_image",
        "base64",
        "url",
        "data:image/png;base64,iVBO",
        "a",
        "",
        "{}",
        "7",
    ];
    prop_oneof![
        4 => proptest::sample::select(words.to_vec()).prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => any::<String>().prop_map(Value::from),
    ]
}

fn key() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "type",
        "role",
        "content",
        "text",
        "id",
        "name",
        "input",
        "tool_use_id",
        "source",
        "data",
        "media_type",
        "url",
        "tool_calls",
        "tool_call_id",
        "function",
        "custom",
        "arguments",
        "call_id",
        "output",
        "image_url",
        "is_error",
        "thinking",
        "signature",
        "cache_control",
        "tools",
        "namespace",
    ])
}

/// Any JSON, made of such words.
fn json_value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key(), inner), 0..5).prop_map(|fields| {
                Value::Object(
                    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>(),
                )
            }),
        ]
    })
}

/// How many values there are in a value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// Puts another one in the place of the value of this number.
fn put(value: &mut Value, at: &mut usize, other: &Value) {
    if *at == 0 {
        *value = other.clone();
    }
    *at = at.wrapping_sub(1);
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| put(value, at, other)),
        Value::Object(fields) => fields.values_mut().for_each(|value| put(value, at, other)),
        _ => {}
    }
}

/// Messages or items that are right.
fn right(format: Format) -> Vec<Value> {
    let call = json!({"type": "tool_use", "id": "a", "name": "t", "input": {"k": 1}});
    let result =
        json!({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "r"}]});
    let picture =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}});
    let function = json!({"name": "t", "arguments": "{}"});
    match format {
        Format::Messages => vec![
            user(json!("x")),
            user(json!([result, picture])),
            json!({"role": "assistant", "content": [{"type": "text", "text": "y"}, call]}),
            json!({"role": "system", "content": [{"type": "text", "text": "s"}]}),
        ],
        Format::Chat => vec![
            user(
                json!([{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "https://x"}}]),
            ),
            json!({"role": "assistant", "content": "y", "tool_calls": [
                {"id": "a", "type": "function", "function": function},
                {"id": "b", "type": "custom", "custom": {"name": "t", "input": "x"}}]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "r"}),
            json!({"role": "developer", "content": "s"}),
        ],
        Format::Responses => vec![
            user(
                json!([{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "https://x"}]),
            ),
            json!({"type": "function_call", "call_id": "a", "name": "t", "arguments": "[]"}),
            json!({"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "r"}]}),
            json!({"type": "custom_tool_call", "call_id": "a", "name": "t", "input": "x"}),
            json!({"type": "message", "role": "assistant", "content": "y"}),
        ],
    }
}

/// A conversation of right messages, of which one value may be anything; and so may one field besides.
fn any_body() -> impl Strategy<Value = (Format, Value)> {
    proptest::sample::select(FORMATS.to_vec()).prop_flat_map(|format| {
        let messages = proptest::collection::vec(proptest::sample::select(right(format)), 0..4);
        let changed = proptest::option::weighted(0.9, (any::<proptest::sample::Index>(), json_value()));
        let more = proptest::option::weighted(0.2, (key(), json_value()));
        (messages, changed, more).prop_map(move |(messages, changed, more)| {
            let mut conversation = Value::Array(messages);
            if let (Some((at, other)), all @ 2..) = (changed, count(&conversation)) {
                // Not the whole of it, which is a list.
                put(&mut conversation, &mut (1 + at.index(all - 1)), &other);
            }
            if let Value::Array(messages) = &mut conversation {
                messages.push(user(json!("last")));
            }
            let mut body = body(format, conversation);
            if let Some((name, value)) = more {
                body[name] = value;
            }
            (format, body)
        })
    })
}

/// Whether a block is whole, by another account than that of the reader.
fn is_whole(block: &Value) -> bool {
    let is_text = |field: &str| block[field].as_str().is_some_and(|text| !text.is_empty());
    match block["type"].as_str() {
        Some("text") => is_text("text"),
        Some("thinking") => block["thinking"].is_string(),
        Some("redacted_thinking") => block["data"].is_string(),
        Some("tool_use") => is_text("id") && is_text("name") && block["input"].is_object(),
        Some("tool_result") => {
            let content = &block["content"];
            let are_whole = |blocks: &Vec<Value>| blocks.iter().all(is_whole);
            is_text("tool_use_id") && (content.is_string() || content.as_array().is_some_and(are_whole))
        }
        Some("image" | "document") => {
            let source = &block["source"];
            source["data"].is_string() && source["media_type"].is_string() || source["url"].is_string()
        }
        Some("search_result") => block["source"].is_string() && block["content"].is_array(),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// What an agent would be told is whole, whatever was sent: read again in the strictest API, it is the same and
    /// nothing of it is left out. What is refused is refused with a place.
    #[test]
    fn no_body_reaches_an_agent_malformed((format, body) in any_body()) {
        match format.read(&body) {
            Err(problem) => {
                prop_assert_eq!(problem.kind.status(), 400);
                prop_assert!(problem.field.is_some(), "{problem:?}");
            }
            Ok(request) => {
                let messages = request.history.prior().iter().chain([request.history.last()]);
                let written: Vec<Value> = messages.map(|message| message.written()).collect();
                for message in &written {
                    let is_right = match &message["content"] {
                        Value::String(text) => !text.is_empty(),
                        blocks => blocks.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_whole)),
                    };
                    prop_assert!(is_right, "{message}");
                }
                let again = json!({"model": "m", "max_tokens": 1, "messages": written});
                let again = Format::Messages.read(&again);
                let again = again.map_err(|problem| TestCaseError::fail(format!("{problem:?}: {written:?}")))?;
                prop_assert_eq!(&again.history, &request.history);
                prop_assert_eq!(again.ignored, ["max_tokens"]);
                for tool in &request.tools {
                    prop_assert!(!tool.name.is_empty() && tool.schema["type"] == "object");
                }
                prop_assert!(super::ignored::list(&request.ignored).is_ascii());
            }
        }
    }
}
