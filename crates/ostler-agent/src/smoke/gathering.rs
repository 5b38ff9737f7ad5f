//! What the events of a run come to, folded as they happen. Bounded: a run may say gigabytes.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::observed::{
    AtBridge, Calls, ChainSeen, Claim, Document, Ended, FileSeen, Handed, NewKind, Observed,
};
use crate::artifact::Diagnostic;
use crate::bridge::{self, BridgeEvent, Refusal};
use crate::event::{AgentEvent, Blocked, Part, TurnOutcome};
use crate::run_event::{Channel, RunEvent, RunEventKind};

/// Lines that are quoted in a report.
const QUOTED: usize = 8;

/// So much of each.
const QUOTED_CHARS: usize = 160;

/// Questions, and kinds of records, that are kept at most: more of them tell nothing new.
const MOST: usize = 16;

/// What the events so far come to.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    spawned: Option<u64>,
    first_event: Option<Duration>,
    events: u64,
    unknown: BTreeSet<String>,
    session: Option<String>,
    ended_as_done: bool,
    open: BTreeSet<String>,
    opened: u64,
    closed: u64,
    lines: usize,
    quoted: Vec<String>,
    prompts: Vec<String>,
    channels: BTreeSet<Channel>,
    required: String,
    answered: u64,
    claim: Option<String>,
    handed: Option<Handing>,
    has_come: bool,
    refused: Option<Refusal>,
    outcome: Option<Value>,
}

/// The newest that was handed over of the required kind.
#[derive(Debug, Clone)]
enum Handing {
    Accepted(String),
    Rejected(Vec<String>),
}

impl Gathered {
    /// Nothing yet of a run that must hand over this kind of artifact.
    pub fn of(required: &str) -> Self {
        Self { required: required.to_owned(), ..Self::default() }
    }

    /// Takes the next event into account.
    pub fn note(&mut self, event: &RunEvent) {
        match &event.kind {
            RunEventKind::Spawned { .. } => {
                self.spawned.get_or_insert(event.ms);
            }
            RunEventKind::Agent(said) => {
                if self.first_event.is_none() {
                    let since = event.ms.saturating_sub(self.spawned.unwrap_or_default());
                    self.first_event = Some(Duration::from_millis(since));
                }
                self.channels.insert(Channel::Stdout);
                self.agent(said);
            }
            RunEventKind::Bridge(happened) => self.at_bridge(happened),
            RunEventKind::Seen { channel } => {
                self.channels.insert(*channel);
            }
            RunEventKind::Outcome(outcome) => self.outcome = Some(outcome.clone()),
            RunEventKind::Noise { .. }
            | RunEventKind::Garbled { .. }
            | RunEventKind::Quiet(_)
            | RunEventKind::Warn { .. }
            | RunEventKind::Denied { .. }
            | RunEventKind::Host { .. }
            | RunEventKind::Screen { .. }
            | RunEventKind::Parked { .. }
            | RunEventKind::Unparked
            | RunEventKind::Held
            | RunEventKind::Released
            | RunEventKind::Stopping { .. }
            | RunEventKind::Resumed { .. }
            | RunEventKind::Exited { .. }
            | RunEventKind::Check(_)
            | RunEventKind::Queued { .. }
            | RunEventKind::Changes(_) => {}
        }
    }

    fn agent(&mut self, event: &AgentEvent) {
        self.events += 1;
        match event {
            AgentEvent::Started { session, .. } => self.session = Some(session.clone()),
            AgentEvent::Said { text, part: Part::Whole, within: None } => self.said(text),
            AgentEvent::ToolStarted { call, .. } => {
                self.opened += u64::from(self.open.insert(call.clone()));
            }
            AgentEvent::ToolEnded { call, .. } if self.open.remove(call) => self.closed += 1,
            AgentEvent::TurnEnded(TurnOutcome::Done { .. }) => self.ended_as_done = true,
            AgentEvent::TurnEnded(
                TurnOutcome::Interrupted | TurnOutcome::Called | TurnOutcome::Failed(_),
            ) => {
                self.ended_as_done = false;
            }
            AgentEvent::Unknown { kind } if self.unknown.len() < MOST => {
                self.unknown.insert(kind.clone());
            }
            AgentEvent::Blocked(blocked) => self.blocked(blocked),
            AgentEvent::Asked { .. }
            | AgentEvent::Said { .. }
            | AgentEvent::Thought { .. }
            | AgentEvent::ToolEnded { .. }
            | AgentEvent::TaskOpened { .. }
            | AgentEvent::TaskClosed { .. }
            | AgentEvent::Spent(_)
            | AgentEvent::SpentSoFar(_)
            | AgentEvent::Unpriced { .. }
            | AgentEvent::Noted { .. }
            | AgentEvent::Unknown { .. } => {}
        }
    }

