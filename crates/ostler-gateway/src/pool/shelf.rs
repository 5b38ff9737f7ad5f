//! Sessions whose process is gone, and whose conversation may go on: which session it was, on which terms, what it knows,
//! and its folder. One small file each, for its owner alone, written when a turn is over: whatever ends the server, the
//! next one finds them.
//!
//! What a file says is not believed: whether a session knows it is told by the agent's own record when it is revived. Of
//! an agent whose record is not read there is a file only while nothing is asked: it is believed then.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_agent::access::{KeyKind, KeyMemory};
use ostler_agent::agent::{Engine, Permissions};
use ostler_agent::fingerprint::{Fingerprint, Known, Reach};
use ostler_agent::leasing::{Place, Terms};
use serde_json::{Value, json};

use crate::ground::remove;
use crate::live::{Keepsake, Noted};

/// Version of the files.
const VERSION: u64 = 1;

/// How long one is kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How many are kept. Whoever was not used for longest goes first.
const MOST: usize = 5_000;

/// The field with the bytes of a path that is not UTF-8.
const PATH_BYTES: &str = "bytes";

/// Only one server at a time has it.
const LOCK: &str = "lock";

/// The shelf.
#[derive(Debug)]
pub struct Shelf {
    folder: PathBuf,
    inner: Mutex<HashMap<String, Entry>>,
    _lock: File,
}

#[derive(Debug, Clone)]
struct Entry {
    parked: Parked,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its process is there, and waits under what is noted.
    Waiting,
    /// Its process is there, and at work: what is noted was before.
    Working,
    /// Its process is gone.
    Parked,
}

/// One session on the shelf.
#[derive(Debug, Clone, PartialEq)]
pub struct Parked {
    /// What it is revived by.
    pub keepsake: Keepsake,
    /// On which terms.
    pub terms: Terms,
    /// What it knows.
    pub known: Known,
    /// When it was last used, in seconds since 1970.
    pub at: u64,
}

