//! What is there after a run: the file, the receipts, the stored document, and records that were not understood.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use ostler_agent::agent::{Agent, Source};
use ostler_agent::artifact::Kinds;
use ostler_agent::event::AgentEvent;
use ostler_agent::framer::{Frame, Framer};
use ostler_agent::record::Record;
use ostler_agent::smoke::{ChainSeen, Document, FileSeen, Handed, NewKind, Observed};
use ostler_bridge::receipts::{Receipt, verify};
use ostler_bridge::store::{Changed, artifacts, hashes};
use ostler_process::syntax::{Syntax, javascript};
use serde_json::Value;

use super::task::{ARTIFACT, Yard};
use crate::commands::run::head;

/// What is read of a file at most.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// So much is shown of a record that is not known.
const SAMPLE_CHARS: usize = 300;

/// Adds what is there to what the events told.
pub(super) async fn look(
    seen: &mut Observed,
    outcome: Option<&Value>,
    agent: &dyn Agent,
    yard: &Yard,
    path: Option<&OsStr>,
) {
    seen.file = file(yard, path).await;
    seen.strays = yard.strays();
    let Some((outcome, folder)) = outcome.and_then(|outcome| Some((outcome, outcome["journal"].as_str()?)))
    else {
        return;
    };
    let folder = Path::new(folder);
    let (chain, receipts) = chain(outcome, folder);
    seen.chain = chain;
    stored(&mut seen.artifact, folder, &receipts, &yard.workspace());
    sample(&mut seen.unknown, agent, &folder.join("raw").join("stdout"));
}

async fn file(yard: &Yard, path: Option<&OsStr>) -> FileSeen {
    let file = yard.file();
    // Not a link: that would be elsewhere.
    match file.symlink_metadata() {
        Ok(about) if about.is_file() => match javascript(&file, path).await {
            Syntax::Fine => FileSeen::Parsed,
            Syntax::Broken { why } => FileSeen::Broken { why },
            Syntax::Unknown { why } => FileSeen::Unread { why },
        },
        Ok(_) => FileSeen::Broken { why: "it is not a file".to_owned() },
        Err(_) => FileSeen::Absent,
    }
}

/// The chain as it is on disk, against where the outcome says that it ends. What the run itself found when it ended, with
/// the key to the seals, comes first.
fn chain(outcome: &Value, folder: &Path) -> (ChainSeen, Vec<Receipt>) {
    let run = outcome["run"].as_str().unwrap_or_default();
    let bridge = &outcome["bridge"];
    let Some(text) = read(&folder.join("receipts.ndjson")) else { return (ChainSeen::Absent, Vec::new()) };
    let found = match verify(&text, run, None, head(bridge).as_ref()) {
        Ok(verified) => (ChainSeen::Whole { lines: verified.head.lines }, verified.receipts),
        Err(broken) => (ChainSeen::Broken { why: broken.to_string() }, Vec::new()),
    };
    match bridge["broken"].as_str() {
        Some(why) => (ChainSeen::Broken { why: why.to_owned() }, found.1),
        None => found,
    }
}

/// Compares what is stored with the receipt, and looks whether it is without fault. Where this run has no receipt, a
/// document in that place is not of this run.
fn stored(artifact: &mut Handed, folder: &Path, receipts: &[Receipt], workspace: &Path) {
    let path = folder.join("artifacts").join(format!("{ARTIFACT}.md"));
    match artifact {
        Handed::Accepted { document, .. } => {
            let newest: BTreeMap<_, _> =
                hashes(receipts).into_iter().filter(|(kind, _)| kind == ARTIFACT).collect();
            let content = match artifacts(folder, &newest).pop().map(|stored| stored.content) {
                Some(Ok(bytes)) => Some(bytes),
                Some(Err(Changed::Bytes { .. })) => {
                    *document = Document::Changed;
                    return;
                }
                Some(Err(Changed::Gone { .. })) => None,
                // The chain was changed, so that it says nothing of the bytes.
                None => read(&path),
            };
            *document = content.map_or(Document::Gone, |content| checked(&content, workspace));
        }
        Handed::Nothing if path.exists() => *artifact = Handed::Stale,
        Handed::Nothing | Handed::Rejected { .. } | Handed::Stale => {}
    }
}

fn checked(content: &[u8], workspace: &Path) -> Document {
    let is_there = |path: &str| workspace.join(path).is_file();
    let kinds = match Kinds::built_in() {
        Ok(kinds) => kinds,
        Err(mistake) => return Document::Faulty(vec![mistake.to_string()]),
    };
    let faults = kinds.find(ARTIFACT).map(|kind| kind.check(content, &is_there)).unwrap_or_default();
    match &faults[..] {
        [] => Document::Valid,
        faults => Document::Faulty(faults.iter().map(|fault| fault.found.clone()).collect()),
    }
}

/// Finds the first record of each kind that is not known, by decoding the raw bytes once more.
fn sample(unknown: &mut [NewKind], agent: &dyn Agent, raw: &Path) {
    if unknown.is_empty() {
        return;
    }
    let (mut framer, mut decoder) = (Framer::default(), agent.decoder(None));
    let mut keep = |frame: Frame<'_>| {
        let Frame::Line(line) = frame else { return };
        let Record::Json(record) = Record::read(line) else { return };
        for event in decoder.events(Source::Stdout, &record) {
            if let AgentEvent::Unknown { kind } = event
                && let Some(new) = unknown.iter_mut().find(|new| new.kind == kind && new.sample.is_empty())
            {
                new.sample = String::from_utf8_lossy(line).chars().take(SAMPLE_CHARS).collect();
            }
        }
    };
    framer.feed(&read(raw).unwrap_or_default(), &mut keep);
    framer.finish(&mut keep);
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
