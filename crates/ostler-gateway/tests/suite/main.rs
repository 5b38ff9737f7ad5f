//! How the gateway behaves, through its public interface.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may say that it cannot go on")]

mod bad_input;
mod clock;
mod conversing;
mod doors;
mod fairness;
mod house;
mod leaving;
mod limits;
mod logs;
mod metrics;
mod native;
mod openapi;
mod parking;
mod pool;
mod provider_proxy;
mod refusals;
mod repeating;
mod scripted;
mod silence;
mod starving;
mod staying;
mod terminals;
mod tls;
mod tools;
