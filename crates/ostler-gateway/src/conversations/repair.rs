//! Ends a turn that a killed server left open: with the words that its client was given, and an error. Without that the
//! conversation would look as if nothing had been asked.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use ostler_agent::event::{AgentEvent, Part, TurnOutcome};
use ostler_agent::reply::Reply;

use super::conversation::now;
use super::line::{Ending, Happened, Line, Settled, SoFar, VERSION};
use super::partial;
use super::reading::{self, Told};
use crate::pool::known;

/// Why such a turn has no end of its own.
const ENDED: &str = "the server ended during this turn: the answer is incomplete";

/// A turn without an end.
struct OpenTurn {
    turn: String,
    reply: Reply,
    /// The number of the last line with a whole text.
    last_text: u64,
    /// Questions that were neither answered nor withdrawn.
    questions: Vec<String>,
}

/// Looks at the end of a journal, and writes what is missing there.
pub(super) fn end_open_turn(path: &Path) -> io::Result<()> {
    if !reading::is_open(path)? {
        partial::remove(path);
        return Ok(());
    }
    let (mut open, mut so_far, mut told, mut seq) = (None, SoFar::default(), Told::default(), 0);
    reading::lines(path, &mut |line| {
        seq = line.seq;
        step(&mut open, &mut so_far, &line);
        told.hear(line.happened);
    })?;
    let Some(open) = open else { return Ok(()) };
    let ending = end(open, so_far, told, partial::read(path).filter(|(after, _)| *after <= seq));
    let mut bytes = Vec::new();
    let mut file = OpenOptions::new().read(true).append(true).open(path)?;
    if reading::is_torn(&mut file)? {
        bytes.push(b'\n');
    }
    for happened in ending {
        seq += 1;
        serde_json::to_writer(&mut bytes, &Line { v: VERSION, seq, at: now(), happened })?;
        bytes.push(b'\n');
    }
    file.write_all(&bytes)?;
    partial::remove(path);
    Ok(())
}

fn step(open: &mut Option<OpenTurn>, so_far: &mut SoFar, line: &Line) {
    match &line.happened {
        Happened::TurnBegan { turn, .. } => {
            so_far.turns = so_far.turns.saturating_add(1);
            let (turn, reply, questions) = (turn.clone(), Reply::default(), Vec::new());
            *open = Some(OpenTurn { turn, reply, last_text: 0, questions });
        }
        Happened::TurnEnded { so_far: told, .. } => {
            *so_far = told.clone();
            *open = None;
        }
        Happened::Agent { event, .. } => {
            if let AgentEvent::Spent(usage) = event {
                so_far.spend(usage);
            }
            if let Some(open) = open {
                open.reply.hear(event);
                if matches!(event, AgentEvent::Said { part: Part::Whole, within: None, .. }) {
                    open.last_text = line.seq;
                }
            }
        }
        Happened::PermissionAsked { permission, .. } => {
            open.iter_mut().for_each(|open| open.questions.push(permission.clone()));
        }
        Happened::PermissionSettled { permission, .. } => {
            open.iter_mut().for_each(|open| open.questions.retain(|asked| asked != permission));
        }
        Happened::Opened { .. } => {}
    }
}

/// What is missing at the end of the journal.
fn end(open: OpenTurn, mut so_far: SoFar, told: Told, words: Option<(u64, String)>) -> Vec<Happened> {
    let OpenTurn { turn, mut reply, last_text, questions } = open;
    let mut missing = Vec::new();
    // Words that came before the last whole text are in it.
    if let Some((_, text)) = words.filter(|(after, text)| *after >= last_text && !text.trim().is_empty()) {
        let event = AgentEvent::Said { text, part: Part::Whole, within: None };
        reply.hear(&event);
        missing.push(Happened::Agent { turn: turn.clone(), event });
    }
    reply.hear(&AgentEvent::TurnEnded(TurnOutcome::Interrupted));
    for permission in questions {
        let (turn, outcome) = (turn.clone(), Settled::Withdrawn);
        missing.push(Happened::PermissionSettled { turn, permission, outcome });
    }
    let added: Vec<_> = reply.messages().iter().map(ostler_agent::canonical::Message::written).collect();
    let (ending, error) = (Ending::Interrupted, Some(ENDED.to_owned()));
    so_far.last_error.clone_from(&error);
    so_far.known = told.messages_with_open(&added).map(|messages| known(&messages).into());
    missing.push(Happened::TurnEnded { turn, ending, error, added, so_far });
    missing
}
