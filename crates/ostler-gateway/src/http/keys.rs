//! Who may come in: a key, kept as its hash, and compared in constant time.

use std::sync::{Arc, PoisonError, RwLock};

use axum::http::{HeaderMap, header};
use ostler_agent::access::Policy;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::wire::{Kind, Problem};

/// How every key begins.
pub const PREFIX: &str = "ostler_";

/// A key. What it opens is its own: sessions of one are never given to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// What it is known by: not a secret.
    pub id: String,
    hash: [u8; 32],
    /// What it may do.
    pub policy: Policy,
}

impl Key {
    /// Of a secret.
    pub fn of(id: &str, secret: &str, policy: Policy) -> Self {
        Self { id: id.to_owned(), hash: Sha256::digest(secret.as_bytes()).into(), policy }
    }

    /// As it was kept; nothing if that is no hash.
    pub fn kept(id: &str, hash: &str, policy: Policy) -> Option<Self> {
        let digits = hash.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self { id: id.to_owned(), hash: bytes, policy })
    }

    /// What is kept of it: not what opens.
    pub fn hash(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Where keys are kept while they are used: one may be made or revoked at any moment.
pub trait Keeper: Send + Sync {
    /// All keys, if they are others than when it was last asked. Asked before every look: it must be quick.
    fn changed(&self) -> Result<Option<Vec<Key>>, KeysUnreadable>;
}

/// The keys cannot be read at the moment. One may have been revoked, so the server accepts none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeysUnreadable;

impl From<KeysUnreadable> for Problem {
    fn from(_: KeysUnreadable) -> Self {
        let message = "the server cannot read its keys at the moment, and accepts none: its log says why";
        Self::new(Kind::Overloaded, message).because("keys_unreadable")
    }
}

/// All keys. Clones are the same.
#[derive(Clone)]
pub struct Keys {
    known: Arc<RwLock<Arc<[Arc<Key>]>>>,
    keeper: Option<Arc<dyn Keeper>>,
}

impl Keys {
    /// These, and no others.
    pub fn new(keys: Vec<Key>) -> Self {
        Self { known: Arc::new(RwLock::new(shared(keys))), keeper: None }
    }

    /// These, until the keeper has others.
    pub fn kept_by(keys: Vec<Key>, keeper: impl Keeper + 'static) -> Self {
        Self { keeper: Some(Arc::new(keeper)), ..Self::new(keys) }
    }

    /// Whether there is none that is accepted.
    pub fn is_empty(&self) -> bool {
        self.current().is_ok_and(|keys| keys.is_empty())
    }

    /// Whether the key with this id is accepted.
    pub fn has(&self, id: &str) -> bool {
        self.current().is_ok_and(|keys| keys.iter().any(|key| key.id == id))
    }

    /// Those of this moment.
    pub(super) fn current(&self) -> Result<Arc<[Arc<Key>]>, KeysUnreadable> {
        if let Some(keeper) = &self.keeper
            && let Some(keys) = keeper.changed()?
        {
            // Nothing under the lock can panic half-way.
            *self.known.write().unwrap_or_else(PoisonError::into_inner) = shared(keys);
        }
        Ok(self.known.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The key that a request has, as `x-api-key` or as a bearer.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<Arc<Key>, Problem> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION.as_str()).and_then(|value| {
            let (scheme, secret) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
        });
        let Some(secret) = text("x-api-key").or(bearer) else {
            return Err(Problem::new(Kind::Key, "a key is needed: x-api-key, or Authorization: Bearer"));
        };
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        // All are looked at, whichever it is.
        let mut found = None;
        for key in self.current()?.iter() {
            if bool::from(key.hash.ct_eq(&hash)) {
                found = Some(key.clone());
            }
        }
        found.ok_or_else(|| Problem::new(Kind::Key, "this key is not known"))
    }
}

fn shared(keys: Vec<Key>) -> Arc<[Arc<Key>]> {
    keys.into_iter().map(Arc::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_secret() {
        let keys = Keys::new(vec![
            Key::of("one", "ostler_1", Policy::chat()),
            Key::of("two", "ostler_2", Policy::chat()),
        ]);
        let admitted = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            keys.admit(&headers).map(|key| key.id.clone()).map_err(|problem| problem.kind)
        };
        assert_eq!(admitted("x-api-key", "ostler_2"), Ok("two".to_owned()));
        assert_eq!(admitted("authorization", "Bearer ostler_1"), Ok("one".to_owned()));
        assert_eq!(admitted("authorization", "bearer  ostler_1"), Ok("one".to_owned()));
        for (name, value) in [("x-api-key", "ostler_3"), ("authorization", "Basic ostler_1"), ("cookie", "x")]
        {
            assert_eq!(admitted(name, value), Err(Kind::Key), "{name}: {value}");
        }
    }

    #[test]
    fn a_key_that_is_made_or_revoked_meanwhile_is_noticed() {
        struct Box(std::sync::Mutex<Option<Vec<Key>>>);
        impl Keeper for Arc<Box> {
            fn changed(&self) -> Result<Option<Vec<Key>>, KeysUnreadable> {
                Ok(self.0.lock().unwrap().take())
            }
        }
        let kept = Arc::new(Box(std::sync::Mutex::new(None)));
        let keys = Keys::kept_by(vec![Key::of("one", "ostler_1", Policy::chat())], kept.clone());
        let is_known = |secret: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-api-key", secret.parse().unwrap());
            keys.admit(&headers).is_ok()
        };
        assert!(is_known("ostler_1") && !is_known("ostler_2"));
        *kept.0.lock().unwrap() = Some(vec![Key::of("two", "ostler_2", Policy::chat())]);
        assert!(!is_known("ostler_1") && is_known("ostler_2"));
        *kept.0.lock().unwrap() = Some(Vec::new());
        assert!(!is_known("ostler_2") && keys.is_empty());
    }
}
