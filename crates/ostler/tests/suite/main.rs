//! How the binary behaves from outside, as people and programs use it, and how the house stands. One module a subject.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise; clippy knows only `#[test]` functions"
)]
#![expect(clippy::print_stderr, reason = "a driver tells its parent what it sees, and figures are shown")]

// Links the SQLite that `rusqlite` calls.
use ostler_sqlcipher as _;

mod agents;
mod bad_input;
#[cfg(target_os = "linux")]
mod channels;
mod checks;
mod config;
#[cfg(target_os = "linux")]
mod contain;
#[cfg(target_os = "linux")]
mod disk_full;
mod doctor;
#[cfg(target_os = "linux")]
mod fetch;
mod ground;
mod help;
#[cfg(target_os = "linux")]
mod home_fixture;
mod house;
mod install;
#[cfg(target_os = "linux")]
mod jail;
mod json_errors;
#[cfg(target_os = "linux")]
mod keys;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod odd_paths;
#[cfg(target_os = "linux")]
mod old_home;
mod rehearse;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod run_again;
#[cfg(target_os = "linux")]
mod runs;
#[cfg(target_os = "linux")]
mod screen;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod smoke;
#[cfg(target_os = "linux")]
mod supply;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod trust;
