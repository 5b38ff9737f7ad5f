use super::*;

fn server() -> (tempfile::TempDir, MemoryServer) {
    let folder = tempfile::tempdir().unwrap();
    let server = MemoryServer::new(Place::new(folder.path().join("memory")), folder.path());
    (folder, server)
}

fn call(server: &MemoryServer, name: &str, arguments: Value) -> Result<Value, String> {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    let result = server.answer(&message).unwrap()["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    if result["isError"] == true { Err(text) } else { Ok(serde_json::from_str(&text).unwrap()) }
}

#[test]
fn a_conversation_on_lines_is_answered() {
    let (_folder, server) = server();
    let input = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "not json",
        "",
        r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"other"}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"other"}"#,
    ]
    .join("\n");
    let mut output = Vec::new();
    server.serve(input.as_bytes(), &mut output).unwrap();
    let lines: Vec<Value> =
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(lines[1]["error"]["code"], GARBLED);
    assert_eq!(
        (lines[2]["id"].as_str(), lines[2]["result"]["tools"].as_array().unwrap().len()),
        (Some("a"), 9)
    );
    assert_eq!(
        (&lines[3]["error"]["code"], &lines[4]["error"]["code"]),
        (&json!(INVALID), &json!(METHOD_NOT_FOUND))
    );
}

/// 900 tokens, of three letters at least.
#[test]
fn the_tools_are_told_in_few_words() {
    let told = serde_json::to_string(&tools::list()).unwrap();
    let words: usize = tools::list().iter().map(|tool| tool["description"].as_str().unwrap().len()).sum();
    assert!(words < 900 && told.len() < 900 * 5, "{} of {}", words, told.len());
}

#[test]
fn what_is_remembered_is_found_corrected_pinned_and_forgotten() {
    let (_folder, server) = server();
    let kept = call(&server, "memory_remember", json!({"text": "The retry limit is five"})).unwrap();
    let id = kept["id"].as_str().unwrap().to_owned();
    let found = call(&server, "memory_search", json!({"query": "retry limits"})).unwrap();
    assert_eq!((&found["hits"][0]["id"], &found["hits"][0]["kind"]), (&json!(id), &json!("fact")));
    let new =
        call(&server, "memory_correct", json!({"id": id, "text": "It is seven"})).unwrap()["id"].clone();
    let found = call(&server, "memory_recall", json!({"query": "retry limit"})).unwrap();
    assert_eq!((&found["hits"][0]["id"], &found["hits"][1]["corrected_by"]), (&new, &new));
    assert_eq!(call(&server, "memory_pin", json!({"id": new})).unwrap()["pinned"], true);
    assert_eq!(call(&server, "memory_get", json!({"id": new})).unwrap()["message"]["text"], "It is seven");
    assert_eq!(
        call(&server, "memory_timeline", json!({"id": new})).unwrap()["messages"].as_array().unwrap().len(),
        1
    );
    assert_eq!(call(&server, "memory_status", json!({})).unwrap()["messages"], 2);
    assert_eq!(call(&server, "memory_forget", json!({"id": new})).unwrap()["forgotten"], 1);
    assert_eq!(
        call(&server, "memory_get", json!({"id": new})),
        Err(format!("there is no message {}", new.as_str().unwrap()))
    );
    assert!(
        call(&server, "memory_get", json!({})).is_err()
            && call(&server, "memory_search", json!({"query": 7})).is_err()
    );
}
