//! Servers of others: their tools are listed, passed on, and no concern of the agent when they fail.

use std::sync::Arc;

use ostler_bridge::capability::parse;
use ostler_bridge::route::Terms;
use ostler_bridge::upstream::{Link, Upstream, UpstreamError};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::json;
use tokio::task::JoinSet;

use super::ground::{Ground, Guest, RUN};

/// A server with one tool, which says what it was given, and breaks when told to.
struct Parrot;

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
            Some("refuse") => Ok(CallToolResult::error(vec![ContentBlock::text("No.")]).into()),
            words => Ok(CallToolResult::success(vec![ContentBlock::text(words.unwrap_or("?"))]).into()),
        }
    }
}

/// A parrot at the other end of two pipes, which lives until the returned set is dropped.
async fn parrot() -> (Upstream, JoinSet<()>) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let server = Parrot.serve(tokio::io::split(theirs)).await.unwrap();
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
    assert!(gone.starts_with("failed: The MCP server `parrot` could not answer: "), "{gone}");
    let noted = guest.says("upstream__remote__report_progress", json!({ "text": "On." })).await;
    assert_eq!(noted, "ok: Noted.");
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
