//! MCP for a running agent: what it can tell Ostler, and how that becomes a fact.
//!
//! - [`door`]: one listener for all runs, and who is let in; [`route`]: what one run's agent finds behind it.
//! - [`tools`]: what it may call; [`capability`]: what a run grants.
//! - [`receipts`]: what was recorded for a run, chained, so that an edit shows; [`store`]: the artifacts themselves.
//! - [`event`]: what the run is told; [`preflight`]: our own client, before the agent starts.
//! - [`upstream`]: MCP servers of others, passed on to the agent.
//! - [`memory`]: what was said in earlier sessions, as tools on standard input and output.
//! - [`secret`]: tokens and keys.
//!
//! What does not live here: the rules of artifacts and what is missing, which `ostler-agent` decides.

mod attendant;
pub mod capability;
pub mod client;
pub mod door;
pub mod event;
pub mod memory;
pub mod preflight;
pub mod receipts;
pub mod route;
pub mod secret;
pub mod store;
pub mod tools;
pub mod upstream;
