//! Keys as they are on disk: their hashes, for their owner alone. The first one is made at the first start.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ostler_gateway::http::keys::{Key, Keys, PREFIX};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Keys that may come in.
pub(super) struct KeptKeys {
    pub(super) keys: Keys,
    /// The first one.
    pub(super) id: String,
    /// A key that was just made: it is told once.
    pub(super) fresh: Option<String>,
}

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
    #[error("could not keep a key in {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl KeysError {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Read { .. } | Self::Write { .. } => {
                "set OSTLER_HOME to a folder that you can write to".to_owned()
            }
            Self::Understand { .. } => "remove the file: a new key is made at the next start".to_owned(),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    v: u32,
    keys: Vec<Kept>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    id: String,
    sha256: String,
}

impl KeptKeys {
    /// Those that are there, or a new one.
    pub(super) fn load(path: &Path) -> Result<Self, KeysError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::make(path),
            Err(source) => return Err(KeysError::Read { path: path.to_owned(), source }),
        };
        let file: File = serde_json::from_str(&text)
            .map_err(|source| KeysError::Understand { path: path.to_owned(), source })?;
        let keys: Vec<Key> = file.keys.iter().filter_map(|kept| Key::kept(&kept.id, &kept.sha256)).collect();
        match keys.first().map(|key| key.id.clone()) {
            Some(id) => Ok(Self { keys: Keys::new(keys), id, fresh: None }),
            None => Self::make(path),
        }
    }

    fn make(path: &Path) -> Result<Self, KeysError> {
        // Two of them have more chance in them than anybody can try out.
        let secret = format!("{PREFIX}{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let key = Key::of("first", &secret);
        let file = File { v: 1, keys: vec![Kept { id: key.id.clone(), sha256: key.hash() }] };
        let write = || {
            let text = serde_json::to_string(&file)?;
            let mut options = OpenOptions::new();
            let mut opened = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
            opened.write_all(text.as_bytes())
        };
        write().map_err(|source| KeysError::Write { path: path.to_owned(), source })?;
        Ok(Self { id: key.id.clone(), keys: Keys::new(vec![key]), fresh: Some(secret) })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept_as_its_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let first = KeptKeys::load(&path).unwrap();
        let secret = first.fresh.unwrap();
        assert!(secret.starts_with(PREFIX) && secret.len() > 60);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&secret[PREFIX.len()..]), "{text}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = KeptKeys::load(&path).unwrap();
        assert_eq!((again.keys, again.fresh), (first.keys, None));
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(KeptKeys::load(&path), Err(KeysError::Understand { .. })));
    }
}
