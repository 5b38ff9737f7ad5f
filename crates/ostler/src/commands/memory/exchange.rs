//! All messages out as lines of JSON, and in again.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use ostler_memory::capture::policy;
use ostler_memory::deferral::{Event, Session, hash};
use ostler_memory::place::Place;
use ostler_memory::redaction::redacted;
use ostler_memory::store::{Inserted, Message, Name, PATIENT, Remark, Store};
use serde::{Deserialize, Serialize};

use super::{MemoryError, drained};
use crate::display;
use crate::failure::Failure;

/// How many lines are taken in at once.
const BATCH: usize = 1_000;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory export > memory.jsonl")]
pub(super) struct ExportArgs {}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ostler memory import memory.jsonl")]
pub(super) struct ImportArgs {
    /// The file.
    #[arg(value_name = "FILE")]
    path: PathBuf,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    v: u32,
    source: String,
    session: String,
    cwd: String,
    key: String,
    ts: String,
    role: String,
    kind: String,
    mark: String,
    text: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pinned: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    corrected_by: Option<Correction>,
}

/// What a message was corrected by, as it is called everywhere.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Correction {
    source: String,
    session: String,
    key: String,
}

pub(super) fn export(_args: ExportArgs, place: &Place) -> Result<ExitCode, Failure> {
    let store = drained(place)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let write = |message: Message| {
        let new = message.replaced_by.and_then(|id| store.message(id).ok().flatten());
        let line = Line {
            v: 1,
            pinned: message.pinned,
            corrected_by: new.map(|new| Correction {
                source: new.source,
                session: new.session,
                key: new.key,
            }),
            ts: message.when(),
            source: message.source,
            session: message.session,
            cwd: message.project,
            key: message.key,
            role: message.role,
            kind: message.kind,
            mark: message.mark,
            text: message.text,
        };
        serde_json::to_writer(&mut out, &line)?;
        out.write_all(b"\n")
    };
    store.each(write).map_err(MemoryError::from)?.map_err(Failure::Output)?;
    out.flush().map_err(Failure::Output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn import(args: ImportArgs, place: &Place) -> Result<ExitCode, Failure> {
    let failed = |source| MemoryError::Read { path: args.path.clone(), source };
    let file = File::open(&args.path).map_err(failed)?;
    let mut store = Store::open(place, PATIENT).map_err(MemoryError::from)?;
    let policy = policy(place);
    let mut sum = Inserted::default();
    let mut open: Option<(Session, Vec<Event>)> = None;
    let mut remarks = Vec::new();
    let mut put = |session: &Session, events: &[Event]| -> Result<(), MemoryError> {
        sum = sum.and(store.insert(session, events)?);
        Ok(())
    };
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line: Line = serde_json::from_str(&line.map_err(failed)?).map_err(|error| MemoryError::Line {
            path: args.path.clone(),
            line: number + 1,
            reason: error.to_string(),
        })?;
        let Some(text) = redacted(&line.text, policy) else { continue };
        remarks.extend(remark(&line));
        let session =
            Session { source: line.source, id: line.session, cwd: line.cwd, transcript: String::new() };
        let event = Event {
            cue: String::new(),
            tier: "episodic".to_owned(),
            role: line.role,
            ts: line.ts,
            id: line.key,
            sha256: hash(&text),
            kind: if line.kind == "said" { String::new() } else { line.kind },
            mark: line.mark,
            text,
        };
        match &mut open {
            Some((known, events)) if *known == session && events.len() < BATCH => events.push(event),
            other => {
                if let Some((known, events)) = other.take() {
                    put(&known, &events)?;
                }
                *other = Some((session, vec![event]));
            }
        }
    }
    if let Some((session, events)) = open {
        put(&session, &events)?;
    }
    // A correction may stand before or after what it corrects.
    store.take_in(&remarks).map_err(MemoryError::from)?;
    display::text(&format!("{} inserted, {} already known\n", sum.inserted, sum.known))?;
    Ok(ExitCode::SUCCESS)
}

/// What was said about the message of a line, if anything was.
fn remark(line: &Line) -> Option<Remark> {
    let is_fact = line.kind == "fact";
    let name = |source: &String, session: &String, key: &String| Name {
        source: source.clone(),
        session: session.clone(),
        key: key.clone(),
    };
    (is_fact || line.pinned || line.corrected_by.is_some()).then(|| Remark {
        name: name(&line.source, &line.session, &line.key),
        is_fact,
        is_pinned: line.pinned,
        corrected_by: line.corrected_by.as_ref().map(|new| name(&new.source, &new.session, &new.key)),
    })
}
