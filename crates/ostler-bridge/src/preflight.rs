//! Our own client, before the agent starts: does the door answer, and are the tools there that the agent will be told of?

use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::route::Route;

/// Everything is on loopback and in this process: what takes longer is stuck.
const WITHIN: Duration = Duration::from_secs(30);

/// The bridge does not work, so the agent is not started.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// No answer in time.
    #[error("the bridge at {url} gave no answer within {} s", WITHIN.as_secs())]
    Silent {
        /// Where.
        url: String,
    },
    /// No greeting.
    #[error("the bridge at {url} could not be greeted")]
    Greeting {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: Box<ClientInitializeError>,
    },
    /// No list.
    #[error("the bridge at {url} did not list its tools")]
    Listing {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: Box<ServiceError>,
    },
    /// A list that lacks tools.
    #[error("the bridge at {url} does not offer {}", .tools.join(", "))]
    Missing {
        /// Where.
        url: String,
        /// Which.
        tools: Vec<String>,
    },
}

impl PreflightError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some("look whether something on this machine filters loopback, or run with `--no-bridge`".to_owned())
    }
}

impl Route {
    /// Greets the bridge as a client would, and finds every tool that is granted. Returns their names.
    pub async fn preflight(&self) -> Result<Vec<String>, PreflightError> {
        let url = || self.url().to_owned();
        let trying = tokio::time::timeout(WITHIN, self.tools_found()).await;
        let found = trying.map_err(|_| PreflightError::Silent { url: url() })??;
        let expected = self.room.terms.listings().into_iter().map(|tool| tool.name.into_owned());
        let missing: Vec<String> = expected.filter(|name| !found.contains(name)).collect();
        if missing.is_empty() {
            Ok(found)
        } else {
            Err(PreflightError::Missing { url: url(), tools: missing })
        }
    }

    async fn tools_found(&self) -> Result<Vec<String>, PreflightError> {
        let url = || self.url().to_owned();
        let config =
            StreamableHttpClientTransportConfig::with_uri(self.url()).auth_header(self.probe().reveal());
        let transport = StreamableHttpClientTransport::with_client(self.client.clone(), config);
        let us = Implementation::new("ostler-preflight", env!("CARGO_PKG_VERSION"));
        let client = ClientConfig::new(ClientCapabilities::default(), us)
            .serve(transport)
            .await
            .map_err(|source| PreflightError::Greeting { url: url(), source: Box::new(source) })?;
        let listed = client.list_all_tools().await;
        // Ended whatever the list was; that the end went wrong says nothing about the bridge.
        let _ = client.cancel().await;
        let listed =
            listed.map_err(|source| PreflightError::Listing { url: url(), source: Box::new(source) })?;
        Ok(listed.into_iter().map(|tool| tool.name.into_owned()).collect())
    }
}