impl Shelf {
    /// The one in this folder, with all that an earlier server left there. Nothing, if another server has it.
    pub fn open(folder: &Path) -> io::Result<Option<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        let mut entries = HashMap::new();
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            if path.extension().is_some_and(|kind| kind == "json") {
                match fs::read(&path)
                    .ok()
                    .and_then(|content| Parked::of(&serde_json::from_slice(&content).ok()?))
                {
                    Some(parked) if parked.at.saturating_add(KEPT.as_secs()) > now() => {
                        let entry = Entry { parked, state: State::Parked };
                        entries.insert(entry.parked.keepsake.session.clone(), entry);
                    }
                    Some(Parked { keepsake, .. }) => {
                        strike(folder, &keepsake.session);
                        keepsake.folder.as_deref().into_iter().for_each(remove);
                    }
                    // Not ours, or broken off in the middle of a write: it is worth nothing.
                    None => drop(fs::remove_file(&path)),
                }
            }
        }
        Ok(Some(Self { folder: folder.to_owned(), inner: Mutex::new(entries), _lock: lock }))
    }

    fn inner(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        // Nothing under the lock can panic half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A live session knows this now. Where there are too many, the folder of the one that had to go: it is the caller's
    /// to remove.
    #[must_use]
    pub(super) fn note(&self, keepsake: Keepsake, terms: &Terms, known: Known) -> Option<PathBuf> {
        let parked = Parked { keepsake, terms: terms.clone(), known, at: now() };
        let id = parked.keepsake.session.clone();
        if let Err(error) = write(&self.folder, &id, &parked.written()) {
            tracing::warn!(target: "ostler::pool", %error, "a session could not be noted: it will not outlive the server");
        }
        let gone = self.insert(id, parked)?;
        strike(&self.folder, &gone.session);
        gone.folder
    }

    /// Whoever has to go for it, if there are too many.
    fn insert(&self, id: String, parked: Parked) -> Option<Keepsake> {
        let mut inner = self.inner();
        inner.insert(id, Entry { parked, state: State::Waiting });
        if inner.len() <= MOST {
            return None;
        }
        let parked = inner.iter().filter(|(_, entry)| entry.state == State::Parked);
        let oldest = parked.min_by_key(|(_, entry)| entry.parked.at)?.0.clone();
        inner.remove(&oldest).map(|entry| entry.parked.keepsake)
    }

    /// One that knows this conversation, whichever engine had it. It is the caller's from now on: [`Shelf::put_back`] or [`Shelf::forget`].
    pub(super) fn take(&self, terms: &Terms, prior: &Known) -> Option<Parked> {
        let mut inner = self.inner();
        let fitting = inner.values_mut().filter(|entry| {
            entry.state == State::Parked
                && entry.parked.terms.is_same_but_for_the_engine(terms)
                && entry.parked.known.answers(prior)
        });
        let entry = fitting.max_by_key(|entry| (entry.parked.known.whole == prior.whole, entry.parked.at))?;
        entry.state = State::Working;
        let parked = entry.parked.clone();
        drop(inner);
        self.unsay(&parked.keepsake);
        Some(parked)
    }

    /// What is noted will not hold any more, and nobody else could tell.
    fn unsay(&self, keepsake: &Keepsake) {
        if keepsake.noted.is_some() {
            strike(&self.folder, &keepsake.session);
        }
    }

    /// It is at work.
    pub(super) fn begin(&self, session: &str) {
        let keepsake = self.inner().get_mut(session).map(|entry| {
            entry.state = State::Working;
            entry.parked.keepsake.clone()
        });
        if let Some(keepsake) = keepsake {
            self.unsay(&keepsake);
        }
    }

    /// Whether what is noted of a live session is what it knows.
    pub(super) fn is_noted(&self, session: &str) -> bool {
        self.inner().get(session).is_some_and(|entry| entry.state == State::Waiting)
    }

    /// Its process is gone.
    pub(super) fn put_back(&self, session: &str) {
        if let Some(entry) = self.inner().get_mut(session) {
            entry.state = State::Parked;
        }
    }

    /// It is of no use to anybody. The folder that was made for it, if there is one, is the caller's to remove: that may
    /// take a while.
    #[must_use]
    pub(super) fn forget(&self, session: &str) -> Option<PathBuf> {
        let keepsake = self.inner().remove(session)?.parked.keepsake;
        strike(&self.folder, &keepsake.session);
        keepsake.folder
    }

    /// All whose process is gone.
    pub fn parked(&self) -> Vec<Parked> {
        let inner = self.inner();
        inner
            .values()
            .filter(|entry| entry.state == State::Parked)
            .map(|entry| entry.parked.clone())
            .collect()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn strike(folder: &Path, session: &str) {
    if let Err(error) = fs::remove_file(path(folder, session))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(target: "ostler::pool", %error, "what is noted of a session could not be removed");
    }
}

fn path(folder: &Path, session: &str) -> PathBuf {
    folder.join(format!("{session}.json"))
}

/// Over what was there, in one write: who is killed meanwhile has written all of it or nothing. A new file under a new name
/// would be on the disk before this returns, on some file systems: that is a turn's time again, and what was there before
/// is of no use to anybody.
fn write(folder: &Path, session: &str, content: &Value) -> io::Result<()> {
    // An id is a name here: never a path to somewhere else.
    if !session.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        || session.is_empty()
    {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the id of the session is no name"));
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path(folder, session))?;
    let mut content = content.to_string();
    let before = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    content.extend(std::iter::repeat_n(' ', before.saturating_sub(content.len())));
    file.write_all(content.as_bytes())
}

impl Parked {
    fn written(&self) -> Value {
        let Self { keepsake, terms, known, at } = self;
        json!({
            "v": VERSION,
            "session": keepsake.session,
            "own_folder": keepsake.folder.as_deref().map(written_path),
            "noted": keepsake.noted.as_ref().map(|noted| json!({"session": noted.session, "used": noted.used})),
            "at": at,
            "whole": hex(&known.whole),
            "words": hex(&known.words),
            "has_calls": known.reach == Reach::Calls,
            "terms": {
                "tenant": terms.tenant,
                "kind": terms.kind.name(),
                "memory": terms.memory == KeyMemory::On,
                "agent": terms.agent,
                "engine": terms.engine.name(),
                "model": terms.model,
                "workspace": match &terms.workspace {
                    Place::Own => Value::Null,
                    Place::Folder(folder) => written_path(folder),
                },
                "system_prompt": terms.system_prompt,
                "permissions": terms.permissions.name(),
                "asks_client": terms.asks_client,
                "allow": terms.allow,
                "tools": terms.tools,
            },
        })
    }

    /// Nothing, if it is not what this version writes.
    fn of(value: &Value) -> Option<Self> {
        if value["v"] != VERSION {
            return None;
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let terms = &value["terms"];
        let engines = [Engine::Stream, Engine::Terminal];
        Some(Self {
            keepsake: Keepsake {
                session: text(&value["session"])?,
                folder: read_path(&value["own_folder"]),
                noted: match &value["noted"] {
                    Value::Null => None,
                    noted => Some(Noted {
                        session: text(&noted["session"]),
                        used: serde_json::from_value(noted["used"].clone()).ok()?,
                    }),
                },
            },
            terms: Terms {
                tenant: text(&terms["tenant"])?,
                // Before keys had kinds every agent was the owner's. A session of a key that is a tenant's now is not
                // found by that: its conversation is injected into a new one.
                kind: match terms["kind"].as_str() {
                    None => KeyKind::Owner,
                    Some(kind) => KeyKind::from_name(kind)?,
                },
                memory: if terms["memory"] == true { KeyMemory::On } else { KeyMemory::Off },
                agent: text(&terms["agent"])?,
                engine: engines.into_iter().find(|engine| terms["engine"] == engine.name())?,
                model: text(&terms["model"]),
                workspace: read_path(&terms["workspace"]).map_or(Place::Own, Place::Folder),
                system_prompt: text(&terms["system_prompt"]),
                permissions: Permissions::named(terms["permissions"].as_str()?)?,
                // Earlier versions did not write it.
                asks_client: terms["asks_client"] == true,
                allow: terms["allow"].as_array()?.iter().map(text).collect::<Option<_>>()?,
                tools: text(&terms["tools"])?,
            },
            known: Known {
                whole: unhex(&value["whole"])?,
                words: unhex(&value["words"])?,
                reach: if value["has_calls"] == true { Reach::Calls } else { Reach::Words },
            },
            at: value["at"].as_u64()?,
        })
    }
}

/// A path as JSON: text, or its bytes if it is not UTF-8. `json!` panics on such a path.
fn written_path(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => json!(text),
        None => json!({PATH_BYTES: path.as_os_str().as_bytes()}),
    }
}

fn read_path(value: &Value) -> Option<PathBuf> {
    match value.as_str() {
        Some(text) => Some(PathBuf::from(text)),
        None => {
            serde_json::from_value(value[PATH_BYTES].clone()).ok().map(OsString::from_vec).map(PathBuf::from)
        }
    }
}

fn hex(fingerprint: &Fingerprint) -> String {
    fingerprint.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &Value) -> Option<Fingerprint> {
    let text = text.as_str().filter(|text| text.len() == 64 && text.is_ascii())?;
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(Fingerprint(bytes))
}

#[cfg(test)]
#[path = "shelf_tests.rs"]
mod tests;
