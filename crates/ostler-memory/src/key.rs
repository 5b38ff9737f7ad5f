//! The key of the database, in a file beside it: as it is, since nobody can be asked when a session begins, or made of
//! a passphrase that only a person knows. While a key is changed, the file names both; see `store/sealing.rs`.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde::{Deserialize, Serialize};

use crate::deferral::hex;
use crate::private::PrivateFolder;

/// The file's name.
pub const FILE: &str = "memory.key";

/// A key file is a few hundred bytes.
const LARGEST: u64 = 64 * 1024;

const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 16;

/// Fewer letters are guessed.
pub const SHORTEST: usize = 8;

/// What a guess costs: 64 MiB and a tenth of a second.
const COST: Cost = Cost { memory_kib: 64 * 1024, passes: 3, lanes: 1 };

/// More than this is not spent on a file that somebody else may have written: 4 GiB.
const DEAREST_KIB: u32 = 4 * 1024 * 1024;

/// 256 bits. Shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    fn random() -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes))
    }

    /// As SQLCipher takes a key that is not to be derived from anything.
    pub(crate) fn literal(&self) -> String {
        format!("x'{}'", hex(&self.0))
    }

    fn of_hex(text: &str) -> Option<Self> {
        bytes_of_hex(text).and_then(|bytes| bytes.try_into().ok()).map(Self)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(…)")
    }
}

/// What a person knows, and the keys that were made of it: each takes a tenth of a second.
#[derive(Clone)]
pub struct Passphrase {
    text: String,
    made: Arc<Mutex<Vec<(Slot, Key)>>>,
}

impl Passphrase {
    /// Of these letters; nothing if they are too few.
    pub fn new(text: &str) -> Option<Self> {
        let is_enough = text.chars().count() >= SHORTEST;
        is_enough.then(|| Self { text: text.to_owned(), made: Arc::default() })
    }

    fn key(&self, slot: &Slot, salt: &str, cost: Cost) -> Result<Key, KeyError> {
        let known = |made: &Vec<(Slot, Key)>| {
            made.iter().find(|(known, _)| known == slot).map(|(_, key)| key.clone())
        };
        if let Some(key) = self.made.lock().ok().as_deref().and_then(known) {
            return Ok(key);
        }
        let salt = bytes_of_hex(salt).ok_or(KeyError::Unreadable)?;
        let params = Some(cost)
            .filter(|cost| cost.memory_kib <= DEAREST_KIB)
            .and_then(|cost| Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(KEY_BYTES)).ok())
            .ok_or(KeyError::Unreadable)?;
        let mut bytes = [0; KEY_BYTES];
        let mut memory = vec![Block::default(); params.block_count()];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into_with_memory(self.text.as_bytes(), &salt, &mut bytes, &mut memory)
            .map_err(|_| KeyError::Unreadable)?;
        let key = Key(bytes);
        if let Ok(mut made) = self.made.lock() {
            made.push((slot.clone(), key.clone()));
        }
        Ok(key)
    }
}

impl PartialEq for Passphrase {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Passphrase {}

impl fmt::Debug for Passphrase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Passphrase(…)")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// Where a key comes from.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Slot {
    /// It is here.
    Raw { key: String },
    /// By Argon2id, of what a person knows.
    Passphrase { salt: String, memory_kib: u32, passes: u32, lanes: u32 },
}

impl Slot {
    /// A new key, as it is.
    pub(crate) fn raw() -> io::Result<Self> {
        Ok(Self::Raw { key: hex(&Key::random()?.0) })
    }

    /// A new key, of a passphrase.
    pub(crate) fn of_passphrase() -> io::Result<Self> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        let Cost { memory_kib, passes, lanes } = COST;
        Ok(Self::Passphrase { salt: hex(&salt), memory_kib, passes, lanes })
    }

    /// The key itself.
    pub(crate) fn key(&self, passphrase: Option<&Passphrase>) -> Result<Key, KeyError> {
        match self {
            Self::Raw { key } => Key::of_hex(key).ok_or(KeyError::Unreadable),
            Self::Passphrase { salt, memory_kib, passes, lanes } => {
                let cost = Cost { memory_kib: *memory_kib, passes: *passes, lanes: *lanes };
                passphrase.ok_or(KeyError::Locked)?.key(self, salt, cost)
            }
        }
    }

    /// Which of both.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Raw { .. } => Kind::File,
            Self::Passphrase { .. } => Kind::Passphrase,
        }
    }
}

