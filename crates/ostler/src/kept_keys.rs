//! Keys as they are on disk: their hashes and what they may do, for their owner alone. The first one is made at the
//! first start of `ostler serve`; a running one notices what `ostler keys` does.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_agent::access::{KeyKind, Policy, Scope};
use ostler_agent::agent::Permissions;
use ostler_agent::offering::Own;
use ostler_gateway::http::keys::{Keeper, Key, KeysUnreadable, PREFIX};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::config::{Count, ServeSection};

/// What the file is written as. The first version had neither names nor policies, the second no kinds.
const VERSION: u32 = 3;

/// The limits of a tenant's key that has none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyLimits {
    pub(crate) requests_per_minute: u32,
    pub(crate) turns_at_once: u32,
    pub(crate) open_questions: u32,
}

impl Default for KeyLimits {
    /// Ten requests a second are far more than agents answer. As many turns of one key may wait for a session. An agent
    /// asks one thing at a time.
    fn default() -> Self {
        Self { requests_per_minute: 600, turns_at_once: 32, open_questions: 64 }
    }
}

impl KeyLimits {
    /// As the configuration says.
    pub(crate) fn from_config(section: &ServeSection) -> Self {
        let usual = Self::default();
        let or = |count: Option<Count>, usual| count.map_or(usual, |count| count.0);
        Self {
            requests_per_minute: or(section.requests_per_minute, usual.requests_per_minute),
            turns_at_once: or(section.turns_at_once, usual.turns_at_once),
            open_questions: or(section.open_questions, usual.open_questions),
        }
    }
}

/// Two files that are written one after the other can have the same time, and the same inode, for so long.
const CLOCK_TICK: Duration = Duration::from_millis(100);

/// What the first key is known by.
const FIRST: &str = "first";

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeysError {
    #[error("could not read the keys in {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not understand the keys in {}", .path.display())]
    Understand {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("the keys in {} were written by a newer Ostler (version {version} of the file)", .path.display())]
    Newer { path: PathBuf, version: u32 },
    #[error("could not keep a key in {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no key `{id}`")]
    Unknown { id: String },
    #[error("there is no folder {}", .path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the name of the folder {} is not UTF-8", .path.display())]
    NotUtf8 { path: PathBuf },
}

impl KeysError {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Read { .. } | Self::Write { .. } => {
                "set OSTLER_HOME to a folder that you can write to".to_owned()
            }
            Self::Understand { .. } => "remove the file: a new key is made at the next start".to_owned(),
            Self::Newer { .. } => "use the newer Ostler".to_owned(),
            Self::Unknown { .. } => "`ostler keys` lists them".to_owned(),
            Self::Folder { .. } => "name a folder that exists".to_owned(),
            Self::NotUtf8 { .. } => "rename it, or use one whose whole path is UTF-8".to_owned(),
        })
    }

    /// Whether what was asked for cannot be asked for.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Folder { .. } | Self::NotUtf8 { .. })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    v: u32,
    keys: Vec<Kept>,
}

/// One key, as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) id: String,
    sha256: String,
    #[serde(default)]
    pub(crate) name: String,
    /// A key of an earlier version has none: its scopes tell.
    #[serde(default)]
    kind: Option<String>,
    /// In seconds since 1970; 0 where nobody noted it.
    #[serde(default)]
    pub(crate) made_at: u64,
    /// What a key of the first version had not: it may do everything.
    #[serde(default)]
    pub(crate) scopes: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) requests_per_minute: Option<u32>,
    #[serde(default)]
    pub(crate) turns_at_once: Option<u32>,
    #[serde(default)]
    pub(crate) models: Vec<String>,
    #[serde(default)]
    pub(crate) folders: Vec<PathBuf>,
    #[serde(default)]
    pub(crate) permissions: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) own_tools: bool,
}

