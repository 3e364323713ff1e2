use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use quickset_quic::{self as quic, Chunk, Dir, StreamId};

use crate::budget::poll_budget;
use crate::error::{ReadError, ReadExactError, ReadToEndError};
use crate::received::MessageReceiver;
use crate::shared::HandlesOwner;
use crate::unordered::UnorderedStream;

/// The receiving half of a stream.
///
/// Dropping it before its end was read asks the peer to send no more, like [`stop`](Self::stop) with code 0.
pub struct RecvStream {
    owner: Arc<HandlesOwner>,
    id: StreamId,
    /// What was found at the end, once it was.
    end: Option<Result<(), ReadError>>,
}

impl RecvStream {
    /// Of a stream that is held for it.
    pub(crate) fn new(owner: Arc<HandlesOwner>, id: StreamId) -> Self {
        Self { owner, id, end: None }
    }

    /// Returns the id of the stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Returns whether a part of the data came as early data, before the handshake was complete, so that an
    /// attacker may have replayed it.
    ///
    /// If doing something twice would do harm, wait for
    /// [`Connection::connected`](crate::Connection::connected) first, or refuse to do it.
    pub fn is_early(&self) -> bool {
        self.owner.shared.lock().conn.stream(self.id).came_early()
    }

    /// Waits for the next bytes in order and returns them as they lie in memory: at least 1 byte and at most
    /// `max`. It returns `None` at the end of the stream. Dropping the future loses nothing.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        let mut chunks = [Bytes::new()];
        let n = poll_fn(|cx| self.poll_chunks(cx, max, &mut chunks)).await?;
        let [chunk] = chunks;
        Ok((n > 0).then_some(chunk))
    }

    /// Fills `chunks` from the front with the bytes that are there, in order and as they lie in memory. It
    /// returns how many chunks it filled: at least one, or 0 at the end of the stream. This is cheaper than
    /// chunk by chunk. Dropping the future loses nothing.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_chunks(&mut self, chunks: &mut [Bytes]) -> Result<usize, ReadError> {
        poll_fn(|cx| self.poll_chunks(cx, usize::MAX, chunks)).await
    }

    /// Copies the bytes that are there into `buffer` and returns how many, or `None` at the end of the
    /// stream. Dropping the future loses nothing.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let n = poll_fn(|cx| {
            let mut filled = 0;
            self.poll_read_bytes(cx, buffer.len(), |bytes| {
                buffer[filled..filled + bytes.len()].copy_from_slice(bytes);
                filled += bytes.len();
            })
        })
        .await?;
        Ok((n > 0 || buffer.is_empty()).then_some(n))
    }

    /// Fills all of `buffer`, whose size is known: a header, or a length. Dropping the future loses the bytes
    /// read so far.
    ///
    /// # Errors
    /// See [`ReadExactError`].
    pub async fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ReadExactError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]).await? {
                Some(n) => filled += n,
                None => return Err(ReadExactError::TooShort(filled)),
            }
        }
        Ok(())
    }

    /// Reads all of the stream, up to `limit` bytes. Dropping the future loses the bytes read so far.
    ///
    /// # Errors
    /// See [`ReadToEndError`].
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = Vec::new();
        // Of a short stream there is one, and each place costs something.
        let mut chunks: [Bytes; 8] = Default::default();
        loop {
            let n = self.read_chunks(&mut chunks).await?;
            if n == 0 {
                return Ok(all);
            }
            let came = chunks[..n].iter().map(Bytes::len).sum::<usize>();
            if came > limit - all.len() {
                return Err(ReadToEndError::TooLong(limit));
            }
            all.reserve(came);
            for chunk in &mut chunks[..n] {
                all.extend_from_slice(&std::mem::take(chunk));
            }
        }
    }

    /// Turns the stream into one that is read as its bytes arrive and not in order, so that bytes behind a
    /// loss need not wait.
    ///
    /// # Errors
    /// When something was read, or its end was.
    pub fn unordered(mut self) -> Result<UnorderedStream, Self> {
        let mut state = self.owner.shared.lock();
        if self.end.is_some() || state.conn.recv_stream(self.id).as_unordered().is_err() {
            drop(state);
            return Err(self);
        }
        state.hold(self.id, 1);
        drop(state);
        let unordered = UnorderedStream::new(self.owner.clone(), self.id);
        // It goes on there, and need not be stopped here.
        self.end = Some(Ok(()));
        Ok(unordered)
    }

    /// Turns the stream into one of messages, as
    /// [`Connection::accept_messages`](crate::Connection::accept_messages) would have returned it. This is
    /// for applications whose peers open both kinds.
    ///
    /// # Errors
    /// The stream itself, when something of it was read, or its end was, or it is one for both directions:
    /// there the other half would have to change, too.
    pub fn into_messages(mut self) -> Result<MessageReceiver, Self> {
        let is_fresh = self.end.is_none() && self.id.dir() == Dir::Uni;
        let mut state = self.owner.shared.lock();
        if !is_fresh || state.conn.messages(self.id).begin().is_err() {
            drop(state);
            return Err(self);
        }
        state.hold(self.id, 1);
        drop(state);
        let messages = MessageReceiver::new(self.owner.clone(), self.id);
        // It goes on there, and need not be stopped here.
        self.end = Some(Ok(()));
        Ok(messages)
    }

    /// Asks the peer to send no more, with a code for its application. Bytes that were not read are lost.
    pub fn stop(mut self, code: u64) {
        self.give_up(code);
    }

    fn give_up(&mut self, code: u64) {
        if self.end.is_none() {
            self.end = Some(Ok(()));
            // A stream that is through needs no stopping.
            let _ = self.owner.shared.lock().conn.recv_stream(self.id).stop(code);
            self.owner.shared.nudge();
        }
    }

    fn poll_chunks(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        chunks: &mut [Bytes],
    ) -> Poll<Result<usize, ReadError>> {
        let (max, mut filled) = (max.max(1), 0);
        let room = if chunks.is_empty() { 0 } else { max };
        let take = |bytes| {
            chunks[filled] = bytes;
            filled += 1;
            if filled < chunks.len() { max } else { 0 }
        };
        self.poll_each(cx, room, take)
    }

    /// Has up to `room` bytes put where they are wanted; 0 bytes at the end.
    pub(crate) fn poll_read_bytes(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
        mut put: impl FnMut(&[u8]),
    ) -> Poll<Result<usize, ReadError>> {
        let mut left = room;
        let take = |bytes: Bytes| {
            put(&bytes);
            left -= bytes.len();
            left
        };
        ready!(self.poll_each(cx, room, take))?;
        Poll::Ready(Ok(room - left))
    }

    /// Passes chunks to `take` while it has room for more, as it answers each time, `room` at first. Ready
    /// with the number of chunks, 0 at the end of the stream.
    fn poll_each(
        &mut self,
        cx: &mut Context<'_>,
        mut room: usize,
        mut take: impl FnMut(Bytes) -> usize,
    ) -> Poll<Result<usize, ReadError>> {
        if let Some(end) = &self.end {
            return Poll::Ready(end.clone().map(|()| 0));
        }
        let coop = ready!(poll_budget(cx));
        let mut taken = 0;
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        while room > 0 {
            match state.conn.recv_stream(self.id).read(room) {
                Ok(Chunk::Data(bytes)) => {
                    taken += 1;
                    room = take(bytes);
                    continue;
                }
                Err(quic::ReadError::Reset(code)) => self.end = Some(Err(ReadError::Reset(code))),
                // It can be taken for what it is, or dropped, and the peer is told then.
                Err(quic::ReadError::Messages) => return Poll::Ready(Err(ReadError::Messages)),
                // The other errors are those of a stream that was read before.
                Ok(Chunk::Finished) | Err(_) => self.end = Some(Ok(())),
                Ok(Chunk::Blocked) if taken > 0 => {}
                Ok(Chunk::Blocked) => {
                    if let Some(closed) = state.closed() {
                        return Poll::Ready(Err(ReadError::Closed(closed)));
                    }
                    state.await_data(self.id, cx);
                    return Poll::Pending;
                }
            }
            break;
        }
        shared.unlock(state);
        coop.made_progress();
        match &self.end {
            Some(Err(error)) if taken == 0 => Poll::Ready(Err(error.clone())),
            _ => Poll::Ready(Ok(taken)),
        }
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let mut state = self.owner.shared.lock();
        if self.end.is_none() {
            // A stream that is through needs no stopping.
            let _ = state.conn.recv_stream(self.id).stop(0);
        }
        state.release(self.id);
        self.owner.shared.unlock(state);
    }
}

impl fmt::Debug for RecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStream").field("id", &self.id).field("end", &self.end).finish_non_exhaustive()
    }
}