    fn at_bridge(&mut self, event: &BridgeEvent) {
        if event.is_life() {
            self.channels.insert(Channel::Bridge);
            self.has_come = true;
        }
        match event {
            BridgeEvent::Answered { ended: bridge::Ended::Done | bridge::Ended::Failed, .. } => {
                self.answered += 1;
            }
            BridgeEvent::Accepted { kind, receipt, .. } if *kind == self.required => {
                self.handed = Some(Handing::Accepted(receipt.clone()));
            }
            BridgeEvent::Rejected { kind, faults } if *kind == self.required => {
                let faults = faults.iter().take(MOST).map(fault).collect();
                self.handed = Some(Handing::Rejected(faults));
            }
            BridgeEvent::Completed { receipt, .. } => self.claim = Some(receipt.clone()),
            BridgeEvent::Refused { why } => self.refused = Some(*why),
            BridgeEvent::Connected { .. }
            | BridgeEvent::Greeted { .. }
            | BridgeEvent::ToolsListed
            | BridgeEvent::Called { .. }
            | BridgeEvent::Answered { .. }
            | BridgeEvent::Accepted { .. }
            | BridgeEvent::Rejected { .. }
            | BridgeEvent::ClaimRefused { .. }
            | BridgeEvent::Progressed { .. }
            | BridgeEvent::Asked(_)
            | BridgeEvent::Touched(_)
            | BridgeEvent::Settled { .. } => {}
        }
    }

    fn said(&mut self, text: &str) {
        for line in text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()) {
            self.lines += 1;
            if self.quoted.len() < QUOTED {
                self.quoted.push(line.chars().take(QUOTED_CHARS).collect());
            }
        }
    }

    fn blocked(&mut self, blocked: &Blocked) {
        let asked = match blocked {
            Blocked::Permission { tool, .. } => format!("whether it may use {tool}"),
            Blocked::Question { text, .. } | Blocked::Dialog { text } => {
                text.chars().take(QUOTED_CHARS).collect()
            }
            Blocked::Denied { tool, reason } => format!("it was refused {tool}: {reason}"),
            Blocked::Retrying { .. } | Blocked::Routed { .. } | Blocked::Withdrawn { .. } => return,
        };
        if self.prompts.len() < MOST {
            self.prompts.push(asked);
        }
    }

    /// Kinds of records that are not known, so far.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().map(String::as_str)
    }

    /// The last event of the run, if it came.
    pub fn outcome(&self) -> Option<&Value> {
        self.outcome.as_ref()
    }

    /// All of it, as far as events can tell: files, receipts and samples are for others to fill in. `said` is what
    /// was said where an outcome should be, and `try_this` what to do about it.
    pub fn observed(self, said: String, try_this: Option<String>) -> Observed {
        let outcome = self.outcome.unwrap_or_default();
        let number = |name: &str| outcome[name].as_u64();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let ended = match outcome["outcome"].as_str() {
            Some(word) => Ended::Outcome {
                outcome: word.to_owned(),
                code: number("exit_code").unwrap_or_default(),
                detail: text(&outcome["detail"]),
                missing: outcome["missing"].as_array().into_iter().flatten().filter_map(text).collect(),
            },
            None => Ended::Nothing { said, try_this },
        };
        let unknown = self.unknown.into_iter().map(|kind| NewKind { kind, sample: String::new() });
        Observed {
            ended,
            file: FileSeen::Absent,
            strays: Vec::new(),
            session: self.session.or_else(|| text(&outcome["session"])),
            minted: None,
            claim: match (self.claim, self.ended_as_done) {
                (Some(receipt), _) => Claim::Receipt(receipt),
                (None, true) => Claim::Word,
                (None, false) => Claim::Nobody,
            },
            artifact: match self.handed {
                // What is stored is looked at by whoever can.
                Some(Handing::Accepted(receipt)) => Handed::Accepted { receipt, document: Document::Gone },
                Some(Handing::Rejected(faults)) => Handed::Rejected { faults },
                None => Handed::Nothing,
            },
            chain: ChainSeen::Absent,
            bridge: match (self.has_come, self.refused) {
                (true, _) => AtBridge::Came,
                (false, Some(why)) => AtBridge::TurnedAway { why: words(why).to_owned() },
                (false, None) => AtBridge::Nobody,
            },
            events: self.events,
            unknown: unknown.collect(),
            calls: Calls { opened: self.opened, closed: self.closed, answered: self.answered },
            lines: self.lines,
            quoted: self.quoted,
            prompts: self.prompts,
            channels: self.channels,
            survivors: number("survivors"),
            turns: number("turns").unwrap_or_default(),
            resumes: number("resumes").unwrap_or_default(),
            first_event: self.first_event,
        }
    }
}

/// On one line, without the example that only whoever repairs it needs.
fn fault(fault: &Diagnostic) -> String {
    format!("line {} [{}]: {}", fault.line, fault.rule.name(), fault.found)
}

/// Why somebody was not let in.
fn words(why: Refusal) -> &'static str {
    match why {
        Refusal::Host => "the name of the host was not that of the door",
        Refusal::Origin => "the request came from a web page",
        Refusal::Token => "the token was missing or wrong",
        Refusal::Query => "the address had a query",
        Refusal::TooLong => "the request was too long",
        Refusal::Garbled => "the request was no message of the protocol",
    }
}

#[cfg(test)]
#[path = "gathering_tests.rs"]
mod tests;
