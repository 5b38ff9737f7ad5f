//! Everything that a client can do wrong, one by one: each has an answer, and none of it ends the run.

use ostler_bridge::event::{BridgeEvent, Refusal, Settled};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::ground::{Events, Ground, Guest, PLAN, RUN};

/// The run goes on, and its agent is served.
async fn goes_on(guest: &Guest) {
    assert_eq!(guest.says("report_progress", json!({ "text": "On." })).await, "ok: Noted.");
}

async fn refused(events: &mut Events) -> Refusal {
    events
        .find(|event| match event {
            BridgeEvent::Refused { why } => Some(why),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn an_unknown_tool_is_a_result_that_names_the_nearest() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.run();
    for (tool, want) in [
        ("submit_artefact", "failed: There is no tool called `submit_artefact` in this run. Did you mean"),
        ("mcp__ostler__declare_complete", "failed: There is no tool called `mcp__ostler__declare_complete`"),
        ("", "failed: There is no tool called `` in this run. There are: "),
        ("exec", "failed: There is no tool called `exec` in this run."),
        ("\u{1f40e}\n\0", "failed: There is no tool called `"),
    ] {
        let said = guest.says(tool, json!({})).await;
        assert!(said.starts_with(want), "{said}");
    }
    let long = guest.says(&"x".repeat(1_000_000), json!({})).await;
    assert!(long.starts_with("failed: There is no tool called `xxx") && long.len() < 1000, "{}", long.len());
    let told = events.all().into_iter().filter_map(|event| match event {
        BridgeEvent::Called { tool } | BridgeEvent::Answered { tool, .. } => Some(tool.len()),
        _ => None,
    });
    assert_eq!(told.max(), Some(128));
    goes_on(&guest).await;
}

#[tokio::test]
async fn wrong_types_are_told_with_the_key_that_has_them() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.works(RUN, "files:rw,exec,artifacts,progress,ask");
    for (tool, arguments, key) in [
        ("submit_artifact", json!({ "type": ["plan"], "content": PLAN }), "type"),
        ("submit_artifact", json!({ "type": "plan", "content": null }), "content"),
        ("report_progress", json!({ "text": {}, "percent": 50 }), "text"),
        ("ask_human", json!({ "question": "?", "timeout": -1 }), "timeout"),
        ("read_file", json!({ "path": "a", "offset": 1.5 }), "offset"),
        ("list_files", json!({ "depth": "all" }), "depth"),
        ("search_files", json!({ "pattern": 1 }), "pattern"),
        ("write_file", json!({ "path": "a", "content": 1 }), "content"),
        ("edit_file", json!({ "path": "a", "old": "b", "new": "c", "all": "yes" }), "all"),
        ("exec", json!({ "command": ["ls"] }), "command"),
        ("git_log", json!({ "count": true }), "count"),
    ] {
        let said = guest.says(tool, arguments).await;
        assert!(said.starts_with(&format!("failed: `{tool}` was not called: ")), "{said}");
        assert!(said.contains(&format!(" in `{key}`.")), "{said}");
    }
    // What is not even an object is a fault of the protocol.
    let message = guest.send("tools/call", json!({ "name": "exec", "arguments": [] })).await.message();
    assert_eq!(message["error"]["code"], -32602, "{message}");
    goes_on(&guest).await;
}

#[tokio::test]
async fn ten_megabytes_are_refused_by_every_tool_that_takes_text() {
    let ground = Ground::new().await;
    ground.put("a.txt", "old\n");
    let (_route, _events, guest) = ground.works(RUN, "files:rw,exec,artifacts,progress,ask");
    let much = "x".repeat(10_000_000);
    // Enough for those that take a line.
    let line = &much[..1_000_000];
    for (tool, arguments) in [
        ("submit_artifact", json!({ "type": "plan", "content": much })),
        ("declare_complete", json!({ "summary": line })),
        ("ask_human", json!({ "question": line })),
        ("write_file", json!({ "path": "a.txt", "content": much })),
        ("edit_file", json!({ "path": "a.txt", "old": "old", "new": much })),
        ("read_file", json!({ "path": line })),
        ("search_files", json!({ "pattern": line })),
        ("list_files", json!({ "glob": line })),
        ("exec", json!({ "command": format!("echo {much}") })),
        ("git_show", json!({ "rev": line })),
    ] {
        let said = guest.says(tool, arguments).await;
        assert!(said.starts_with("failed: "), "{tool}: {}", &said[..said.len().min(300)]);
        assert!(said.len() < 100_000, "{tool} repeats it all: {} bytes", said.len());
    }
    assert_eq!(std::fs::read_to_string(ground.workspace().join("a.txt")).unwrap(), "old\n");
    goes_on(&guest).await;
}

#[tokio::test]
async fn bytes_that_are_not_utf_8_are_refused_wherever_they_stand() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.run();
    let call = |content: &[u8]| {
        let head = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"report_progress\",\"arguments\":{\"text\":\"";
        [&head[..], content, b"\"}}}"].concat()
    };
    let reply = guest.post(call(b"\xff\xfe")).await;
    assert_eq!((reply.status, refused(&mut events).await), (400, Refusal::Garbled));
    assert_eq!(reply.message()["error"]["message"], "the message is not text in UTF-8");
    // Half of a pair is JSON's own way to say what cannot be said in UTF-8.
    let reply = guest.post(call(br"\ud800")).await;
    assert_eq!((reply.status, refused(&mut events).await), (400, Refusal::Garbled));
    // In the headers, where a token should be.
    let mut stream = TcpStream::connect(("127.0.0.1", ground.port)).await.unwrap();
    let path = format!("/mcp/{RUN}");
    let head = format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer ", ground.port);
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(b"\xff\xfe\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 401 "), "{}", String::from_utf8_lossy(&answer));
    goes_on(&guest).await;
}

