//! Tools that a program offers, with the real agent: that a call is answered in the same process is told by the process,
//! and what came of it by what the model is told.

use std::time::Duration;

use ostler_agent::event::{AgentEvent, Part, TurnOutcome};
use ostler_agent::leasing::Limits;
use ostler_agent::offering::{Own, Tool, Toolset};
use ostler_gateway::pool::State;
use serde_json::{Value, json};

use crate::player::Player;
use crate::pool::Ground;
use crate::serve::Served;

const DEADLINE: Duration = Duration::from_secs(120);

/// Two calls in one message; then what came of them.
const SCRIPT: &str = r#"
v = 1
[[conversation]]
name = "weather"
[[conversation.step]]
expect = { contains = "weather", offered = "mcp:weather" }
reply = [{ text = "I ask." }, { tool_by_role = "mcp:weather", arguments = { city = "Rome" } }, { tool_by_role = "mcp:weather", arguments = { city = "Oslo" } }]
[[conversation.step]]
reply = [{ text = "It is so: {{tool_result}}" }]

[[conversation]]
name = "else"
[[conversation.step]]
reply = [{ text = "{{prompt}}!" }]
"#;

fn schema() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
}

fn toolset() -> String {
    let tool =
        Tool { name: "weather".to_owned(), description: Some("tells it".to_owned()), schema: schema() };
    Toolset { tools: vec![tool], own: Own::Off }.form()
}

/// The calls, and how it ended.
async fn asked(ground: &Ground, talk: &[Value]) -> (Vec<(String, Value)>, Vec<String>, TurnOutcome) {
    let mut answer = ground.ask_offering(&toolset(), talk);
    let all = async {
        let (mut calls, mut texts) = (Vec::new(), Vec::new());
        while let Some(event) = answer.next().await {
            match event.unwrap() {
                AgentEvent::ToolStarted { call, input, .. } => calls.push((call, input)),
                AgentEvent::Said { text, part: Part::Whole, .. } => texts.push(text),
                AgentEvent::TurnEnded(end) => return (calls, texts, end),
                _ => {}
            }
        }
        panic!("it has no end")
    };
    tokio::time::timeout(DEADLINE, all).await.unwrap()
}

fn cycle(calls: &[(String, Value)]) -> [Value; 2] {
    let mut said = vec![json!({"type": "text", "text": "I ask."})];
    said.extend(
        calls
            .iter()
            .map(|(id, input)| json!({"type": "tool_use", "id": id, "name": "weather", "input": input})),
    );
    let brought = calls.iter().map(|(id, input)| {
        let text = format!("sun in {}", input["city"].as_str().unwrap());
        json!({"type": "tool_result", "tool_use_id": id, "content": text})
    });
    [
        json!({"role": "assistant", "content": said}),
        json!({"role": "user", "content": brought.collect::<Vec<_>>()}),
    ]
}

