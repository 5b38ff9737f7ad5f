//! What `ostler-rehearsal` promises, through its public API: one file a subject.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]

mod schema;
mod server;
