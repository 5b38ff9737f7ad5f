//! What is new in an agent's own record since it was last read: complete lines only, redacted, within a budget.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path};

use jiff::Timestamp;
use memchr::{memchr, memrchr};
use ostler_agent::framer::{Frame, Framer};
use ostler_agent::record::Record;
use ostler_agent::remembering::{Kind, Origin, Remembered};
use rustix::fs::{Mode, OFlags, openat};
use sha2::{Digest as _, Sha256};

use crate::cursor::Cursor;
use crate::deferral::{self, Event, Session};
use crate::redaction::{Policy, redacted};

/// How much a hook reads at once. What is left is read by the next one, or by whoever drains.
pub const HOOK_BUDGET: u64 = 16 * 1024 * 1024;

/// Longest line that is read. Agents put whole files and pictures into a record; what was said is shorter.
const LONGEST_LINE: usize = 8 * 1024 * 1024;

const CHUNK: usize = 64 * 1024;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How much of the beginning tells one file from another.
const HEAD: u64 = 1024;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The file.
    pub path: &'a Path,
    /// The directory that it must be below, reached through no link from there.
    pub below: Option<&'a Path>,
    /// Whose it is, if that is known.
    pub origin: Option<Origin>,
    /// The session, if that is known.
    pub session: Option<&'a str>,
    /// Where the agent works, if that is known.
    pub cwd: Option<&'a str>,
    /// Where the agent works if neither the caller nor the transcript says so.
    pub current_dir: Option<&'a str>,
    /// What is done with secrets.
    pub policy: Policy,
    /// How many bytes are read at most.
    pub budget: u64,
}

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// Of which session.
    pub session: Session,
    /// What was said, in the order of the file.
    pub events: Vec<Event>,
    /// Lines that could not be read.
    pub errors: u64,
    /// Where to go on.
    pub cursor: Cursor,
    /// Whether there is more than the budget allowed.
    pub more: bool,
}

/// Whose transcript a file is, by its name and its first lines.
pub fn origin_of(path: &Path) -> Origin {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if name.starts_with("rollout-") {
        return Origin::Codex;
    }
    if name.ends_with(".db") {
        return Origin::OpenCode;
    }
    let mut head = vec![0_u8; CHUNK];
    let count = open(path).and_then(|file| file.read_at(&mut head, 0)).unwrap_or(0);
    let lines = head[..count].split(|byte| *byte == b'\n');
    let known = lines.filter_map(|line| match Record::read(line) {
        Record::Json(record) => Origin::of_record(&record),
        Record::Noise(_) | Record::Garbled(_) | Record::Blank => None,
    });
    known.take(1).next().unwrap_or(Origin::Claude)
}

/// The id in a transcript's name: `<session>.jsonl`, `rollout-<time>-<session>.jsonl`.
pub fn session_of(path: &Path, origin: Origin) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    match origin {
        Origin::Codex if stem.len() > 36 && stem.is_char_boundary(stem.len() - 36) => {
            stem[stem.len() - 36..].to_owned()
        }
        Origin::Claude | Origin::Codex | Origin::OpenCode => stem,
    }
}