impl Kept {
    fn of(id: &str, name: &str, secret: &str, policy: Policy) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: id.to_owned(),
            sha256: Key::of(id, secret, policy.clone()).hash(),
            name: name.to_owned(),
            kind: Some(policy.kind.name().to_owned()),
            made_at: now.as_secs(),
            scopes: Some(policy.scopes.iter().map(|scope| scope.name().to_owned()).collect()),
            requests_per_minute: policy.requests_per_minute,
            turns_at_once: policy.turns_at_once,
            models: policy.models,
            folders: policy.folders,
            permissions: Some(policy.permissions.name().to_owned()),
            own_tools: policy.own_tools == Own::On,
        }
    }

    /// What it may do. A word that is not known opens nothing, and a limit that a tenant's key does not have is one of these.
    pub(crate) fn policy(&self, limits: &KeyLimits) -> Policy {
        let scopes = match &self.scopes {
            None => Policy::owner().scopes,
            Some(scopes) => scopes.iter().filter_map(|scope| Scope::named(scope)).collect(),
        };
        let kind = match self.kind.as_deref() {
            None => KeyKind::of_scopes(&scopes),
            // A word that is not known opens nothing of the owner.
            Some(kind) => KeyKind::from_name(kind).unwrap_or(KeyKind::Tenant),
        };
        // The owner of the machine has no limits unless the key says so.
        let is_limited = kind == KeyKind::Tenant;
        let limit = |own: Option<u32>, usual: u32| own.or(is_limited.then_some(usual));
        Policy {
            kind,
            requests_per_minute: limit(self.requests_per_minute, limits.requests_per_minute),
            turns_at_once: limit(self.turns_at_once, limits.turns_at_once),
            open_questions: limit(None, limits.open_questions),
            scopes,
            models: self.models.clone(),
            folders: self.folders.clone(),
            permissions: self
                .permissions
                .as_deref()
                .and_then(Permissions::named)
                .unwrap_or(Permissions::Deny),
            own_tools: if self.own_tools { Own::On } else { Own::Off },
        }
    }

    fn key(&self, limits: &KeyLimits) -> Option<Key> {
        Key::kept(&self.id, &self.sha256, self.policy(limits))
    }
}

/// The file of the keys.
pub(crate) struct KeptKeys {
    path: PathBuf,
    limits: KeyLimits,
    /// What the file was when it was last read, where there was one; nothing if it has to be read again.
    seen: Mutex<Option<Option<Stamp>>>,
}

/// What changes with every writing: each makes a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    written: (i64, i64),
    /// Also when its permissions do, which can make it unreadable.
    changed: (i64, i64),
}

