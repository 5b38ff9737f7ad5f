//! Bytes for a terminal, cut where its sequences begin and end.
//!
//! A sequence or a letter of which only the beginning has come is held until the rest comes, so that whoever gets the
//! pieces is between two of them, whatever the program's writes were. What is held is bounded: of a sequence that is
//! too long only its end is waited for.

/// Longest sequence that is handed on. Titles and colours are far shorter; pictures and clipboards are not shown.
const LONGEST: usize = 16 * 1024;

const ESC: u8 = 0x1b;
const BACKSPACE: u8 = 0x08;
/// They end any sequence, and what it was is forgotten.
const CANCEL: [u8; 2] = [0x18, 0x1a];

/// A piece of what a program writes to its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Letters, and controls that need no care. Whole letters only.
    Text(&'a [u8]),
    /// One whole sequence, or a backspace.
    Sequence(&'a [u8]),
}

/// Cuts bytes into tokens.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    held: Vec<u8>,
    /// The sequence that is held was too long: it is not handed on.
    is_cut: bool,
}

impl Cutter {
    /// What has begun and is not whole.
    pub(super) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Hands on all that is whole, in order.
    pub(super) fn cut(&mut self, bytes: &[u8], mut each: impl FnMut(Token<'_>)) {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let mut rest = all.as_slice();
        while let Some(&first) = rest.first() {
            let length = match first {
                ESC => sequence(rest),
                BACKSPACE => Some(1),
                _ => text(rest),
            };
            let Some(length) = length else { break };
            let (piece, after) = rest.split_at(length);
            match first {
                ESC if self.is_cut => self.is_cut = false,
                ESC | BACKSPACE => each(Token::Sequence(piece)),
                _ => each(Token::Text(piece)),
            }
            rest = after;
        }
        self.held = rest.to_vec();
        if self.held.len() > LONGEST {
            self.is_cut = true;
            // How it began, and what may be the first half of how it ends.
            let half = self.held.last().copied().filter(|last| *last == ESC);
            self.held.truncate(2);
            self.held.extend(half);
        }
    }
}

/// How long the text at the beginning is. Nothing if not even one letter of it is whole.
fn text(bytes: &[u8]) -> Option<usize> {
    let length = bytes.iter().position(|byte| matches!(*byte, ESC | BACKSPACE));
    let length = length.unwrap_or_else(|| bytes.len() - torn(bytes));
    (length > 0).then_some(length)
}

/// How many bytes at the end are the beginning of a letter.
fn torn(bytes: &[u8]) -> usize {
    let beginning = bytes.iter().rev().take(3).position(|byte| *byte & 0b1100_0000 != 0b1000_0000);
    let Some(tail) = beginning.map(|place| place + 1) else { return 0 };
    let whole = match bytes[bytes.len() - tail] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return 0,
    };
    // A tail that no further byte makes a letter of is not waited with.
    let is_hopeful = match std::str::from_utf8(&bytes[bytes.len() - tail..]) {
        Err(error) => error.error_len().is_none(),
        Ok(_) => false,
    };
    if tail < whole && is_hopeful { tail } else { 0 }
}

/// How long the sequence at the beginning is, if its end has come.
fn sequence(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => ended(bytes, 2, |byte| (0x40..=0x7e).contains(&byte)),
        b']' => string(bytes, |byte| byte == 0x07),
        b'P' | b'X' | b'^' | b'_' => string(bytes, |_| false),
        _ => ended(bytes, 1, |byte| (0x30..=0x7e).contains(&byte)),
    }
}

fn ended(bytes: &[u8], from: usize, is_end: impl Fn(u8) -> bool) -> Option<usize> {
    let place =
        bytes[from..].iter().position(|byte| is_end(*byte) || *byte == ESC || CANCEL.contains(byte))?;
    let place = from + place;
    Some(if bytes[place] == ESC { place } else { place + 1 })
}

