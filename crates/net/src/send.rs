use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use quickset_quic::{
    self as quic, Class, ClassError, FinishError, Priority, Protection, ResetAtError, StreamId,
};
use tokio::io::AsyncWrite;

use crate::error::WriteError;
use crate::reliability::Reliability;
use crate::shared::{Owner, State};
use crate::wakers::Seat;

/// The sending half of a stream.
///
/// Dropping it finishes the stream, as if by [`finish`](Self::finish), unless it was reset: what was written
/// is delivered. To say that it is incomplete, [`reset`](Self::reset) it.
pub struct SendStream {
    owner: Arc<Owner>,
    id: StreamId,
    written: u64,
}

impl SendStream {
    pub(crate) fn new(owner: Arc<Owner>, id: StreamId) -> Self {
        owner.shared.lock().hold(id);
        Self { owner, id, written: 0 }
    }

    /// The id of the stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Bytes taken so far by the verbs that write. Whoever drops a future of [`write_all`](Self::write_all) sees
    /// here how far it got.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The same with this [`Reliability`].
    #[must_use]
    pub fn with(mut self, reliability: impl Into<Reliability>) -> Self {
        self.set_protection(reliability.into().protection());
        self
    }

    /// Writes bytes from the front of `data`, as many as there is room for, and returns how many; waits until
    /// there is some. Dropping the future before it is ready means that nothing was written.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write_bytes(cx, data)).await
    }

    /// Writes all of `data`. Dropping the future leaves some of it written: [`written`](Self::written) says how
    /// much.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let n = self.write(data).await?;
            data = &data[n..];
        }
        Ok(())
    }

    /// Takes bytes from the front of `data` without copying them, as many as there is room for; waits until
    /// there is some. Dropping the future loses nothing: what was not taken stays in `data`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_some(&mut self, data: &mut Bytes) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write_some(cx, data)).await
    }

    /// Writes all of `chunk` without copying it. Dropping the future leaves some of it written:
    /// [`written`](Self::written) says how much.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> Result<(), WriteError> {
        while !chunk.is_empty() {
            self.write_some(&mut chunk).await?;
        }
        Ok(())
    }

    /// Ends the stream behind what was written. Does not wait: see [`finished`](Self::finished).
    ///
    /// # Errors
    /// When the stream has ended already, or the connection.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        let mut state = self.owner.shared.lock();
        if let Some(closed) = state.closed() {
            return Err(WriteError::Closed(closed));
        }
        let result = match state.conn.finish(self.id) {
            Ok(()) => Ok(()),
            Err(FinishError::Stopped(code)) => Err(WriteError::Stopped(code)),
            Err(FinishError::Ended | FinishError::UnknownStream) => Err(state.ended(self.id)),
        };
        drop(state);
        self.owner.shared.nudge();
        result
    }

    /// Waits until all that was written, and the end, have arrived. Without [`finish`](Self::finish) it waits for
    /// the end of the connection.
    ///
    /// # Errors
    /// When the peer wants no more, or the connection ended before. When the stream was reset: as soon as the peer knows,
    /// and has what [`reset_at`](Self::reset_at) promised.
    pub async fn finished(&self) -> Result<(), WriteError> {
        self.owner.finished(self.id).await
    }

    /// Waits until the peer wants no more of the stream, and returns its code; `None` when all has arrived
    /// instead.
    ///
    /// # Errors
    /// When the stream was reset here, as [`finished`](Self::finished) says, or the connection ended before.
    pub async fn stopped(&self) -> Result<Option<u64>, WriteError> {
        match self.finished().await {
            Ok(()) => Ok(None),
            Err(WriteError::Stopped(code)) => Ok(Some(code)),
            Err(other) => Err(other),
        }
    }

    /// Gives the stream up: what has not arrived does not matter any more, and the peer is told `code`.
    pub fn reset(&mut self, code: u64) {
        // A stream that is through needs no reset.
        let _ = self.owner.shared.lock().conn.reset(self.id, code);
        self.owner.shared.nudge();
    }

    /// Gives the stream up behind its first `reliable` bytes: these arrive, the rest need not, and then the peer is told
    /// `code`. Another call, or [`reset`](Self::reset), can only take back a part of the promise.
    ///
    /// # Errors
    /// When the peer takes no such resets, or the stream is through.
    pub fn reset_at(&mut self, code: u64, reliable: u64) -> Result<(), ResetAtError> {
        let result = self.owner.shared.lock().conn.reset_at(self.id, code, reliable);
        self.owner.shared.nudge();
        result
    }

    /// What the stream is among its siblings: those under the same [class](Self::set_class), or without one. Its data waits for
    /// that of more urgent ones, and has its share by weight among those of the same urgency. From the start: urgency 3,
    /// weight 1, of use in parts.
    ///
    /// ```no_run
    /// # use quickset_net::{Class, ClassError, Priority, SendStream};
    /// # fn f(camera: &mut SendStream, slides: &mut SendStream) -> Result<(), ClassError> {
    /// // Two thirds for the camera, as long as there are slides; together they are one to whatever else is sent.
    /// camera.set_priority(Priority::weighted(2.0));
    /// camera.set_class(&[Class::new("talk", 1.0)])?;
    /// slides.set_class(&[Class::new("talk", 1.0)])?;
    /// # Ok(()) }
    /// ```
    pub fn set_priority(&mut self, priority: Priority) {
        // A stream that is through is nobody's sibling.
        let _ = self.owner.shared.lock().conn.set_priority(self.id, priority);
        self.owner.shared.nudge();
    }

    /// Hangs the stream under the last of these classes, the first of which is below the connection itself; with none, below
    /// that. It keeps its own priority. Classes that are missing are made, those that exist get the priority that is given
    /// here; each goes with the last stream under it.
    ///
    /// # Errors
    /// When there are too many classes, or too many one below the other, or the stream is through. Nothing has changed then.
    pub fn set_class(&mut self, path: &[Class]) -> Result<(), ClassError> {
        let result = self.owner.shared.lock().conn.set_class(self.id, path);
        self.owner.shared.nudge();
        result
    }

    /// How urgent the stream's data is, 0 (most) to 7; 3 from the start. Less urgent data waits for more urgent.
    pub fn set_urgency(&mut self, urgency: u8) {
        // A stream that is through has nothing to be urgent about.
        let _ = self.owner.shared.lock().conn.set_urgency(self.id, urgency);
        self.owner.shared.nudge();
    }

    /// Puts the stream's data before that of all urgencies, until [`set_urgency`](Self::set_urgency): for what everything
    /// else waits for.
    pub fn set_critical(&mut self) {
        let _ = self.owner.shared.lock().conn.set_critical(self.id);
        self.owner.shared.nudge();
    }

    /// Whether the data is of use in parts; true from the start. Such streams of the same urgency take turns; those that are
    /// not are sent one after the other, in the order in which they were opened.
    pub fn set_incremental(&mut self, incremental: bool) {
        let _ = self.owner.shared.lock().conn.set_incremental(self.id, incremental);
        self.owner.shared.nudge();
    }

    /// How the data is protected against loss from now on; see [`Protection`]. It has no effect unless
    /// [`has_fec`](crate::Connection::has_fec).
    pub fn set_protection(&mut self, protection: &Protection) {
        // A stream that is through has nothing to protect.
        let _ = self.owner.shared.lock().conn.set_protection(self.id, protection);
        self.owner.shared.nudge();
    }

    /// The application waits for the answer to what it has written: where it ends, protection may add repair. It sends
    /// nothing earlier.
    pub fn flush(&mut self) {
        let _ = self.owner.shared.lock().conn.flush(self.id);
        self.owner.shared.nudge();
    }

    fn poll_write_some(&mut self, cx: &mut Context<'_>, data: &mut Bytes) -> Poll<Result<usize, WriteError>> {
        let coop = ready!(tokio::task::coop::poll_proceed(cx));
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        if let Some(closed) = state.closed() {
            return Poll::Ready(Err(WriteError::Closed(closed)));
        }
        let result = match state.conn.write(self.id, data) {
            Ok(n) => Ok(n),
            Err(quic::WriteError::Blocked) => {
                state.await_room(self.id, cx);
                return Poll::Pending;
            }
            Err(quic::WriteError::Stopped(code)) => Err(WriteError::Stopped(code)),
            Err(quic::WriteError::Ended | quic::WriteError::UnknownStream | quic::WriteError::Messages) => {
                Err(state.ended(self.id))
            }
        };
        drop(state);
        shared.nudge();
        coop.made_progress();
        self.written += result.as_ref().map_or(0, |n| *n as u64);
        Poll::Ready(result)
    }

    fn poll_write_bytes(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, WriteError>> {
        // Copied before the lock is taken, and no more than is likely to be taken at a time.
        let mut chunk = Bytes::copy_from_slice(&data[..data.len().min(MAX_COPY)]);
        self.poll_write_some(cx, &mut chunk)
    }
}

