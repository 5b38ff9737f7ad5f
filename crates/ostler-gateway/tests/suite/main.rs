//! How the gateway behaves, through its public interface.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may say that it cannot go on")]

mod doors;
mod house;
mod limits;
mod pool;
mod scripted;
