//! A server's output, watched for lines that nobody will read.
//!
//! `rmcp` passes over a line that is too long, and says nothing: whoever waits for it would wait until the time is over.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

/// The longest line that is read. Longer ones are passed over.
pub(super) const MOST_LINE_BYTES: usize = 16 * 1024 * 1024;

/// What a server writes, on its way to whoever reads it.
pub(super) struct LongLines<R> {
    inner: R,
    line: usize,
    passed_over: watch::Sender<u64>,
}

impl<R> LongLines<R> {
    /// The output, and how many lines of it were too long so far.
    pub(super) fn watch(inner: R) -> (Self, watch::Receiver<u64>) {
        let (passed_over, watching) = watch::channel(0);
        (Self { inner, line: 0, passed_over }, watching)
    }

    fn seen(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let before = self.line;
            self.line = before.saturating_add(part.len());
            if before <= MOST_LINE_BYTES && self.line > MOST_LINE_BYTES {
                self.passed_over.send_modify(|times| *times += 1);
            }
            if part.ends_with(b"\n") {
                self.line = 0;
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LongLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.seen(&buffer.filled()[before..]);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_counted_once_when_it_gets_too_long() {
        let (mut lines, watching) = LongLines::watch(tokio::io::empty());
        let chunk = vec![b'x'; 1024 * 1024];
        lines.seen(b"short\n");
        for _ in 0..16 {
            lines.seen(&chunk);
        }
        assert_eq!(*watching.borrow(), 0);
        lines.seen(b"x");
        assert_eq!(*watching.borrow(), 1);
        lines.seen(&chunk);
        lines.seen(b"x\nshort\n");
        assert_eq!(*watching.borrow(), 1);
    }
}
