//! What is kept of a program's output: its beginning or its end, and how much there was.

/// Which part is kept, and how many bytes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Head(usize),
    Tail(usize),
}

/// What was kept.
#[derive(Debug)]
pub(super) struct Kept {
    keep: Keep,
    bytes: Vec<u8>,
    total: u64,
}

impl Kept {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, bytes: Vec::new(), total: 0 }
    }

    pub(super) fn take(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        match self.keep {
            Keep::Head(most) => {
                let room = most.saturating_sub(self.bytes.len());
                self.bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            }
            Keep::Tail(most) => {
                self.bytes.extend_from_slice(chunk);
                // Not with every chunk: moving the rest each time would take longer than reading it.
                if self.bytes.len() > 2 * most {
                    self.bytes.drain(..self.bytes.len() - most);
                }
            }
        }
    }

    /// How many bytes there were.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether this is something else than text.
    pub(super) fn is_binary(&self) -> bool {
        self.bytes.contains(&0)
    }

    /// As text, with what is missing told where it is missing.
    pub(super) fn text(&self) -> String {
        let (Keep::Head(most) | Keep::Tail(most)) = self.keep;
        if self.total <= most as u64 {
            return String::from_utf8_lossy(&self.bytes).into_owned();
        }
        match self.keep {
            Keep::Head(most) => {
                // Whole lines, unless there is only one.
                let kept = &self.bytes[..most.min(self.bytes.len())];
                let end = kept.iter().rposition(|byte| *byte == b'\n').map_or(kept.len(), |at| at + 1);
                let missing = self.total - end as u64;
                let text = String::from_utf8_lossy(&kept[..end]).into_owned();
                let line = if text.ends_with('\n') { "" } else { "\n" };
                format!("{text}{line}[Cut: {missing} more bytes.]\n")
            }
            Keep::Tail(most) => {
                let kept = &self.bytes[self.bytes.len().saturating_sub(most)..];
                let begin = kept.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                // A last line that is longer than all that is kept has no beginning to look for.
                let begin = if begin == kept.len() { 0 } else { begin };
                let missing = self.total - (kept.len() - begin) as u64;
                format!("[Cut: {missing} bytes before this.]\n{}", String::from_utf8_lossy(&kept[begin..]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(keep: Keep, chunks: &[&str]) -> String {
        let mut kept = Kept::new(keep);
        for chunk in chunks {
            kept.take(chunk.as_bytes());
        }
        kept.text()
    }

    #[test]
    fn what_fits_is_whole_and_what_does_not_says_so() {
        let table = [
            (Keep::Head(8), vec!["one\n", "two\n"], "one\ntwo\n"),
            (Keep::Tail(8), vec!["one\n", "two\n"], "one\ntwo\n"),
            (Keep::Head(8), vec!["one\n", "two\n", "three\n"], "one\ntwo\n[Cut: 6 more bytes.]\n"),
            (Keep::Tail(8), vec!["one\n", "two\n", "three\n"], "[Cut: 8 bytes before this.]\nthree\n"),
            (Keep::Head(4), vec!["abcdef"], "abcd\n[Cut: 2 more bytes.]\n"),
            (Keep::Tail(4), vec!["abcdef"], "[Cut: 2 bytes before this.]\ncdef"),
            (Keep::Tail(4), vec!["abcdef\n"], "[Cut: 3 bytes before this.]\ndef\n"),
            (Keep::Tail(4), vec![], ""),
        ];
        for (keep, chunks, want) in table {
            assert_eq!(kept(keep, &chunks), want, "{keep:?} {chunks:?}");
        }
    }

    #[test]
    fn a_tail_holds_no_more_than_twice_its_size() {
        let mut kept = Kept::new(Keep::Tail(10));
        for number in 0..1000_u32 {
            kept.take(number.to_string().as_bytes());
            assert!(kept.bytes.len() <= 20);
        }
        assert!(kept.text().ends_with("998999"), "{}", kept.text());
    }
}
