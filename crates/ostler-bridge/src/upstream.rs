//! MCP servers of others, whose tools are passed on to the agent under `upstream__SERVER__TOOL`.
//!
//! One client each, which stays connected for the run. A server that is a program comes here as a pair of pipes: who
//! starts it also contains it, so that it does not outlive the run. That is not done here.
//!
//! What a server answers is bounded in time and in size. One that is gone stays gone, and every later call says so: it
//! was started for the run, and what it knew is lost. A server that is reached over HTTP may come back.

mod answer;
mod long_lines;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::ServiceExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ContentBlock, Implementation,
    JsonObject, PaginatedRequestParams, Tool as Listing,
};
use rmcp::service::{ClientInitializeError, RoleClient, RunningService, ServiceError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::client;
use crate::event::Ended;
use long_lines::{LongLines, MOST_LINE_BYTES};

/// How long a server may take until it has listed its tools. Programs that are fetched first are slow to start.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

/// How long a call may take.
const CALL_WITHIN: Duration = Duration::from_secs(300);

/// How many tools of a server are passed on. A model is told of all of them.
const MOST_TOOLS: usize = 512;

/// What stands before the names of tools that are passed on.
const PREFIX: &str = "upstream__";

/// How a server is reached.
pub enum Link {
    /// Over HTTP, with headers such as its key.
    Http {
        /// Where.
        url: String,
        /// What is sent with every request.
        headers: Vec<(String, String)>,
    },
    /// A program's standard output and input.
    Pipes {
        /// What it writes.
        reader: Box<dyn AsyncRead + Send + Unpin>,
        /// What it reads.
        writer: Box<dyn AsyncWrite + Send + Unpin>,
    },
}

/// Headers may hold keys, so they are not shown.
impl fmt::Debug for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { url, .. } => write!(out, "Http({url})"),
            Self::Pipes { .. } => out.write_str("Pipes"),
        }
    }
}

/// A server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// Its name cannot be part of a tool's.
    #[error("`{server}` cannot be the name of an MCP server")]
    Name {
        /// The name.
        server: String,
    },
    /// Its address is of another kind.
    #[error("MCP server `{server}`: {url} is no address that begins with `http://` or `https://`")]
    Scheme {
        /// Its name.
        server: String,
        /// The address.
        url: String,
    },
    /// A header that is none.
    #[error("MCP server `{server}`: `{header}` cannot be sent as a header")]
    Header {
        /// Its name.
        server: String,
        /// The header's name.
        header: String,
    },
    /// No client.
    #[error("MCP server `{server}`: could not make a client")]
    Client {
        /// Its name.
        server: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// No answer in time.
    #[error("MCP server `{server}` gave no answer within {} s", CONNECT_WITHIN.as_secs())]
    Silent {
        /// Its name.
        server: String,
    },
    /// Nobody there, or nobody who is trusted.
    #[error("MCP server `{server}` could not be reached")]
    Unreached {
        /// Its name.
        server: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// No greeting.
    #[error("MCP server `{server}` could not be greeted")]
    Greeting {
        /// Its name.
        server: String,
        /// Why.
        #[source]
        source: Box<ClientInitializeError>,
    },
    /// No list.
    #[error("MCP server `{server}` did not list its tools")]
    Listing {
        /// Its name.
        server: String,
        /// Why.
        #[source]
        source: Box<ServiceError>,
    },
    /// A list without end.
    #[error("MCP server `{server}` lists more than {MOST_TOOLS} tools")]
    TooManyTools {
        /// Its name.
        server: String,
    },
}

impl UpstreamError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Name { .. } => "use letters, digits and `-`, at most 32".to_owned(),
            Self::Scheme { .. } => "give its address, or the command that starts it".to_owned(),
            Self::Header { .. } => "write it as NAME: VALUE, in one line".to_owned(),
            Self::Client { .. } => return None,
            Self::TooManyTools { server } => {
                format!("let it offer less, if it can; or leave out `upstream:{server}`")
            }
            Self::Unreached { server, .. } => {
                format!(
                    "look whether it runs, and whether this machine trusts its certificate; or leave out \
                     `upstream:{server}`"
                )
            }
            Self::Silent { server } | Self::Greeting { server, .. } | Self::Listing { server, .. } => {
                format!(
                    "look whether it runs, and whether its key is right; or leave out `upstream:{server}`"
                )
            }
        })
    }
}

