//! Random values that nobody may guess: the token of a run, the key of its receipts.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// 256 bits: what a token and a key have.
const BYTES: usize = 32;

/// The operating system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random bytes: {0}")]
pub struct NoRandomness(getrandom::Error);

impl NoRandomness {
    /// What to try.
    pub fn hint(&self) -> Option<String> {
        Some("look whether /dev/urandom can be read here".to_owned())
    }
}

/// What an agent shows at the door. Printed nowhere.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one.
    pub fn random() -> Result<Self, NoRandomness> {
        Ok(Self(hex(&random_bytes()?)))
    }

    /// The text that goes into the agent's private configuration.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `shown` is this token. Takes the same time wherever they differ, and whatever the length.
    pub fn is(&self, shown: &str) -> bool {
        let mine = Sha256::digest(self.0.as_bytes());
        let shown = Sha256::digest(shown.as_bytes());
        mine.as_slice().ct_eq(shown.as_slice()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(…)")
    }
}

/// What receipts are sealed with. Lives in memory only, and is printed nowhere.
#[derive(Clone)]
pub struct Key([u8; BYTES]);

impl Key {
    /// A new one.
    pub fn random() -> Result<Self, NoRandomness> {
        Ok(Self(random_bytes()?))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(…)")
    }
}

fn random_bytes() -> Result<[u8; BYTES], NoRandomness> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(bytes)
}

/// Bytes as small hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_256_bits_that_are_never_the_same_and_never_printed() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.reveal().len(), 64);
        assert!(
            one.is(one.reveal()) && !one.is(other.reveal()) && !one.is("") && !one.is(&one.reveal()[1..])
        );
        assert!(!format!("{one:?} {:?}", Key::random().unwrap()).contains(char::is_numeric));
    }

    #[test]
    fn bytes_are_written_as_digits() {
        assert_eq!(hex(&[0, 15, 160, 255]), "000fa0ff");
    }
}
