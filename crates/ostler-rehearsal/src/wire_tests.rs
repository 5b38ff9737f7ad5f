use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ask::Delivery;
use crate::roles::CallInput;

const WIRES: [Wire; 3] = [Wire::Anthropic, Wire::Responses, Wire::Chat];

fn recorded(name: &str) -> Ask {
    let path = format!("{}/fixtures/requests/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let request: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let headers = serde_json::from_value(request["headers"].clone()).unwrap();
    let wire = match name.split('-').next() {
        Some("claude") => Wire::Anthropic,
        Some("codex") => Wire::Responses,
        _ => Wire::Chat,
    };
    read(wire, &headers, &request["body"]).unwrap()
}

/// What real agents sent, in one line each: whether it is a request of their own, the prompt, the rounds since, the
/// last result, the place.
#[test]
fn requests_of_real_agents_are_understood() {
    let names = [
        "claude-tools",
        "claude-summary",
        "claude-after-summary",
        "claude-sub-agent",
        "claude-title",
        "codex-tools",
        "codex-summary",
        "codex-after-summary",
        "opencode-tools",
        "opencode-summary",
        "opencode-after-summary",
        "opencode-sub-agent",
        "opencode-title",
    ];
    let mut told = String::new();
    for name in names {
        let ask = recorded(name);
        let result = ask.results.last().map(|text| crate::director::excerpt(text));
        writeln!(
            told,
            "{name}: side {:?}, prompt {:?}, rounds {}, result {result:?}, in {:?}, {:?}, {} tools, bookmark {}",
            ask.side,
            ask.prompt,
            ask.rounds,
            ask.workspace,
            ask.delivery,
            ask.offered.len(),
            ask.bookmark.is_some(),
        )
        .unwrap();
    }
    insta::assert_snapshot!(told);
}

fn ask(wire: Wire) -> Ask {
    let body = match wire {
        Wire::Responses => json!({"model": "m", "stream": true, "input": "hi"}),
        Wire::Anthropic | Wire::Chat => {
            json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]})
        }
    };
    read(wire, &Headers::new(), &body).unwrap()
}

fn calls() -> [Call; 2] {
    let named = Call { name: "look".into(), namespace: None, input: CallInput::Arguments(json!({"a": 1})) };
    let free = Call {
        name: "patch".into(),
        namespace: Some("mcp__x".into()),
        input: CallInput::Text("text".into()),
    };
    [named, free]
}

fn redacted(text: &str) -> String {
    let ids = regex_lite::Regex::new("[0-9a-f]{32}").unwrap();
    ids.replace_all(text, "ID").into_owned()
}

#[test]
fn a_streamed_answer_looks_as_the_provider_sends_it() {
    for wire in WIRES {
        let mut encoder = encoder(&ask(wire), Usage { input: 7, output: 0, cached: 2 });
        let [named, free] = calls();
        let mut sent = encoder.open();
        sent += &encoder.thought("hm");
        sent += &encoder.text("Hel");
        sent += &encoder.text("lo");
        sent += &encoder.call(&named);
        sent += &encoder.call(&free);
        sent += &encoder.close(StopReason::ToolUse, Usage { input: 7, output: 3, cached: 2 });
        insta::assert_snapshot!(format!("stream-{}", wire.name()), redacted(&sent));
    }
}

#[test]
fn an_answer_in_one_piece_looks_as_the_provider_sends_it() {
    for wire in WIRES {
        let mut parts = vec![Part::Thought("hm".into()), Part::Text("Hello".into())];
        parts.extend(calls().map(Part::Call));
        let sent = whole(&ask(wire), &parts, StopReason::ToolUse, Usage { input: 7, output: 3, cached: 2 });
        let sent = serde_json::to_string_pretty(&sent).unwrap();
        insta::assert_snapshot!(format!("whole-{}", wire.name()), redacted(&sent));
    }
}

#[test]
fn what_is_wrong_with_a_request_is_said() {
    let table = [
        (Wire::Anthropic, json!([]), "the body is not a JSON object"),
        (Wire::Anthropic, json!({"model": "m"}), "`messages` is missing or not a list"),
        (Wire::Anthropic, json!({"messages": [{"role": "user", "content": "x"}]}), "`model` is missing"),
        (Wire::Anthropic, json!({"model": "m", "messages": []}), "`messages` is empty"),
        (
            Wire::Anthropic,
            json!({"model": "m", "stream": "yes", "messages": [{"role": "user", "content": "x"}]}),
            "`stream` is neither true nor false",
        ),
        (
            Wire::Chat,
            json!({"model": "m", "n": 3, "messages": [{"role": "user", "content": "x"}]}),
            "`n` is not 1: a script has one answer",
        ),
        (Wire::Responses, json!({"model": "m", "input": []}), "`input` is empty"),
        (Wire::Responses, json!({"model": "m", "input": [null]}), "an item of `input` is not an object"),
        (
            Wire::Responses,
            json!({"model": "m", "input": "x", "previous_response_id": "r"}),
            "`previous_response_id` is not kept here: send the whole input",
        ),
        (
            Wire::Anthropic,
            json!({"model": "m", "messages": [{"role": "user"}]}),
            "a message has no `content`",
        ),
        (Wire::Chat, json!({"model": "m", "messages": [{}]}), "a message has no `role`"),
        (Wire::Responses, json!({"model": "m", "input": 3}), "`input` is missing"),
        (Wire::Responses, json!({"model": "", "input": "x"}), "`model` is missing"),
    ];
    for (wire, body, want) in table {
        assert_eq!(read(wire, &Headers::new(), &body).unwrap_err(), want, "{body}");
    }
}

