//! A control sequence, taken apart.

/// `ESC [`, an optional mark of who defined it, numbers, an optional intermediate, and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Csi<'a> {
    /// `?`, `>`, `<` or `=`.
    pub(super) mark: Option<u8>,
    /// The numbers, as they are written.
    numbers: &'a [u8],
    pub(super) intermediate: Option<u8>,
    pub(super) action: u8,
}

impl<'a> Csi<'a> {
    /// Of a whole sequence. Nothing if it is no control sequence, or one that was broken off.
    pub(super) fn of(sequence: &'a [u8]) -> Option<Self> {
        let body = sequence.strip_prefix(b"\x1b[")?;
        let (&action, body) = body.split_last()?;
        let is_clean = body.iter().all(|byte| (0x20..0x40).contains(byte));
        if !is_clean || !(0x40..0x7f).contains(&action) {
            return None;
        }
        let (mark, body) = match body.split_first() {
            Some((&mark @ b'<'..=b'?', body)) => (Some(mark), body),
            _ => (None, body),
        };
        let end = body.iter().position(|byte| (0x20..0x30).contains(byte)).unwrap_or(body.len());
        let (numbers, intermediates) = body.split_at(end);
        Some(Self { mark, numbers, intermediate: intermediates.first().copied(), action })
    }

    /// The numbers. One that is left out, or that is no number, is zero.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u16> + 'a {
        let numbers = self.numbers.split(|byte| *byte == b';');
        numbers.map(|number| std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// The first number.
    pub(super) fn first(&self) -> u16 {
        self.numbers().next().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_taken_apart_as_written() {
        type Parts = (Option<u8>, Vec<u16>, Option<u8>, u8);
        let table: &[(&[u8], Option<Parts>)] = &[
            (b"\x1b[c", Some((None, vec![0], None, b'c'))),
            (b"\x1b[>0q", Some((Some(b'>'), vec![0], None, b'q'))),
            (b"\x1b[?2026$p", Some((Some(b'?'), vec![2026], Some(b'$'), b'p'))),
            (b"\x1b[3;;70000H", Some((None, vec![3, 0, 0], None, b'H'))),
            (b"\x1b[1\n2m", None),
            (b"\x1b[1\x18", None),
            (b"\x1b7", None),
            (b"\x1b[", None),
        ];
        for (bytes, want) in table {
            let parts =
                Csi::of(bytes).map(|csi| (csi.mark, csi.numbers().collect(), csi.intermediate, csi.action));
            assert_eq!(&parts, want, "{}", bytes.escape_ascii());
        }
    }
}
