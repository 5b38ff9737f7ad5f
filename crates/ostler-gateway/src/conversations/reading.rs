//! A journal as it is on disk: its lines, and what they come to. A line that a crash has torn is passed over.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use ostler_agent::canonical::{self, Message};
use serde_json::Value;

use super::line::{Ending, Happened, Line, Opening, SoFar};

/// How much of the end of a journal is looked at for its last line. That of a turn's end is short unless the turn said
/// much; then the whole journal is read.
const TAIL: u64 = 64 * 1024;

/// Longest line that is taken for one.
pub(super) const LONGEST_LINE: u64 = 48 << 20;

/// What a journal comes to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) opening: Opening,
    pub(super) opened_at: i64,
    pub(super) touched_at: i64,
    pub(super) seq: u64,
    pub(super) so_far: SoFar,
    pub(super) bytes: u64,
}

/// Reads what is needed of one, without reading all of it where that can be helped.
pub(super) fn find(path: &Path) -> io::Result<Option<Found>> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut first = Vec::new();
    BufReader::new(&file).take(LONGEST_LINE).read_until(b'\n', &mut first)?;
    let Some(Line { at, happened: Happened::Opened { opening }, .. }) = read(&first) else { return Ok(None) };
    let mut found = Found { opening, opened_at: at, touched_at: at, seq: 1, so_far: SoFar::default(), bytes };
    match last_line(&mut file)? {
        Some(Line { seq, at, happened: Happened::TurnEnded { so_far, .. }, .. }) => {
            (found.seq, found.touched_at, found.so_far) = (seq, at, so_far);
        }
        Some(Line { happened: Happened::Opened { .. }, .. }) => {}
        // Something was under way: all of it tells how far it was.
        Some(_) | None => lines(path, &mut |line| {
            (found.seq, found.touched_at) = (line.seq, line.at);
            match line.happened {
                Happened::TurnEnded { so_far, .. } => found.so_far = so_far,
                Happened::TurnBegan { .. } => found.so_far.turns = found.so_far.turns.saturating_add(1),
                Happened::Opened { .. }
                | Happened::Agent { .. }
                | Happened::PermissionAsked { .. }
                | Happened::PermissionSettled { .. } => {}
            }
        })?,
    }
    Ok(Some(found))
}

/// Whether its last turn may have no end: its last line is not that of an end.
pub(super) fn is_open(path: &Path) -> io::Result<bool> {
    let last = last_line(&mut File::open(path)?)?;
    Ok(!last
        .is_some_and(|line| matches!(line.happened, Happened::TurnEnded { .. } | Happened::Opened { .. })))
}

/// The last line, if it is whole and not too long.
fn last_line(file: &mut File) -> io::Result<Option<Line>> {
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let last = tail.strip_suffix(b"\n").and_then(|whole| whole.rsplit(|byte| *byte == b'\n').next());
    Ok(last.and_then(read))
}

/// One line; nothing if it is torn or new to us.
pub(super) fn read(line: &[u8]) -> Option<Line> {
    serde_json::from_slice(line).ok()
}

/// Every line, in order.
pub(super) fn lines(path: &Path, hear: &mut dyn FnMut(Line)) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if let Some(line) = read(&line) {
            hear(line);
        }
    }
}

/// Whether what began on disk is ended there: a line that a crash tore must not have another glued to it.
pub(super) fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// A conversation as its turns left it.
#[derive(Debug, Default)]
pub(super) struct Told {
    messages: Vec<Value>,
    /// What the turn under way would add to it.
    open: Vec<Value>,
}

impl Told {
    pub(super) fn hear(&mut self, happened: Happened) {
        match happened {
            Happened::TurnBegan { before, asked, .. } => {
                self.messages.extend(before);
                self.open = vec![asked];
            }
            Happened::TurnEnded {
                ending: Ending::Done | Ending::Called | Ending::Interrupted,
                added,
                ..
            } => {
                self.messages.append(&mut self.open);
                self.messages.extend(added);
            }
            Happened::TurnEnded { ending: Ending::Failed, .. } => self.open.clear(),
            Happened::Opened { .. }
            | Happened::Agent { .. }
            | Happened::PermissionAsked { .. }
            | Happened::PermissionSettled { .. } => {}
        }
    }

    /// What was said, as far as turns have ended. Nothing if it cannot be read: it is not made up.
    pub(super) fn messages(self) -> Option<Vec<Message>> {
        canonical::read(&self.messages).ok()
    }

    /// The same with the turn under way, which added this.
    pub(super) fn messages_with_open(mut self, added: &[Value]) -> Option<Vec<Message>> {
        self.messages.append(&mut self.open);
        self.messages.extend_from_slice(added);
        self.messages()
    }

    pub(super) fn written(self) -> Vec<Value> {
        self.messages
    }
}