#[test]
fn only_a_real_agent_makes_side_requests() {
    let prompts =
        ["quota", "You are a title generator", "Your task is to create a detailed summary of README.md"];
    for prompt in prompts {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": prompt}]});
        for (agent, is_side) in [("curl/8", false), ("claude-cli/2.1.197 (external, cli)", true)] {
            let headers = Headers::from([("user-agent".to_owned(), agent.to_owned())]);
            assert_eq!(
                read(Wire::Anthropic, &headers, &body).unwrap().side.is_some(),
                is_side,
                "{prompt} {agent}"
            );
        }
    }
}

#[test]
fn a_bookmark_of_any_size_is_harmless() {
    let prompt = format!("[rehearsal-bookmark [0,{},\"x\"] end-of-bookmark]", usize::MAX);
    let messages = json!([
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]},
    ]);
    let ask = read(Wire::Chat, &Headers::new(), &json!({"model": "m", "messages": messages})).unwrap();
    assert_eq!(ask.rounds, usize::MAX);
}

/// The text of every event, put together again: what a client would show.
fn spoken(wire: Wire, stream: &str) -> String {
    let events =
        stream.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let mut text = String::new();
    for data in events.map(|data| serde_json::from_str::<Value>(data).unwrap()) {
        let delta = match wire {
            Wire::Anthropic => &data["delta"]["text"],
            Wire::Responses if data["type"] == "response.output_text.delta" => &data["delta"],
            Wire::Responses => &Value::Null,
            Wire::Chat => &data["choices"][0]["delta"]["content"],
        };
        text += delta.as_str().unwrap_or_default();
    }
    text
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop_oneof!["user", "assistant", "tool", "text", "tool_result", "message", "function_call", ".{0,8}"]
            .prop_map(Value::from),
    ];
    let keys = prop_oneof![
        "model", "messages", "input", "role", "content", "type", "tools", "name", "system", "text"
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(keys.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn keep_alives_are_sent_as_long_as_they_last() {
    use crate::director::{Answer, Beat};
    use crate::performance::{Act, Performance};
    let seconds = std::time::Duration::from_secs;
    let beats = vec![Beat::KeepAlives { every: seconds(2), left: Some(seconds(5)) }];
    let answer = Answer { beats, ..Answer::plain(String::new()) };
    let acts: Vec<Act> = Performance::new(answer, &ask(WIRES[0]), 1).collect();
    let keep_alive = || Act::Send(": keep-alive\n\n".to_owned());
    let want = [keep_alive(), Act::Wait(seconds(2)), keep_alive(), Act::Wait(seconds(2)), keep_alive()];
    assert_eq!(acts[1..6], want);
    assert_eq!(acts[6], Act::Wait(seconds(1)));
    assert_eq!(acts.len(), 8, "then the answer ends: {acts:?}");
}

proptest! {
    #[test]
    fn any_chunking_says_the_same(text in "(?s).{1,200}", chunk in 1usize..50, repeat in 1usize..4) {
        use crate::director::{Answer, Beat, Speech};
        use crate::performance::{Act, Performance};
        for wire in WIRES {
            let speech = Speech { text: text.clone(), chunk, gap: std::time::Duration::ZERO, repeat };
            let answer = Answer { beats: vec![Beat::Text(speech)], ..Answer::plain(String::new()) };
            let sent: String = Performance::new(answer, &ask(wire), 1)
                .map(|act| match act { Act::Send(frame) => frame, other => panic!("{other:?}") })
                .collect();
            prop_assert_eq!(spoken(wire, &sent), text.repeat(repeat));
        }
    }

    #[test]
    fn no_request_makes_a_reader_panic(body in any_json()) {
        for wire in WIRES {
            let _ = read(wire, &Headers::new(), &body);
        }
    }

    #[test]
    fn a_request_with_messages_is_read_or_refused(messages in prop::collection::vec(any_json(), 0..4)) {
        for wire in WIRES {
            let body = json!({"model": "m", "messages": messages, "input": messages, "stream": true});
            if let Ok(ask) = read(wire, &Headers::new(), &body) {
                prop_assert_eq!(ask.delivery, Delivery::Stream);
            }
        }
    }
}

/// Seen on Codex 0.166.0: tools of MCP servers are found by a search, whose description names the servers.
#[test]
fn tools_that_codex_only_finds_by_a_search_are_offered() {
    let search = "# Tool discovery\n\nYou have access to tools from the following sources:\n\
                  - Multi-agent tools: Spawn and manage sub-agents.\n- ostler: Supervises.\n- docs\nSome may be hidden.";
    let body = json!({
        "model": "m",
        "input": "hi",
        "tools": [{"type": "tool_search", "description": search}, {"type": "web_search", "description": "- x"}],
    });
    let ask = read(Wire::Responses, &Headers::new(), &body).unwrap();
    assert_eq!(ask.offered, ["tool_search", "mcp__ostler", "mcp__docs", "web_search"]);
    for (tool, want) in
        [("mcp:x", true), ("mcp:ostler/x", true), ("mcp:docs/x", true), ("mcp:other/x", false)]
    {
        assert_eq!(ask.offers(tool), want, "{tool}");
    }
}