/// Reads on from where the cursor stands, or from the beginning if the file is another one. Never reads a line that is
/// not complete.
pub fn read(request: Request<'_>, from: Option<Cursor>) -> io::Result<Found> {
    let file = match request.below {
        Some(directory) => open_below(directory, request.path)?,
        None => open(request.path)?,
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    let origin = request.origin.unwrap_or_else(|| origin_of(request.path));
    let id = request.session.map_or_else(|| session_of(request.path, origin), str::to_owned);
    let file_id = (about.dev(), about.ino());
    let from = from.filter(|cursor| {
        cursor.file == file_id
            && about.len() >= cursor.offset
            && head_hash(&file, cursor.head.0).is_ok_and(|hash| hash == cursor.head.1)
    });
    let cursor = from.unwrap_or_else(|| Cursor { v: 1, file: file_id, ..Cursor::default() });
    let mut taking = Taking {
        origin,
        policy: request.policy,
        id,
        cwd: request.cwd.filter(|cwd| !cwd.is_empty()).unwrap_or(&cursor.cwd).to_owned(),
        at: about.modified().ok().and_then(|at| Timestamp::try_from(at).ok()).map(|at| at.to_string()),
        events: Vec::new(),
        errors: 0,
        turns: cursor.turns,
        line: cursor.offset,
    };
    let (cursor, more) = taking.walk(&file, cursor, request.budget)?;
    // Only what the caller or the transcript says is kept in the cursor: a later line may still name the directory.
    let known_cwd = taking.cwd;
    let cwd = match (known_cwd.is_empty(), request.current_dir) {
        (true, Some(current_dir)) => current_dir.to_owned(),
        (true, None) | (false, _) => known_cwd.clone(),
    };
    let transcript = request.path.display().to_string();
    let session = Session { source: origin.name().to_owned(), id: taking.id, cwd, transcript };
    let head_length = about.len().min(HEAD);
    let cursor = Cursor {
        source: session.source.clone(),
        session: session.id.clone(),
        path: session.transcript.clone(),
        cwd: known_cwd,
        head: (head_length, head_hash(&file, head_length)?),
        turns: taking.turns,
        ..cursor
    };
    Ok(Found { session, events: taking.events, errors: taking.errors, cursor, more })
}

struct Taking {
    origin: Origin,
    policy: Policy,
    id: String,
    cwd: String,
    /// The time of a record that has none: that of the record before it, or of the file.
    at: Option<String>,
    events: Vec<Event>,
    errors: u64,
    turns: u64,
    /// Where the current line begins: a record without an id is known by that.
    line: u64,
}

impl Taking {
    fn walk(&mut self, file: &File, mut cursor: Cursor, budget: u64) -> io::Result<(Cursor, bool)> {
        let mut framer = Framer::with_longest(LONGEST_LINE);
        let mut chunk = vec![0_u8; CHUNK];
        let (begin, mut at, mut skipping) = (cursor.offset, cursor.offset, cursor.within_long_line);
        let more = loop {
            if at - begin >= budget {
                break true;
            }
            let count = match file.read_at(&mut chunk, at) {
                Ok(0) => break false,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let mut bytes = &chunk[..count];
            at += count as u64;
            if skipping {
                let Some(end) = memchr(b'\n', bytes) else { continue };
                skipping = false;
                self.errors += 1;
                bytes = &bytes[end + 1..];
                cursor.offset = at - bytes.len() as u64;
                self.line = cursor.offset;
            }
            framer.feed(bytes, |frame| self.line(frame));
            if let Some(last) = memrchr(b'\n', bytes) {
                cursor.offset = at - (bytes.len() - last - 1) as u64;
            }
        };
        // Within a line that is longer than can be read there is nothing to come back for.
        if skipping || at - cursor.offset > LONGEST_LINE as u64 {
            cursor.offset = at;
            skipping = true;
        }
        cursor.within_long_line = skipping;
        Ok((cursor, more))
    }

    fn line(&mut self, frame: Frame<'_>) {
        let begin = self.line;
        match frame {
            Frame::Line(line) => {
                self.line += line.len() as u64 + 1;
                match Record::read(line) {
                    Record::Json(record) => {
                        let belonging = self.origin.belonging(&record);
                        if let Some(cwd) = belonging.cwd.filter(|_| self.cwd.is_empty()) {
                            self.cwd = cwd;
                        }
                        for (part, told) in self.origin.remembered(&record).into_iter().enumerate() {
                            self.keep(told, begin, part);
                        }
                    }
                    Record::Noise(_) | Record::Garbled(_) => self.errors += 1,
                    Record::Blank => {}
                }
            }
            Frame::TooLong(length) => {
                self.line += length as u64 + 1;
                self.errors += 1;
            }
        }
    }

    fn keep(&mut self, mut told: Remembered, begin: u64, part: usize) {
        let is_time = |at: &String| at.parse::<Timestamp>().is_ok();
        match told.at.as_ref().filter(|at| is_time(at)) {
            Some(at) => self.at = Some(at.clone()),
            None => told.at.clone_from(&self.at),
        }
        let Some(event) =
            event(&told, &self.id, self.turns + 1, self.policy, || format!("at-{begin}-{part}"))
        else {
            return;
        };
        self.turns += 1;
        self.events.push(event);
    }
}

/// What is kept of something that was said; nothing if the policy is to drop it.
pub fn event(
    told: &Remembered,
    session: &str,
    turn: u64,
    policy: Policy,
    unnamed: impl FnOnce() -> String,
) -> Option<Event> {
    // A text without NUL: SQLite's own functions end there.
    let text = redacted(&told.text, policy)?.replace('\0', "\u{fffd}");
    let sha256 = deferral::hash(&text);
    let ts = told.at.clone().filter(|at| at.parse::<Timestamp>().is_ok());
    Some(Event {
        cue: format!("session {session} turn {turn}"),
        tier: "episodic".to_owned(),
        role: told.speaker.name().to_owned(),
        ts: ts.unwrap_or_else(|| Timestamp::now().to_string()),
        id: told.id.clone().unwrap_or_else(|| format!("{}-{}", unnamed(), &sha256[..16])),
        sha256,
        kind: if told.kind == Kind::Tool { told.kind.name().to_owned() } else { String::new() },
        mark: told.mark.name().to_owned(),
        text,
    })
}

/// A pipe of that name must not hold us.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a file below a directory, step by step and through no link: whoever writes there does not decide what is read.
fn open_below(directory: &Path, path: &Path) -> io::Result<File> {
    let outside = || io::Error::new(io::ErrorKind::PermissionDenied, "not one of the agent's files");
    let steps = path.strip_prefix(directory).map_err(|_| outside())?;
    let (mut handle, mut steps) =
        (rustix::fs::open(directory, DIRECTORY, Mode::empty())?, steps.components().peekable());
    while let Some(Component::Normal(name)) = steps.next() {
        if steps.peek().is_none() {
            let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            return Ok(File::from(openat(&handle, name, flags, Mode::empty())?));
        }
        handle = openat(&handle, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Err(outside())
}

fn head_hash(file: &File, length: u64) -> io::Result<String> {
    let mut head = vec![0_u8; usize::try_from(length.min(HEAD)).unwrap_or(0)];
    file.read_exact_at(&mut head, 0)?;
    Ok(deferral::hex(&Sha256::digest(&head)))
}
