use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use quickset_h3::{ErrorCode, Field, Priority, VerbRefusal};
use quickset_net::Reliability;
use tokio::io::AsyncWrite;

use super::http::{ExchangeHandle, or_wait, wait};
use super::{ExchangeDatagrams, HttpError};

/// Sends the content of a message, behind its head.
///
/// The message ends with [`finish`](Self::finish) or [`trailers`](Self::trailers). Dropping the sender before
/// that gives up the whole exchange, since an incomplete message must not look complete. If the peer wants no
/// more of the content, the other direction goes on: an answer may still arrive. It is also a writer of
/// tokio: use `tokio::io::copy(…, &mut sender)`, and then end the message.
#[derive(Debug)]
pub struct ContentSender {
    exchange: Arc<ExchangeHandle>,
    pub(super) ended: bool,
}

impl ContentSender {
    pub(super) fn new(exchange: Arc<ExchangeHandle>) -> Self {
        Self { exchange, ended: false }
    }

    /// Sends all of `data`. The call waits while the peer does not take it. If the future is dropped, a part
    /// of it may have been sent.
    ///
    /// # Errors
    /// When the peer wants no more, or the exchange or the connection is over.
    pub async fn send(&mut self, mut data: Bytes) -> Result<(), HttpError> {
        while !data.is_empty() {
            self.send_some(&mut data).await?;
        }
        Ok(())
    }

