//! The receipts of a run, looked through once more: the chain of hashes against what the outcome kept, and the artifacts
//! against the receipts. The seals can be looked at only by the process that made them, which did when the run ended.

use std::fs::File;
use std::io::Read as _;

use ostler_bridge::receipts::{Receipt, ReceiptKind, verify};
use ostler_bridge::store::{artifacts, hashes};
use ostler_process::journal::{Kept, State};
use serde_json::{Value, json};

use crate::commands::run::head;
use crate::words::one_line;

/// A run has a few dozen receipts. What is longer is not read to its end, and so found to be broken.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// What was found.
pub(super) struct Receipts {
    receipts: Vec<Receipt>,
    /// What is wrong, each in a sentence.
    wrong: Vec<String>,
    /// Whether an outcome says where they should end.
    has_end: bool,
}

/// Looks them through; nothing, if the run had no bridge.
pub(super) fn of(kept: &Kept) -> Option<Receipts> {
    let (head, mut wrong) = match &kept.state {
        State::Ended(outcome) => {
            let bridge = &outcome["bridge"];
            let changed = bridge["changed"].as_array().into_iter().flatten();
            let told = std::iter::once(&bridge["broken"]).chain(changed).filter_map(Value::as_str);
            let told = told.map(|wrong| format!("{wrong} (found when it ended)"));
            (head(bridge), told.collect::<Vec<_>>())
        }
        State::Live | State::Abandoned => (None, Vec::new()),
    };
    let mut text = Vec::new();
    let read = File::open(kept.folder.join("receipts.ndjson"));
    if read.and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text)).is_err() && head.is_none() {
        return None;
    }
    if kept.state == State::Live {
        // The last line may be under way.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.truncate(whole);
    }
    let has_end = head.is_some();
    let receipts = match verify(&text, &kept.facts.run, None, head.as_ref()) {
        Ok(verified) => verified.receipts,
        Err(broken) => {
            wrong.push(broken.to_string());
            Vec::new()
        }
    };
    let kept_artifacts = artifacts(&kept.folder, &hashes(&receipts));
    wrong.extend(
        kept_artifacts.into_iter().filter_map(|one| one.content.err()).map(|error| error.to_string()),
    );
    Some(Receipts { receipts, wrong, has_end })
}

impl Receipts {
    pub(super) fn words(&self) -> String {
        let mut lines: Vec<String> =
            self.wrong.iter().map(|wrong| format!("BROKEN: {}", one_line(wrong))).collect();
        if self.wrong.is_empty() {
            lines.push(match self.has_end {
                true => "the chain is whole".to_owned(),
                false => {
                    "the chain is whole so far: without an outcome nobody can say where it ends".to_owned()
                }
            });
        }
        lines.extend(self.receipts.iter().filter_map(told));
        lines.join("\n")
    }

    pub(super) fn json(&self) -> Value {
        let receipts = self.receipts.iter().map(|receipt| {
            json!({
                "receipt": receipt.to_string(),
                "at": receipt.at,
                "kind": receipt.kind,
                "fields": receipt.fields,
            })
        });
        json!({"whole": self.wrong.is_empty(), "wrong": self.wrong, "receipts": receipts.collect::<Value>()})
    }
}

fn told(receipt: &Receipt) -> Option<String> {
    let what = match receipt.kind {
        ReceiptKind::Opened => return None,
        ReceiptKind::Artifact => {
            let bytes = receipt.fields.get("bytes").and_then(Value::as_u64).unwrap_or_default();
            format!("artifact {} ({bytes} bytes)", receipt.field("type").unwrap_or_default())
        }
        ReceiptKind::Complete => {
            format!("declared complete: {}", receipt.field("summary").unwrap_or_default())
        }
    };
    Some(one_line(&format!("{receipt} {what}")))
}
