//! Live sessions of agents, for programs that speak the API of a provider.
//!
//! - [`wire`]: three such APIs, read into messages and written from an answer.
//! - [`http`]: the doors; [`conversations`]: what was said behind them, kept.
//! - [`live`]: how a session is started and used; [`stream`]: one over pipes.
//! - [`pool`]: live sessions for conversations that go on.
//! - [`narration`]: what an agent says in a turn, as pieces of an answer.

pub mod conversations;
pub mod http;
pub mod live;
pub mod narration;
pub mod pool;
#[cfg(target_os = "linux")]
pub mod stream;
pub mod wire;
