//! Servers of others: their tools are listed, passed on, and no concern of the agent when they fail.

use std::sync::Arc;

use ostler_bridge::capability::parse;
use ostler_bridge::event::{BridgeEvent, Ended};
use ostler_bridge::route::{Route, Terms};
use ostler_bridge::upstream::{Link, Upstream, UpstreamError};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::ground::{Events, Ground, Guest, RUN};

/// A server with one tool, which says what it was given, and breaks when told to.
#[derive(Default)]
struct Parrot {
    /// Told when it was asked to say nothing at all.
    hanging: Arc<Notify>,
}

impl ServerHandler for Parrot {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object" });
        let tool = Tool::new("say", "Says it.", schema.as_object().unwrap().clone());
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let words = request.arguments.and_then(|given| Some(given.get("words")?.as_str()?.to_owned()));
        match words.as_deref() {
            Some("break") => Err(ErrorData::internal_error("out of seeds", None)),
            Some("hang") => {
                self.hanging.notify_one();
                std::future::pending().await
            }
            Some("much") => {
                let parts = vec![ContentBlock::text("first"), ContentBlock::text("x".repeat(5_000_000))];
                Ok(CallToolResult::success(parts).into())
            }
            Some("too much") => {
                Ok(CallToolResult::success(vec![ContentBlock::text("x".repeat(20_000_000))]).into())
            }
            Some("refuse") => Ok(CallToolResult::error(vec![ContentBlock::text("No.")]).into()),
            words => Ok(CallToolResult::success(vec![ContentBlock::text(words.unwrap_or("?"))]).into()),
        }
    }
}

/// A parrot at the other end of two pipes, which lives until the returned set is dropped.
async fn parrot() -> (Upstream, JoinSet<()>) {
    serve(Parrot::default()).await
}

async fn serve(parrot: Parrot) -> (Upstream, JoinSet<()>) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let server = parrot.serve(tokio::io::split(theirs)).await.unwrap();
        let _ = server.waiting().await;
    });
    let (reader, writer) = tokio::io::split(ours);
    let link = Link::Pipes { reader: Box::new(reader), writer: Box::new(writer) };
    (Upstream::connect("parrot", link).await.unwrap(), tasks)
}

#[tokio::test]
async fn tools_of_others_are_listed_and_called_over_pipes_and_http() {
    let ground = Ground::new().await;
    // Another run's bridge is as good an HTTP server with a header as any.
    let (other, _other_events) = ground.keeper.admit(ground.terms("other-run")).unwrap();
    let headers = vec![("Authorization".to_owned(), format!("Bearer {}", other.token().reveal()))];
    let link = Link::Http { url: other.url().to_owned(), headers };
    let remote = Upstream::connect("remote", link).await.unwrap();
    let (parrot, tasks) = parrot().await;
    let terms = Terms {
        capabilities: parse("upstream:parrot,upstream:remote").unwrap(),
        upstreams: vec![Arc::new(parrot), Arc::new(remote)],
        ..ground.terms(RUN)
    };
    let (route, _events) = ground.keeper.admit(terms).unwrap();
    let guest = Guest::of(&route);
    let tools = guest.tools().await;
    assert_eq!(tools.len(), 2 + 1 + 6, "{tools:?}");
    assert_eq!(route.preflight().await.unwrap(), tools);
    let say = "upstream__parrot__say";
    assert!(tools.iter().any(|tool| tool == say));
    assert_eq!(guest.says(say, json!({ "words": "hello" })).await, "ok: hello");
    assert_eq!(guest.says(say, json!({ "words": "refuse" })).await, "failed: No.");
    let broken = guest.says(say, json!({ "words": "break" })).await;
    assert!(broken.starts_with("failed: The MCP server `parrot` could not answer: "), "{broken}");
    assert!(broken.contains("out of seeds"), "{broken}");
    let noted = guest.says("upstream__remote__report_progress", json!({ "text": "On." })).await;
    assert_eq!(noted, "ok: Noted.");
    let unknown = guest.says("upstream__parrot__sing", json!({})).await;
    assert!(unknown.starts_with("failed: There is no tool called `upstream__parrot__sing`"), "{unknown}");
    // A server that is gone is a sentence, and the others go on.
    drop(tasks);
    let gone = guest.says(say, json!({ "words": "hello" })).await;
    assert_eq!(gone, GONE);
    let noted = guest.says("upstream__remote__report_progress", json!({ "text": "On." })).await;
    assert_eq!(noted, "ok: Noted.");
}

const GONE: &str =
    "failed: The MCP server `parrot` is gone, and does not come back in this run. Go on without it.";