/// Where the key of a store comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The key file has it.
    File,
    /// A person knows it.
    Passphrase,
}

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// A passphrase is needed, and none was given.
    Locked,
    /// The key file is not what we wrote.
    Unreadable,
}

/// The key file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyFile {
    pub(crate) v: u32,
    /// Since when, in UTC.
    pub(crate) since: String,
    pub(crate) current: Slot,
    /// The store may still be plain: it is being encrypted with this key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) sealing: bool,
    /// The key that is being changed to: the database has one of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<Slot>,
}

impl KeyFile {
    pub(crate) fn new(current: Slot) -> Self {
        Self { v: 1, since: jiff::Timestamp::now().to_string(), current, sealing: false, next: None }
    }

    /// Whether nothing is being changed: the store, if there is one, has this key.
    pub(crate) fn is_settled(&self) -> bool {
        self.next.is_none() && !self.sealing
    }

    /// The file, if there is one.
    pub(crate) fn load(folder: &PrivateFolder) -> io::Result<Option<Result<Self, KeyError>>> {
        let bytes = match folder.read(FILE, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = serde_json::from_slice::<Self>(&bytes).ok().filter(|file| file.v == 1);
        Ok(Some(found.ok_or(KeyError::Unreadable)))
    }

    /// Whole or not at all, and safe when this returns.
    pub(crate) fn save(&self, folder: &PrivateFolder, step: &str) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        folder.write(FILE, &bytes, step)
    }
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| {
        (0..text.len()).step_by(2).filter_map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_to_nobody() {
        let key = Key::random().unwrap();
        assert_eq!(format!("{key:?}"), "Key(…)");
        let passphrase = Passphrase::new("correct horse").unwrap();
        assert_eq!(format!("{passphrase:?}"), "Passphrase(…)");
        assert_ne!(Key::random().unwrap(), key);
    }

    #[test]
    fn a_passphrase_makes_the_same_key_each_time_and_another_one_does_not() {
        assert_eq!(Passphrase::new("seven77"), None);
        let slot = Slot::Passphrase { salt: hex(&[7; SALT_BYTES]), memory_kib: 64, passes: 1, lanes: 1 };
        let key = |text: &str| slot.key(Some(&Passphrase::new(text).unwrap())).unwrap();
        assert_eq!(key("correct horse"), key("correct horse"));
        assert_ne!(key("correct horse"), key("correct house"));
        assert_eq!(slot.key(None), Err(KeyError::Locked));
    }

    #[test]
    fn what_is_no_key_file_is_refused() {
        let ground = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::create(&ground.path().join("m")).unwrap();
        assert!(KeyFile::load(&folder).unwrap().is_none());
        let file = KeyFile::new(Slot::raw().unwrap());
        file.save(&folder, "test").unwrap();
        assert!(KeyFile::load(&folder).unwrap() == Some(Ok(file)));
        let dear = r#"{"v":1,"since":"","current":{"kind":"passphrase","salt":"00","memory_kib":4294967295,"passes":1,"lanes":1}}"#;
        for (text, is_file) in [
            ("", false),
            ("{}", false),
            (r#"{"v":2,"since":"","current":{"kind":"raw","key":"00"}}"#, false),
            (r#"{"v":1,"since":"","current":{"kind":"raw","key":"00"},"more":1}"#, false),
            (r#"{"v":1,"since":"","current":{"kind":"raw","key":"00"}}"#, true),
            (dear, true),
        ] {
            folder.write(FILE, text.as_bytes(), "test").unwrap();
            let found = KeyFile::load(&folder).unwrap().unwrap();
            assert_eq!(found.is_ok(), is_file, "{text}");
            let key = found.and_then(|file| file.current.key(Passphrase::new("correct horse").as_ref()));
            assert_eq!(key.err(), Some(KeyError::Unreadable), "{text}");
        }
    }
}
