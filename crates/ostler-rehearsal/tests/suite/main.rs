//! What `ostler-rehearsal` promises, through its public API and its programs: one file a subject.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]

mod fake_agent;
mod schema;
mod server;
