//! What agents are and say, and every decision. Pure: no clock, no files, no environment, no processes, no tasks.
//!
//! - [`agent`]: what Ostler must know about one agent program; [`agents`]: the ones it knows, one file each.
//! - [`package`]: where an agent program comes from; [`profile`]: settings for one process of it, out of its arguments.
//! - [`repository_config`]: what a repository brings that an agent would execute or obey.
//! - [`framer`], [`record`], [`event`]: bytes into lines, lines into records, records into what they mean.
//! - [`failure`]: what kind of failure an agent reports; [`outcome`]: how a run ended.
//! - [`run_event`]: what happened in a run, as it is kept; [`command_line`]: what it started, without secrets.
//! - [`watchdog`]: whether an agent that says nothing is working or stuck.
//! - [`quiet_cause`]: why nothing is received from an agent.
//! - [`stopping`]: how a process is ended, one rung after the other.
//! - [`completion`]: whether a run is done, goes on or has failed, once a process of its agent ended.
//! - [`call_log`]: the last tool calls of a run, for an agent that is resumed.
//! - [`policy`]: what is answered when an agent asks; [`advice`]: what a person can do about an outcome.
//! - [`budget`]: what a run may spend.
//! - [`artifact`]: documents that an agent hands over, checked by rules that are data; [`standing`]: which of them are in.
//! - [`check`]: what the host tries itself after an agent's claim.
//! - [`bridge`]: what happens at the bridge, and what an agent is told of it.
//! - [`smoke`]: whether an agent is still driven as it should be, and what to do if not.
//! - [`terminal`]: what must be known to drive an agent's terminal program; [`turning`]: whether a turn in it is over.
//! - [`canonical`]: messages in one form; [`history`]: a conversation that an agent is to go on with.
//! - [`fingerprint`]: what a conversation is looked up by; [`reply`]: a turn's events as messages of it; [`leasing`]:
//!   which live session a conversation gets.
//! - [`offering`]: tools that whoever asks offers to an agent and runs himself.
//! - [`access`]: what a key opens, and how much of it; [`jail`]: what a process of an agent can reach.
//! - [`look`]: what a terminal shows; [`dialogs`]: its dialogs, [`answering`]: how they are answered; [`typing`],
//!   [`interrupting`]: how a prompt gets in, and how a turn is broken off.
//! - [`remembering`]: what of an agent's own record is worth remembering.
//! - [`document`]: files that people write, read with errors that help.

pub mod access;
pub mod advice;
pub mod agent;
pub mod agents;
pub mod answering;
pub mod artifact;
pub mod bridge;
pub mod budget;
pub mod call_log;
pub mod canonical;
pub mod check;
pub mod command_line;
pub mod completion;
pub mod dialogs;
pub mod document;
pub mod endpoint;
pub mod event;
pub mod failure;
pub mod fingerprint;
pub mod framer;
pub mod history;
pub mod interrupting;
pub mod jail;
pub mod leasing;
pub mod look;
pub mod network;
pub mod offering;
pub mod outcome;
pub mod pace;
pub mod package;
pub mod policy;
pub mod prices;
pub mod profile;
pub mod quiet_cause;
pub mod record;
pub mod remembering;
pub mod reply;
pub mod repository_config;
pub mod run_event;
pub mod smoke;
pub mod source;
pub mod standing;
pub mod stopping;
pub mod tenant;
pub mod terminal;
pub mod turning;
pub mod typing;
pub mod waiting;
pub mod watchdog;
