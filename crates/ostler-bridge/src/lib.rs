//! MCP for a running agent: what it can tell Ostler, and how that becomes a fact.
//!
//! - [`receipts`]: what was recorded for a run, chained, so that an edit shows.
//! - [`secret`]: tokens and keys.

pub mod receipts;
pub mod secret;
