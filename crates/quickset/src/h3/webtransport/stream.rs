use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use quickset_h3::{Priority, VerbRefusal};
use quickset_net::Reliability;
use quickset_quic::{Chunk, StreamId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::HttpError;
use super::super::http::{ExchangeHandle, Http};
use super::session::SessionShared;
use super::{Session, SessionError};

/// The sending half of a session's stream.
///
/// It ends with [`finish`](Self::finish). Dropping it before gives it up with code 0: what is incomplete must
/// not look complete. It is a writer for tokio, too.
#[derive(Debug)]
pub struct SendStream {
    stream: Arc<StreamShared>,
    ended: bool,
}

/// The receiving half of a session's stream.
///
/// Dropping it before its end tells the peer, with code 0, that the rest is not wanted. It is a reader for
/// tokio, too.
#[derive(Debug)]
pub struct RecvStream {
    stream: Arc<StreamShared>,
    ended: bool,
    /// Why, if it broke off.
    failed: Option<SessionError>,
}

/// What the halves of a stream share.
#[derive(Debug)]
struct StreamShared {
    // Before `held`: the slot goes before the session does.
    exchange: ExchangeHandle,
    held: Arc<SessionShared>,
}

impl SendStream {
    pub(super) fn new(session: &Session, id: StreamId) -> Self {
        Self { stream: StreamShared::new(session, id), ended: false }
    }

    pub(super) fn pair(session: &Session, id: StreamId) -> (Self, RecvStream) {
        let stream = StreamShared::new(session, id);
        (Self { stream: stream.clone(), ended: false }, RecvStream { stream, ended: false, failed: None })
    }

    /// Sends all of `data`; waits as long as the peer does not take it. Dropping the future leaves some of it
    /// sent.
    ///
    /// # Errors
    /// When the peer wants no more, or the session or the connection is over.
    pub async fn send(&mut self, mut data: Bytes) -> Result<(), SessionError> {
        while !data.is_empty() {
            let sent = poll_fn(|cx| self.stream.poll_write(cx, data.len(), |n| data.slice(..n))).await?;
            data.advance(sent);
        }
        Ok(())
    }

    /// Ends the stream behind what was sent. Does not wait.
    ///
    /// # Errors
    /// When the peer wants no more of it, or the session or the connection is over.
    pub fn finish(mut self) -> Result<(), SessionError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), SessionError> {
        self.ended = true;
        let StreamShared { exchange, held } = &*self.stream;
        exchange.link.layered.with(|http, turn| {
            let result = http.verb(turn, |machine, t| machine.session_finish(t, exchange.id));
            result.map_err(|refusal| http.session_refused(turn, held.exchange.id, exchange.id, refusal))
        })
    }

    /// Gives up sending, with a code for the peer. What was sent may be lost, and with it that there was a
    /// stream.
    pub fn reset(mut self, code: u32) {
        self.give_up(code);
    }

    /// Sends this stream by this priority from now on: what it is among the streams of this session, how
    /// urgent, whether parts of it are of use, its weight, and the classes below the session that it hangs
    /// under. What all of the session gets goes by the priority of its request. Unless told, its streams
    /// share that evenly.
    ///
    /// # Errors
    /// When the session or the connection is over, or the stream.
    pub fn set_priority(&self, priority: &Priority) -> Result<(), SessionError> {
        let StreamShared { exchange, held } = &*self.stream;
        exchange.link.layered.with(|http, turn| {
            let result =
                http.verb(turn, |machine, t| machine.schedule_session_stream(t, exchange.id, priority));
            result.map_err(|refusal| http.session_refused(turn, held.exchange.id, exchange.id, refusal))
        })
    }

    /// Repairs losses of this stream as `reliability` says, from now on. Streams of bytes have no deadlines.
    /// It has no effect unless both sides can ([`has_fec`](crate::Connection::has_fec)); browsers cannot.
    pub fn set_reliability(&self, reliability: &Reliability) {
        self.stream.exchange.protect(reliability.protection());
    }

    fn give_up(&mut self, code: u32) {
        if !std::mem::replace(&mut self.ended, true) {
            self.stream
                .with(|http, turn, id| http.verb(turn, |machine, t| machine.session_reset(t, id, code)));
        }
    }
}

impl RecvStream {
    pub(super) fn new(session: &Session, id: StreamId) -> Self {
        Self { stream: StreamShared::new(session, id), ended: false, failed: None }
    }