/// A server that is connected.
#[derive(Debug)]
pub struct Upstream {
    server: String,
    client: RunningService<RoleClient, ClientConfig>,
    tools: Vec<Listing>,
    /// How many of its messages were too long to be read, where that can be told.
    passed_over: Option<watch::Receiver<u64>>,
}

impl Upstream {
    /// Connects to a server and asks it for its tools.
    pub async fn connect(server: &str, link: Link) -> Result<Self, UpstreamError> {
        let name = || server.to_owned();
        let is_fit = |char: char| char.is_ascii_alphanumeric() || char == '-';
        if server.is_empty() || server.len() > 32 || !server.chars().all(is_fit) {
            return Err(UpstreamError::Name { server: name() });
        }
        let trying = async {
            let (client, passed_over) = greet(server, link).await?;
            let tools = listed(server, &client).await?;
            Ok(Self { server: name(), client, tools, passed_over })
        };
        let tried = tokio::time::timeout(CONNECT_WITHIN, trying).await;
        tried.map_err(|_| UpstreamError::Silent { server: name() })?
    }

    /// Its name.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Its tools, under the names by which they are passed on.
    pub(crate) fn listings(&self) -> impl Iterator<Item = Listing> {
        self.tools.iter().map(|tool| {
            let mut tool = tool.clone();
            tool.name = format!("{PREFIX}{}__{}", self.server, tool.name).into();
            tool
        })
    }

    /// The server's own name of a tool that is passed on, if it has it.
    pub(crate) fn own_name<'a>(&self, name: &'a str) -> Option<&'a str> {
        let own = name.strip_prefix(PREFIX)?.strip_prefix(&self.server)?.strip_prefix("__")?;
        self.tools.iter().any(|tool| tool.name == own).then_some(own)
    }

    /// Calls a tool of the server. What it answers is passed on as it is; what goes wrong on the way is a sentence.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Option<JsonObject>,
        cancelled: &CancellationToken,
    ) -> (CallToolResult, Ended) {
        let mut request = CallToolRequestParams::new(tool.to_owned());
        request.arguments = arguments;
        let server = &self.server;
        let failed = |words: String| (CallToolResult::error(vec![ContentBlock::text(words)]), Ended::Failed);
        tokio::select! {
            biased;
            () = cancelled.cancelled() => {
                let words = format!("The call of `{tool}` was withdrawn.");
                (CallToolResult::error(vec![ContentBlock::text(words)]), Ended::Cancelled)
            }
            answer = self.client.call_tool(request) => match answer {
                Ok(result) => {
                    let ended = if result.is_error == Some(true) { Ended::Failed } else { Ended::Done };
                    (answer::bounded(server, result), ended)
                }
                Err(ServiceError::TransportClosed) => failed(self.gone()),
                Err(_) if self.client.is_transport_closed() => failed(self.gone()),
                Err(error) => failed(format!(
                    "The MCP server `{server}` could not answer: {error}. Try once more, or go on without it."
                )),
            },
            () = too_long(self.passed_over.clone()) => failed(format!(
                "The MCP server `{server}` sent a message of more than {MOST_LINE_BYTES} bytes, which was passed over. \
                 It was probably the answer to this call. Ask it for less."
            )),
            () = tokio::time::sleep(CALL_WITHIN) => failed(format!(
                "The MCP server `{server}` gave no answer within {} seconds. Go on without it.",
                CALL_WITHIN.as_secs()
            )),
        }
    }

    fn gone(&self) -> String {
        format!(
            "The MCP server `{}` is gone, and does not come back in this run. Go on without it.",
            self.server
        )
    }
}

