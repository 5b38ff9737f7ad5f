//! The bridge through its public interface: a real door on loopback, and clients that behave and misbehave.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at the first surprise and says what it leaves out; clippy knows only `#[test]` functions"
)]

mod asking;
mod bad_input;
mod conformance;
mod crowd;
mod door;
mod exec;
mod files;
mod git;
mod ground;
mod paths;
mod protocol;
mod resuming;
mod tools;
mod upstream;
