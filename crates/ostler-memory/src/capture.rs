//! A hook's work: what is new goes into one deferral file, beside the store, within milliseconds. No store is opened,
//! no process started, and nothing that goes wrong here reaches the agent.

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use ostler_agent::remembering::Origin;

use crate::cursor;
use crate::daemon::{self, Answer, HOOK_WAITS};
use crate::deferral::{self, Session};
use crate::kill_point;
use crate::place::Place;
use crate::private::PrivateFolder;
use crate::redaction::Policy;
use crate::transcript::{self, Found, HOOK_BUDGET, Request};

/// A link in the place of a database, or of its journal, would have another one read.
const UNREADABLE: &str = "the agent keeps a database, which is not read where an agent may have replaced it";

/// What to take down.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The agent's own record.
    pub path: PathBuf,
    /// Whose it is; found out if it is not told.
    pub origin: Option<Origin>,
    /// The session; found out likewise.
    pub session: Option<String>,
    /// Where the agent works; found out likewise.
    pub cwd: Option<String>,
    /// The current directory of the process that captures: where the agent works if nothing else says so.
    pub current_dir: Option<String>,
}

/// What was taken down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferred {
    /// The file; none if there was nothing new.
    pub path: Option<PathBuf>,
    /// How many lines it has besides its header.
    pub events: usize,
}

/// How a transcript was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandedOver {
    /// The daemon stored it.
    Stored(Answer),
    /// It is in a deferral file.
    Deferred(Deferred),
}

impl Wanted {
    /// What is asked of the transcript.
    pub fn request<'a>(&'a self, place: &'a Place, budget: u64) -> Request<'a> {
        Request {
            path: &self.path,
            below: place.records(),
            origin: self.origin,
            session: self.session.as_deref(),
            cwd: self.cwd.as_deref(),
            current_dir: self.current_dir.as_deref(),
            policy: policy(place),
            budget,
        }
    }

    /// Whose record it is.
    pub fn origin(&self) -> Origin {
        self.origin.unwrap_or_else(|| transcript::origin_of(&self.path))
    }

    /// The session, as far as it is known without reading.
    pub fn session(&self) -> Session {
        let origin = self.origin();
        Session {
            source: origin.name().to_owned(),
            id: self.session.clone().unwrap_or_else(|| transcript::session_of(&self.path, origin)),
            cwd: self.cwd.clone().or_else(|| self.current_dir.clone()).unwrap_or_default(),
            transcript: self.path.display().to_string(),
        }
    }
}

/// What is done with secrets here. A word that is not understood masks.
pub fn policy(place: &Place) -> Policy {
    let word = std::fs::read_to_string(place.policy()).unwrap_or_default();
    Policy::named(&word).unwrap_or_default()
}

/// Hands a transcript to the daemon if one answers in time, else takes it down. Never opens the store.
pub fn hand_over(place: &Place, wanted: &Wanted) -> io::Result<HandedOver> {
    match daemon::call(place, wanted, HOOK_WAITS) {
        Some(answer) => Ok(HandedOver::Stored(answer)),
        None => defer(place, wanted).map(HandedOver::Deferred),
    }
}

/// Takes down what is new. Idempotent: a repeat with nothing new writes nothing. A transcript that is not there gives a
/// file with a header only.
pub fn defer(place: &Place, wanted: &Wanted) -> io::Result<Deferred> {
    let deferred = PrivateFolder::create(&place.deferred())?;
    let now = Timestamp::now();
    let origin = wanted.origin();
    // Its rows are read by whoever drains: a hook opens no database.
    if origin == Origin::OpenCode || !wanted.path.exists() {
        if origin == Origin::OpenCode && place.records().is_some() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, UNREADABLE));
        }
        let name = deferral::write(&deferred, &wanted.session(), &[], now)?;
        return Ok(Deferred { path: Some(place.deferred().join(name)), events: 0 });
    }
    let cursors = PrivateFolder::create(&place.cursors())?;
    let session = wanted.session();
    let before = cursor::load(&cursors, &cursor::name(&session.source, &session.id));
    let wanted = Wanted { origin: Some(origin), ..wanted.clone() };
    let found = transcript::read(wanted.request(place, HOOK_BUDGET), before.clone())?;
    let Found { session, events, cursor, .. } = found;
    let path = if events.is_empty() {
        None
    } else {
        Some(place.deferred().join(deferral::write(&deferred, &session, &events, now)?))
    };
    kill_point::reached("capture.deferred");
    if before.as_ref() != Some(&cursor) {
        cursor::save(&cursors, &cursor)?;
    }
    Ok(Deferred { path, events: events.len() })
}