/// A new secret: two of them have more chance in them than anybody can try out.
fn secret() -> String {
    format!("{PREFIX}{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

impl KeptKeys {
    /// Those in a file, with these limits for keys that have none of their own.
    pub(crate) fn at(path: PathBuf, limits: KeyLimits) -> Self {
        Self { path, limits, seen: Mutex::new(None) }
    }

    /// All that are there.
    pub(crate) fn list(&self) -> Result<Vec<Kept>, KeysError> {
        let path = || self.path.clone();
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(KeysError::Read { path: path(), source }),
        };
        let written: Written =
            serde_json::from_str(&text).map_err(|source| KeysError::Understand { path: path(), source })?;
        if written.v > VERSION {
            return Err(KeysError::Newer { path: path(), version: written.v });
        }
        Ok(written.keys)
    }

    /// Gives each key of an earlier version its kind. Returns those keys, with their kinds, if there were any.
    pub(crate) fn migrate(&self) -> Result<Vec<Kept>, KeysError> {
        if self.list()?.iter().all(|kept| kept.kind.is_some()) {
            return Ok(Vec::new());
        }
        let mut migrated = Vec::new();
        self.change(|keys| {
            for kept in keys.iter_mut().filter(|kept| kept.kind.is_none()) {
                kept.kind = Some(kept.policy(&self.limits).kind.name().to_owned());
                migrated.push(kept.clone());
            }
        })?;
        Ok(migrated)
    }

    /// Those that can be used, and a secret that was just made if there were none: it is told once.
    pub(crate) fn usable(&self) -> Result<(Vec<Key>, Option<String>), KeysError> {
        let keys = self.keys(&self.list()?);
        if !keys.is_empty() {
            return Ok((keys, None));
        }
        let secret = secret();
        let first = Kept::of(FIRST, FIRST, &secret, Policy::owner());
        self.change(|kept| kept.push(first.clone()))?;
        Ok((self.keys(&[first]), Some(secret)))
    }

    fn keys(&self, kept: &[Kept]) -> Vec<Key> {
        kept.iter().filter_map(|kept| kept.key(&self.limits)).collect()
    }

    /// Makes a key, and returns its secret, which is nowhere else.
    pub(crate) fn make(&self, name: &str, policy: Policy) -> Result<(Kept, String), KeysError> {
        let secret = secret();
        let id = Uuid::new_v4().simple().to_string();
        let made = Kept::of(&id[..8], name, &secret, policy);
        self.change(|kept| kept.push(made.clone()))?;
        Ok((made, secret))
    }

    /// Takes a key away, by its id. Whoever is served on it is served to the end of his turn, and then no more.
    pub(crate) fn revoke(&self, id: &str) -> Result<Kept, KeysError> {
        let unknown = || KeysError::Unknown { id: id.to_owned() };
        if !self.list()?.iter().any(|kept| kept.id == id) {
            return Err(unknown());
        }
        let mut gone = None;
        self.change(|kept| {
            gone = kept.iter().position(|kept| kept.id == id).map(|at| kept.remove(at));
        })?;
        gone.ok_or_else(unknown)
    }

    /// Changes the file as a whole, one after the other.
    fn change(&self, change: impl FnOnce(&mut Vec<Kept>)) -> Result<(), KeysError> {
        let write = |source| KeysError::Write { path: self.path.clone(), source };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock: File = options.open(self.path.with_extension("lock")).map_err(write)?;
        lock.lock().map_err(write)?;
        let mut keys = self.list()?;
        change(&mut keys);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let written = || {
            let text = serde_json::to_string(&Written { v: VERSION, keys })?;
            let mut file = tempfile::Builder::new().prefix(".keys-").tempfile_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            Ok(())
        };
        written().map_err(write)
    }
}

fn stamp(path: &Path) -> io::Result<Option<Stamp>> {
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    Ok(Some(Stamp {
        inode: found.ino(),
        length: found.len(),
        written: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    }))
}

impl Stamp {
    /// Whether another file with the same stamp could still be written.
    fn is_recent(&self) -> bool {
        let (seconds, nanos) = self.changed;
        let changed = Duration::new(seconds.try_into().unwrap_or(0), nanos.try_into().unwrap_or(0));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now < changed + CLOCK_TICK
    }
}

impl Keeper for KeptKeys {
    /// A file that is gone opens nothing, and neither does one that cannot be read: it is read again at the next request.
    fn changed(&self) -> Result<Option<Vec<Key>>, KeysUnreadable> {
        let unreadable = |error: &dyn std::error::Error| {
            let because = error.source().map(ToString::to_string);
            tracing::error!(target: "ostler::http", %error, because, "no key is accepted until the keys can be read");
            KeysUnreadable
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.path)
            .map_err(|source| unreadable(&KeysError::Read { path: self.path.clone(), source }))?;
        if seen.is_some_and(|seen| seen == now) {
            return Ok(None);
        }
        *seen = None;
        let keys = self.list().map_err(|error| unreadable(&error))?;
        *seen = Some(now).filter(|now| !now.is_some_and(|now| now.is_recent()));
        Ok(Some(self.keys(&keys)))
    }
}

#[cfg(test)]
#[path = "kept_keys_tests.rs"]
mod tests;
