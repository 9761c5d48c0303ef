//! A connection whose peer must keep reading: a write that makes no progress for 10 seconds ends it.
//!
//! Without this, whoever asks and never reads keeps a connection, and the answer in memory, for ever.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a write may stand still.
const PATIENCE: Duration = Duration::from_secs(10);

/// The connection.
pub(super) struct Patient<S> {
    inner: Pin<Box<S>>,
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S> Patient<S> {
    /// Around this connection.
    pub fn new(inner: S) -> Self {
        Self { inner: Box::pin(inner), deadline: Box::pin(tokio::time::sleep(PATIENCE)), waiting: false }
    }

    /// What a write has come to; an error when it has waited for too long.
    fn check<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = false;
            return written;
        }
        if !self.waiting {
            self.waiting = true;
            self.deadline.as_mut().reset(Instant::now() + PATIENCE);
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_read(context, buf)
    }
}

impl<S: AsyncWrite> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.inner.as_mut().poll_write(context, buf);
        self.check(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.inner.as_mut().poll_flush(context);
        self.check(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = self.inner.as_mut().poll_shutdown(context);
        self.check(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    #[test]
    fn a_peer_that_does_not_read_is_left_after_ten_seconds() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (ours, _theirs) = tokio::io::duplex(16);
            let began = std::time::Instant::now();
            let error = Patient::new(ours).write_all(&[0; 64]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(began.elapsed() >= PATIENCE);
        });
    }
}
