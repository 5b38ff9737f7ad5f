//! What this crate asks of the operating system, tried on it. One module a subject.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise; clippy knows only `#[test]` functions"
)]
#![expect(clippy::print_stderr, reason = "a test that this machine cannot run says so")]

#[cfg(target_os = "linux")]
mod jail;