/// Waits until a message is passed over. For ever, if that cannot be told.
async fn too_long(passed_over: Option<watch::Receiver<u64>>) {
    if let Some(mut passed_over) = passed_over {
        passed_over.mark_unchanged();
        if passed_over.changed().await.is_ok() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// All tools of a server, page by page.
async fn listed(
    server: &str,
    client: &RunningService<RoleClient, ClientConfig>,
) -> Result<Vec<Listing>, UpstreamError> {
    let (mut tools, mut page) = (Vec::new(), PaginatedRequestParams::default());
    loop {
        let listed = client.list_tools(Some(page)).await.map_err(|source| UpstreamError::Listing {
            server: server.to_owned(),
            source: Box::new(source),
        })?;
        tools.extend(listed.tools);
        if tools.len() > MOST_TOOLS {
            return Err(UpstreamError::TooManyTools { server: server.to_owned() });
        }
        let Some(cursor) = listed.next_cursor else { return Ok(tools) };
        page = PaginatedRequestParams::default().with_cursor(Some(cursor));
    }
}

type Greeted = (RunningService<RoleClient, ClientConfig>, Option<watch::Receiver<u64>>);

async fn greet(server: &str, link: Link) -> Result<Greeted, UpstreamError> {
    let us = Implementation::new("ostler", env!("CARGO_PKG_VERSION"));
    let us = ClientConfig::new(ClientCapabilities::default(), us);
    let mut passed_over = None;
    let greeted = match link {
        Link::Http { url, headers } => {
            if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
                return Err(UpstreamError::Scheme { server: server.to_owned(), url });
            }
            let http = client::for_server(&url)
                .map_err(|source| UpstreamError::Client { server: server.to_owned(), source })?;
            let config = StreamableHttpClientTransportConfig::with_uri(url)
                .custom_headers(header_map(server, headers)?);
            us.serve(StreamableHttpClientTransport::with_client(http, config)).await
        }
        Link::Pipes { reader, writer } => {
            let (reader, watching) = LongLines::watch(reader);
            passed_over = Some(watching);
            let transport = AsyncRwTransport::new_client(reader, writer);
            us.serve(transport.with_max_line_length(MOST_LINE_BYTES)).await
        }
    };
    Ok((greeted.map_err(|error| ungreeted(server.to_owned(), error))?, passed_over))
}

/// Why nobody was greeted. What `rmcp` says of a request that failed leaves out why it did.
fn ungreeted(server: String, error: ClientInitializeError) -> UpstreamError {
    let greeting = |server, source| UpstreamError::Greeting { server, source: Box::new(source) };
    let ClientInitializeError::TransportError { error, context } = error else {
        return greeting(server, error);
    };
    let (transport_name, transport_type_id) = (error.transport_name, error.transport_type_id);
    match error.error.downcast::<StreamableHttpError<reqwest::Error>>().map(|error| *error) {
        Ok(StreamableHttpError::Client(source)) => {
            // There may be a key in it.
            UpstreamError::Unreached { server, source: source.without_url() }
        }
        other => {
            let error = match other {
                Ok(error) => error.into(),
                Err(error) => error,
            };
            let error = DynamicTransportError::from_parts(transport_name, transport_type_id, error);
            greeting(server, ClientInitializeError::TransportError { error, context })
        }
    }
}

fn header_map(
    server: &str,
    headers: Vec<(String, String)>,
) -> Result<HashMap<HeaderName, HeaderValue>, UpstreamError> {
    let mut map = HashMap::new();
    for (header, value) in headers {
        let pair = HeaderName::from_str(&header).ok().zip(HeaderValue::from_str(&value).ok());
        let Some((name, mut value)) = pair else {
            return Err(UpstreamError::Header { server: server.to_owned(), header });
        };
        value.set_sensitive(true);
        map.insert(name, value);
    }
    Ok(map)
}
