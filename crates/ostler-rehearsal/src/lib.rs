//! The real agent, a scripted model: a model provider on loopback that plays a script, and a fake agent for what
//! real ones will not do on demand.

pub mod fake_agent;
