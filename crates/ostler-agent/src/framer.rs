//! Bytes into lines, in any chunking, within a bound. The bytes themselves were written down before they come here.

/// Longest line that is looked at: agents put whole files into one record. A longer one is reported and passed over;
/// it stays in the raw journal.
pub const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// A buffer that held a huge line is given back once it is larger than this.
const KEPT_BUFFER: usize = 1024 * 1024;

/// What the framer found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A line, without its end (`\n` or `\r\n`).
    Line(&'a [u8]),
    /// A line that was longer than the bound, by its length.
    TooLong(usize),
}

/// A frame that outlives its framer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Framed {
    /// A line, without its end.
    Line(Vec<u8>),
    /// The length of one that was too long.
    TooLong(usize),
}

/// All frames of bytes that are all there, in whatever pieces.
pub fn framed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, longest: usize) -> Vec<Framed> {
    let mut framer = Framer::with_longest(longest);
    let mut found = Vec::new();
    let mut note = |frame: Frame<'_>| {
        found.push(match frame {
            Frame::Line(line) => Framed::Line(line.to_vec()),
            Frame::TooLong(length) => Framed::TooLong(length),
        });
    };
    for piece in pieces {
        framer.feed(piece, &mut note);
    }
    framer.finish(&mut note);
    found
}

/// Splits a stream of bytes into lines. Any chunking of the same bytes gives the same frames.
#[derive(Debug)]
pub struct Framer {
    begun: Vec<u8>,
    /// Bytes of the current line that were passed over, once it is too long.
    passed: usize,
    longest: usize,
}

impl Default for Framer {
    fn default() -> Self {
        Self::with_longest(LONGEST_LINE)
    }
}

impl Framer {
    /// A framer with another bound, for tests.
    pub fn with_longest(longest: usize) -> Self {
        Self { begun: Vec::new(), passed: 0, longest }
    }

    /// Takes the next bytes and hands every line that they end to `sink`.
    pub fn feed(&mut self, mut bytes: &[u8], mut sink: impl FnMut(Frame<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.line(&bytes[..end], &mut sink);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// The stream is over: a last line without an end is a line too.
    pub fn finish(&mut self, mut sink: impl FnMut(Frame<'_>)) {
        if !self.begun.is_empty() || self.passed > 0 {
            self.line(&[], &mut sink);
        }
    }

    fn line(&mut self, last: &[u8], sink: &mut impl FnMut(Frame<'_>)) {
        if self.begun.is_empty() && self.passed == 0 && last.len() <= self.longest {
            sink(Frame::Line(trimmed(last)));
            return;
        }
        self.keep(last);
        if self.passed > 0 {
            sink(Frame::TooLong(self.passed));
            self.passed = 0;
        } else {
            sink(Frame::Line(trimmed(&self.begun)));
        }
        self.begun.clear();
        if self.begun.capacity() > KEPT_BUFFER {
            self.begun = Vec::new();
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.passed > 0 {
            self.passed += bytes.len();
        } else if self.begun.len() + bytes.len() > self.longest {
            self.passed = self.begun.len() + bytes.len();
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_found_wherever_the_chunks_break() {
        let line = |text: &str| Framed::Line(text.as_bytes().to_vec());
        let table: [(&[&[u8]], Vec<Framed>); 6] = [
            (&[b"a\nb\n"], vec![line("a"), line("b")]),
            (&[b"a", b"b\r", b"\nc"], vec![line("ab"), line("c")]),
            (&[b"\n\n"], vec![line(""), line("")]),
            (&[b""], vec![]),
            (&[b"123456789\nx\n"], vec![Framed::TooLong(9), line("x")]),
            (&[b"12345", b"6789", b"0\n", b"y"], vec![Framed::TooLong(10), line("y")]),
        ];
        for (chunks, want) in table {
            assert_eq!(framed(chunks.iter().copied(), 8), want, "{chunks:?}");
        }
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_framed(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..300),
            cuts in prop::collection::vec(1usize..40, 1..40),
            longest in 1usize..40,
        ) {
            let whole = framed([bytes.as_slice()], longest);
            let mut rest = bytes.as_slice();
            let mut chunks = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(framed(chunks, longest), whole);
        }
    }
}