/// A run that may talk to a parrot.
fn with_parrot(ground: &Ground, parrot: Upstream) -> (Route, Events, Guest) {
    let capabilities = parse("upstream:parrot").unwrap();
    let terms = Terms { capabilities, upstreams: vec![Arc::new(parrot)], ..ground.terms(RUN) };
    let (route, events) = ground.keeper.admit(terms).unwrap();
    let guest = Guest::of(&route);
    (route, Events(events), guest)
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_of_a_call_is_a_sentence_then_and_later() {
    let ground = Ground::new().await;
    let hanging = Arc::new(Notify::new());
    let (parrot, tasks) = serve(Parrot { hanging: Arc::clone(&hanging) }).await;
    let (_route, mut events, guest) = with_parrot(&ground, parrot);
    let mut calls = JoinSet::new();
    let calling = guest.clone();
    calls.spawn(async move { calling.says("upstream__parrot__say", json!({ "words": "hang" })).await });
    hanging.notified().await;
    drop(tasks);
    assert_eq!(calls.join_next().await.unwrap().unwrap(), GONE);
    let ended = events.find(|event| match event {
        BridgeEvent::Answered { ended, .. } => Some(ended),
        _ => None,
    });
    assert_eq!(ended.await, Ended::Failed);
    assert_eq!(guest.says("upstream__parrot__say", json!({ "words": "hello" })).await, GONE);
    // Its tools stay listed: a list that changes under an agent is not read again by all of them.
    assert!(guest.tools().await.contains(&"upstream__parrot__say".to_owned()));
}

#[tokio::test]
async fn a_call_of_a_server_that_hangs_can_be_taken_back() {
    let ground = Ground::new().await;
    let hanging = Arc::new(Notify::new());
    let (parrot, _tasks) = serve(Parrot { hanging: Arc::clone(&hanging) }).await;
    let (_route, mut events, guest) = with_parrot(&ground, parrot);
    let mut calls = JoinSet::new();
    let calling = guest.clone();
    calls
        .spawn(async move { calling.call("upstream__parrot__say", json!({ "words": "hang" })).await.status });
    hanging.notified().await;
    calls.shutdown().await;
    let ended = events.find(|event| match event {
        BridgeEvent::Answered { ended, .. } => Some(ended),
        _ => None,
    });
    assert_eq!(ended.await, Ended::Cancelled);
    assert_eq!(guest.says("upstream__parrot__say", json!({ "words": "hello" })).await, "ok: hello");
}

#[tokio::test]
async fn what_a_server_answers_is_bounded() {
    let ground = Ground::new().await;
    let (parrot, _tasks) = parrot().await;
    let (_route, _events, guest) = with_parrot(&ground, parrot);
    let much = guest.says("upstream__parrot__say", json!({ "words": "much" })).await;
    assert!(much.len() < 1_100_000, "{}", much.len());
    assert!(much.starts_with("ok: first | xxx"), "{}", &much[..20]);
    let want = " of which at most 1048576 are passed on. Ask it for less.]";
    assert!(much.ends_with(want), "{}", &much[much.len() - 200..]);
    let too_much = guest.says("upstream__parrot__say", json!({ "words": "too much" })).await;
    assert_eq!(
        too_much,
        "failed: The MCP server `parrot` sent a message of more than 16777216 bytes, which was passed over. It was \
         probably the answer to this call. Ask it for less."
    );
    assert_eq!(guest.says("upstream__parrot__say", json!({ "words": "hello" })).await, "ok: hello");
}

#[tokio::test]
async fn a_server_over_http_that_is_gone_is_a_sentence() {
    let ground = Ground::new().await;
    let (other, _other_events) = ground.keeper.admit(ground.terms("other-run")).unwrap();
    let headers = vec![("Authorization".to_owned(), format!("Bearer {}", other.token().reveal()))];
    let link = Link::Http { url: other.url().to_owned(), headers };
    let remote = Upstream::connect("parrot", link).await.unwrap();
    let (_route, _events, guest) = with_parrot(&ground, remote);
    drop(other);
    for _ in 0..2 {
        let said = guest.says("upstream__parrot__read_instructions", json!({})).await;
        assert!(said.starts_with("failed: The MCP server `parrot` could not answer: "), "{said}");
        assert!(said.ends_with("Try once more, or go on without it."), "{said}");
    }
}

/// A server whose list has no end.
struct Endless;

impl ServerHandler for Endless {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object" });
        let tool = Tool::new("say", "Says it.", schema.as_object().unwrap().clone());
        let mut page = ListToolsResult::with_all_items(vec![tool; 10]);
        page.next_cursor = Some("more".to_owned());
        Ok(page)
    }
}

#[tokio::test]
async fn a_list_of_tools_without_end_is_refused() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let server = Endless.serve(tokio::io::split(theirs)).await.unwrap();
        let _ = server.waiting().await;
    });
    let (reader, writer) = tokio::io::split(ours);
    let link = Link::Pipes { reader: Box::new(reader), writer: Box::new(writer) };
    let error = Upstream::connect("endless", link).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server `endless` lists more than 512 tools");
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn a_server_that_is_not_granted_is_neither_listed_nor_called() {
    let ground = Ground::new().await;
    let (parrot, _tasks) = parrot().await;
    let terms = Terms { upstreams: vec![Arc::new(parrot)], ..ground.terms(RUN) };
    let (route, _events) = ground.keeper.admit(terms).unwrap();
    let guest = Guest::of(&route);
    assert_eq!(guest.tools().await.len(), 6);
    let said = guest.says("upstream__parrot__say", json!({ "words": "hello" })).await;
    assert!(said.starts_with("failed: There is no tool called `upstream__parrot__say`"), "{said}");
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_told_before_the_agent_starts() {
    let http = |url: &str| Link::Http { url: url.to_owned(), headers: Vec::new() };
    let ground = Ground::new().await;
    let (other, _events) = ground.keeper.admit(ground.terms("other-run")).unwrap();
    let bad_header =
        Link::Http { url: other.url().to_owned(), headers: vec![("a b".to_owned(), "x\n".to_owned())] };
    let table = [
        ("a b", http(other.url()), "`a b` cannot be the name of an MCP server"),
        (
            "docs",
            http("ftp://example.com/mcp"),
            "MCP server `docs`: ftp://example.com/mcp is no address that begins with `http://` or `https://`",
        ),
        ("docs", bad_header, "MCP server `docs`: `a b` cannot be sent as a header"),
        // No token: the door says 401.
        ("docs", http(other.url()), "MCP server `docs` could not be greeted"),
    ];
    for (server, link, want) in table {
        let error: UpstreamError = Upstream::connect(server, link).await.unwrap_err();
        assert_eq!(error.to_string(), want);
        assert!(error.hint().is_some(), "{want}");
    }
}
