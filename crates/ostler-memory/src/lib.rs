//! What was said in any session on this machine, found again. Synchronous, one writer; knows turns, not processes.
//!
//! - [`place`]: where it is kept; [`private`]: files for their owner alone.
//! - [`transcript`]: what is new in an agent's own record; [`opencode`]: the one that is a database;
//!   [`redaction`]: what is never kept.
//! - [`deferral`], [`cursor`], [`capture`]: taken down beside the store, within milliseconds.
//! - [`store`]: the database; [`key`]: what it is encrypted with; [`drain`], [`ingest`]: what goes into it, each record
//!   once; [`shield`]: labels; [`project`], [`names`]: what it is found by.
//! - [`embedding`], [`model`], [`filling`]: what a text means, by a model that users fetch; [`meaning`]: to search by it.
//! - [`recall`]: found again; [`prefix`]: what a new session is told; [`hooks`]: entries in the settings of agents.
//! - [`daemon`]: an optional accelerator.
//!
//! Nothing here starts a process, and no process has to run for it.

#![forbid(unsafe_code)]

pub mod capture;
pub mod cursor;
pub mod daemon;
pub mod deferral;
pub mod drain;
pub mod embedding;
pub mod filling;
pub mod hooks;
pub mod ingest;
pub mod key;
pub mod kill_point;
pub mod meaning;
pub mod model;
pub mod names;
pub mod opencode;
pub mod place;
pub mod prefix;
pub mod private;
pub mod project;
pub mod recall;
pub mod redaction;
pub mod shield;
pub mod store;
pub mod transcript;

// Links the SQLite that `rusqlite` calls.
use ostler_sqlcipher as _;
