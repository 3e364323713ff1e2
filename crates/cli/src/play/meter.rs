//! How much a server may say without an answer.
//!
//! What is no answer, such as interim ones and frames of the connection, a library of HTTP takes as it comes,
//! keeps some of, and tells nobody. So it is what is read that is bounded: a server that says more is given
//! up.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that may still be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter(Arc<AtomicU64>);

impl Meter {
    /// From now on so many.
    pub(super) fn may_read(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// A stream of which no more is read than its meter says.
pub(super) struct Metered<S> {
    pub(super) stream: S,
    pub(super) meter: Meter,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = (buffer.filled().len() - before) as u64;
        let take = |left: u64| left.checked_sub(read);
        match self.meter.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Poll::Ready(Ok(())),
            Err(_) => {
                Poll::Ready(Err(io::Error::other("the server says much, and nothing that was asked for")))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
