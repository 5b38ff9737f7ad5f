//! Receipts: what was recorded for a run, one line each, chained.
//!
//! A line holds the hash of the line before it, so that anybody can see an edit, and a seal that only the process with
//! the key can make. The first line holds the hash of the run's id: a chain of another run does not fit. A line is on
//! disk before anybody is told of it. What is in memory decides; the file is for people, and for a run that is resumed.

mod line;
mod verify;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use line::{Receipt, ReceiptKind};
pub use verify::{Broken, Flaw, Verified, verify};

use crate::secret::Key;
use line::{Entry, digest, genesis};

/// What is read of a file of receipts. A run has a few dozen; more is not ours.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Names that are tried for a broken chain that is put aside.
const MOST_ASIDE: u32 = 1000;

/// Where a chain ended: kept in the outcome, so that a later reader sees lines that were cut off or added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// How many lines.
    pub lines: u64,
    /// The hash of the last one.
    pub hash: String,
}

/// What was there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Past {
    /// Nothing.
    None,
    /// A chain that ends where the outcome of the run says. Its receipts count.
    Confirmed(Vec<Receipt>),
    /// A chain without flaw, of a run that never had an outcome. Nobody can say who wrote it: it does not count.
    Unconfirmed(Vec<Receipt>),
    /// A chain that somebody changed. It was put aside, and does not count.
    Broken {
        /// Where.
        broken: Broken,
        /// Where it is now.
        aside: PathBuf,
    },
}

/// Receipts could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// The file cannot be used.
    #[error("could not use the receipts in {}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl ReceiptError {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some("look whether the disk is full, and whether the folder belongs to you".to_owned())
    }
}

/// The chain of one run, open for more.
#[derive(Debug)]
pub struct Chain {
    path: PathBuf,
    file: File,
    length: u64,
    run: String,
    key: Key,
    head: Head,
    /// The number of the line with which this attempt began: from here on, lines have seals of `key`.
    first: u64,
}

impl Chain {
    /// Opens the chain at `path`, or begins one, and enters that an attempt began. `expected` is where the chain ended,
    /// if the run has an outcome. A chain that is broken is put aside, and a new one begun. A last line that was cut off
    /// by a kill was never told to anybody, and is taken away.
    pub fn open(
        path: &Path,
        run: &str,
        attempt: u32,
        key: Key,
        expected: Option<&Head>,
    ) -> Result<(Self, Past), ReceiptError> {
        let failed = |source| ReceiptError::File { path: path.to_owned(), source };
        let mut file = open(path).map_err(failed)?;
        let mut text = Vec::new();
        (&file).take(MOST_BYTES).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 == MOST_BYTES {
            return Err(failed(io::Error::other(format!("it has more than {MOST_BYTES} bytes"))));
        }
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let torn = text.len() - whole;
        let mut head = Head { lines: 0, hash: genesis(run) };
        let mut length = whole as u64;
        let mut fields = Map::from_iter([("attempt".to_owned(), Value::from(attempt))]);
        if torn > 0 {
            fields.insert("torn_bytes".to_owned(), Value::from(torn));
        }
        let past = match (verify(&text[..whole], run, None, expected), expected) {
            (Ok(found), None) if found.receipts.is_empty() => Past::None,
            (Ok(found), expected) => {
                head = found.head;
                match expected {
                    Some(_) => Past::Confirmed(found.receipts),
                    None => Past::Unconfirmed(found.receipts),
                }
            }
            (Err(broken), _) => {
                let aside = put_aside(path).map_err(failed)?;
                file = open(path).map_err(failed)?;
                length = 0;
                fields.insert("broken_before".to_owned(), Value::from(broken.to_string()));
                Past::Broken { broken, aside }
            }
        };
        file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length))).map_err(failed)?;
        let first = head.lines + 1;
        let mut chain = Self { path: path.to_owned(), file, length, run: run.to_owned(), key, head, first };
        chain.append(ReceiptKind::Opened, fields)?;
        Ok((chain, past))
    }

    /// Enters a receipt. When this returns, the line is in the file; when it fails, no part of it is.
    pub fn append(&mut self, kind: ReceiptKind, fields: Map<String, Value>) -> Result<Receipt, ReceiptError> {
        let entry = Entry {
            v: line::VERSION,
            seq: self.head.lines + 1,
            at: jiff::Timestamp::now().to_string(),
            kind,
            fields,
            prev: self.head.hash.clone(),
        };
        let sealed = entry.seal(&self.key);
        let bytes = format!("{}\n", sealed.text);
        if let Err(source) = self.file.write_all(bytes.as_bytes()) {
            // Whatever came through is taken back; if that fails too, the next reader finds a torn line.
            let _ =
                self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
            return Err(ReceiptError::File { path: self.path.clone(), source });
        }
        self.length += bytes.len() as u64;
        self.head = Head { lines: self.head.lines + 1, hash: digest(sealed.text.as_bytes()) };
        Ok(sealed.receipt)
    }

    /// Where the chain ends now.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Reads the file again and looks whether it is still what was written: every hash, the seals of this attempt, and
    /// the end.
    pub fn audit(&self) -> Result<Result<Verified, Broken>, ReceiptError> {
        let failed = |source| ReceiptError::File { path: self.path.clone(), source };
        let mut text = Vec::new();
        let file = File::open(&self.path).map_err(failed)?;
        file.take(MOST_BYTES).read_to_end(&mut text).map_err(failed)?;
        Ok(verify(&text, &self.run, Some((&self.key, self.first)), Some(&self.head)))
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Renames a broken chain to the first free name beside it.
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let names = (1..MOST_ASIDE).map(|number| path.with_extension(format!("broken-{number}.ndjson")));
    let free = names.into_iter().find(|name| !name.exists());
    let aside = free.ok_or_else(|| io::Error::other("too many broken chains are kept beside it"))?;
    std::fs::rename(path, &aside)?;
    Ok(aside)
}

#[cfg(test)]
#[path = "receipts_tests.rs"]
mod tests;