impl Owner {
    /// Waits until all of a sending half has arrived, or cannot any more.
    pub(crate) async fn finished(&self, id: StreamId) -> Result<(), WriteError> {
        let seat = Seat::new(|| self.shared.lock(), |state| &mut state.slot(id).fate);
        seat.wait(|state| state.fate(id)).await
    }
}

impl State {
    /// What became of a sending half, once that is known.
    fn fate(&mut self, id: StreamId) -> Option<Result<(), WriteError>> {
        let slot = self.slot(id);
        if slot.finished {
            return Some(Ok(()));
        }
        if let Some(code) = slot.stopped {
            return Some(Err(WriteError::Stopped(code)));
        }
        if slot.given_up {
            return Some(Err(WriteError::Ended));
        }
        self.closed().map(|closed| Err(WriteError::Closed(closed)))
    }

    /// Why a stream takes nothing more.
    pub(crate) fn ended(&self, id: StreamId) -> WriteError {
        match self.streams.get(&id).and_then(|slot| slot.stopped) {
            Some(code) => WriteError::Stopped(code),
            None => WriteError::Ended,
        }
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let mut state = self.owner.shared.lock();
        // One that was finished, reset or stopped is no concern of ours any more.
        let _ = state.conn.finish(self.id);
        state.release(self.id);
        drop(state);
        self.owner.shared.nudge();
    }
}

/// Errors are those of [`SendStream::write`]; to flush is [`SendStream::flush`] and never waits, and to shut down
/// finishes the stream and waits until all has arrived.
impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_bytes(cx, data).map_err(io::Error::from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.finish() {
            // Called again while it waits, it was finished before.
            Ok(()) | Err(WriteError::Ended) => {}
            Err(other) => return Poll::Ready(Err(other.into())),
        }
        let mut state = this.owner.shared.lock();
        let Some(fate) = state.fate(this.id) else {
            // As who writes, of whom there is one: it is woken when the sending half is over.
            state.await_room(this.id, cx);
            return Poll::Pending;
        };
        Poll::Ready(fate.map_err(io::Error::from))
    }
}

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream")
            .field("id", &self.id)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

/// Bytes copied at a time.
const MAX_COPY: usize = 64 << 10;