#[tokio::test]
async fn a_thousand_calls_at_once_of_the_workspace_are_all_answered() {
    super::crowd::allow_descriptors();
    let ground = Ground::new().await;
    ground.put("a.txt", "word\n");
    let (_route, mut events, guest) = ground.works(RUN, "files:rw");
    let mut calls = JoinSet::new();
    for number in 0..1000 {
        let guest = guest.clone();
        calls.spawn(async move {
            match number % 5 {
                0 => guest.says("read_file", json!({ "path": "a.txt" })).await,
                1 => guest.says("list_files", json!({})).await,
                2 => guest.says("search_files", json!({ "pattern": "word" })).await,
                3 => guest.says("write_file", json!({ "path": "b.txt", "content": "word\n" })).await,
                _ => guest.says("read_file", json!({ "path": "../a.txt" })).await,
            }
        });
    }
    let mut failed = 0;
    while let Some(said) = calls.join_next().await {
        failed += usize::from(said.unwrap().starts_with("failed: "));
        events.all();
    }
    assert_eq!(failed, 200);
}

#[tokio::test]
async fn a_session_id_of_another_run_takes_nothing_back() {
    let ground = Ground::new().await;
    let (route, mut events, guest) = ground.run();
    let (other, _other_events) = ground.keeper.admit(ground.terms("other-run")).unwrap();
    let session = guest.greet("2025-06-18").await.session.expect("a session is given");
    let mine = guest.with("mcp-session-id", &session);
    let mut calls = JoinSet::new();
    calls.spawn(async move { mine.says("ask_human", json!({ "question": "Red?" })).await });
    let question = events.find(|event| match event {
        BridgeEvent::Asked(question) => Some(question.id),
        _ => None,
    });
    let question = question.await;
    // The same session and the same number, with the token of another run.
    let replayed = Guest::of(&other).with("mcp-session-id", &session);
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(replayed.post(cancel.to_string()).await.status, 202);
    goes_on(&replayed).await;
    assert_eq!(route.open_questions(), [question]);
    let _ = route.answer(question, "yes");
    assert_eq!(calls.join_next().await.unwrap().unwrap(), "ok: yes");
    let settled = events.find(|event| match event {
        BridgeEvent::Settled { how, .. } => Some(how),
        _ => None,
    });
    assert_eq!(settled.await, Settled::Answered("yes".to_owned()));
}

#[tokio::test]
async fn a_name_that_was_made_to_lead_here_is_refused() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.run();
    for host in ["evil", "evil.example", "127.0.0.1.evil.example", "localhost", "[::1]", "0.0.0.0"] {
        for host in [host.to_owned(), format!("{host}:{}", ground.port)] {
            if host == format!("localhost:{}", ground.port) {
                continue;
            }
            let reply = guest.with("host", &host).send("tools/list", json!({})).await;
            assert_eq!((reply.status, reply.text.as_str()), (403, "forbidden\n"), "{host}");
            assert_eq!(refused(&mut events).await, Refusal::Host);
        }
    }
    goes_on(&guest).await;
}

#[tokio::test]
async fn a_web_page_is_refused_even_with_the_token() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.run();
    let own = format!("http://127.0.0.1:{}", ground.port);
    for origin in ["https://evil.example", "null", "file://", &own] {
        let reply = guest.with("origin", origin).send("tools/list", json!({})).await;
        assert_eq!((reply.status, reply.text.as_str()), (403, "forbidden\n"), "{origin}");
        assert_eq!(refused(&mut events).await, Refusal::Origin);
    }
    // Neither is a page told that it may ask.
    let request = guest.http.request(reqwest::Method::OPTIONS, &guest.url);
    let answer = request.header("origin", "https://evil.example").send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 403);
    assert!(answer.headers().keys().all(|name| !name.as_str().starts_with("access-control-")));
    goes_on(&guest).await;
}

#[tokio::test]
async fn a_token_in_the_address_is_refused_and_not_repeated() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.run();
    for query in [format!("?token={}", guest.token), format!("?access_token={}", guest.token), "?".to_owned()]
    {
        let asking = Guest { url: format!("{}{query}", guest.url), ..guest.clone() };
        let reply = asking.send("tools/list", json!({})).await;
        assert_eq!(reply.status, 400);
        assert!(
            reply.text.starts_with("no query here: ") && !reply.text.contains(&guest.token),
            "{}",
            reply.text
        );
        assert_eq!(refused(&mut events).await, Refusal::Query);
    }
    goes_on(&guest).await;
}
