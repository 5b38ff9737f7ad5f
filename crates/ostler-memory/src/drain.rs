//! What was taken down goes into the store: file after file in the order in which it was said, each record once, whoever
//! does it and however often it is cut off. A line that cannot be stored is put aside alone, with its reason.

mod order;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use ostler_agent::remembering::Origin;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use crate::capture::{self, Wanted};
use crate::cursor;
use crate::deferral::{Event, Header, Session, VERSION};
use crate::kill_point::reached;
use crate::opencode;
use crate::place::Place;
use crate::private::{PrivateFolder, plain_name, random_word};
use crate::store::{Inserted, Store, StoreError};
use crate::transcript;

/// Longest line of a deferral file. Ours are at most 8 MiB and their escapes.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// How long a file whose last line is torn is kept in its place, for its writer to finish.
const TORN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// After how long a draft in the spool is one that a killed process left behind. Writing one takes milliseconds.
const DRAFT_FOR: Duration = Duration::from_secs(6 * 60 * 60);

/// How long after its last hook a transcript is looked at by who is waited for. It gets the end of an answer within
/// moments; `ostler memory drain` looks at all.
const CAUGHT_UP_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How much of a transcript is read at once when catching up.
const STRIDE: u64 = 32 * 1024 * 1024;

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Files that are done.
    pub files: u64,
    /// Files that another one drains, or whose last line is torn.
    pub left: u64,
    /// New messages.
    pub inserted: u64,
    /// Messages that were there.
    pub known: u64,
    /// Lines and files put aside.
    pub quarantined: u64,
}

impl Drained {
    fn add(&mut self, inserted: Inserted) {
        self.inserted += inserted.inserted;
        self.known += inserted.known;
    }
}

/// Drains all there is, until the time is up; then the rest is for the next one. One file is always tried: on a slow
/// machine too, what waits gets less with each session.
pub fn drain(place: &Place, store: &mut Store, until: Option<Instant>) -> Result<Drained, StoreError> {
    let time = Time { until };
    let mut held = HashSet::new();
    let mut sum = files(place, store, time, &mut held)?;
    if !time.is_up() {
        clear_up(place, time);
        catch_up(place, store, &mut sum, time, &held)?;
    }
    Ok(sum)
}

/// Drains the files that wait, and looks at nothing else: for one that has the rest from elsewhere.
pub(crate) fn drain_files(place: &Place, store: &mut Store) -> Result<Drained, StoreError> {
    files(place, store, Time { until: None }, &mut HashSet::new())
}

/// How much time there is.
#[derive(Debug, Clone, Copy)]
struct Time {
    until: Option<Instant>,
}

impl Time {
    fn is_up(self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn is_short(self) -> bool {
        self.until.is_some()
    }
}

/// Notes the sessions that another one has in hand, as they are called in the names of files.
fn files(
    place: &Place,
    store: &mut Store,
    time: Time,
    held: &mut HashSet<String>,
) -> Result<Drained, StoreError> {
    let failed = |source| StoreError::Place { path: place.deferred(), source };
    let mut sum = Drained::default();
    let folder = match PrivateFolder::open(&place.deferred()) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(sum),
        Err(error) => return Err(failed(error)),
    };
    for name in order::waiting(&folder).map_err(failed)? {
        if time.is_up() && sum != Drained::default() {
            break;
        }
        let session = order::session(&name);
        // What was said later does not overtake what another one is putting in.
        if held.contains(session) {
            sum.left += 1;
        } else if one(place, &folder, store, &name, &mut sum)? == By::Another {
            sum.left += 1;
            held.insert(session.to_owned());
        }
    }
    Ok(sum)
}

/// What killed processes left half written. Nothing of it is missed: its writer had not come far enough to believe that it
/// was kept. That it cannot be removed is no reason not to drain.
fn clear_up(place: &Place, time: Time) {
    let folders = [place.deferred(), place.cursors(), place.quarantine()];
    // There is a cursor for each session that ever was.
    let count = if time.is_short() { 1 } else { folders.len() };
    for path in &folders[..count] {
        let _ = PrivateFolder::open(path).and_then(|folder| folder.clear_drafts(DRAFT_FOR));
    }
}

/// By whom a file is drained.
#[derive(Debug, PartialEq, Eq)]
enum By {
    Us,
    Another,
}

fn one(
    place: &Place,
    folder: &PrivateFolder,
    store: &mut Store,
    name: &str,
    sum: &mut Drained,
) -> Result<By, StoreError> {
    let file = match folder.file(name) {
        Ok(file) => file,
        // Another one was faster, or it is not a file of ours.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(By::Us),
        Err(error) => {
            put_aside(place, folder, name, &error.to_string());
            sum.quarantined += 1;
            return Ok(By::Us);
        }
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(By::Another);
    }
    // It may have been drained and removed between opening and locking.
    if folder.file(name).is_err() {
        return Ok(By::Us);
    }
    let done = store.spooled(name)?;
    let lines = match read(&file, done) {
        Ok(lines) => lines,
        Err(reason) => {
            put_aside(place, folder, name, &reason);
            sum.quarantined += 1;
            return Ok(By::Us);
        }
    };
    for (line, reason) in &lines.bad {
        put_line_aside(place, name, line, reason);
        sum.quarantined += 1;
    }
    let session = Session {
        source: if lines.header.source.is_empty() { "other".to_owned() } else { lines.header.source.clone() },
        id: lines.header.session_id.clone(),
        cwd: lines.header.cwd.clone(),
        transcript: lines.header.transcript.clone(),
    };
    sum.add(store.insert_from_spool(&session, &lines.events, name)?);
    let is_database = session.source == Origin::OpenCode.name() && lines.events.is_empty();
    if is_database && place.records().is_none() {
        let policy = capture::policy(place);
        if let Ok(found) = opencode::read(Path::new(&session.transcript), Some(&session.id), policy) {
            for (mut found, events) in found {
                if found.cwd.is_empty() {
                    found.cwd.clone_from(&session.cwd);
                }
                sum.add(store.insert(&found, &events)?);
            }
        }
    }
    if lines.is_torn && is_younger(&file) {
        sum.left += 1;
        return Ok(By::Us);
    }
    if lines.is_torn {
        put_aside(place, folder, name, "its last line is torn");
        sum.quarantined += 1;
    } else {
        folder.remove(name).map_err(|source| StoreError::Place { path: place.deferred(), source })?;
    }
    reached("drain.removed");
    store.spool_done(name)?;
    reached("drain.forgotten");
    sum.files += 1;
    Ok(By::Us)
}

