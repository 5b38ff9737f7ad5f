//! The real agent, a scripted model: a model provider on loopback that plays a script.
//!
//! A request travels: `server` (bounds, HTTP) → `wire` (the provider's format) → `ask` (what it says) → `director`
//! (which step answers it) → `performance` (what is sent when) → `wire` → `server`. All but the server is pure.

mod ask;
mod director;
pub mod log;
mod performance;
mod roles;
pub mod script;
mod server;
mod side;
mod wire;

pub use server::{ListenError, Rehearsal, Server};
