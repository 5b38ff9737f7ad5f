//! Live sessions of agents, for programs that speak the API of a provider.
//!
//! - [`wire`]: three such APIs, read into messages and written from an answer.
//! - [`http`]: the doors; [`conversations`]: what was said behind them, kept.
//! - [`live`]: how a session is started and used; [`stream`]: one over pipes; [`terminal`]: one on a terminal;
//!   [`one_shot`]: one of a process a turn; [`engines`]: any of them; [`ground`]: what they stand on; [`jail`]: the wall around each.
//! - [`tenants`]: agents of keys that are not the owner's; [`provider_proxy`]: how they reach the provider.
//! - [`pool`]: live sessions for conversations that go on.
//!   As a library: [`pool::Pool::complete`] takes a conversation and gives the events of its answer; `examples/complete.rs`
//!   is a program that does so, without HTTP.
//! - `metrics`: turns, tokens, queues and refusals, counted.
//! - [`narration`]: what an agent says in a turn, as pieces of an answer.

pub mod conversations;
#[cfg(test)]
mod elsewhere;
#[cfg(target_os = "linux")]
pub mod engines;
pub mod ground;
pub mod http;
pub mod jail;
pub mod live;
mod metrics;
pub mod narration;
#[cfg(target_os = "linux")]
pub mod one_shot;
pub mod pool;
#[cfg(target_os = "linux")]
pub mod provider_proxy;
pub mod session_memory;
#[cfg(target_os = "linux")]
pub mod stream;
pub mod tenants;
#[cfg(target_os = "linux")]
pub mod terminal;
pub mod wire;
