use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use quickset_quic::{
    self as quic, Class, ClassError, FinishError, Priority, Protection, ResetAtError, StreamId,
};

use crate::budget::poll_budget;
use crate::error::WriteError;
use crate::reliability::Reliability;
use crate::shared::{HandlesOwner, LockedState};
use crate::wakers::WakerSeat;

/// The sending half of a stream.
///
/// Dropping it finishes the stream like [`finish`](Self::finish), unless it was reset: data written so far is
/// still delivered. To tell the peer that the data is incomplete, [`reset`](Self::reset) the stream.
pub struct SendStream {
    owner: Arc<HandlesOwner>,
    id: StreamId,
    written: u64,
}

impl SendStream {
    /// Of a stream that is held for it.
    pub(crate) fn new(owner: Arc<HandlesOwner>, id: StreamId) -> Self {
        Self { owner, id, written: 0 }
    }

    /// Returns the id of the stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Returns how many bytes were written so far. After dropping a future of [`write_all`](Self::write_all)
    /// this tells how far it got.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the same stream with this [`Reliability`].
    #[must_use]
    pub fn with(mut self, reliability: impl Into<Reliability>) -> Self {
        self.set_protection(reliability.into().protection());
        self
    }

    /// Writes as many bytes from the front of `data` as there is room for, and returns how many. The call
    /// waits until there is room for some. If the future is dropped before it is ready, nothing was written.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write_bytes(cx, data)).await
    }

    /// Writes all of `data`. If the future is dropped, a part of it may have been written:
    /// [`written`](Self::written) tells how much.
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

    /// Takes as many bytes from the front of `data` as there is room for, without copying them. The call
    /// waits until there is room for some. If the future is dropped, bytes that were not taken are still in
    /// `data`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_some(&mut self, data: &mut Bytes) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write_some(cx, data, false)).await
    }

    /// Writes all of `chunk` without copying it. If the future is dropped, a part of it may have been
    /// written: [`written`](Self::written) tells how much.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> Result<(), WriteError> {
        while !chunk.is_empty() {
            self.write_some(&mut chunk).await?;
        }
        Ok(())
    }

    /// Writes all of `data` and ends the stream behind it, as [`write_all`](Self::write_all) and
    /// [`finish`](Self::finish) do, in one step where there is room for all. If the future is dropped, the
    /// stream has not ended, and a part of `data` may have been written.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn finish_with(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while data.len() > MAX_COPY {
            let n = self.write(data).await?;
            data = &data[n..];
        }
        self.finish_with_chunk(Bytes::copy_from_slice(data)).await
    }

    /// The same with bytes that are not copied.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn finish_with_chunk(&mut self, mut chunk: Bytes) -> Result<(), WriteError> {
        if chunk.is_empty() {
            return self.finish();
        }
        while !chunk.is_empty() {
            poll_fn(|cx| self.poll_write_some(cx, &mut chunk, true)).await?;
        }
        Ok(())
    }

    /// Ends the stream behind the bytes written so far. The call does not wait: see
    /// [`finished`](Self::finished).
    ///
    /// # Errors
    /// When the stream has ended already, or the connection.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        let mut state = self.owner.shared.lock();
        if let Some(closed) = state.closed() {
            return Err(WriteError::Closed(closed));
        }
        let result = match state.conn.send_stream(self.id).finish() {
            Ok(()) => Ok(()),
            Err(FinishError::Stopped(code)) => Err(WriteError::Stopped(code)),
            Err(FinishError::Ended | FinishError::UnknownStream) => Err(state.ended(self.id)),
        };
        self.owner.shared.unlock(state);
        result
    }

    /// Waits until all bytes and the end of the stream have arrived. Without [`finish`](Self::finish) it
    /// waits for the end of the connection.
    ///
    /// # Errors
    /// When the peer wants no more, or the connection ended before. When the stream was reset, the error
    /// comes once the peer knows of that and has the bytes that [`reset_at`](Self::reset_at) promised.
    pub async fn finished(&self) -> Result<(), WriteError> {
        self.owner.finished(self.id).await
    }

    /// Waits until the peer wants no more of the stream, and returns the peer's code; or until
    /// everything has arrived, and returns `None`.
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

    /// Gives up the stream. Bytes that have not arrived are no longer sent, and the peer is told `code`.
    pub fn reset(&mut self, code: u64) {
        // A stream that is through needs no reset.
        let _ = self.owner.shared.lock().conn.send_stream(self.id).reset(code);
        self.owner.shared.nudge();
    }

    /// Gives up the stream behind its first `reliable` bytes. These bytes still arrive, the rest may not, and
    /// then the peer is told `code`. Another call, or [`reset`](Self::reset), can make
    /// `reliable` smaller, but not larger.
    ///
    /// # Errors
    /// When the peer takes no such resets, or the stream is through.
    pub fn reset_at(&mut self, code: u64, reliable: u64) -> Result<(), ResetAtError> {
        let result = self.owner.shared.lock().conn.send_stream(self.id).reset_at(code, reliable);
        self.owner.shared.nudge();
        result
    }

    /// Sets the priority of the stream among its siblings, which are the streams of the same
    /// [class](Self::set_class) or those without a class. Its data waits for that of more urgent siblings.
    /// Siblings of the same urgency share by weight.
    ///
    /// Unless told otherwise a stream has urgency 3 and weight 1, and is
    /// [incremental](Self::set_incremental).
    ///
    /// ```no_run
    /// # use quickset_net::{Class, ClassError, Priority, SendStream};
    /// # fn f(camera: &mut SendStream, slides: &mut SendStream) -> Result<(), ClassError> {
    /// // Two thirds for the camera, as long as there are slides; other streams see one class.
    /// camera.set_priority(Priority::weighted(2.0));
    /// camera.set_class(&[Class::new("talk", 1.0)])?;
    /// slides.set_class(&[Class::new("talk", 1.0)])?;
    /// # Ok(()) }
    /// ```
    pub fn set_priority(&mut self, priority: Priority) {
        // A stream that is through is nobody's sibling.
        let _ = self.owner.shared.lock().conn.send_stream(self.id).set_priority(priority);
        self.owner.shared.nudge();
    }

    /// Puts the stream into the last of these classes. The first class is a child of the connection, and each
    /// other class is a child of the one before it. With no class the stream is a child of the connection
    /// itself.
    ///
    /// The stream keeps its own priority. Classes that do not exist are made; those that exist get the
    /// priority given here. A class is removed with the last stream in it.
    ///
    /// # Errors
    /// When there are too many classes, or too many one below the other, or the stream is through. Nothing
    /// has changed then.
    pub fn set_class(&mut self, path: &[Class]) -> Result<(), ClassError> {
        let result = self.owner.shared.lock().conn.send_stream(self.id).set_class(path);
        self.owner.shared.nudge();
        result
    }

    /// Sets how urgent the stream's data is: 0 (most) to 7 (least), 3 unless told otherwise. Less urgent data
    /// waits for more urgent data.
    pub fn set_urgency(&mut self, urgency: u8) {
        // A stream that is through has nothing to be urgent about.
        let _ = self.owner.shared.lock().conn.send_stream(self.id).set_urgency(urgency);
        self.owner.shared.nudge();
    }

    /// Sends the stream's data before all other data, however urgent that is, until the next
    /// [`set_urgency`](Self::set_urgency). This is for data that everything else waits for.
    pub fn set_critical(&mut self) {
        let _ = self.owner.shared.lock().conn.send_stream(self.id).set_critical();
        self.owner.shared.nudge();
    }

    /// Sets whether the peer can use a part of the data before the rest has come (RFC 9218, section 4.2); it
    /// can unless told otherwise. Such streams of the same urgency take turns. Other streams are sent one
    /// after the other, in the order in which they were opened.
    pub fn set_incremental(&mut self, incremental: bool) {
        let _ = self.owner.shared.lock().conn.send_stream(self.id).set_incremental(incremental);
        self.owner.shared.nudge();
    }

    /// Sets how the data is protected against loss from now on; see [`Protection`]. Without
    /// [`has_fec`](crate::Connection::has_fec) it has no effect.
    pub fn set_protection(&mut self, protection: &Protection) {
        // A stream that is through has nothing to protect.
        let _ = self.owner.shared.lock().conn.send_stream(self.id).set_protection(protection);
        self.owner.shared.nudge();
    }

    /// Says that the application now waits for an answer to the bytes written so far, so that protection may
    /// add repair behind them. Nothing is sent earlier because of it.
    pub fn flush(&mut self) {
        let _ = self.owner.shared.lock().conn.send_stream(self.id).flush();
        self.owner.shared.nudge();
    }

    /// Writes what there is room for, and if that is all, and it `ends` with it, the end.
    fn poll_write_some(
        &mut self,
        cx: &mut Context<'_>,
        data: &mut Bytes,
        ends: bool,
    ) -> Poll<Result<usize, WriteError>> {
        let coop = ready!(poll_budget(cx));
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        if let Some(closed) = state.closed() {
            return Poll::Ready(Err(WriteError::Closed(closed)));
        }
        let result = match state.conn.send_stream(self.id).write(data) {
            Ok(n) => {
                if ends && data.is_empty() {
                    // What takes bytes takes the end behind them.
                    let _ = state.conn.send_stream(self.id).finish();
                }
                Ok(n)
            }
            Err(quic::WriteError::Blocked) => {
                state.await_room(self.id, cx);
                return Poll::Pending;
            }
            Err(quic::WriteError::Stopped(code)) => Err(WriteError::Stopped(code)),
            Err(quic::WriteError::Ended | quic::WriteError::UnknownStream | quic::WriteError::Messages) => {
                Err(state.ended(self.id))
            }
        };
        shared.unlock(state);
        coop.made_progress();
        self.written += result.as_ref().map_or(0, |n| *n as u64);
        Poll::Ready(result)
    }

    pub(crate) fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        // Copied before the lock is taken, and no more than is likely to be taken at a time.
        let mut chunk = Bytes::copy_from_slice(&data[..data.len().min(MAX_COPY)]);
        self.poll_write_some(cx, &mut chunk, false)
    }

    /// Finishes the stream, and is ready when all has arrived, or cannot any more.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        match self.finish() {
            // Called again while it waits, it was finished before.
            Ok(()) | Err(WriteError::Ended) => {}
            Err(other) => return Poll::Ready(Err(other)),
        }
        let mut state = self.owner.shared.lock();
        let Some(fate) = state.fate(self.id) else {
            // As who writes, of whom there is one: it is woken when the sending half is over.
            state.await_room(self.id, cx);
            return Poll::Pending;
        };
        Poll::Ready(fate)
    }
}

impl HandlesOwner {
    /// Waits until all of a sending half has arrived, or cannot any more.
    pub(crate) async fn finished(&self, id: StreamId) -> Result<(), WriteError> {
        let seat = WakerSeat::new(|| self.shared.lock(), |state| &mut state.slot(id).fate);
        seat.wait(|state| state.fate(id)).await
    }
}

impl LockedState {
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
        let _ = state.conn.send_stream(self.id).finish();
        state.release(self.id);
        self.owner.shared.unlock(state);
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