/// What the model was told last: the results of calls, and the tools on offer.
fn told(ground: &Ground) -> (Vec<String>, Vec<String>) {
    let request = ground.tap.conversation().pop().unwrap();
    let names =
        request["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    let blocks =
        request["messages"].as_array().unwrap().iter().filter_map(|message| message["content"].as_array());
    let results = blocks.flatten().filter(|block| block["type"] == "tool_result");
    let text = |block: &Value| match &block["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap().to_owned(),
    };
    // What an agent puts there to keep its list of tools as it was is no tool.
    (results.map(text).collect(), names.filter(|name| name != "DeferredToolPlaceholder").collect())
}

#[tokio::test]
async fn calls_are_answered_in_the_same_process() {
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let ground = Ground::with(program, SCRIPT, Limits::default()).await;
    let mut talk = vec![json!({"role": "user", "content": "how is the weather?"})];
    let (calls, texts, end) = asked(&ground, &talk).await;
    assert_eq!((texts, end), (vec!["I ask.".to_owned()], TurnOutcome::Called));
    let cities: Vec<&Value> = calls.iter().map(|(_, input)| &input["city"]).collect();
    assert_eq!(cities, ["Rome", "Oslo"], "all calls of a message are told at once");
    let first = ground.live();
    assert_eq!((first.len(), first[0].1), (1, State::Called));
    talk.extend(cycle(&calls));
    let (_, texts, end) = asked(&ground, &talk).await;
    assert!(matches!(end, TurnOutcome::Done { .. }), "{end:?}");
    assert_eq!(ground.live(), [(first[0].0, State::Idle, 2)]);
    let both = ["sun in Rome".to_owned(), "sun in Oslo".to_owned()];
    assert_eq!(told(&ground), (both.to_vec(), vec!["mcp__program__weather".to_owned()]));
    // The whole cycle, sent back, is the same conversation.
    talk.push(json!({"role": "assistant", "content": texts.join("\n\n")}));
    talk.push(json!({"role": "user", "content": "thanks"}));
    asked(&ground, &talk).await;
    assert_eq!(ground.live(), [(first[0].0, State::Idle, 3)]);
    ground.strike().await;
}

#[tokio::test]
async fn outcomes_for_a_session_that_is_gone_are_told_to_a_new_one() {
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let ground = Ground::with(program, SCRIPT, Limits { called: Duration::ZERO, ..Limits::default() }).await;
    let mut talk = vec![json!({"role": "user", "content": "how is the weather?"})];
    let (calls, ..) = asked(&ground, &talk).await;
    let gone = async {
        while !ground.live().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    talk.extend(cycle(&calls));
    let (_, _, end) = asked(&ground, &talk).await;
    assert!(matches!(end, TurnOutcome::Done { .. }), "{end:?}");
    assert_eq!(told(&ground).0, ["sun in Rome", "sun in Oslo"]);
    ground.strike().await;
}

/// Each API has its own words for it.
#[test]
fn every_api_has_its_calls_and_results() {
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let script = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(script.path(), SCRIPT).unwrap();
    let rehearse = format!("--rehearse={}", script.path().display());
    let served = Served::with(&program, &[&rehearse], &[]);
    let post = |path: &str, body: Value| -> Value {
        let (status, body) = served.post(path, &body);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    };
    let mut talk = vec![json!({"role": "user", "content": "how is the weather?"})];
    let tools = json!([{"name": "weather", "input_schema": schema()}]);
    let body =
        |talk: &[Value]| json!({"model": "claude", "max_tokens": 99, "messages": talk, "tools": tools});
    let got = post("/v1/messages", body(&talk));
    assert_eq!(
        (&got["stop_reason"], &got["content"][2]["input"]),
        (&json!("tool_use"), &json!({"city": "Oslo"}))
    );
    assert!(got["usage"]["output_tokens"].as_u64().unwrap() > 0, "{got}");
    talk.push(json!({"role": "assistant", "content": got["content"]}));
    let brought = [1, 2]
        .map(|at| json!({"type": "tool_result", "tool_use_id": got["content"][at]["id"], "content": "sun"}));
    talk.push(json!({"role": "user", "content": brought}));
    let got = post("/v1/messages", body(&talk));
    assert_eq!(got["stop_reason"], "end_turn");
    assert!(got["content"][0]["text"].as_str().unwrap().contains("sun"), "{got}");

    let mut talk = vec![json!({"role": "user", "content": "how is the weather?"})];
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": schema()}}]);
    let body = |talk: &[Value]| json!({"model": "claude", "messages": talk, "tools": tools});
    let got = post("/v1/chat/completions", body(&talk));
    let message = &got["choices"][0]["message"];
    assert_eq!(got["choices"][0]["finish_reason"], "tool_calls");
    talk.push(message.clone());
    for call in message["tool_calls"].as_array().unwrap() {
        talk.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "rain"}));
    }
    let got = post("/v1/chat/completions", body(&talk));
    assert!(got["choices"][0]["message"]["content"].as_str().unwrap().contains("rain"), "{got}");

    let mut items = vec![json!({"role": "user", "content": "how is the weather?"})];
    let tools = json!([{"type": "function", "name": "weather", "parameters": schema()}]);
    let body = |items: &[Value]| json!({"model": "claude", "input": items, "tools": tools});
    let got = post("/v1/responses", body(&items));
    let output = got["output"].as_array().unwrap().clone();
    items.extend(output.iter().cloned());
    for call in output.iter().filter(|item| item["type"] == "function_call") {
        items.push(json!({"type": "function_call_output", "call_id": call["call_id"], "output": "fog"}));
    }
    let got = post("/v1/responses", body(&items));
    assert!(got["output"][0]["content"][0]["text"].as_str().unwrap().contains("fog"), "{got}");
    assert_eq!(served.interrupt(), Some(0));
}
