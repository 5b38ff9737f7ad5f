//! How far a run has come with what it must hand over: which artifacts are in, which drafts are open, and whether the
//! agent claims to be done.
//!
//! Receipts decide, and nothing else: each one that was given is told here. What is missing is worded for the agent.

use std::collections::{BTreeMap, BTreeSet};

use crate::completion::{Evidence, Grade};

/// What was handed over in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    required: BTreeSet<String>,
    accepted: BTreeMap<String, u64>,
    drafts: BTreeMap<String, usize>,
    claim: Option<u64>,
}

impl Standing {
    /// Nothing handed over yet, and these kinds required.
    pub fn new(required: impl IntoIterator<Item = String>) -> Self {
        Self { required: required.into_iter().collect(), ..Self::default() }
    }

    /// An artifact was accepted under this receipt. What was drafted of its kind is settled.
    pub fn accepted(&mut self, kind: &str, receipt: u64) {
        self.accepted.insert(kind.to_owned(), receipt);
        self.drafts.remove(kind);
    }

    /// An artifact was rejected for so many faults, and its draft is open.
    pub fn rejected(&mut self, kind: &str, faults: usize) {
        self.drafts.insert(kind.to_owned(), faults);
    }

    /// The agent's claim was taken under this receipt.
    pub fn claimed(&mut self, receipt: u64) {
        self.claim = Some(receipt);
    }

    /// The claim does not stand: something that it claimed was found to be otherwise.
    pub fn unclaim(&mut self) {
        self.claim = None;
    }

    /// What a claim would lack, for the agent. Nothing: it may claim.
    pub fn missing(&self) -> Vec<String> {
        let lacks = self.required.iter().filter(|kind| !self.accepted.contains_key(*kind));
        let without_draft = lacks.filter(|kind| !self.drafts.contains_key(*kind));
        let mut missing: Vec<String> =
            without_draft.map(|kind| format!("the artifact `{kind}`, which was not submitted")).collect();
        missing.extend(self.drafts.iter().map(|(kind, faults)| {
            let faults = if *faults == 1 { "1 fault".to_owned() } else { format!("{faults} faults") };
            format!("the artifact `{kind}`, whose newest draft was rejected for {faults}")
        }));
        missing
    }

    /// What the run lacks to be complete, for the agent.
    pub fn missing_to_complete(&self) -> Vec<String> {
        let mut missing = self.missing();
        if self.claim.is_none() {
            missing.push("the call of `declare_complete`".to_owned());
        }
        missing
    }

    /// What was seen on the wire, best for the outcome.
    pub fn evidence(&self) -> Vec<Evidence> {
        let artifacts = self.accepted.keys().map(|kind| format!("artifact `{kind}` accepted"));
        let claim = self.claim.map(|_| "the agent declared completion".to_owned());
        claim.into_iter().chain(artifacts).map(|fact| Evidence { fact, grade: Grade::Wire }).collect()
    }

    /// The state of every kind that is required or was handed over, with its receipt.
    pub fn states(&self) -> Vec<(String, State)> {
        let kinds: BTreeSet<&String> =
            self.required.iter().chain(self.accepted.keys()).chain(self.drafts.keys()).collect();
        kinds.into_iter().map(|kind| (kind.clone(), self.state(kind))).collect()
    }

    fn state(&self, kind: &str) -> State {
        match (self.drafts.get(kind), self.accepted.get(kind)) {
            (Some(faults), _) => State::Draft { faults: *faults },
            (None, Some(receipt)) => State::Accepted { receipt: *receipt },
            (None, None) => State::Absent,
        }
    }

    /// The receipt of the claim.
    pub fn claim(&self) -> Option<u64> {
        self.claim
    }

    /// How many receipts count for progress.
    pub fn receipts(&self) -> usize {
        self.accepted.len() + usize::from(self.claim.is_some())
    }
}

/// How one kind of artifact stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not handed over.
    Absent,
    /// The newest draft has faults.
    Draft {
        /// How many.
        faults: usize,
    },
    /// Accepted.
    Accepted {
        /// Under this receipt.
        receipt: u64,
    },
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