    /// Sends bytes from the front of `data` and returns how many. The call waits until there is room for
    /// some. Dropping the future loses nothing.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub async fn send_some(&mut self, data: &mut Bytes) -> Result<usize, HttpError> {
        let sent = poll_fn(|cx| self.poll_send(cx, data.len(), |n| data.slice(..n))).await?;
        data.advance(sent);
        Ok(sent)
    }

    /// Sends some of `len` bytes, of which `part` gives as many as it is told from the front, and returns how
    /// many.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        part: impl FnOnce(usize) -> Bytes,
    ) -> Poll<Result<usize, HttpError>> {
        let exchange = &self.exchange;
        exchange.link.layered.poll(cx, |http, turn, waker| {
            if let Some(over) = http.over(turn) {
                return Poll::Ready(Err(over));
            }
            let sent = http.verb(turn, |machine, t| {
                // Nothing is copied that has to wait: first nothing is sent, and finds whether there is room.
                machine.send(t, exchange.id, &mut Bytes::new())?;
                // The machine keeps what it takes until the stream does: little at a time.
                machine.send(t, exchange.id, &mut part(len.min(CHUNK)))
            });
            match sent {
                Err(VerbRefusal::Blocked) => {
                    http.slot(exchange.id).writer = Some(waker.clone());
                    Poll::Pending
                }
                sent => Poll::Ready(sent.map_err(|refusal| http.refused(turn, Some(exchange.id), refusal))),
            }
        })
    }

    /// Waits until content can be sent that leaves soon, and returns how many bytes of it: as many as the
    /// peer has credit for and the path takes.
    ///
    /// A server that reads a file in such parts reads nothing for a peer that takes nothing. Dropping the
    /// future loses nothing.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub async fn room(&mut self) -> Result<usize, HttpError> {
        let exchange = &self.exchange;
        let room = poll_fn(|cx| {
            exchange.link.layered.poll(cx, |http, turn, waker| {
                if let Some(over) = http.over(turn) {
                    return Poll::Ready(Err(over));
                }
                match http.verb(turn, |machine, t| machine.send_room(t, exchange.id)) {
                    Ok(0) => {
                        http.slot(exchange.id).writer = Some(waker.clone());
                        Poll::Pending
                    }
                    Ok(room) => Poll::Ready(Ok(room)),
                    Err(refusal) => Poll::Ready(Err(http.refused(turn, Some(exchange.id), refusal))),
                }
            })
        });
        Ok(usize::try_from(room.await?).unwrap_or(usize::MAX))
    }

    /// Says that somebody waits for what was sent so far, though more may follow, so that repair for it may
    /// be sent at once. Nothing is sent earlier because of it.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub fn flush(&mut self) -> Result<(), HttpError> {
        self.exchange.verb(|machine, t, id| machine.flush(t, id))
    }

    /// Ends the message. The call does not wait.
    ///
    /// # Errors
    /// When the peer wants no more of it, or the exchange or the connection is over.
    pub fn finish(mut self) -> Result<(), HttpError> {
        self.ended = true;
        self.exchange.verb(|machine, t, id| machine.finish(t, id))
    }

    /// Sends fields behind the content and ends the message.
    ///
    /// # Errors
    /// When these are no trailers; else see [`finish`](Self::finish).
    pub fn trailers(mut self, fields: &[Field]) -> Result<(), HttpError> {
        self.exchange.verb(|machine, t, id| machine.send_trailers(t, id, fields))?;
        self.ended = true;
        Ok(())
    }

    /// Gives up the exchange in both directions, with a code for the peer.
    pub fn cancel(mut self, code: ErrorCode) {
        self.ended = true;
        self.exchange.cancel(code);
    }

    /// Returns the datagrams of this exchange (RFC 9297), which can be taken and sent beside the content.
    pub fn datagrams(&self) -> ExchangeDatagrams {
        ExchangeDatagrams::new(self.exchange.clone())
    }

    /// See [`ExchangeDatagrams::send`].
    ///
    /// # Errors
    /// When the peer takes none, or none so long, or what we send is over.
    pub fn send_datagram(&self, payload: &[u8]) -> Result<(), HttpError> {
        self.exchange.send_datagram(payload)
    }

    /// Waits until the peer wants no more of this message, and returns why: it was stopped, the exchange was
    /// given up, or the connection is over.
    ///
    /// Whoever sends learns of it anyway. This is for code that works on what is to be sent, and can save
    /// that work. Dropping the future loses nothing.
    ///
    /// ```
    /// # use quickset::h3::{HttpError, Reply, Response};
    /// # async fn look_up() -> Response { Response::new(200) }
    /// # async fn f(reply: Reply) -> Result<(), HttpError> {
    /// let found = tokio::select! {
    ///     found = look_up() => found,
    ///     // The client has left.
    ///     why = reply.stopped() => return Err(why),
    /// };
    /// reply.end(&found)
    /// # }
    /// ```
    pub async fn stopped(&self) -> HttpError {
        let take = self.exchange.wait(|slot, waker| {
            if slot.stopped.is_none() {
                wait(&mut slot.watchers, waker);
            }
            slot.stopped.map_or(Poll::Pending, |code| Poll::Ready(HttpError::Stopped(code)))
        });
        take.await.unwrap_or_else(|why| why)
    }

    /// Waits until the client changes the priority of this response. The transport obeys by itself. This is
    /// for servers. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the client wants no more of it, or the exchange or the connection is over.
    pub async fn priority_changed(&self) -> Result<Priority, HttpError> {
        let take = self.exchange.wait(|slot, waker| match (slot.priority.take(), slot.stopped) {
            (None, Some(code)) => Poll::Ready(Err(HttpError::Stopped(code))),
            (priority, _) => or_wait(priority.map(Ok), &mut slot.prioritised, waker),
        });
        take.await?
    }

    /// Sends this message by another priority, until the client says something else: its urgency, whether
    /// parts of it are of use, its weight, and its classes. Its protection stays the same. A `priority` field
    /// in the head of the response counts more than the client's word (RFC 9218 §8;
    /// [`Response::with_priority`](super::Response::with_priority)).
    ///
    /// # Errors
    /// When the exchange or the connection is over.
    pub fn set_priority(&self, priority: &Priority) -> Result<(), HttpError> {
        self.exchange.verb(|machine, t, id| machine.schedule(t, id, priority))
    }

    /// Sets how losses of this message are repaired from now on. Streams of bytes have no deadlines. It has
    /// no effect unless both sides offer repair ([`has_fec`](crate::Connection::has_fec)).
    pub fn set_reliability(&self, reliability: &Reliability) {
        self.exchange.protect(reliability.protection());
    }
}

/// Bytes that are taken are sent. To flush is [`ContentSender::flush`] and never waits; to shut down is
/// [`ContentSender::finish`], which ends the message and does not wait for it to arrive. Without that
/// [`ContentSender::trailers`] can end it. Dropping a future that writes loses nothing beyond what that says
/// of itself.
impl AsyncWrite for ContentSender {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let sent = self.poll_send(cx, data.len(), |n| Bytes::copy_from_slice(&data[..n]));
        sent.map_err(io::Error::from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        Poll::Ready(if this.ended { Ok(()) } else { this.flush().map_err(io::Error::from) })
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if std::mem::replace(&mut this.ended, true) {
            return Poll::Ready(Ok(()));
        }
        let finished = this.exchange.verb(|machine, t, id| machine.finish(t, id));
        Poll::Ready(finished.map_err(io::Error::from))
    }
}

impl Drop for ContentSender {
    fn drop(&mut self) {
        if !self.ended {
            let is_server = self.exchange.link.layered.connection().side().is_server();
            let code = if is_server { ErrorCode::H3_INTERNAL_ERROR } else { ErrorCode::H3_REQUEST_CANCELLED };
            self.exchange.leave_incomplete(code);
        }
    }
}

/// Bytes handed on at a time.
pub(super) const CHUNK: usize = 64 << 10;
