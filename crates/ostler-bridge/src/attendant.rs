//! The bridge as `rmcp` sees it: one request at a time, each standing alone. Says no more than the room knows.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, InitializeRequestParams, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use crate::event::BridgeEvent;
use crate::route::{Caller, Room, Scope};
use crate::tools::{Call, Said, call};

/// The revisions that are served: those with plain HTTP, tool results and no batches.
const VERSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// How often a slow call says that it goes on. Clients give up after 60 seconds of silence at the earliest.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// What a name of a tool may have. Agents allow for half of it.
const MOST_NAME_CHARS: usize = 128;

/// The header in which a client repeats the id that it was given.
pub(crate) const SESSION: &str = "mcp-session-id";

/// Serves the requests of one run.
#[derive(Debug, Clone)]
pub(crate) struct Attendant(pub(crate) Arc<Room>);

impl ServerHandler for Attendant {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("ostler", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Ostler supervises this run. Call read_instructions if you are unsure about your task, hand over what \
                 it requires with submit_artifact, and call declare_complete as the very last thing.",
            )
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let answer = self.negotiate_initialize(&request)?;
        if caller(&context) == Caller::Agent {
            let client = format!("{} {}", request.client_info.name, request.client_info.version);
            let protocol = answer.protocol_version.to_string();
            self.0.telling.tell(BridgeEvent::Greeted { client, protocol }).await;
        }
        Ok(answer)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if caller(&context) == Caller::Agent {
            self.0.tools_listed().await;
        }
        Ok(ListToolsResult::with_all_items(self.0.terms.listings()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let room = &self.0;
        // What is longer is not the name of a tool: the beginning of it is enough to say so.
        let tool: String = request.name.chars().take(MOST_NAME_CHARS).collect();
        room.telling.tell(BridgeEvent::Called { tool: tool.clone() }).await;
        // Not the token of `rmcp`: what it cancels it does not answer, and the stream would stay open.
        let cancelled = context.ct.child_token();
        let _cancellable = room.cancellable(scope(&context), &cancelled);
        let mut upstreams = room.terms.granted_upstreams();
        let passed_on = upstreams.find_map(|upstream| Some((upstream, upstream.own_name(&tool)?)));
        let (mut answer, ended) = match passed_on {
            Some((upstream, own)) => alive(upstream.call(own, request.arguments, &cancelled), &context).await,
            None => {
                let arguments = request.arguments;
                let under_way = Call { room, name: &tool, arguments, cancelled: &cancelled };
                let (said, ended) = alive(call(under_way), &context).await;
                (result(said), ended)
            }
        };
        answer.content.extend(room.notice().map(ContentBlock::text));
        room.telling.tell(BridgeEvent::Answered { tool, ended }).await;
        Ok(answer.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // What is known by name and came here has parameters that cannot be read.
        if matches!(request.method.as_str(), "tools/call" | "tools/list" | "initialize" | "ping") {
            let words = format!("the parameters of `{}` are not as the protocol says", request.method);
            return Err(ErrorData::invalid_params(words, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}

/// Waits for a call, and says from time to time that it goes on, to clients that want to know.
async fn alive<T>(call: impl Future<Output = T>, context: &RequestContext<RoleServer>) -> T {
    tokio::pin!(call);
    let mut times = 0.0;
    loop {
        tokio::select! {
            biased;
            answer = &mut call => return answer,
            () = tokio::time::sleep(PROGRESS_EVERY) => {
                times += 1.0;
                if let Some(token) = context.meta.get_progress_token() {
                    let progress = ProgressNotificationParam::new(token, times);
                    // A client that went away cancels the call; that it does not hear this is no news.
                    let _ = context.peer.notify_progress(progress).await;
                }
            }
        }
    }
}

fn result(said: Said) -> CallToolResult {
    match said {
        Said::Done(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Said::Failed(text) => CallToolResult::error(vec![ContentBlock::text(text)]),
    }
}

/// Who sent the request, as the door found out.
fn caller(context: &RequestContext<RoleServer>) -> Caller {
    let parts = context.extensions.get::<http::request::Parts>();
    parts.and_then(|parts| parts.extensions.get::<Caller>()).copied().unwrap_or(Caller::Agent)
}

/// By what the client can take this call back.
fn scope(context: &RequestContext<RoleServer>) -> Option<Scope> {
    let parts = context.extensions.get::<http::request::Parts>()?;
    let session = parts.headers.get(SESSION)?.to_str().ok()?.to_owned();
    let id = serde_json::to_string(&context.id).ok()?;
    Some(Scope { session, id })
}
