//! Streams as readers and writers of tokio.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::recv::RecvStream;
use crate::send::SendStream;

/// Errors are those of [`RecvStream::read`].
impl AsyncRead for RecvStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        ready!(self.get_mut().poll_read_bytes(cx, room, |bytes| buffer.put_slice(bytes)))?;
        Poll::Ready(Ok(()))
    }
}

/// Errors are those of [`SendStream::write`]; to flush is [`SendStream::flush`] and never waits, and to shut
/// down finishes the stream and waits until all has arrived.
impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_bytes(cx, data).map_err(io::Error::from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_finished(cx).map_err(io::Error::from)
    }
}
