use super::*;
use crate::canonical::{Role, read};

fn toolset() -> Toolset {
    let tool = |name: &str| Tool {
        name: name.to_owned(),
        description: None,
        schema: json!({"type": "object", "properties": {"b": {}, "a": {}}}),
    };
    Toolset { tools: vec![tool("weather"), tool("news")], own: Own::Off }
}

fn made(call: &str, within: Option<&str>) -> AgentEvent {
    AgentEvent::ToolStarted {
        call: call.to_owned(),
        tool: known_as("weather"),
        input: json!({}),
        within: within.map(str::to_owned),
    }
}

fn call(id: u64, call: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "weather", "arguments": {}, "_meta": {"claudecode/toolUseId": call}}})
}

fn outcome(call: &str, text: &str) -> Block {
    Block::Outcome { call: call.to_owned(), blocks: vec![Block::Text(text.to_owned())], failed: false }
}

fn told(id: u64, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}], "isError": false}})
}

#[test]
fn a_form_is_read_back_and_tells_sets_apart() {
    let set = toolset();
    let mut turned = set.clone();
    turned.tools.reverse();
    assert_eq!(set.form(), turned.form(), "in whatever order");
    assert_eq!(Toolset::of_form(&set.form()), Some(turned));
    assert_ne!(set.form(), Toolset { own: Own::On, ..set }.form());
    assert_eq!(Toolset { tools: Vec::new(), own: Own::Off }.form(), "");
    assert_eq!(Toolset::of_form(""), None);
}

#[test]
fn it_greets_and_lists() {
    let mut desk = Desk::of(toolset());
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
    let answered = desk.route("r", &hello).unwrap();
    assert_eq!(answered["result"]["protocolVersion"], "2025-11-25");
    let listed = desk.route("r", &json!({"id": 1, "method": "tools/list"})).unwrap();
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, ["weather", "news"]);
    assert!(desk.route("r", &json!({"method": "notifications/initialized"})).is_some());
    assert_eq!(desk.route("r", &json!({"id": 2, "method": "x"})).unwrap()["error"]["code"], -32601);
}

/// The agent makes its second call only once it has the outcome of the first.
#[test]
fn calls_wait_for_their_outcomes_in_whatever_order() {
    let mut desk = Desk::of(toolset());
    desk.hear(&made("a", None));
    desk.hear(&made("b", None));
    assert_eq!(desk.route("r1", &call(5, "a")), None);
    desk.hear(&AgentEvent::TurnEnded(TurnOutcome::Called));
    assert!(desk.is_waiting());
    let both =
        Message { role: Role::User, blocks: vec![outcome("b", "B"), outcome("a", "A"), outcome("c", "C")] };
    assert_eq!(desk.bring(&both), [("r1".to_owned(), told(5, "A"))]);
    assert!(!desk.is_waiting());
    assert_eq!(desk.route("r2", &call(6, "b")), Some(told(6, "B")));
    desk.hear(&AgentEvent::TurnEnded(TurnOutcome::Interrupted));
    assert_eq!(desk.route("r3", &call(7, "b")).unwrap()["result"]["isError"], true);
}

#[test]
fn a_sub_agent_is_told_that_nobody_answers() {
    let mut desk = Desk::of(toolset());
    desk.hear(&made("a", Some("sub")));
    assert_eq!(desk.route("r", &call(1, "a")).unwrap()["result"]["isError"], true);
    assert!(!desk.is_waiting());
}

#[test]
fn a_conversation_goes_in_under_the_agents_names() {
    let messages = read(&[json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "a", "name": "weather", "input": {}},
        {"type": "tool_use", "id": "b", "name": "Bash", "input": {}}]})])
    .unwrap();
    let inward = toolset().inward(&messages)[0].written();
    assert_eq!(inward["content"][0]["name"], "mcp__program__weather");
    assert_eq!(inward["content"][1]["name"], "Bash");
    assert_eq!(named("mcp__program__weather"), Some("weather"));
    assert_eq!(known_as("weather"), "mcp__program__weather");
    assert!(known_as("").contains(SERVER));
}
