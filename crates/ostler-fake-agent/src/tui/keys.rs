//! Keys out of the bytes that a terminal sends: text, bracketed pastes, and the few keys that dialogs know.

/// What was pressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Text(String),
    Paste(String),
    Enter,
    Newline,
    Escape,
    Up,
    Down,
    Backspace,
    ClearLine,
    CtrlC,
    CtrlD,
}

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// A reader of keys. Any cutting of the bytes gives the same keys, with one exception: an Escape that ends a piece is
/// the key itself, because nothing else tells it from the start of a sequence.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pending: Vec<u8>,
}

impl Keys {
    /// The keys that are whole now.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((key, length)) = next(&self.pending) {
            self.pending.drain(..length);
            keys.extend(key);
        }
        keys
    }
}

/// The first key and how many bytes it took; no key for sequences that nobody acts on.
fn next(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    if bytes.starts_with(PASTE_BEGINS) {
        let body = &bytes[PASTE_BEGINS.len()..];
        let length = body.windows(PASTE_ENDS.len()).position(|window| window == PASTE_ENDS)?;
        let text = String::from_utf8_lossy(&body[..length]).replace("\r\n", "\n").replace('\r', "\n");
        return Some((
            Some(Key::Paste(text.replace('\t', "    "))),
            PASTE_BEGINS.len() + length + PASTE_ENDS.len(),
        ));
    }
    let key = match *bytes.first()? {
        b'\r' => Key::Enter,
        b'\n' => Key::Newline,
        0x03 => Key::CtrlC,
        0x04 => Key::CtrlD,
        0x15 => Key::ClearLine,
        0x7f | 0x08 => Key::Backspace,
        0x1b => return escape(bytes),
        0x00..0x20 => return Some((None, 1)),
        _ => return text(bytes),
    };
    Some((Some(key), 1))
}

fn escape(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    match bytes.get(1) {
        Some(b'[') => {
            // A sequence ends with its first byte from `@` to `~`.
            let length = 2 + bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte))? + 1;
            let key = match &bytes[2..length] {
                b"A" => Some(Key::Up),
                b"B" => Some(Key::Down),
                _ => None,
            };
            Some((key, length))
        }
        // Answers to questions about the terminal come as strings with an end of their own.
        Some(b'P' | b']') => {
            let end = bytes.windows(2).position(|window| window == b"\x1b\\").map(|at| at + 2);
            let length = end.or_else(|| bytes.iter().position(|byte| *byte == 0x07).map(|at| at + 1))?;
            Some((None, length))
        }
        _ => Some((Some(Key::Escape), 1)),
    }
}

fn text(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let length = bytes.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(bytes.len());
    let valid = match std::str::from_utf8(&bytes[..length]) {
        Ok(text) => text.len(),
        // The rest of a character may still come, unless what follows shows that it will not.
        Err(error) if error.error_len().is_none() && length == bytes.len() => error.valid_up_to(),
        Err(_) => length,
    };
    if valid == 0 {
        return None;
    }
    Some((Some(Key::Text(String::from_utf8_lossy(&bytes[..valid]).into_owned())), valid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let text = |text: &str| Key::Text(text.to_owned());
        let paste = |text: &str| Key::Paste(text.to_owned());
        type Case<'a> = (&'a str, &'a [&'a [u8]], &'a [Key]);
        let table: &[Case<'_>] = &[
            ("typed", &[b"hi\r"], &[text("hi"), Key::Enter]),
            ("pasted", &[b"\x1b[200~a\r\n\tb\x1b[201~\r"], &[paste("a\n    b"), Key::Enter]),
            ("a paste in pieces", &[b"\x1b[200~a", b"b\x1b[20", b"1~"], &[paste("ab")]),
            ("a character in pieces", &[b"\xc3", b"\xa9"], &[text("é")]),
            ("bytes that are no text", &[b"\xff\r"], &[text("\u{fffd}"), Key::Enter]),
            ("the Escape key", &[b"\x1b"], &[Key::Escape]),
            ("arrows", &[b"\x1b[A\x1b[", b"B"], &[Key::Up, Key::Down]),
            ("a terminal's answers", &[b"\x1b[?62;c\x1bP>|term\x1b\\\x1b[Ix"], &[text("x")]),
            (
                "control keys",
                &[b"\x03\x04\x15\x7f\x01"],
                &[Key::CtrlC, Key::CtrlD, Key::ClearLine, Key::Backspace],
            ),
        ];
        for (name, pieces, want) in table {
            let mut keys = Keys::default();
            let got: Vec<Key> = pieces.iter().flat_map(|piece| keys.feed(piece)).collect();
            assert_eq!(got, *want, "{name}");
        }
    }
}
