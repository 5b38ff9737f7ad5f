//! Who may come in: a key, kept as its hash, and compared in constant time.

use axum::http::{HeaderMap, header};
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
}

impl Key {
    /// Of a secret.
    pub fn of(id: &str, secret: &str) -> Self {
        Self { id: id.to_owned(), hash: Sha256::digest(secret.as_bytes()).into() }
    }

    /// As it was kept; nothing if that is no hash.
    pub fn kept(id: &str, hash: &str) -> Option<Self> {
        let digits = hash.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self { id: id.to_owned(), hash: bytes })
    }

    /// What is kept of it: not what opens.
    pub fn hash(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// All keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// These.
    pub fn new(keys: Vec<Key>) -> Self {
        Self(keys)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key that a request has, as `x-api-key` or as a bearer.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<&Key, Problem> {
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
        for key in &self.0 {
            if bool::from(key.hash.ct_eq(&hash)) {
                found = Some(key);
            }
        }
        found.ok_or_else(|| Problem::new(Kind::Key, "this key is not known"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_secret() {
        let keys = Keys::new(vec![Key::of("one", "ostler_1"), Key::of("two", "ostler_2")]);
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
}