fn string(bytes: &[u8], is_end: impl Fn(u8) -> bool) -> Option<usize> {
    let place = ended(bytes, 2, is_end)?;
    match bytes[place..] {
        [ESC] => None,
        [ESC, b'\\', ..] => Some(place + 2),
        _ => Some(place),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(pieces: &[&[u8]]) -> (Vec<String>, String) {
        let mut cutter = Cutter::default();
        let mut cuts = Vec::new();
        for piece in pieces {
            cutter.cut(piece, |token| {
                let (mark, bytes) = match token {
                    Token::Text(bytes) => ("", bytes),
                    Token::Sequence(bytes) => ("!", bytes),
                };
                cuts.push(format!("{mark}{}", bytes.escape_ascii()));
            });
        }
        (cuts, cutter.held().escape_ascii().to_string())
    }

    #[test]
    fn sequences_and_letters_stay_whole() {
        type Case = (&'static [&'static [u8]], &'static [&'static str], &'static str);
        let table: &[Case] = &[
            (&[b"ab\x1b[1;2mc"], &["ab", "!\\x1b[1;2m", "c"], ""),
            (&[b"a\x1b", b"[", b"12", b"Gb"], &["a", "!\\x1b[12G", "b"], ""),
            (&[b"\x1b]0;t\x07x"], &["!\\x1b]0;t\\x07", "x"], ""),
            (&[b"\x1b]0;t\x1b", b"\\x"], &["!\\x1b]0;t\\x1b\\\\", "x"], ""),
            (&[b"\x1b]0;t\x1b[K"], &["!\\x1b]0;t", "!\\x1b[K"], ""),
            (&[b"\x1bP>|a\x07b\x1b\\c"], &["!\\x1bP>|a\\x07b\\x1b\\\\", "c"], ""),
            (&[b"\x1b(B\x1b7x"], &["!\\x1b(B", "!\\x1b7", "x"], ""),
            (&[b"a\x08b"], &["a", "!\\x08", "b"], ""),
            (&[b"\x1b[1\x18m"], &["!\\x1b[1\\x18", "m"], ""),
            (&[b"\x1b\x1b[m"], &["!\\x1b", "!\\x1b[m"], ""),
            (&[&[0xc3]], &[], "\\xc3"),
            (&[&[0xe2, 0x94], &[0x80, b'x']], &["\\xe2\\x94\\x80x"], ""),
            (&[&[b'a', 0xff, 0xe2]], &["a\\xff"], "\\xe2"),
            (&[b"\x1b]0;never ended"], &[], "\\x1b]0;never ended"),
        ];
        for (pieces, want, held) in table {
            let (cuts, left) = cut(pieces);
            assert_eq!((cuts.as_slice(), left.as_str()), (want.map_str().as_slice(), *held), "{pieces:?}");
        }
    }

    trait MapStr {
        fn map_str(&self) -> Vec<String>;
    }

    impl MapStr for &[&str] {
        fn map_str(&self) -> Vec<String> {
            self.iter().map(|one| (*one).to_owned()).collect()
        }
    }

    #[test]
    fn of_a_sequence_that_is_too_long_only_the_end_is_waited_for() {
        let mut cutter = Cutter::default();
        let mut seen = Vec::new();
        cutter.cut(b"a\x1b]52;c;", |token| seen.push(format!("{token:?}")));
        for _ in 0..100 {
            cutter.cut(&[b'A'; 1000], |token| seen.push(format!("{token:?}")));
            assert!(cutter.held().len() <= LONGEST + 1000);
        }
        cutter.cut(b"\x07b", |token| seen.push(format!("{token:?}")));
        assert_eq!(seen, ["Text([97])", "Text([98])"]);
    }

    proptest! {
        #[test]
        fn any_cut_of_any_bytes_gives_the_same_pieces(
            bytes in prop::collection::vec(prop::sample::select(b"\x1b[]P\\;1m\x07\x08a\xc3\xa9\xe2\x94\x80\x18".to_vec()), 0..60),
            at in 0_usize..60,
        ) {
            let at = at.min(bytes.len());
            let join = |(cuts, held): (Vec<String>, String)| {
                // Text may be cut anywhere between two letters.
                let mut joined: Vec<String> = Vec::new();
                for cut in cuts {
                    match joined.last_mut() {
                        Some(last) if !last.starts_with('!') && !cut.starts_with('!') => last.push_str(&cut),
                        _ => joined.push(cut),
                    }
                }
                (joined, held)
            };
            prop_assert_eq!(join(cut(&[&bytes])), join(cut(&[&bytes[..at], &bytes[at..]])));
        }
    }
}
