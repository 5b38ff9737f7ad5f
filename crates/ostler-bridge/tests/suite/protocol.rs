//! The protocol: what is agreed on, what is refused, and what is ignored.

use serde_json::{Value, json};

use super::ground::{Ground, Guest, PLAN, client};

#[tokio::test]
async fn a_version_is_agreed_on() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.run();
    let table = [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        // The newest has no greeting, so the newest that has one is offered; likewise for what is not known.
        ("2026-07-28", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ];
    for (asked, agreed) in table {
        let message = guest.greet(asked).await.message();
        assert_eq!(message["result"]["protocolVersion"], agreed, "{asked}: {message}");
        assert_eq!(message["result"]["serverInfo"]["name"], "ostler");
    }
}

#[tokio::test]
async fn the_newest_revision_needs_no_greeting() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.run();
    let version = "2026-07-28";
    let mut guest = guest.with("mcp-protocol-version", version).with("mcp-method", "tools/list");
    guest.headers.remove(0);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "guest", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = guest.send("tools/list", json!({ "_meta": meta })).await.message();
    assert_eq!(message["result"]["tools"].as_array().map(Vec::len), Some(6), "{message}");
}

#[tokio::test]
async fn messages_that_are_none_are_told_what_they_lack() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.run();
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{deep}}}");
    let table: [(Vec<u8>, i64, &str); 9] = [
        (b"[]".to_vec(), -32600, "batches are not part of the protocol since 2025-06-18"),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]".to_vec(), -32600, "batches are not part"),
        (b"{\"jsonrpc\": \"2.0\", \"id\"".to_vec(), -32700, "the message is not JSON: EOF"),
        (b"{\"id\": \"\xff\"}".to_vec(), -32700, "the message is not text in UTF-8"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7}".to_vec(), -32600, "the message has no `method`"),
        (b"7".to_vec(), -32600, "the message is not an object"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":7}".to_vec(), -32600, "`method` is not text"),
        (Vec::new(), -32700, "the message is not JSON: EOF"),
        (deep.into_bytes(), -32700, "the message is not JSON: recursion limit exceeded"),
    ];
    for (body, code, words) in table {
        let reply = guest.post(body).await;
        let message = reply.message();
        assert_eq!((reply.status, message["error"]["code"].as_i64()), (400, Some(code)), "{message}");
        assert!(message["error"]["message"].as_str().unwrap().starts_with(words), "{message}");
    }
}

#[tokio::test]
async fn faults_of_the_protocol_are_errors_of_the_protocol() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.run();
    let table = [("no/such", json!({}), -32601), ("tools/call", json!({ "arguments": {} }), -32602)];
    for (method, params, code) in table {
        let message = guest.send(method, params).await.message();
        assert_eq!(message["error"]["code"], code, "{message}");
    }
    assert_eq!(guest.send("ping", json!({})).await.message()["result"], json!({}));
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/whatever" }).to_string();
    assert_eq!(guest.post(note).await.status, 202);
}

#[tokio::test]
async fn a_session_id_opens_nothing_and_an_old_one_closes_nothing() {
    let ground = Ground::new().await;
    let (route, _events, guest) = ground.run();
    let session = guest.greet("2025-06-18").await.session.expect("a session is given");
    let stranger = Guest { token: String::new(), ..guest.with("mcp-session-id", &session) };
    assert_eq!(stranger.send("tools/list", json!({})).await.status, 401);
    for id in [session.as_str(), "made-up", ""] {
        assert_eq!(guest.with("mcp-session-id", id).tools().await.len(), 6, "{id}");
    }
    // There is no stream to listen on and no session to delete; clients know what that answer means.
    for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
        let request = guest.http.request(method, &guest.url).bearer_auth(&guest.token);
        let answer = request.header("accept", "text/event-stream").send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 405);
    }
    drop(route);
}

#[tokio::test]
async fn a_second_client_with_the_same_token_sees_the_same_run() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.run();
    let second = Guest { http: client(), ..guest.clone() };
    guest.greet("2025-06-18").await;
    second.greet("2025-11-25").await;
    let draft: Value = json!({ "type": "plan", "content": PLAN.replace("## Goal", "## Goals") });
    guest.says("submit_artifact", draft).await;
    let edit = json!({ "type": "plan", "old": "## Goals", "new": "## Goal" });
    let said = second.says("edit_artifact", edit).await;
    assert!(said.starts_with("ok: Accepted"), "{said}");
}
