use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quickset_base::{Batch, Time};
use quickset_quic::SystemRefusal;

use crate::calls::Calls;
use crate::shared::Shared;
use crate::socket::{DatagramSocket, UnsentBatch};

/// The way out: a batch, and whether there is room for it.
pub(crate) struct DatagramOutlet {
    pub(crate) batch: Batch,
    /// Whose it is, when it waits.
    owner: Option<Arc<Shared>>,
    /// Segments that the system takes at a time.
    limit: usize,
    /// The batch waits for room in the socket's buffer.
    pub(crate) stalled: bool,
    /// It did since all was sent.
    pub(crate) has_stalled: bool,
    /// Since when there has been no room for anything.
    full_since: Option<Time>,
    /// The last batch was of several datagrams.
    pub(crate) bulk: bool,
    calls: Arc<Calls>,
}

impl DatagramOutlet {
    /// For as many segments at a time.
    pub(crate) fn new(limit: usize, calls: Arc<Calls>) -> Self {
        Self {
            batch: Batch::with_limit(limit),
            owner: None,
            limit,
            stalled: false,
            has_stalled: false,
            full_since: None,
            bulk: false,
            calls,
        }
    }

    /// The system takes as many segments at a time, as of now. Nothing waits.
    #[inline]
    pub(crate) fn take(&mut self, limit: usize) {
        if limit != self.limit {
            (self.limit, self.batch) = (limit, Batch::with_limit(limit));
        }
    }

    /// A batch that waits for room is lost, as datagrams are: there is another socket.
    pub(crate) fn give_up(&mut self) {
        self.batch.clear();
        self.owner = None;
        self.stalled = false;
        self.full_since = None;
    }

    /// Sends the batch that waits for room. False when there is still none.
    pub(crate) fn resume(&mut self, cx: &mut Context<'_>, socket: &dyn DatagramSocket, now: Time) -> bool {
        let owner = self.owner.take();
        owner.is_none_or(|owner| self.flush(cx, socket, now, &owner))
    }

    /// Sends the batch, which is of `owner`; who hears of what the system does not take. False when there is
    /// no room for it; it is kept then, for a while.
    #[inline]
    pub(crate) fn flush(
        &mut self,
        cx: &mut Context<'_>,
        socket: &dyn DatagramSocket,
        now: Time,
        owner: &Arc<Shared>,
    ) -> bool {
        let sent = socket.poll_send(cx, &self.batch);
        self.stalled = sent.is_pending();
        self.has_stalled |= self.stalled;
        self.bulk = self.batch.count() > 1;
        if self.stalled {
            // A network that takes nothing must not stop the clocks of connections: they may go another way,
            // and end.
            self.stalled = now.since(*self.full_since.get_or_insert(now)) < PATIENCE;
            self.owner = self.stalled.then(|| owner.clone());
        } else {
            self.full_since = None;
        }
        let unsent = match sent {
            Poll::Ready(Ok(())) => {
                self.calls.sent.count(self.batch.count());
                None
            }
            Poll::Ready(Err(unsent)) => Some(unsent),
            Poll::Pending => (!self.stalled).then(UnsentBatch::without_room),
        };
        if let Some(UnsentBatch { left, obstacle, error }) = unsent {
            let refusal = SystemRefusal { obstacle, words: error.to_string() };
            owner.lock().conn.not_sent(now, &self.batch, left, refusal);
        }
        if !self.stalled {
            self.batch.clear();
        }
        !self.stalled
    }

    /// When the batch has waited for long enough.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.full_since.filter(|_| self.stalled).map(|since| since + PATIENCE)
    }
}

/// A socket's buffer that has no room for anything for so long belongs to a network that is stuck: until it
/// takes something again, it is as if the system said so.
const PATIENCE: Duration = Duration::from_secs(1);
