use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quickset_quic::{self as quic, StreamId};

use crate::budget::poll_budget;
use crate::error::ReceiveError;
use crate::shared::HandlesOwner;

/// Receives messages from a stream.
///
/// Dropping the receiver before the end asks the peer to send no more, like [`stop`](Self::stop) with code 0.
pub struct MessageReceiver {
    owner: Arc<HandlesOwner>,
    id: StreamId,
    ended: bool,
}

/// A message that was received, and its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The bytes that were sent.
    pub payload: Bytes,
    /// The number of the segment, which is what lies between two fences. Messages of the same segment may
    /// have overtaken each other. A message of a segment with a greater number was sent later.
    pub segment: u64,
    /// The time at which its last byte arrived.
    pub completed: Instant,
    /// The time from which it could be read: everything before the last fence in front of it had arrived.
    pub released: Instant,
}

impl MessageReceiver {
    /// Of a stream that is held for it.
    pub(crate) fn new(owner: Arc<HandlesOwner>, id: StreamId) -> Self {
        Self { owner, id, ended: false }
    }

    /// The id of the stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Returns whether a part of it came as early data, before the handshake was complete, so that an
    /// attacker may have replayed it. See [`RecvStream::is_early`](crate::RecvStream::is_early).
    pub fn is_early(&self) -> bool {
        self.owner.shared.lock().conn.stream(self.id).came_early()
    }

    /// Waits for the next message that its fences let pass. It returns `None` after the last message, and
    /// after an error. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<ReceivedMessage, ReceiveError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Returns the next message if it is there already. `Some(None)` means that there are no more.
    pub fn try_next(&mut self) -> Option<Option<Result<ReceivedMessage, ReceiveError>>> {
        match self.take(None) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    /// Asks the peer to send no more, with a code for its application. Messages that were not read are lost.
    pub fn stop(mut self, code: u64) {
        self.give_up(code);
    }

    fn give_up(&mut self, code: u64) {
        if !self.ended {
            self.ended = true;
            // A stream that is through needs no stopping.
            let _ = self.owner.shared.lock().conn.recv_stream(self.id).stop(code);
            self.owner.shared.nudge();
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ReceivedMessage, ReceiveError>>> {
        let coop = ready!(poll_budget(cx));
        let next = self.take(Some(cx));
        if next.is_ready() {
            coop.made_progress();
        }
        next
    }

    fn take(&mut self, cx: Option<&Context<'_>>) -> Poll<Option<Result<ReceivedMessage, ReceiveError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let shared = &self.owner.shared;
        let now = shared.now();
        let mut state = shared.lock();
        let error = match state.conn.messages(self.id).recv(now) {
            Ok(Some(message)) => {
                shared.unlock(state);
                let clock = &shared.line.clock;
                return Poll::Ready(Some(Ok(ReceivedMessage {
                    payload: message.payload,
                    segment: message.segment,
                    completed: clock.instant(message.completed),
                    released: clock.instant(message.released),
                })));
            }
            Ok(None) => match (state.closed(), cx) {
                (Some(closed), _) => Some(ReceiveError::Closed(closed)),
                (None, cx) => {
                    if let Some(cx) = cx {
                        state.await_data(self.id, cx);
                    }
                    return Poll::Pending;
                }
            },
            Err(quic::ReadError::Reset(code)) => Some(ReceiveError::Reset(code)),
            Err(quic::ReadError::TooLong) => {
                // RFC 9000 §3.5: what follows cannot be read, so the peer may save its breath.
                let _ = state.conn.recv_stream(self.id).stop(0);
                Some(ReceiveError::Malformed("a message is longer than this side takes"))
            }
            Err(quic::ReadError::Truncated) => {
                Some(ReceiveError::Malformed("the stream ends inside a message"))
            }
            Err(quic::ReadError::Bytes) => Some(ReceiveError::Malformed("it was read as bytes before")),
            Err(
                quic::ReadError::Finished
                | quic::ReadError::UnknownStream
                | quic::ReadError::Messages
                | quic::ReadError::Ordered
                | quic::ReadError::Unordered,
            ) => None,
        };
        shared.unlock(state);
        self.ended = true;
        Poll::Ready(error.map(Err))
    }
}

impl Drop for MessageReceiver {
    fn drop(&mut self) {
        let mut state = self.owner.shared.lock();
        if !self.ended {
            // A stream that is through needs no stopping.
            let _ = state.conn.recv_stream(self.id).stop(0);
        }
        state.release(self.id);
        self.owner.shared.unlock(state);
    }
}

impl ReceivedMessage {
    /// Returns how long fences held back the complete message.
    pub fn blocked(&self) -> Duration {
        self.released.saturating_duration_since(self.completed)
    }
}

impl fmt::Debug for MessageReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageReceiver")
            .field("id", &self.id)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
