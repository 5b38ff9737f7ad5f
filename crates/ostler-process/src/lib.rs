//! The operating system: finding, probing, installing and starting agent programs.
//!
//! - [`locate`]: where an agent's program is; [`probe`]: whether it starts, and which version it is.
//! - [`install`]: a program from npm into Ostler's own folder, whole or not at all.
//! - [`pip`]: files from PyPI, by the user's own pip; [`pricing`]: whether an agent has a price for a model.
//! - [`journal`]: a run as it is on disk; [`profile`]: settings of an agent for one process.
//! - [`contain`]: an agent that is started so that nothing it starts outlives its run.
//! - [`jail`]: the wall around it, which the kernel keeps.
//! - [`workspace`]: what changes in the folder that an agent works in; [`tail`]: files that an agent goes on writing.
//! - [`run`]: one supervised task, from its prompt to its outcome.
//! - [`control`]: the socket on which a live run is asked things; [`notify`]: telling somebody how it ended.
//! - [`trust`]: whether the user trusts what a repository brings for an agent.
//! - [`seeding`]: a conversation that an agent is to know, written as its own record.
//! - [`stream`]: a live conversation with an agent over pipes.
//! - [`terminal`]: agents that are driven through their own terminal program.
//! - [`figures`]: what a process takes; [`host`]: what this machine offers; [`syntax`]: whether a file can be read by the program that would run it.

mod capture;
#[cfg(target_os = "linux")]
pub mod contain;
#[cfg(target_os = "linux")]
pub mod control;
pub mod egress;
pub mod figures;
pub mod file_scope;
mod group;
pub mod host;
pub mod install;
#[cfg(target_os = "linux")]
pub mod jail;
pub mod journal;
pub mod locate;
pub mod notify;
pub mod pip;
#[cfg(target_os = "linux")]
pub mod pricing;
pub mod probe;
#[cfg(target_os = "linux")]
pub mod profile;
#[cfg(target_os = "linux")]
pub mod run;
#[cfg(test)]
mod scripts;
pub mod seeding;
#[cfg(target_os = "linux")]
pub mod stream;
pub mod syntax;
pub mod tail;
#[cfg(target_os = "linux")]
pub mod terminal;
pub mod trust;
mod watches;
mod working_directory;
pub mod workspace;
