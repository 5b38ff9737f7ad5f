//! A connection whose other end has to take what is sent. Who takes nothing for too long, although something waits for
//! him, is not served any further: he would keep a place that others could have, and the session that answers him.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

pub(super) struct Stalling<T> {
    stream: T,
    patience: Duration,
    /// When it is over, if nothing is taken until then.
    until: Option<Pin<Box<Sleep>>>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Stalling<T> {
    pub(super) fn new(stream: T, patience: Duration) -> Self {
        Self { stream, patience, until: None }
    }

    /// What became of sending something: it is an error if nothing was taken for too long.
    fn sent<R>(&mut self, context: &mut Context<'_>, sent: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if sent.is_ready() {
            self.until = None;
            return sent;
        }
        let (patience, now) = (self.patience, Instant::now());
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(now + patience)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "what was sent was not taken")))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stalling<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stalling<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let sent = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.sent(context, sent)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let sent = Pin::new(&mut this.stream).poll_write_vectored(context, pieces);
        this.sent(context, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let sent = Pin::new(&mut this.stream).poll_flush(context);
        this.sent(context, sent)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let sent = Pin::new(&mut this.stream).poll_shutdown(context);
        this.sent(context, sent)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_not_waited_for() {
        let (_deaf, ours) = duplex(4);
        let mut ours = Stalling::new(ours, PATIENCE);
        let began = Instant::now();
        let error = ours.write_all(b"more than there is room for").await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_little_now_and_then_is() {
        let (mut slow, ours) = duplex(4);
        let mut ours = Stalling::new(ours, PATIENCE);
        let reads = async {
            let (mut heard, mut buffer) = (Vec::new(), [0; 4]);
            while heard.len() < 12 {
                tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
                let count = slow.read(&mut buffer).await.unwrap();
                heard.extend_from_slice(&buffer[..count]);
            }
            heard
        };
        let (sent, heard) = tokio::join!(ours.write_all(b"twelve bytes"), reads);
        assert!(sent.is_ok());
        assert_eq!(heard, b"twelve bytes");
    }
}
