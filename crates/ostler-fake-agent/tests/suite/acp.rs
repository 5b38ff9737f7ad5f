//! The `acp` dialect: its shapes and orders against recordings of agents that speak it.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::recordings::{self, Grammar};
use super::stand::{Live, Stand};

const REAL: &[&str] = &[
    "acp/opencode/acp_allow.ndjson",
    "acp/opencode/acp_cancel.ndjson",
    "acp/opencode/acp_reject.ndjson",
    "acp/nanocoder/acp_allow.ndjson",
    "acp/nanocoder/acp_cancel.ndjson",
    "acp/cline/acp_allow.ndjson",
];

const GRAMMAR: Grammar = Grammar {
    kind,
    opaque: &[
        "params.update.rawInput",
        "params.update.rawOutput",
        "params.toolCall.rawInput",
        "result.agentCapabilities.sessionCapabilities",
        "result.configOptions",
    ],
    left_out: &[],
};

fn kind(message: &Value) -> String {
    let update = &message["params"]["update"];
    match (message["method"].as_str(), update["sessionUpdate"].as_str()) {
        (_, Some(update_kind)) => match update["status"].as_str() {
            Some(status) => format!("{update_kind}:{status}"),
            None => update_kind.to_owned(),
        },
        (Some(method), None) => method.to_owned(),
        (None, None) if message.get("error").is_some() => "error".to_owned(),
        (None, None) => {
            let result = &message["result"];
            let named = ["protocolVersion", "sessionId", "stopReason"]
                .into_iter()
                .find(|key| result.get(key).is_some());
            format!("result:{}", named.unwrap_or("-"))
        }
    }
}

/// What the agent sent, without the file requests that only some send.
fn sent(name: &str) -> Result<Vec<Value>> {
    let frames = recordings::records(name)?;
    let ours = frames.into_iter().filter(|frame| frame["dir"] == "<").map(|mut frame| frame["m"].take());
    Ok(ours.filter(|message| !kind(message).starts_with("fs/")).collect())
}

fn real() -> Result<Vec<Value>> {
    let each: Result<Vec<Vec<Value>>> = REAL.iter().map(|name| sent(name)).collect();
    Ok(each?.concat())
}

/// Kinds in order, repetitions once: how often a call is reported as running is an agent's own affair.
fn order(messages: &[Value]) -> Vec<String> {
    let mut kinds = GRAMMAR.kinds(messages);
    kinds.dedup();
    kinds
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn is_answer(message: &Value) -> bool {
    message["result"].get("stopReason").is_some() || message.get("error").is_some()
}

/// A connection with a session, and everything it sent so far.
fn connect(stand: &Stand) -> Result<(Live, String, Vec<Value>)> {
    let mut live = stand.start("acp", &["acp"])?;
    live.send(&request(1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})))?;
    let mut seen = vec![live.record()?];
    live.send(&request(2, "session/new", json!({"cwd": stand.work(), "mcpServers": []})))?;
    seen.push(live.record()?);
    let session = seen[1]["result"]["sessionId"].as_str().context("a session id")?.to_owned();
    Ok((live, session, seen))
}

