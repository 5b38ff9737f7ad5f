//! The last bytes of a stream, at most so many.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    room: usize,
}

impl Ring {
    pub(super) fn new(room: usize) -> Self {
        Self { bytes: VecDeque::new(), room }
    }

    /// Adds bytes; the oldest make room.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.room)..];
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(self.room);
        self.bytes.drain(..excess);
        self.bytes.extend(bytes);
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        self.bytes.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept() {
        let mut ring = Ring::new(4);
        for (pushed, want) in [("ab", "ab"), ("cd", "abcd"), ("e", "bcde"), ("0123456", "3456"), ("", "3456")]
        {
            ring.push(pushed.as_bytes());
            assert_eq!(ring.to_vec(), want.as_bytes(), "after {pushed}");
        }
    }
}
