//! Whether a chain is what was written: every line in its place, after the line before it, and sealed where that can
//! be seen.

use std::fmt;

use super::Head;
use super::line::{Entry, Receipt, VERSION, digest, genesis, is_sealed, unseal};
use crate::secret::Key;

/// A chain without a flaw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Its receipts.
    pub receipts: Vec<Receipt>,
    /// Where it ends.
    pub head: Head,
    /// How many seals were looked at. The others are of keys that are gone.
    pub seals: u64,
}

/// A chain that was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the chain of receipts is broken at line {line}: {flaw}")]
pub struct Broken {
    /// The first line that does not fit, from 1.
    pub line: u64,
    /// Why not.
    pub flaw: Flaw,
}

/// Why a line does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// It is no receipt.
    NotAReceipt,
    /// It is of a version that is not known here.
    Version(u32),
    /// It has the number of another place.
    Number(u64),
    /// It does not follow the line before it: one of the two was changed, or one between them is gone.
    DoesNotFollow,
    /// It was not sealed by the process that ran this run.
    Seal,
    /// The chain should go on here.
    CutOff {
        /// To this line.
        lines: u64,
    },
    /// The chain should have ended before.
    Added,
    /// It is the last line, and another one was written.
    LastLine,
}

impl fmt::Display for Flaw {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAReceipt => out.write_str("this is not a receipt"),
            Self::Version(version) => write!(out, "version {version} is not known"),
            Self::Number(found) => write!(out, "it has the number {found}"),
            Self::DoesNotFollow => out.write_str(
                "it does not follow the line before: one of the two was changed, or one between them is gone",
            ),
            Self::Seal => out.write_str("its seal is not that of the run's own process"),
            Self::CutOff { lines } => write!(out, "it should go on to line {lines}"),
            Self::Added => out.write_str("this line was added after the end"),
            Self::LastLine => out.write_str("this is not the last line that was written"),
        }
    }
}

/// Looks through the chain of `run`. With a key, the seals from its first line on are looked at too. With a head, the
/// end is too: without one, an edit of the very last line, or its loss, cannot be seen.
pub fn verify(
    text: &[u8],
    run: &str,
    key: Option<(&Key, u64)>,
    head: Option<&Head>,
) -> Result<Verified, Broken> {
    let mut found = Verified { receipts: Vec::new(), head: Head { lines: 0, hash: genesis(run) }, seals: 0 };
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let number = found.head.lines + 1;
        let broken = |flaw| Broken { line: number, flaw };
        let (receipt, seals) = read(line, number, &found.head.hash, key).map_err(broken)?;
        if head.is_some_and(|head| number > head.lines) {
            return Err(broken(Flaw::Added));
        }
        found.receipts.push(receipt);
        found.seals += seals;
        found.head = Head { lines: number, hash: digest(line) };
    }
    match head {
        Some(head) if head.lines > found.head.lines => {
            Err(Broken { line: found.head.lines + 1, flaw: Flaw::CutOff { lines: head.lines } })
        }
        Some(head) if *head != found.head => {
            Err(Broken { line: found.head.lines.max(1), flaw: Flaw::LastLine })
        }
        Some(_) | None => Ok(found),
    }
}

fn read(line: &[u8], number: u64, prev: &str, key: Option<(&Key, u64)>) -> Result<(Receipt, u64), Flaw> {
    let line = std::str::from_utf8(line).map_err(|_| Flaw::NotAReceipt)?;
    let (text, seal) = unseal(line).ok_or(Flaw::NotAReceipt)?;
    let entry: Entry = serde_json::from_str(&text).map_err(|_| Flaw::NotAReceipt)?;
    if entry.v != VERSION {
        return Err(Flaw::Version(entry.v));
    }
    if entry.seq != number {
        return Err(Flaw::Number(entry.seq));
    }
    if entry.prev != prev {
        return Err(Flaw::DoesNotFollow);
    }
    let seals = match key {
        Some((key, first)) if number >= first => {
            if !is_sealed(key, &text, seal) {
                return Err(Flaw::Seal);
            }
            1
        }
        Some(_) | None => 0,
    };
    Ok((entry.receipt(seal), seals))
}
