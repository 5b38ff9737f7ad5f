//! Handing over: an artifact is checked, kept, receipted and only then answered; a claim is taken or refused.

use std::path::Path;

use ostler_agent::artifact::{Diagnostic, Kind, MOST_BYTES};
use ostler_agent::standing::State;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{Ledger, Room, locked};
use crate::event::BridgeEvent;
use crate::receipts::{ReceiptError, ReceiptKind};
use crate::secret::hex;

/// What became of something that was handed over.
#[derive(Debug)]
pub(crate) enum Handed {
    /// Accepted under this receipt; this is still missing.
    Accepted { receipt: String, bytes: usize, missing: Vec<String> },
    /// Rejected. The text is kept, or is too long for that.
    Rejected { faults: Vec<Diagnostic>, draft: Draft },
    /// There is no such kind.
    NoKind { nearest: Option<String> },
    /// There is no draft of this kind to edit.
    NoDraft,
    /// The text to replace is not there exactly once.
    Found { times: usize },
    /// It could not be kept.
    Unkept { why: String },
}

/// What became of a rejected text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draft {
    Kept,
    TooLong,
}

/// What became of a claim.
#[derive(Debug)]
pub(crate) enum Claimed {
    Taken { receipt: String },
    Refused { missing: Vec<String> },
    Unkept { why: String },
}

impl Room {
    /// Takes a whole document.
    pub(crate) async fn submit(&self, kind: &str, content: &str) -> Handed {
        let room = self.telling.room().await;
        let (handed, event) = self.take(&mut locked(&self.ledger), kind, content.to_owned());
        if let Some(event) = event {
            room.tell(event);
        }
        handed
    }

    /// Replaces `old`, which is there exactly once in the draft, by `new`, and takes the result as a whole document.
    pub(crate) async fn edit(&self, kind: &str, old: &str, new: &str) -> Handed {
        let room = self.telling.room().await;
        let mut ledger = locked(&self.ledger);
        if self.terms.kinds.find(kind).is_none() {
            return self.no_kind(kind);
        }
        let Some(draft) = ledger.drafts.get(kind) else { return Handed::NoDraft };
        let times = if old.is_empty() { 0 } else { draft.matches(old).count() };
        if times != 1 {
            return Handed::Found { times };
        }
        let content = draft.replacen(old, new, 1);
        let (handed, event) = self.take(&mut ledger, kind, content);
        drop(ledger);
        if let Some(event) = event {
            room.tell(event);
        }
        handed
    }

    /// Takes the claim that the task is done, or says what is missing.
    pub(crate) async fn claim(&self, summary: &str) -> Claimed {
        let room = self.telling.room().await;
        let mut ledger = locked(&self.ledger);
        let missing = ledger.standing.missing();
        if !missing.is_empty() {
            drop(ledger);
            room.tell(BridgeEvent::ClaimRefused { missing: missing.clone() });
            return Claimed::Refused { missing };
        }
        let fields = Map::from_iter([("summary".to_owned(), Value::from(summary))]);
        let receipt = match ledger.chain.append(ReceiptKind::Complete, fields) {
            Ok(receipt) => receipt,
            Err(error) => return Claimed::Unkept { why: told(&error) },
        };
        ledger.standing.claimed(receipt.seq);
        drop(ledger);
        let receipt = receipt.to_string();
        room.tell(BridgeEvent::Completed { summary: summary.to_owned(), receipt: receipt.clone() });
        Claimed::Taken { receipt }
    }

    /// How every kind stands, and what is missing until completion.
    pub(crate) fn states(&self) -> (Vec<(String, State)>, Vec<String>) {
        let ledger = locked(&self.ledger);
        (ledger.standing.states(), ledger.standing.missing_to_complete())
    }

    fn take(&self, ledger: &mut Ledger, name: &str, content: String) -> (Handed, Option<BridgeEvent>) {
        let Some(kind) = self.terms.kinds.find(name) else { return (self.no_kind(name), None) };
        let faults = kind.check(content.as_bytes(), &|path| is_inside(&self.terms.workspace, path));
        if faults.is_empty() { accept(ledger, kind, &content) } else { reject(ledger, kind, content, faults) }
    }

    fn no_kind(&self, name: &str) -> Handed {
        Handed::NoKind { nearest: self.terms.kinds.nearest(name).map(str::to_owned) }
    }
}

fn accept(ledger: &mut Ledger, kind: &Kind, content: &str) -> (Handed, Option<BridgeEvent>) {
    let number = ledger.chain.head().lines + 1;
    if let Err(error) = ledger.store.accept(&kind.name, number, content) {
        return (Handed::Unkept { why: format!("{error}: {}", error.source) }, None);
    }
    let hash = hex(&Sha256::digest(content.as_bytes()));
    let fields = Map::from_iter([
        ("type".to_owned(), Value::from(kind.name.as_str())),
        ("bytes".to_owned(), Value::from(content.len())),
        ("sha256".to_owned(), Value::from(hash.as_str())),
    ]);
    let receipt = match ledger.chain.append(ReceiptKind::Artifact, fields) {
        Ok(receipt) => receipt,
        Err(error) => return (Handed::Unkept { why: told(&error) }, None),
    };
    ledger.drafts.remove(&kind.name);
    ledger.standing.accepted(&kind.name, receipt.seq);
    ledger.hashes.insert(kind.name.clone(), hash);
    let (receipt, bytes) = (receipt.to_string(), content.len());
    let event = BridgeEvent::Accepted { kind: kind.name.clone(), receipt: receipt.clone(), bytes };
    (Handed::Accepted { receipt, bytes, missing: ledger.standing.missing() }, Some(event))
}

fn reject(
    ledger: &mut Ledger,
    kind: &Kind,
    content: String,
    faults: Vec<Diagnostic>,
) -> (Handed, Option<BridgeEvent>) {
    let draft = if content.len() > MOST_BYTES {
        // What was there before is not what the agent means now.
        ledger.drafts.remove(&kind.name);
        Draft::TooLong
    } else {
        // The copy on disk is for people; the one in memory is what is edited.
        if let Err(error) = ledger.store.reject(&kind.name, &content) {
            tracing::warn!(target: "ostler::mcp", %error, "a draft was not written");
        }
        ledger.drafts.insert(kind.name.clone(), content);
        Draft::Kept
    };
    ledger.standing.rejected(&kind.name, faults.len());
    let event = BridgeEvent::Rejected { kind: kind.name.clone(), faults: faults.clone() };
    (Handed::Rejected { faults, draft }, Some(event))
}

fn told(error: &ReceiptError) -> String {
    match error {
        ReceiptError::File { source, .. } => format!("{error}: {source}"),
    }
}

/// Whether `path` is there, inside the workspace: a link that leads out of it is not.
fn is_inside(workspace: &Path, path: &str) -> bool {
    let (Ok(top), Ok(real)) = (workspace.canonicalize(), workspace.join(path).canonicalize()) else {
        return false;
    };
    real.starts_with(top)
}