    /// The next bytes, never none; `None` behind the last. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the stream ends before its end: each time, so that it does not look complete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SessionError> {
        poll_fn(|cx| self.poll_next(cx, CHUNK)).await
    }

    /// At most `max` bytes, which is not 0.
    fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, SessionError>> {
        if self.ended {
            return Poll::Ready(self.failed.clone().map_or(Ok(None), Err));
        }
        let StreamShared { exchange, held } = &*self.stream;
        let next = ready!(exchange.link.layered.poll(cx, |http, turn, waker| {
            match http.verb(turn, |machine, t| machine.session_read(t, exchange.id, max)) {
                Ok(Chunk::Data(data)) => Poll::Ready(Ok(Some(data))),
                Ok(Chunk::Finished) => Poll::Ready(Ok(None)),
                Ok(Chunk::Blocked) => {
                    if let Some(over) = http.session_over(turn, held.exchange.id) {
                        return Poll::Ready(Err(over));
                    }
                    http.slot(exchange.id).reader = Some(waker.clone());
                    Poll::Pending
                }
                Err(refusal) => {
                    Poll::Ready(Err(http.session_refused(turn, held.exchange.id, exchange.id, refusal)))
                }
            }
        }));
        self.ended = matches!(next, Ok(None) | Err(_));
        self.failed = next.as_ref().err().cloned();
        Poll::Ready(next)
    }

    /// All of the stream, of `limit` bytes at most. Dropping the future loses what was read of it.
    ///
    /// # Errors
    /// When it ends before its end, or is longer.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, SessionError> {
        let mut all = Vec::new();
        while let Some(data) = self.next().await? {
            if data.len() > limit - all.len() {
                return Err(HttpError::TooLong(limit).into());
            }
            all.extend_from_slice(&data);
        }
        Ok(all)
    }

    /// Wants no more of it, with a code for the peer.
    pub fn stop(mut self, code: u32) {
        self.give_up(code);
    }

    fn give_up(&mut self, code: u32) {
        if !std::mem::replace(&mut self.ended, true) {
            self.stream
                .with(|http, turn, id| http.verb(turn, |machine, t| machine.session_stop(t, id, code)));
        }
    }
}

impl StreamShared {
    fn new(session: &Session, id: StreamId) -> Arc<Self> {
        let held = session.held.clone();
        Arc::new(Self { exchange: ExchangeHandle { link: held.exchange.link.clone(), id }, held })
    }

    /// Sends some of `len` bytes, of which `part` gives as many as it is told from the front, and returns how
    /// many.
    fn poll_write(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        part: impl FnOnce(usize) -> Bytes,
    ) -> Poll<Result<usize, SessionError>> {
        let Self { exchange, held } = self;
        exchange.link.layered.poll(cx, |http, turn, waker| {
            let sent = http.verb(turn, |machine, t| {
                // Nothing is copied that has to wait: first nothing is sent, and finds whether there is room.
                machine.session_write(t, exchange.id, &mut Bytes::new())?;
                // The machine keeps what it takes until the stream does: little at a time.
                machine.session_write(t, exchange.id, &mut part(len.min(CHUNK)))
            });
            match sent {
                Err(VerbRefusal::Blocked) => {
                    http.slot(exchange.id).writer = Some(waker.clone());
                    Poll::Pending
                }
                sent => {
                    Poll::Ready(sent.map_err(|refusal| {
                        http.session_refused(turn, held.exchange.id, exchange.id, refusal)
                    }))
                }
            }
        })
    }

    fn with(&self, verb: impl FnOnce(&mut Http, &mut quickset_net::LayerTurn<'_>, StreamId)) {
        self.exchange.link.layered.with(|http, turn| verb(http, turn, self.exchange.id));
    }
}

/// The end of the stream is that of what is read. One that breaks off is an error each time: it does not look
/// complete. Dropping a future that reads loses nothing beyond what that says of itself.
impl AsyncRead for RecvStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        crate::h3::read_into(buffer, |room| this.poll_next(cx, room))
    }
}

/// Bytes that are taken are sent. To flush does nothing; to shut down is [`SendStream::finish`], which does
/// not wait for what was sent to arrive. Dropping a future that writes loses nothing beyond what that says of
/// itself.
impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let sent = self.stream.poll_write(cx, data.len(), |n| Bytes::copy_from_slice(&data[..n]));
        sent.map_err(io::Error::from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        Poll::Ready(if this.ended { Ok(()) } else { this.end().map_err(io::Error::from) })
    }
}

impl Drop for StreamShared {
    fn drop(&mut self) {
        let (session, id) = (self.held.exchange.id, self.exchange.id);
        self.exchange.link.layered.with(|http, _| {
            if let Some(room) = http.rooms.get_mut(&session) {
                room.streams.remove(&id);
            }
        });
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        self.give_up(0);
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.give_up(0);
    }
}

/// Bytes handed on at a time.
const CHUNK: usize = 64 << 10;
