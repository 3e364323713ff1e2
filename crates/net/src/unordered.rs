use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use quickset_quic::{self as quic, Piece, StreamId};

use crate::budget::poll_budget;
use crate::error::ReadError;
use crate::shared::HandlesOwner;

/// The receiving half of a stream whose bytes are read as they come, not in order: see
/// [`RecvStream::unordered`](crate::RecvStream::unordered).
///
/// Dropping it before its end was read asks the peer to send no more, as if by [`stop`](Self::stop) with code
/// 0.
pub struct UnorderedStream {
    owner: Arc<HandlesOwner>,
    id: StreamId,
    /// What was found at the end, once it was.
    end: Option<Result<(), ReadError>>,
}

impl UnorderedStream {
    /// Of a stream that is held for it.
    pub(crate) fn new(owner: Arc<HandlesOwner>, id: StreamId) -> Self {
        Self { owner, id, end: None }
    }

    /// The id of the stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The next bytes that came, at least 1 and at most `max` of them, and where on the stream they begin;
    /// each byte comes once. `None` when all of the stream was read. Dropping the future loses nothing.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(&mut self, max: usize) -> Result<Option<(u64, Bytes)>, ReadError> {
        poll_fn(|cx| self.poll_read(cx, max.max(1))).await
    }

    /// Asks the peer to send no more, with a code for its application. What was not read is gone.
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

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<(u64, Bytes)>, ReadError>> {
        if let Some(end) = &self.end {
            return Poll::Ready(end.clone().map(|()| None));
        }
        let coop = ready!(poll_budget(cx));
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        let result = match state.conn.recv_stream(self.id).read_unordered(max) {
            Ok(Piece::Data { offset, bytes }) => Ok(Some((offset, bytes))),
            Ok(Piece::Blocked) => {
                if let Some(closed) = state.closed() {
                    return Poll::Ready(Err(ReadError::Closed(closed)));
                }
                state.await_data(self.id, cx);
                return Poll::Pending;
            }
            Err(quic::ReadError::Reset(code)) => Err(ReadError::Reset(code)),
            // The other errors are those of a stream that was read before.
            Ok(Piece::Finished) | Err(_) => Ok(None),
        };
        shared.unlock(state);
        coop.made_progress();
        if !matches!(result, Ok(Some(_))) {
            self.end = Some(result.clone().map(|_| ()));
        }
        Poll::Ready(result)
    }
}

impl Drop for UnorderedStream {
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

impl fmt::Debug for UnorderedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnorderedStream")
            .field("id", &self.id)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
