//! Tools that a program offers and runs itself: the session waits for what comes of them, whatever API asked.

use ostler_agent::leasing::Limits;
use serde_json::{Value, json};

use crate::house::{DEADLINE, House};

fn schema() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
}

/// A request with a tool on offer.
fn messages(talk: &[Value]) -> Value {
    json!({"model": "claude", "max_tokens": 9, "messages": talk,
        "tools": [{"name": "weather", "description": "tells it", "input_schema": schema()}]})
}

fn chat(talk: &[Value]) -> Value {
    let function = json!({"name": "weather", "description": "tells it", "parameters": schema()});
    json!({"model": "claude", "messages": talk, "tools": [{"type": "function", "function": function}]})
}

fn responses(talk: &[Value]) -> Value {
    let tool =
        json!({"type": "function", "name": "weather", "description": "tells it", "parameters": schema()});
    json!({"model": "claude", "input": talk, "tools": [tool]})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn pids(house: &House) -> Vec<u32> {
    house.stage.log(|log| log.asked.iter().map(|(pid, _)| *pid).collect())
}

#[tokio::test]
async fn a_call_ends_the_answer_and_its_outcome_goes_to_the_same_session() {
    let house = House::open(Limits::default()).await;
    let mut talk = vec![user("call Rome Oslo")];
    let got = house.post("/v1/messages", "ostler_1", &messages(&talk)).await.json();
    assert_eq!(got["stop_reason"], "tool_use");
    let call = |city: &str| json!({"type": "tool_use", "id": format!("call_{city}"), "name": "weather", "input": {"city": city}});
    assert_eq!(got["content"], json!([{"type": "text", "text": "I call."}, call("Rome"), call("Oslo")]));
    talk.push(json!({"role": "assistant", "content": got["content"]}));
    let outcome = |city: &str, text: &str| json!({"type": "tool_result", "tool_use_id": format!("call_{city}"), "content": text});
    talk.push(json!({"role": "user", "content": [outcome("Rome", "sun"), outcome("Oslo", "snow"),
        {"type": "text", "text": "well?"}]}));
    let got = house.post("/v1/messages", "ostler_1", &messages(&talk)).await.json();
    assert_eq!(got["content"][0]["text"], "call_Rome=sun call_Oslo=snow well?");
    // And on, as any conversation; in another API too.
    talk.push(json!({"role": "assistant", "content": got["content"]}));
    talk.push(user("say on"));
    house.post("/v1/messages", "ostler_1", &messages(&talk)).await;
    assert_eq!((pids(&house), house.stage.log(|log| log.started.len())), (vec![1, 1, 1], 1));
    house.close().await;
}

#[tokio::test]
async fn it_is_so_in_the_apis_of_openai() {
    let house = House::open(Limits::default()).await;
    let mut talk = vec![user("call Rome Oslo")];
    let got = house.post("/v1/chat/completions", "ostler_1", &chat(&talk)).await.json();
    let choice = &got["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &json!("I call."))
    );
    assert_eq!(choice["message"]["tool_calls"][1]["function"]["arguments"], r#"{"city":"Oslo"}"#);
    talk.push(choice["message"].clone());
    for call in ["call_Oslo", "call_Rome"] {
        talk.push(json!({"role": "tool", "tool_call_id": call, "content": "rain"}));
    }
    let got = house.post("/v1/chat/completions", "ostler_1", &chat(&talk)).await.json();
    assert_eq!(got["choices"][0]["message"]["content"], "call_Oslo=rain call_Rome=rain");

    let mut items = vec![user("call Bonn")];
    let got = house.post("/v1/responses", "ostler_1", &responses(&items)).await.json();
    assert_eq!((&got["status"], &got["output"][1]["type"]), (&json!("completed"), &json!("function_call")));
    items.extend(got["output"].as_array().unwrap().iter().cloned());
    items.push(json!({"type": "function_call_output", "call_id": "call_Bonn", "output": "fog"}));
    let got = house.post("/v1/responses", "ostler_1", &responses(&items)).await.json();
    assert_eq!(got["output"][0]["content"][0]["text"], "call_Bonn=fog");
    assert_eq!(pids(&house), [1, 1, 2, 2]);
    house.close().await;
}

#[tokio::test]
async fn calls_are_streamed_in_every_api() {
    let house = House::open(Limits::default()).await;
    let streamed = |mut body: Value| {
        body["stream"] = json!(true);
        body
    };
    let got =
        house.post("/v1/messages", "ostler_1", &streamed(messages(&[user("call Rome")]))).await.events();
    let deltas: Vec<&Value> =
        got.iter().map(|event| &event["delta"]["partial_json"]).filter(|it| !it.is_null()).collect();
    assert_eq!(deltas, [&json!(r#"{"city":"Rome"}"#)]);
    assert!(got.iter().any(|event| event["delta"]["stop_reason"] == "tool_use"), "{got:?}");
    let got = house
        .post("/v1/chat/completions", "ostler_1", &streamed(chat(&[user("call Oslo Bonn")])))
        .await
        .events();
    let calls = got.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array());
    let calls: Vec<(Value, Value)> =
        calls.flatten().map(|call| (call["index"].clone(), call["function"]["arguments"].clone())).collect();
    assert_eq!(calls, [(json!(0), json!(r#"{"city":"Oslo"}"#)), (json!(1), json!(r#"{"city":"Bonn"}"#))]);
    let got =
        house.post("/v1/responses", "ostler_1", &streamed(responses(&[user("call Kiel")]))).await.events();
    let done = got.iter().find(|event| event["type"] == "response.function_call_arguments.done").unwrap();
    assert_eq!((&done["arguments"], &done["name"]), (&json!(r#"{"city":"Kiel"}"#), &json!("weather")));
    house.close().await;
}

#[tokio::test]
async fn outcomes_of_a_session_that_is_gone_are_told_as_history() {
    let house = House::open(Limits { called: std::time::Duration::ZERO, ..Limits::default() }).await;
    let mut talk = vec![user("call Rome")];
    let got = house.post("/v1/messages", "ostler_1", &messages(&talk)).await.json();
    let gone = async {
        while house.stage.log(|log| log.closed.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    talk.push(json!({"role": "assistant", "content": got["content"]}));
    talk.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_Rome", "content": "sun"}]}));
    house.post("/v1/messages", "ostler_1", &messages(&talk)).await;
    house.stage.log(|log| {
        let told = &log.started[1];
        assert_eq!(told[1]["content"][1]["type"], "tool_use", "{told:?}");
        assert_eq!(told[2]["content"][0]["type"], "tool_result", "{told:?}");
        assert_eq!(log.asked[1], (2, "Go on with what came of the calls.".to_owned()));
    });
    house.close().await;
}

/// A tool that takes a text is one for the program too: in what it is told, and in what it sends back.
#[tokio::test]
async fn a_custom_tool_is_called_with_a_text() {
    let house = House::open(Limits::default()).await;
    let format = json!({"type": "grammar", "syntax": "lark", "definition": "start: x"});
    let tool = json!({"type": "custom", "name": "apply_patch", "description": "edits", "format": format});
    let ask = |input: Value, stream: bool| json!({"model": "claude", "input": input, "tools": [tool], "stream": stream});
    let mut items = vec![user("use apply_patch *** Begin")];
    let got = house.post("/v1/responses", "ostler_1", &ask(json!(items), false)).await.json();
    let call = got["output"][0].clone();
    let id = call["id"].as_str().unwrap();
    assert!(id.starts_with("ctc_"), "{call}");
    let want = json!({"type": "custom_tool_call", "id": id, "call_id": "call_it", "name": "apply_patch",
        "input": "*** Begin", "status": "completed"});
    assert_eq!(call, want);
    let output = json!({"type": "custom_tool_call_output", "call_id": "call_it", "output": "Done"});
    items.extend([call.clone(), output.clone()]);
    let got = house.post("/v1/responses", "ostler_1", &ask(json!(items), false)).await.json();
    assert_eq!(got["output"][0]["content"][0]["text"], "call_it=Done", "{got}");
    // The same, by what it refers to.
    let items = json!([user("use apply_patch *** Begin"), {"type": "item_reference", "id": id}, output]);
    let got = house.post("/v1/responses", "ostler_1", &ask(items, false)).await;
    assert_eq!(got.status, 200, "{}", got.body);
    let told = house.stage.log(|log| log.started.last().unwrap().clone());
    assert_eq!(told[1]["content"][0]["input"], json!({"input": "*** Begin"}), "{told:?}");
    // In pieces, and in the other API.
    let events = house
        .post("/v1/responses", "ostler_1", &ask(json!([user("use apply_patch x")]), true))
        .await
        .events();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let want = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds, want);
    assert_eq!((&events[3]["delta"], &events[4]["input"]), (&json!("x"), &json!("x")));
    let tool = json!({"type": "custom", "custom": {"name": "apply_patch"}});
    let body = json!({"model": "claude", "messages": [user("use apply_patch y")], "tools": [tool]});
    let got = house.post("/v1/chat/completions", "ostler_1", &body).await.json();
    let want = json!([{"id": "call_it", "type": "custom", "custom": {"name": "apply_patch", "input": "y"}}]);
    assert_eq!(got["choices"][0]["message"]["tool_calls"], want, "{got}");
    house.close().await;
}

/// Codex keeps tools of MCP servers and its own in namespaces.
#[tokio::test]
async fn a_tool_of_a_namespace_has_both_names() {
    let house = House::open(Limits::default()).await;
    let nested = json!({"type": "function", "name": "patch", "parameters": {"type": "object"}});
    let tool = json!({"type": "namespace", "name": "apply", "tools": [nested]});
    // Seen from Codex: tools that stand among the messages.
    let more = json!({"type": "additional_tools", "role": "developer", "tools": [tool]});
    let mut input = vec![more, user("use apply__patch x")];
    let got =
        house.post("/v1/responses", "ostler_1", &json!({"model": "claude", "input": input})).await.json();
    let call = &got["output"][0];
    assert_eq!((&call["namespace"], &call["name"]), (&json!("apply"), &json!("patch")), "{got}");
    let offered = house.stage.log(|log| log.tools.clone());
    assert!(offered[0].contains(r#""name":"apply__patch""#), "{offered:?}");
    input.extend([
        call.clone(),
        json!({"type": "function_call_output", "call_id": "call_it", "output": "Done"}),
    ]);
    let got =
        house.post("/v1/responses", "ostler_1", &json!({"model": "claude", "input": input})).await.json();
    assert_eq!(got["output"][0]["content"][0]["text"], "call_it=Done", "{got}");
    assert_eq!(pids(&house), [1, 1], "it is one session");
    house.close().await;
}

/// As the real APIs have it.
#[tokio::test]
async fn outcomes_must_fit_the_calls() {
    let house = House::open(Limits::default()).await;
    let mut talk = vec![user("call Rome")];
    let got = house.post("/v1/messages", "ostler_1", &messages(&talk)).await.json();
    talk.push(json!({"role": "assistant", "content": got["content"]}));
    let outcome = json!({"type": "tool_result", "tool_use_id": "call_Oslo", "content": "snow"});
    for last in [json!("never mind"), json!([outcome])] {
        let mut talk = talk.clone();
        talk.push(json!({"role": "user", "content": last}));
        let got = house.post("/v1/messages", "ostler_1", &messages(&talk)).await;
        assert_eq!((got.status, &got.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    }
    // It still waits for the right ones.
    talk.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_Rome", "content": "sun"}]}));
    assert_eq!(house.post("/v1/messages", "ostler_1", &messages(&talk)).await.status, 200);
    assert_eq!(pids(&house), [1, 1]);
    house.close().await;
}

#[tokio::test]
async fn what_an_agent_cannot_be_told_of_tools_is_named() {
    let house = House::open(Limits::default()).await;
    let mut body = chat(&[user("say x")]);
    body["tool_choice"] = json!("required");
    body["parallel_tool_calls"] = json!(false);
    let got = house.post("/v1/chat/completions", "ostler_1", &body).await;
    assert!(got.head.contains("x-ostler-ignored: parallel_tool_calls, tool_choice\r\n"), "{}", got.head);
    body["tools"] = json!([{"type": "web_search"}]);
    assert_eq!(house.post("/v1/chat/completions", "ostler_1", &body).await.status, 400);
    // Other tools are another session.
    body["tools"] = json!([]);
    body["tool_choice"] = json!(null);
    house.post("/v1/chat/completions", "ostler_1", &body).await;
    assert_eq!(pids(&house), [1, 2]);
    house.close().await;
}
