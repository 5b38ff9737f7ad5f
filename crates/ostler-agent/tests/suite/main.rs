//! The crate through its public face: recordings of real agents, and what is said to them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may say that it cannot go on")]

mod command;
mod decoding;
mod honest;
mod launching;
mod liveness;
mod recordings;
mod screens;
mod shown;
mod turning;