fn prompt(session: &str, text: &str) -> Value {
    request(3, "session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
}

fn choose(question: &Value, option: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": {"outcome": "selected", "optionId": option}}})
}

#[test]
fn an_allowed_call_looks_like_the_recorded_one() -> Result<()> {
    let stand = Stand::doing(
        r#"{ think = "hmm" }, { say = "Running." },
           { permission_ask = "bash", arguments = { command = "echo from-acp" }, output = "from-acp" },
           { tool = "lab_echo", arguments = { text = "acp" }, output = "echo:acp" },
           { say = "All done.", chunk = 4 }"#,
    )?;
    let (mut live, session, mut seen) = connect(&stand)?;
    live.send(&prompt(&session, "go"))?;
    seen.extend(live.records_until(|message| message["method"] == "session/request_permission")?);
    let question = seen.last().context("a question")?.clone();
    live.send(&choose(&question, "once"))?;
    seen.extend(live.records_until(is_answer)?);
    GRAMMAR.compare(&real()?, &seen)?;
    // The recording has a call that writes a file in the middle; what is before and after it is the same.
    let recorded = order(&sent("acp/opencode/acp_allow.ndjson")?);
    let ours = order(&seen);
    let first_call =
        recorded.iter().position(|kind| kind == "tool_call_update:completed").context("a call")?;
    assert_eq!(ours[..=first_call], recorded[..=first_call]);
    assert_eq!(ours[ours.len() - 6..], recorded[recorded.len() - 6..]);
    live.close_stdin();
    assert_eq!(live.finish()?.code(), Some(0));
    Ok(())
}

#[test]
fn a_rejected_call_looks_like_the_recorded_one() -> Result<()> {
    let stand = Stand::doing(
        r#"{ think = "hmm" }, { say = "Running." }, { permission_ask = "bash", arguments = { command = "echo from-acp" } }"#,
    )?;
    let (mut live, session, mut seen) = connect(&stand)?;
    live.send(&prompt(&session, "go"))?;
    seen.extend(live.records_until(|message| message["method"] == "session/request_permission")?);
    let question = seen.last().context("a question")?.clone();
    live.send(&choose(&question, "reject"))?;
    seen.extend(live.records_until(is_answer)?);
    assert_eq!(order(&seen), order(&sent("acp/opencode/acp_reject.ndjson")?));
    GRAMMAR.compare(&real()?, &seen)
}

#[test]
fn a_cancelled_call_looks_like_the_recorded_one_and_the_session_goes_on() -> Result<()> {
    let stand = Stand::new(
        r#"
        v = 1
        [[step]]
        expect = { turn = 1 }
        do = [{ permission_ask = "bash", arguments = { command = "sleep 66" }, for = "66s" }]
        [[step]]
        do = [{ say = "turn {{turn}}" }]
        "#,
    )?;
    let (mut live, session, mut seen) = connect(&stand)?;
    live.send(&prompt(&session, "go"))?;
    seen.extend(live.records_until(|message| message["method"] == "session/request_permission")?);
    let question = seen.last().context("a question")?.clone();
    live.send(&choose(&question, "once"))?;
    seen.push(live.record()?);
    live.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}))?;
    seen.extend(live.records_until(is_answer)?);
    assert_eq!(seen.last().map(|last| last["result"]["stopReason"].clone()), Some(json!("cancelled")));
    assert_eq!(order(&seen), order(&sent("acp/opencode/acp_cancel.ndjson")?));
    GRAMMAR.compare(&real()?, &seen)?;
    live.send(&prompt(&session, "again"))?;
    let again = live.records_until(is_answer)?;
    assert_eq!(again[1]["params"]["update"]["content"]["text"], "turn 2");
    Ok(())
}

#[test]
fn failures_are_errors_of_the_request() -> Result<()> {
    let table = [
        (r#"{ limit_banner = "limit until 3pm" }"#, "limit until 3pm"),
        (r#"{ result = "api_error", message = "no model" }"#, "no model"),
    ];
    for (items, words) in table {
        let stand = Stand::doing(items)?;
        let (mut live, session, _) = connect(&stand)?;
        live.send(&prompt(&session, "go"))?;
        let seen = live.records_until(is_answer)?;
        GRAMMAR.compare(&real()?, &seen)?;
        assert_eq!(seen.last().map(|last| last["error"]["message"].clone()), Some(json!(words)), "{items}");
    }
    let stand = Stand::doing(r#"{ result = "max_turns" }"#)?;
    let (mut live, session, _) = connect(&stand)?;
    live.send(&prompt(&session, "go"))?;
    let seen = live.records_until(is_answer)?;
    assert_eq!(
        seen.last().map(|last| last["result"]["stopReason"].clone()),
        Some(json!("max_turn_requests"))
    );
    live.send(&request(9, "no/such", json!({})))?;
    assert_eq!(live.record()?["error"]["code"], -32601);
    Ok(())
}

#[test]
fn a_loaded_session_is_told_again_and_goes_on() -> Result<()> {
    let stand = Stand::new(
        r#"
        v = 1
        [[step]]
        expect = { resumed = true }
        do = [{ say = "turn {{turn}}" }]
        [[step]]
        do = [{ say = "first answer" }]
        "#,
    )?;
    let (mut live, session, _) = connect(&stand)?;
    live.send(&prompt(&session, "first question"))?;
    live.records_until(is_answer)?;
    live.close_stdin();
    live.finish()?;

    let mut live = stand.start("acp", &["acp"])?;
    let load = |id: &str| {
        request(1, "session/load", json!({"sessionId": id, "cwd": stand.work(), "mcpServers": []}))
    };
    live.send(&load("ses_unknown"))?;
    assert!(live.record()?.get("error").is_some());
    live.send(&load(&session))?;
    let told = live.records_until(|message| message.get("result").is_some())?;
    assert_eq!(GRAMMAR.kinds(&told), ["user_message_chunk", "agent_message_chunk", "result:-"]);
    assert_eq!(told[1]["params"]["update"]["content"]["text"], "first answer");
    live.send(&prompt(&session, "and?"))?;
    let seen = live.records_until(is_answer)?;
    assert_eq!(seen[1]["params"]["update"]["content"]["text"], "turn 2");
    Ok(())
}
