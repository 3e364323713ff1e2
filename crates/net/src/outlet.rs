use std::task::Context;
use std::time::Duration;

use quickset_base::{Batch, Time};

use crate::socket::Socket;

/// The way out: a batch, and whether there is room for it.
pub(crate) struct Outlet {
    pub(crate) batch: Batch,
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
}

impl Outlet {
    /// For as many segments at a time.
    pub(crate) fn new(limit: usize) -> Self {
        let batch = Batch::with_limit(limit);
        Self { batch, limit, stalled: false, has_stalled: false, full_since: None, bulk: false }
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
        self.stalled = false;
        self.full_since = None;
    }

    /// Sends the batch. False when there is no room for it; it is kept then, for a while.
    #[inline]
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>, socket: &Socket, now: Time) -> bool {
        self.stalled = socket.poll_send(cx, &self.batch).is_pending();
        self.has_stalled |= self.stalled;
        self.bulk = self.batch.count() > 1;
        if self.stalled {
            // A network that takes nothing must not stop the clocks of connections: they may go another way, and end.
            self.stalled = now.since(*self.full_since.get_or_insert(now)) < PATIENCE;
        } else {
            self.full_since = None;
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

/// A socket's buffer that has no room for anything for so long belongs to a network that is stuck: until it takes something
/// again, what is sent is lost, as in any other network of that kind.
const PATIENCE: Duration = Duration::from_secs(1);
