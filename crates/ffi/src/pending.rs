//! What a connection's calls about datagrams wait for.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use quickset::bytes::Bytes;
use quickset::{Closed, Connection, DatagramOptions, TryDatagramError};

use crate::events::{EventSource, Interest, QS_EVENT_DATAGRAM, QS_EVENT_DATAGRAM_ROOM};
use crate::status::{CallFailure, QS_TOO_LONG};
use crate::wait::KeptFuture;

/// Who waits for datagrams of a connection, or for room for one.
pub(crate) struct DatagramWaits {
    pub(crate) arrives: Arc<Interest>,
    pub(crate) room: Arc<Interest>,
    pub(crate) next: KeptFuture<Result<Bytes, Closed>>,
    drained: KeptFuture<Result<(), Closed>>,
    /// One for which a buffer was too small.
    kept: Mutex<Option<Bytes>>,
}

impl DatagramWaits {
    pub(crate) fn new(source: &EventSource) -> Self {
        Self {
            arrives: source.interest(QS_EVENT_DATAGRAM),
            room: source.interest(QS_EVENT_DATAGRAM_ROOM),
            next: KeptFuture::default(),
            drained: KeptFuture::default(),
            kept: Mutex::new(None),
        }
    }

    pub(crate) fn interests(&self) -> [&Arc<Interest>; 2] {
        [&self.arrives, &self.room]
    }

    pub(crate) fn clear(&self) {
        self.next.clear();
        self.drained.clear();
        self.keep(None);
    }

    /// Keeps this one, and returns the one that was kept.
    pub(crate) fn keep(&self, datagram: Option<Bytes>) -> Option<Bytes> {
        std::mem::replace(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner), datagram)
    }

    /// Gives a datagram to be sent, or waits until one leaves and there may be room.
    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        connection: &Connection,
        data: &Bytes,
        how: &DatagramOptions,
    ) -> Poll<Result<(), CallFailure>> {
        loop {
            match connection.try_send_datagram(data.clone(), how) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(TryDatagramError::Failed(error)) => return Poll::Ready(Err(error.into())),
                Err(TryDatagramError::Full(_)) => {}
            }
            let waiting = connection.unsent_datagrams().1;
            let Some(fewer) = waiting.checked_sub(1) else {
                // A queue that is empty has no room either.
                return Poll::Ready(Err(CallFailure::new(QS_TOO_LONG, "no queue is so long")));
            };
            let connection = connection.clone();
            let drained = || Box::pin(async move { connection.datagrams_drained_to(fewer).await }) as _;
            ready!(self.drained.poll(cx, drained))?;
        }
    }
}
