//! One line of a chain: how it is written, sealed and read.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::secret::{Key, hex};

pub(super) const VERSION: u32 = 1;

/// What a receipt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptKind {
    /// An attempt of the run began.
    Opened,
    /// An artifact was accepted.
    Artifact,
    /// The agent's claim that it is done was taken.
    Complete,
}

/// A receipt, as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Its place in the chain, from 1.
    pub seq: u64,
    /// When, in UTC.
    pub at: String,
    /// For what.
    pub kind: ReceiptKind,
    /// What else it says.
    pub fields: Map<String, Value>,
    /// The start of its seal.
    pub mark: String,
}

impl Receipt {
    /// A text of its fields.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }
}

/// Its id: the place, and enough of the seal to tell it from another run's.
impl fmt::Display for Receipt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.seq, self.mark)
    }
}

/// A line without its seal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) v: u32,
    pub(super) seq: u64,
    pub(super) at: String,
    pub(super) kind: ReceiptKind,
    pub(super) fields: Map<String, Value>,
    pub(super) prev: String,
}

/// A line with its seal.
pub(super) struct Sealed {
    pub(super) text: String,
    pub(super) receipt: Receipt,
}

/// What stands between an entry and its seal.
const SEAL: &str = ",\"mac\":\"";
const DIGITS: usize = 64;

impl Entry {
    pub(super) fn seal(self, key: &Key) -> Sealed {
        // Texts, numbers and maps with text keys always become JSON.
        let text = serde_json::to_string(&self).unwrap_or_default();
        let mac = hex(&mac(key, text.as_bytes()).finalize().into_bytes());
        let open = text.strip_suffix('}').unwrap_or(&text);
        Sealed { text: format!("{open}{SEAL}{mac}\"}}"), receipt: self.receipt(&mac) }
    }

    pub(super) fn receipt(self, mac: &str) -> Receipt {
        let mark = mac.chars().take(8).collect();
        Receipt { seq: self.seq, at: self.at, kind: self.kind, fields: self.fields, mark }
    }
}

/// A line, taken apart: the exact text that was sealed, and the seal.
pub(super) fn unseal(line: &str) -> Option<(String, &str)> {
    let rest = line.strip_suffix("\"}")?;
    let at = rest.len().checked_sub(DIGITS)?;
    let (open, mac) = (rest.get(..at)?, rest.get(at..)?);
    let entry = open.strip_suffix(SEAL)?;
    mac.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then(|| (format!("{entry}}}"), mac))
}

/// Whether `seal` was made with `key`. Compared in constant time.
pub(super) fn is_sealed(key: &Key, text: &str, seal: &str) -> bool {
    let bytes: Option<Vec<u8>> = (0..DIGITS / 2)
        .map(|at| seal.get(at * 2..at * 2 + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect();
    bytes.is_some_and(|bytes| mac(key, text.as_bytes()).verify_slice(&bytes).is_ok())
}

fn mac(key: &Key, text: &[u8]) -> Hmac<Sha256> {
    // Any length of key is possible, so this cannot fail; an empty key would be told by every seal being wrong.
    let empty = || Hmac::<Sha256>::new(&hmac::digest::Key::<Hmac<Sha256>>::default());
    let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).unwrap_or_else(|_| empty());
    mac.update(text);
    mac
}

/// The hash of a line.
pub(super) fn digest(line: &[u8]) -> String {
    hex(&Sha256::digest(line))
}

/// What the first line of a run's chain follows.
pub(super) fn genesis(run: &str) -> String {
    digest(format!("ostler receipts of run {run}").as_bytes())
}