fn is_younger(file: &File) -> bool {
    let age =
        file.metadata().and_then(|about| about.modified()).map(|at| SystemTime::now().duration_since(at));
    // A clock that went backwards makes it younger, and it is kept.
    age.is_ok_and(|age| age.is_err() || age.is_ok_and(|age| age < TORN_FOR))
}

struct Lines {
    header: Header,
    events: Vec<(u64, Event)>,
    bad: Vec<(String, String)>,
    is_torn: bool,
}

/// Reads a file from its line `done` on. A file without a header of ours is refused.
fn read(file: &File, done: u64) -> Result<Lines, String> {
    let mut reader = BufReader::new(file);
    let mut number = 0_u64;
    let mut header: Option<Header> = None;
    let mut lines = (Vec::new(), Vec::new());
    loop {
        let mut line = Vec::new();
        let count = io::Read::take(&mut reader, LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| error.to_string())?;
        let is_whole = line.last() == Some(&b'\n');
        if count == 0 || !is_whole {
            let (events, bad) = lines;
            let Some(header) = header else { return Err("it has no header".to_owned()) };
            return Ok(Lines { header, events, bad, is_torn: count > 0 });
        }
        number += 1;
        let line = line.trim_ascii();
        if header.is_none() {
            let found: Header =
                serde_json::from_slice(line).map_err(|error| format!("its header: {error}"))?;
            if found.version != VERSION {
                return Err(format!("it is of version {}", found.version));
            }
            header = Some(found);
        } else if number > done && !line.is_empty() {
            match serde_json::from_slice(line) {
                Ok(event) => lines.0.push((number, event)),
                Err(error) => lines.1.push((String::from_utf8_lossy(line).into_owned(), error.to_string())),
            }
        }
    }
}

/// Moves a file aside, with a note why. If that fails, it stays, and nothing is lost.
fn put_aside(place: &Place, folder: &PrivateFolder, name: &str, reason: &str) {
    let Ok(aside) = PrivateFolder::create(&place.quarantine()) else { return };
    let new_name = format!("{name}.{}", random_word());
    let note = json!({"file": name, "reason": reason}).to_string();
    if aside.write(&format!("{new_name}.reason.json"), note.as_bytes(), "quarantine").is_ok() {
        let _ = folder.hand_over(name, &aside, &new_name);
    }
}

/// Keeps one line that could not be stored. Named by its content: a repeat changes nothing.
fn put_line_aside(place: &Place, file: &str, line: &str, reason: &str) {
    let Ok(aside) = PrivateFolder::create(&place.quarantine()) else { return };
    let note = json!({"file": file, "reason": reason, "line": line}).to_string();
    let hash = crate::deferral::hash(line);
    let _ = aside.write(&format!("{file}.{}.line.json", &hash[..12]), note.as_bytes(), "quarantine");
}

/// What transcripts got after their last hook: the end of an answer is written after the hook for it.
fn catch_up(
    place: &Place,
    store: &mut Store,
    sum: &mut Drained,
    time: Time,
    held: &HashSet<String>,
) -> Result<(), StoreError> {
    let Ok(folder) = PrivateFolder::open(&place.cursors()) else { return Ok(()) };
    let mut names = folder.names().unwrap_or_default();
    if time.is_short() {
        // A clock that went backwards makes none older.
        let now = SystemTime::now();
        let age = |name: &str| folder.changed(name).ok().and_then(|at| now.duration_since(at).ok());
        names.retain(|name| age(name).is_none_or(|age| age < CAUGHT_UP_FOR));
    }
    for name in names {
        if time.is_up() {
            break;
        }
        let Some(before) = cursor::load(&folder, &name) else { continue };
        if held.contains(&plain_name(&before.session)) {
            continue;
        }
        let grown = std::fs::metadata(&before.path).is_ok_and(|about| about.len() != before.offset);
        let Some(origin) = Origin::named(&before.source).filter(|_| grown) else { continue };
        let wanted = Wanted {
            path: before.path.clone().into(),
            origin: Some(origin),
            session: Some(before.session.clone()),
            cwd: Some(before.cwd.clone()),
            // Where a session without a directory works was stored with its deferral files.
            current_dir: None,
        };
        let mut from = Some(before.clone());
        while let Ok(found) = transcript::read(wanted.request(place, STRIDE), from.clone()) {
            sum.add(store.insert(&found.session, &found.events)?);
            reached("catch_up.committed");
            if Some(&found.cursor) != from.as_ref() {
                let _ = cursor::save(&folder, &found.cursor);
            }
            if !found.more {
                break;
            }
            from = Some(found.cursor);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
